"""Addresses where none is taken: one line, and no local folder `s3:`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from prepcli.interface.options import Option, Paths, PathText, declared
from prepcli.storage.addresses import other_scheme
from tests.conftest import read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli

REFUSED = [
    ("make-manifest", "s3://bucket/audio", "m.json"),
    ("make-manifest", "audio", "s3://bucket/m.json"),
    ("fix-durations", "m.json", "s3://bucket/m.json"),
    ("segment", "m.json", "s3://bucket/m.json"),
    ("segment", "m.json", "s.json", "--by", "times", "--times", "s3://bucket/times"),
    ("segment", "m.json", "s.json", "--cut", "s3://bucket/files"),
    ("manifest-to-mels", "m.json", "s3://bucket/mels"),
    ("manifest-to-tarred", "m.json", "--concat-to", "s3://bucket/set"),
    ("extend-context-audio", "m.json", "s3://bucket/out"),
    ("extend-codec-codes", "shar", "--codec-model", "s3://bucket/codec.nemo"),
    ("blend", "a=s3://bucket/set", "b.yaml"),
    ("blend", "a=set", "s3://bucket/b.yaml"),
    ("prepare-texts", "s3://bucket/t.txt", "t.json"),
    ("download", "an4", "--data-root", "s3://bucket/an4"),
    ("estimate-bins", "m.json", "--plot", "s3://bucket/plot.png"),
    ("inspect", "m.json", "--html", "s3://bucket/page.html"),
]


@pytest.mark.parametrize("words", REFUSED, ids=lambda words: " ".join(words))
def test_other_commands_refuse_addresses(words: tuple[str, ...], tmp_path: Path) -> None:
    done = prepcli(*words, cwd=tmp_path)
    assert done.code == 2
    assert "does not take an address in an object store (" in done.error_line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "address"),
    [
        (("inspect", "gs://bucket/x"), "gs://bucket/x"),
        (("estimate-bins", "S3://bucket/m.json"), "S3://bucket/m.json"),
        (("estimate-bins", "a.json,gs://bucket/m.json"), "gs://bucket/m.json"),
        (("manifest-to-tarred", "m.json", "gs://bucket/x"), "gs://bucket/x"),
        (("manifest-to-tarred", "m.json", "x", "--audio-base-dir", "file:///data"), "file:///data"),
        (("blend", "a=gs://bucket/set:2", "b.yaml"), "gs://bucket/set:2"),
        (("status", "hdfs://host/x"), "hdfs://host/x"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_schemes_of_other_stores(words: tuple[str, ...], address: str, tmp_path: Path) -> None:
    done = prepcli(*words, cwd=tmp_path)
    assert done.code == 2
    taken = "local paths" if words[0] == "blend" else "local paths and addresses with s3://, ais:// or hf://datasets/"
    assert f"{address} cannot be used, only {taken}: download it first" in done.error_line
    assert list(tmp_path.iterdir()) == []


def test_a_folder_whose_name_looks_like_an_address(tmp_path: Path) -> None:
    (tmp_path / "gs:/x").mkdir(parents=True)
    assert "cannot be used" not in prepcli("inspect", "gs:/x", cwd=tmp_path).err


@pytest.mark.parametrize("text", ["a/gs://x", "x=s3://b/c", "C:/x", "log:/a", "ais://b/c", "/gs:/x"])
def test_other_texts_with_colons(text: str) -> None:
    assert other_scheme(text) is None


def test_the_status_of_a_run_whose_records_are_elsewhere(tmp_path: Path) -> None:
    done = prepcli("status", "s3://bucket/set", cwd=tmp_path)
    assert (done.code, "give with --work-dir the folder" in done.error_line) == (2, True)


@pytest.mark.parametrize("command", ["manifest-to-tarred", "manifest-to-shar", "manifest-to-wenet", "fix-durations"])
def test_a_record_whose_address_is_none(command: str, tmp_path: Path) -> None:
    """It is a reject like others that are wrong, and does not stop the run."""
    bad = ["s3:///./x.wav", "s3://user:sesame@bucket/x.wav", "s3://", "ais://b/../x.wav", "s3://a_bucket!/x.wav"]
    write_audio(tmp_path / "good.wav", 1.0)
    write_lines(
        tmp_path / "m.json",
        [{"audio_filepath": path, "duration": 1.0, "text": "t"} for path in (*bad[:2], "good.wav", *bad[2:])],
    )
    shards = [] if command == "fix-durations" else ["--num-shards" if "tarred" in command else "--shard-size", 1]
    done = prepcli(command, tmp_path / "m.json", tmp_path / "out", *shards, "--max-rejects", 5, "--json")
    assert done.code == 0, done.err
    assert done.json["rejects_by_reason"] == {"bad_field": 5}
    rejects = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert [reject["manifest_line"] for reject in rejects] == [1, 2, 4, 5, 6]
    assert rejects[0]["reject_detail"].startswith("audio_filepath: s3:///./x.wav does not name a bucket")
    assert "sesame" not in rejects[1]["reject_detail"]


def test_paths_of_options_are_local_unless_declared_otherwise() -> None:
    @dataclass
    class Options:
        either: Annotated[PathText | None, Option("", takes_address=True)] = None
        local: Annotated[PathText | None, Option("")] = None
        several: Annotated[Paths, Option("", takes_address=True)] = ()

    found = {one.name: (one.type, one.is_list, one.option.takes_address) for one in declared(Options)}
    assert found == {"either": (Path, False, True), "local": (Path, False, False), "several": (Path, True, True)}
