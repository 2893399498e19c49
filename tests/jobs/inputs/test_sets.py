"""What is recognized as which kind of data set, and the fields of its records."""

import gzip
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from prepcli.interface.shared_options import SetInput
from prepcli.jobs.inputs.catalogue import stated_duration
from prepcli.jobs.inputs.named import manifests_of
from prepcli.jobs.inputs.splits import split_of
from prepcli.storage.containers import Catalogue
from prepcli.storage.input_files import state_of
from tests.conftest import MINI_CORPUS, SHORT_CORPUS, make_set, read_lines, tree
from tests.support.audio_files import write_short_corpus
from tests.support.containers import SOURCES, samples, write_rows
from tests.support.running import prepcli
from tests.support.tars import write_tar
from tests.support.toy_codec import use_toy_codec

KINDS = {
    "tarred": ("tarred set", 2),
    "tarred of NeMo": ("tarred set", 1),
    "shar": ("Lhotse Shar", 2),
    "wenet": ("WeNet shards", 2),
    "parquet": ("Parquet", 1),
    "parquet of datasets": ("Parquet", 1),
    "parquet of bytes": ("Parquet", 1),
    "webdataset": ("webdataset", 2),
    "compressed tar": ("webdataset", 1),
    "zip, stored": ("zip archive", 1),
    "zip, deflated": ("zip archive", 1),
    "raw list": ("WeNet list", 1),
}


