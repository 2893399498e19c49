"""Names of rows of Parquet files in outputs: their ids if all are different, else the file and the row."""

import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from prepcli.formats.names import member_stem
from prepcli.jobs.row_names import with_ids
from prepcli.manifest.parts import FieldKey
from prepcli.manifest.shared_index import _function
from prepcli.storage.containers import Catalogue
from tests.conftest import read_lines
from tests.support.audio_files import write_short_corpus
from tests.support.containers import samples, write_rows
from tests.support.running import Outcome, prepcli
from tests.support.tars import write_tar

COUNT = 4


def rows(folder: Path, ids: list[Any], name: str = "part-0") -> Path:
    found = samples(write_short_corpus(folder / "corpus", COUNT))[: len(ids)]
    audio = pa.array([{"bytes": data, "path": None} for _, _, data in found])
    columns = {"id": ids, "text": [str(one["text"]) for _, one, _ in found]}
    return write_rows(folder / "set" / f"{name}.parquet", audio, columns, row_group_size=2)


def tarred(source: object, out: Path, *options: object) -> Outcome:
    done = prepcli("manifest-to-tarred", source, out, "--num-shards", 1, "--json", *options)
    assert done.code == 0, done.err
    return done


def members(out: Path, number: int = 0) -> list[str]:
    with tarfile.open(out / f"audio_{number}.tar") as tar:
        return tar.getnames()


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        (["utt.1", "utt_2", "ü-3", "..4"], ["utt_1.flac", "utt_2.flac", "ü-3.flac", "__4.flac"]),
        ([7, 8, 9, 10], ["7.flac", "8.flac", "9.flac", "10.flac"]),
        (["a", "b", "c", "a"], [f"part-0_{row}.flac" for row in range(4)]),  # FLEURS: the id of the sentence
        (["a", "b", None, "d"], [f"part-0_{row}.flac" for row in range(4)]),
        (["a", "b", "../c", "d"], [f"part-0_{row}.flac" for row in range(4)]),
        (["a", "b", "", "d"], [f"part-0_{row}.flac" for row in range(4)]),
    ],
)
def test_names_of_rows(ids: list[Any], names: list[str], tmp_path: Path) -> None:
    source = rows(tmp_path, ids)
    tarred(source, tmp_path / "out")
    assert members(tmp_path / "out") == names
    lines = read_lines(tmp_path / "out" / "sharded_manifests" / "manifest_0.json")
    assert [one["audio_filepath"] for one in lines] == names
    assert [one.get("id") for one in lines] == ids
    done = prepcli("convert-audio", source, tmp_path / "files")
    assert done.code == 0, done.err
    assert len({one["audio_filepath"] for one in read_lines(tmp_path / "files" / "manifest.json")}) == COUNT
    assert all(
        (tmp_path / "files" / one["audio_filepath"]).is_file() for one in read_lines(tmp_path / "files/manifest.json")
    )


def test_ids_with_equal_names_are_told_apart(tmp_path: Path) -> None:
    tarred(rows(tmp_path, ["a.b", "a_b", "c", "d"]), tmp_path / "out")
    first, second, *rest = members(tmp_path / "out")
    assert first != second
    assert first.startswith("a_b-")
    assert rest == ["c.flac", "d.flac"]


def test_ids_must_differ_through_all_files(tmp_path: Path) -> None:
    rows(tmp_path, ["a", "b"], "part-0")
    rows(tmp_path, ["c", "a"], "part-1")
    tarred(tmp_path / "set", tmp_path / "out")
    assert members(tmp_path / "out") == ["part-0_0.flac", "part-0_1.flac", "part-1_0.flac", "part-1_1.flac"]


def test_members_of_tars_keep_their_names(tmp_path: Path) -> None:
    found = samples(write_short_corpus(tmp_path / "corpus", 2))
    tar = write_tar(
        tmp_path / "a.tar",
        [
            one
            for key, _, data in found
            for one in ((f"{key}.flac", data), (f"{key}.json", b'{"id": "other-%s"}' % key.encode()))
        ],
    )
    tarred(tar, tmp_path / "out")
    assert members(tmp_path / "out") == ["utt0.flac", "utt1.flac"]


def test_rows_are_added_to_a_set_and_the_addition_is_continued(tmp_path: Path) -> None:
    tarred(rows(tmp_path, ["a", "b"], "part-0"), tmp_path / "out")
    more = rows(tmp_path / "more", ["c", "d"], "part-1")
    for status in ("done", "nothing_to_do"):
        done = prepcli("manifest-to-tarred", more, "--concat-to", tmp_path / "out", "--num-shards", 1, "--json")
        assert (done.code, done.json["status"]) == (0, status), done.err
    assert members(tmp_path / "out", 1) == ["c.flac", "d.flac"]
    same = prepcli("manifest-to-tarred", tmp_path / "set", "--concat-to", tmp_path / "out", "--num-shards", 1)
    assert same.code == 2
    assert "--allow-duplicates" in same.err


def test_all_processes_describe_the_keys_of_ids_alike() -> None:
    """Ranks that share an index compare these texts; the address of a function differs in each process."""
    keys = with_ids({"stem": member_stem}, [Catalogue("a.parquet")])
    of_fields = [key.function for key in keys.values() if isinstance(key, FieldKey)]
    assert len(of_fields) == 2
    assert " at 0x" not in repr(list(map(_function, of_fields)))
