"""The files of a set that can have an index, and the entries of a training config that name them."""

import gzip
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from prepcli.formats.indexes import index_bytes, make_index, mirrored
from prepcli.manifest.sources import expand_paths
from tests.commands.index.conftest import PLAIN
from tests.commands.index.test_command import index, indexes_in, pasted
from tests.conftest import copy_set, make_set, write_lines
from tests.support.running import prepcli


def test_the_yaml_names_files_that_exist(sets: Path, tmp_path: Path) -> None:
    for name, fields in (("tarred", 2), ("shar", 3)):
        config = pasted(index(sets / name, "--overwrite"))
        assert (config["indexed"], config["use_stateful_dataloader"]) == (True, True)
        (entry,) = config["input_cfg"]
        specs = entry.get("shar_path") or {key: value for key, value in entry.items() if key != "type"}
        assert len(specs) == fields
        for spec in specs.values():
            assert Path(spec).is_absolute()
            paths = expand_paths(spec)
            assert len(paths) == 3
            root = config.get("indexes_root")
            assert all(Path(root, mirrored(path)).exists() if root else Path(f"{path}.idx").exists() for path in paths)
    done = prepcli("manifest-to-tarred", PLAIN, tmp_path / "out", "--num-shards", 3)
    (entry,) = pasted(done)["input_cfg"]
    assert entry["tarred_audio_filepaths"] == f"{tmp_path}/out/audio__OP_0..2_CL_.tar"


def test_shards_with_gaps_in_their_numbers(sets: Path, tmp_path: Path) -> None:
    """A pattern would name files that are not there."""
    shar = copy_set(sets / "shar", tmp_path)
    for name in ("cuts/cuts.000001.jsonl", "target_audio/recording.000001.tar", "context_audio/recording.000001.tar"):
        (shar / name).unlink()
    fields = pasted(index(shar))["input_cfg"][0]["shar_path"]
    assert fields["cuts"] == [f"{shar}/cuts/cuts.{number}.jsonl" for number in ("000000", "000002")]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder, "holds nothing to index"),
        (lambda folder: folder / "none.tar", "not found"),
        (lambda folder: write_lines(folder / "x.txt", []), "neither a .tar nor JSON lines"),
    ],
)
def test_paths_that_cannot_be_indexed(tmp_path: Path, make: Any, message: str) -> None:
    done = index(make(tmp_path))
    assert done.code == 2
    assert message in done.error_line


def test_files_of_other_programs(sets: Path, tmp_path: Path) -> None:
    """A flat Shar, as lhotse writes it; loose tars of both kinds; and a set in buckets."""
    flat = tmp_path / "flat"
    flat.mkdir()
    for number in range(3):
        shutil.copy(sets / f"shar/cuts/cuts.{number:06d}.jsonl", flat)
        shutil.copy(sets / f"shar/target_audio/recording.{number:06d}.tar", flat)
    assert index(flat, "--json").json["written"] == 6
    assert sorted(path.suffix for path in flat.iterdir()) == [".jsonl"] * 3 + [".tar"] * 3
    assert (tmp_path / "flat.index" / mirrored(flat / "recording.000001.tar")).exists()
    loose = tmp_path / "loose"
    loose.mkdir()
    shutil.copy(sets / "shar/target_audio/recording.000000.tar", loose / "pairs.tar")
    shutil.copy(sets / "tarred/audio_0.tar", loose / "members.tar")
    with tarfile.open(loose / "texts.tar", "w") as tar:  # begins with a pair, but not one of Shar
        for name in ("a.txt", "a.wav", "b.wav"):
            tar.addfile(tarfile.TarInfo(name))
    names = [loose / f"{name}.tar" for name in ("pairs", "members", "texts")]
    assert index(*names, "--json").json["written"] == 3
    sizes = {path.name: path.stat().st_size // 8 - 1 for path in loose.glob("*.idx")}
    assert sizes == {"pairs.tar.idx": 16, "members.tar.idx": 16, "texts.tar.idx": 2}
    make_set("manifest-to-tarred", PLAIN, tmp_path / "b", "--num-shards", 1, "--buckets-num", 2, "--max-duration", 0.5)
    assert "nothing to do" in index(tmp_path / "b").out


def test_an_older_pack_of_cuts_is_not_read_twice(sets: Path, tmp_path: Path) -> None:
    """`--overwrite` with the option removes the compressed cuts of the run before."""
    out = tmp_path / "out"
    options = ("--shard-size", 48, "--audio-format", "original")
    make_set("manifest-to-shar", PLAIN, out, *options)
    done = prepcli("manifest-to-shar", PLAIN, out, *options, "--indexed", "--overwrite")
    assert done.code == 0, done.err
    assert [path.name for path in (out / "cuts").iterdir()] == ["cuts.000000.jsonl"]
    done = prepcli("manifest-to-shar", PLAIN, out, *options, "--overwrite")
    assert [gzip.decompress(path.read_bytes())[:1] for path in (out / "cuts").iterdir()] == [b"{"]
    assert indexes_in(out) == {}


def test_an_index_by_another_program(sets: Path, tmp_path: Path) -> None:
    """Energon ends the index of a tar with the end of its last member."""
    tar = shutil.copy(sets / "tarred/audio_0.tar", tmp_path)
    right = make_index(Path(tar), "nemo_tar")
    size = Path(tar).stat().st_size
    offsets = [int.from_bytes(right[at : at + 8], "little") for at in range(0, len(right) - 8, 8)]
    Path(f"{tar}.idx").write_bytes(index_bytes(offsets, size - 1024))
    assert index(tar, "--check").code == 0
