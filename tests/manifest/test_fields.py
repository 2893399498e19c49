"""audio_file and audio_filename, as older NeMo calls audio_filepath: the same results, and the new name is written."""

import json
from pathlib import Path

import pytest

from prepcli.manifest.fields import parse_fields, with_audio_filepath
from tests.conftest import SHORT_CORPUS, read_lines, tree, write_lines
from tests.support.running import prepcli

MANIFEST = SHORT_CORPUS / "manifest.json"
RECORDS = read_lines(MANIFEST)
BASE = ("--audio-base-dir", SHORT_CORPUS)


@pytest.fixture(params=["audio_file", "audio_filename", "mixed"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The same records with the old names; one has a text that looks like a key."""
    names = ["audio_file", "audio_filepath", "audio_filename"] if request.param == "mixed" else [request.param]
    records = [
        {(names[n % len(names)] if key == "audio_filepath" else key): value for key, value in record.items()}
        for n, record in enumerate(RECORDS)
    ]
    records[3]["text"] = '"audio_file": no key'
    return write_lines(tmp_path / "old.json", records)


def test_sets_are_the_same(old: Path, tmp_path: Path) -> None:
    new = write_lines(
        tmp_path / "new.json", [*RECORDS[:3], RECORDS[3] | {"text": '"audio_file": no key'}, *RECORDS[4:]]
    )
    for command, options in (("manifest-to-tarred", ("--num-shards", 3)), ("manifest-to-shar", ())):
        for manifest in (old, new):
            done = prepcli(command, manifest, tmp_path / f"{command}-{manifest.stem}", *options, *BASE)
            assert done.code == 0, done.err
        assert {
            name: digest for name, digest in tree(tmp_path / f"{command}-old").items() if name != "metadata.yaml"
        } == {name: digest for name, digest in tree(tmp_path / f"{command}-new").items() if name != "metadata.yaml"}


def test_numbers_are_the_same(old: Path) -> None:
    for command, options in (("estimate-bins", ("-b", 3, "-q")), ("inspect", ("--json", *BASE))):
        found, expected = prepcli(command, old, *options), prepcli(command, MANIFEST, *options)
        assert found.code == expected.code == 0, found.err
        if command == "inspect":
            assert found.json["audio"][0]["looked_at"] == len(RECORDS)
            assert (found.json["kind"], list(found.json["fields"])) == ("manifest", list(expected.json["fields"]))
        else:
            assert found.out == expected.out
    shown = prepcli("inspect", old, "--record", 2, "--json", *BASE).json
    assert shown["fields"]["audio_filepath"] == RECORDS[2]["audio_filepath"]
    assert prepcli("verify", old, *BASE).code == 0
    assert "is a NeMo manifest already" in prepcli("make-manifest", old, old.with_name("m.json")).error_line


def test_fix_durations_writes_the_new_name(old: Path, tmp_path: Path) -> None:
    done = prepcli("fix-durations", old, tmp_path / "fixed.json", *BASE)
    assert done.code == 0, done.err
    assert [record["audio_filepath"] for record in read_lines(tmp_path / "fixed.json")] == [
        record["audio_filepath"] for record in RECORDS
    ]


def test_segments_of_one_file(tmp_path: Path) -> None:
    """A record that begins with a file of which there are segments keeps its length."""
    records = [{"audio_file": RECORDS[0]["audio_filepath"], "offset": at, "duration": 0.02} for at in (0.0, 0.03)]
    write_lines(tmp_path / "m.json", records)
    assert prepcli("fix-durations", tmp_path / "m.json", tmp_path / "fixed.json", *BASE).code == 0
    assert [record["duration"] for record in read_lines(tmp_path / "fixed.json")] == [0.02, 0.02]


def test_fields() -> None:
    both = json.dumps({"audio_file": "old", "audio_filepath": "new"}).encode()
    assert {name: bytes(raw) for name, raw in parse_fields(both).items()} == {
        "audio_file": b'"old"',
        "audio_filepath": b'"new"',
    }
    assert list(parse_fields(b'{"a": 1, "audio_file": "x", "b": 2}')) == ["a", "audio_filepath", "b"]
    quoted = rb'{"text": "\"audio_file\": x", "n": {"audio_file": 1}}'
    assert with_audio_filepath(quoted).startswith(rb'{"text": "\"audio_file\": x", ')
    assert with_audio_filepath(both) == both