@pytest.mark.parametrize("source", SOURCES)
def test_kinds(source: str, tmp_path: Path) -> None:
    manifest = write_short_corpus(tmp_path / "corpus", 4)
    (tmp_path / "source").mkdir()
    found = manifests_of(str(SOURCES[source](manifest, tmp_path / "source")), SetInput())
    assert all(isinstance(one, Catalogue) for one in found)
    assert ({one.kind for one in found if isinstance(one, Catalogue)}, len(found)) == (
        {KINDS[source][0]},
        KINDS[source][1],
    )


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("source", ["webdataset", "raw list"])
def test_only_records_in_containers_are_noted(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data list of WeNet names files, which trainers read."""
    made = SOURCES[source](write_short_corpus(tmp_path / "corpus", 4), tmp_path)
    use_toy_codec(monkeypatch.setattr)
    for command, *options in (
        ("score", tmp_path / "scored.json", "--fields", "text"),
        ("make-manifest", tmp_path / "m.json", "--format", "set"),
        ("extend-codec-codes", "--output-dir", tmp_path / "codes", "--codec-model", "toy8", "--devices", "cpu"),
    ):
        done = prepcli(command, made, *options)
        assert done.code == 0, done.err
        assert ("FILE::MEMBER" in done.out) == (source == "webdataset"), command


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("data/train-00000-of-00018.parquet", "train"),
        ("data/train.clean.100-00003-of-00018-b20afd4ce6e03671.parquet", "train.clean.100"),
        ("dev/part.parquet", "validation"),
        ("corpus=a/split=test/language=x/p.parquet", "test"),
        ("my_eval_set.parquet", "test"),
        ("data-000000.parquet", "train"),
    ],
)
def test_splits(name: str, split: str) -> None:
    assert split_of(name) == split


def test_fields_of_a_shar_and_its_contexts_survive(tmp_path: Path) -> None:
    make_set("manifest-to-shar", MINI_CORPUS / "manifest_with_context.json", tmp_path / "shar", "--shard-size", 30)
    done = prepcli("manifest-to-shar", tmp_path / "shar", tmp_path / "again", "--shard-size", 20)
    assert done.code == 0, done.err
    for field in ("target_audio", "context_audio"):
        assert len(list((tmp_path / "again" / field).iterdir())) == 3
    contents = [
        {path.name: data for path, data in _members(tmp_path / name, "context_audio").items()}
        for name in ("shar", "again")
    ]
    assert sorted(contents[0].values()) == sorted(contents[1].values())


def _members(folder: Path, field: str) -> dict[Path, bytes]:
    import tarfile

    found: dict[Path, bytes] = {}
    for path in sorted((folder / field).glob("*.tar")):
        with tarfile.open(path) as tar:
            found |= {
                path / one.name: tar.extractfile(one).read()  # type: ignore[union-attr]
                for one in tar
                if not one.name.endswith(".json")
            }
    return found


def test_segments_of_a_member_and_slices(tmp_path: Path) -> None:
    """A tarred set with segments stores whole files once; each segment is read from its place in the member."""
    make_set("manifest-to-tarred", MINI_CORPUS / "segments.json", tmp_path / "whole", "--num-shards", 1)
    options = ("--num-shards", 1, "--slice-with-offset", "--force-codec", "wav")
    made = {
        name: make_set("manifest-to-tarred", source, tmp_path / name, *options)
        for name, source in (("a", MINI_CORPUS / "segments.json"), ("b", tmp_path / "whole"))
    }
    lines = {name: read_lines(tmp_path / name / "sharded_manifests" / "manifest_0.json") for name in made}
    assert [one["duration"] for one in lines["a"]] == [one["duration"] for one in lines["b"]]
    assert [one["text"] for one in lines["a"]] == [one["text"] for one in lines["b"]]
    audio = {name: sorted(_wavs(tmp_path / name / "audio_0.tar").values()) for name in made}
    assert audio["a"] == audio["b"]


def _wavs(path: Path) -> dict[str, bytes]:
    import tarfile

    with tarfile.open(path) as tar:
        return {one.name: tar.extractfile(one).read() for one in tar}  # type: ignore[union-attr]


def test_manifests_with_names_of_members_are_manifests(tmp_path: Path) -> None:
    """What a command writes over containers is an input again, also from another folder and for a retry."""
    manifest = write_short_corpus(tmp_path / "corpus", 3)
    (key, record, data), *_ = samples(manifest)
    write_tar(tmp_path / "a.tar", [(f"{key}.flac", data)])
    lines = [record | {"audio_filepath": f"a.tar::{key}.flac"}, record | {"audio_filepath": "a.tar::gone.flac"}]
    (tmp_path / "m.json").write_text("".join(json.dumps(one) + "\n" for one in lines))
    options = ("--num-shards", 1, "--max-rejects", 9, "--json")
    done = prepcli("manifest-to-tarred", tmp_path / "m.json", tmp_path / "out", *options)
    assert (done.json["records_out"], done.json["rejects"]) == (1, 1)
    [reject] = read_lines(tmp_path / "out.prepcli" / "rejects.jsonl")
    assert (reject["shard"], reject["member"]) == ("a.tar", "gone.flac")
    write_tar(tmp_path / "a.tar", [("gone.flac", data)])
    done = prepcli(
        *("manifest-to-tarred", tmp_path / "out.prepcli" / "rejects.jsonl", tmp_path / "retry", *options),
        *("--audio-base-dir", tmp_path),
    )
    assert done.json["records_out"] == 1, done.err
    [line] = read_lines(tmp_path / "retry" / "sharded_manifests" / "manifest_0.json")
    assert not {"shard", "member", "reject_reason"} & set(line)


@pytest.mark.parametrize("source", ["tarred", "parquet of datasets", "compressed tar"])
def test_workers_ranks_and_shuffling_give_the_same_bytes(source: str, tmp_path: Path) -> None:
    manifest = write_short_corpus(tmp_path / "corpus", 12)
    (tmp_path / "source").mkdir()
    made = SOURCES[source](manifest, tmp_path / "source")
    options = ["--num-shards", 3, *([] if source == "compressed tar" else ["--shuffle"])]
    assert prepcli("manifest-to-tarred", made, tmp_path / "one", *options, "--num-workers", 1).code == 0
    assert prepcli("manifest-to-tarred", made, tmp_path / "two", *options, "--num-workers", 2).code == 0
    for rank in (0, 1):
        ranks = ("--rank", rank, "--world-size", 2, "--launch-id", "x", "--no-steal", "--num-workers", 1)
        assert prepcli("manifest-to-tarred", made, tmp_path / "ranks", *options, *ranks).code in (0, 4)
    assert prepcli("manifest-to-tarred", made, tmp_path / "ranks", *options).code == 0
    assert tree(tmp_path / "one") == tree(tmp_path / "two") == tree(tmp_path / "ranks")


@pytest.mark.parametrize("source", SOURCES)
def test_bins_inspect_and_verify_read_every_kind(source: str, tmp_path: Path) -> None:
    manifest = write_short_corpus(tmp_path / "corpus", 6)
    (tmp_path / "source").mkdir()
    made = SOURCES[source](manifest, tmp_path / "source")
    plain, found = (prepcli("estimate-bins", spec, "-b", 3, "-q") for spec in (manifest, made))
    assert (found.code, found.out) == (0, plain.out), found.err
    assert prepcli("inspect", made).code == 0
    done = prepcli("verify", made, "--json")
    # The trainer that reads lists of bytes takes 16 kHz only, and the corpus has 8 kHz.
    assert (done.code, done.json["records"]) == (int(source == "parquet of bytes"), 6), done.out


@pytest.mark.parametrize("source", SOURCES)
def test_a_set_is_replaced_between_two_calls_of_a_process(source: str, tmp_path: Path) -> None:
    """As in a notebook: containers that a call has opened are not those of the next."""
    for count in (6, 4):
        manifest = write_short_corpus(tmp_path / f"corpus-{count}", count)
        shutil.rmtree(tmp_path / "source", ignore_errors=True)
        (tmp_path / "source").mkdir()
        made = SOURCES[source](manifest, tmp_path / "source")
        plain, found = (prepcli("estimate-bins", spec, "-b", 3, "-q") for spec in (manifest, made))
        assert (found.code, found.out) == (0, plain.out), found.err
        assert prepcli("verify", made, "--json").json["records"] == count


def test_verify_names_the_record_whose_audio_is_damaged(tmp_path: Path) -> None:
    (key, _, data), *others = samples(write_short_corpus(tmp_path / "corpus", 3))
    members = [(f"{key}.flac", data[: len(data) // 2]), *((f"{key}.flac", data) for key, _, data in others)]
    done = prepcli("verify", write_tar(tmp_path / "a.tar", members))
    assert done.code == 1
    assert f"a.tar:1: {tmp_path}/a.tar::{key}.flac ends early" in done.out
    assert done.out.splitlines()[1:3] == ["  files    1", "  records  2, 0.00 hours"]


def test_a_member_that_was_cut_out_is_taken_as_a_whole(tmp_path: Path) -> None:
    """As in NeMo's loader: an offset in the recording does not count if the member is no longer than its line."""
    (key, record, data), *_ = samples(write_short_corpus(tmp_path / "corpus", 1))
    write_tar(tmp_path / "audio_0.tar", [(f"{key}.flac", data)])
    line = {"audio_filepath": f"{key}.flac", "text": "one", "shard_id": 0}
    lines = [line | {"offset": 3.0, "duration": record["duration"]}, line | {"text": "two"}]
    (tmp_path / "tarred_audio_manifest.json").write_text("".join(json.dumps(one) + "\n" for one in lines))
    done = prepcli("manifest-to-wenet", tmp_path, tmp_path / "out", "--json")
    assert done.code == 0, done.err
    assert (done.json["records_out"], done.json["rejects"]) == (2, 0)


def test_the_member_of_a_skipped_line_is_skipped_too(tmp_path: Path) -> None:
    """A member that no line names would be a reject."""
    items = samples(write_short_corpus(tmp_path / "corpus", 2))
    write_tar(tmp_path / "audio_0.tar", [(f"{key}.flac", data) for key, _, data in items])
    lines = [record | {"audio_filepath": f"{key}.flac", "shard_id": 0} for key, record, _ in items]
    lines[0]["_skipme"] = True
    (tmp_path / "tarred_audio_manifest.json").write_text("".join(json.dumps(one) + "\n" for one in lines))
    done = prepcli("manifest-to-wenet", tmp_path, tmp_path / "out", "--json")
    assert (done.code, done.json["records_out"], done.json["skipped"], done.json["rejects"]) == (0, 1, 1, 0), done.err


def test_files_about_a_set_are_left_out_and_a_text_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prepcli.jobs.inputs.samples._MAX_TEXT_BYTES", 40)
    (key, _, data), (other, _, more) = samples(write_short_corpus(tmp_path / "corpus", 2))
    texts = {"README.md": b"A set.", "meta.csv": b"a,b", f"{key}.flac": data, f"{key}.txt": b"one"}
    write_tar(tmp_path / "a.tar", texts | {f"{other}.flac": more, f"{other}.txt": b"a" * 41})
    done = prepcli("manifest-to-wenet", tmp_path / "a.tar", tmp_path / "out", "--json", "--max-rejects", 1)
    assert (done.code, done.json["records_out"], done.json["rejects"]) == (0, 1, 1), done.err
    [reject] = read_lines(tmp_path / "out.prepcli" / "rejects.jsonl")
    assert f"{other}.txt has 41 bytes, too many for a text" in reject["reject_detail"]


@pytest.mark.parametrize(
    ("stated", "found"), [(2.5, 2.5), (-1, None), (0, None), (1e12, None), (True, None), ("2", None)]
)
def test_a_duration_that_cannot_be_one_does_not_count(stated: object, found: float | None) -> None:
    assert stated_duration({"duration": None, "audio_duration": stated}) == found


def test_each_supervision_of_a_cut_is_a_record(tmp_path: Path) -> None:
    manifest = write_short_corpus(tmp_path / "corpus", 1)
    make_set("manifest-to-shar", manifest, shar := tmp_path / "shar", "--shard-size", 1)
    [path] = (shar / "cuts").iterdir()
    cut = json.loads(gzip.decompress(path.read_bytes()))
    whole, rate = cut["duration"], cut["recording"]["sampling_rate"]
    half = round(whole * rate / 2) / rate
    own = cut["supervisions"][0]
    cut["supervisions"] = [own | {"text": "all"}, own | {"text": "end", "start": half, "duration": whole - half}]
    path.write_bytes(gzip.compress(json.dumps(cut).encode() + b"\n"))
    assert prepcli("make-manifest", shar, tmp_path / "m.json").code == 0
    found = {one["text"]: (one.get("offset"), one["duration"]) for one in read_lines(tmp_path / "m.json")}
    assert found == {"all": (None, whole), "end": (pytest.approx(half), pytest.approx(whole - half))}


def test_the_state_of_a_shard_is_that_of_its_manifest_and_its_tar(tmp_path: Path) -> None:
    make_set("manifest-to-tarred", write_short_corpus(tmp_path / "c", 2), tmp_path / "set", "--num-shards", 1)
    [one] = manifests_of(str(tmp_path / "set"), SetInput())
    before = state_of(one)
    assert state_of(one) == before
    tar = tmp_path / "set" / "audio_0.tar"
    tar.write_bytes(tar.read_bytes() + bytes(1024))
    assert state_of(one) != before


def test_a_name_that_two_members_have_is_a_reject(tmp_path: Path) -> None:
    (key, record, data), *_ = samples(write_short_corpus(tmp_path / "corpus", 1))
    write_tar(tmp_path / "a.tar", [(f"{key}.flac", data), (f"{key}.flac", data)])
    (tmp_path / "m.json").write_text(json.dumps(record | {"audio_filepath": f"a.tar::{key}.flac"}) + "\n")
    options = ("--num-shards", 1, "--max-rejects", 1, "--json")
    done = prepcli("manifest-to-tarred", tmp_path / "m.json", tmp_path / "out", *options)
    assert (done.json["records_out"], done.json["rejects"]) == (0, 1)
    [reject] = read_lines(tmp_path / "out.prepcli" / "rejects.jsonl")
    assert f"a.tar has several members {key}.flac" in reject["reject_detail"]


def test_a_language_that_is_a_number_gets_a_note(tmp_path: Path) -> None:
    """VoxPopuli stores numbers; without the metadata of datasets, nothing says which language each is."""
    manifest = write_short_corpus(tmp_path / "corpus", 4)
    audio = pa.array([{"bytes": data, "path": None} for _, _, data in samples(manifest)])
    columns: dict[str, list[Any]] = {"raw_text": list("abcd"), "language": [4, 4, 4, 4]}
    names = {"_type": "ClassLabel", "names": ["en", "de", "fr", "es", "pl"]}
    metadata = {"huggingface": json.dumps({"info": {"features": {"language": names, "audio": {"_type": "Audio"}}}})}
    for name, described, is_noted in (("plain", None, True), ("named", metadata, False)):
        rows = write_rows(tmp_path / f"{name}.parquet", audio, columns, described)
        done = prepcli("manifest-to-tarred", rows, tmp_path / name, "--num-shards", 1, "--json")
        assert done.code == 0, done.err
        assert any(note.startswith("lang is a number, such as 4,") for note in done.json["notes"]) == is_noted
    assert read_lines(tmp_path / "named" / "sharded_manifests" / "manifest_0.json")[0]["lang"] == "pl"
    done = prepcli("make-manifest", tmp_path / "plain.parquet", tmp_path / "m.json", "--lang", "pl")
    assert done.code == 0, done.err
    assert [one["lang"] for one in read_lines(tmp_path / "m.json")] == ["pl"] * 4


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "zip"])
def test_splits_of_archives_are_never_mixed(suffix: str, tmp_path: Path) -> None:
    """As for Parquet: the split is named, or asked for."""
    audio = sorted((SHORT_CORPUS / "s01").glob("*.flac"))[:3]
    folder = tmp_path / "set"
    folder.mkdir()
    for split, stems in {"train": "ab", "dev": "c"}.items():
        for number, stem in enumerate(stems):
            name, data = f"{stem}.flac", audio["abc".index(stem)].read_bytes()
            path = folder / f"{split}-{number:03d}.{suffix}"
            if suffix == "zip":
                with zipfile.ZipFile(path, "w") as archive:
                    archive.writestr(name, data)
            else:
                write_tar(path, {name: data}, mode="w:gz" if suffix == "tar.gz" else "w")

    def names(*options: object) -> list[str]:
        out = tmp_path / "out.json"
        done = prepcli("make-manifest", folder, out, *options, "--overwrite")
        assert done.code == 0, done.err
        return [line["audio_filepath"].rpartition("::")[2] for line in read_lines(out)]

    refused = prepcli("manifest-to-wenet", folder, tmp_path / "wenet")
    choose = f"{folder} has several splits, train, validation: choose one with --split, or name its files"
    assert (refused.code, choose in refused.error_line) == (2, True)
    assert prepcli("verify", folder).code == 0  # all splits
    refused = prepcli("estimate-bins", folder, "-b", 2)
    assert (refused.code, f"{folder} has several splits, train, validation; `prepcli" in refused.error_line) == (
        2,
        True,
    )
    assert names("--split", "train") == ["a.flac", "b.flac"]
    assert names("--split", "dev") == names("--split", "validation") == ["c.flac"]
    refused = prepcli("manifest-to-wenet", folder, tmp_path / "wenet", "--split", "test")
    assert (refused.code, "has no split test; it has train, validation" in refused.error_line) == (2, True)
    file = folder / f"dev-000.{suffix}"
    assert prepcli("manifest-to-wenet", file, tmp_path / "wenet", "--split", "dev").code == 0
    refused = prepcli("manifest-to-wenet", file, tmp_path / "wenet2", "--split", "train")
    assert (refused.code, "is of the split validation by its name" in refused.error_line) == (2, True)


def test_parquet_files_that_are_not_read_are_named(tmp_path: Path) -> None:
    """A folder with files of its own and folders below: Hugging Face would read all of them."""
    (tmp_path / "source").mkdir()
    folder = SOURCES["parquet of datasets"](write_short_corpus(tmp_path / "corpus", 4), tmp_path / "source")
    first = next(folder.rglob("*.parquet"))
    (tmp_path / "both/more").mkdir(parents=True)
    shutil.copy(first, tmp_path / "both/a.parquet")
    assert "are read" not in prepcli("manifest-to-wenet", tmp_path / "both", tmp_path / "one").err
    shutil.copy(first, tmp_path / "both/more/b.parquet")
    done = prepcli("manifest-to-wenet", tmp_path / "both", tmp_path / "two")
    assert f"{tmp_path}/both itself are read, and not 1 below it, such as {tmp_path}/both/more/b.parquet" in done.err
