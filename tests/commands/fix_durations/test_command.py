"""fix-durations changes durations, and not a byte of anything else."""

import gzip
import json
from pathlib import Path

import pytest

from prepcli.manifest import line_slices
from tests.conftest import MINI_CORPUS, Lines, read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli


def rejects(out: Path) -> Lines:
    return read_lines(out.with_name(out.name + ".prepcli") / "rejects.jsonl")


@pytest.fixture
def audio(tmp_path: Path) -> Path:
    for name, seconds in (("one.wav", 1.0), ("two.wav", 2.0), ("three.flac", 3.0)):
        write_audio(tmp_path / name, seconds)
    return tmp_path


def test_only_the_durations_change(audio: Path) -> None:
    right = b'{"duration":1.0,  "audio_filepath": "one.wav", "x": 1.50, "y": {"duration": 7}}\n'
    wrong = '{"x": 1.50, "duration":   9, "audio_filepath": "two.wav", "y": {"duration": 7}, "é": "\\u00e9"}\n'.encode()
    none = b'{"audio_filepath": "./three.flac", "text": ""}\n'
    near = b'{"audio_filepath": "two.wav", "duration": 2.015}\n'
    (audio / "m.json").write_bytes(right + b"\n" + wrong + none + near)
    done = prepcli("fix-durations", audio / "m.json", audio / "fixed.json", "--json")
    assert done.code == 0, done.err
    assert (audio / "fixed.json").read_bytes() == (
        right
        + '{"x": 1.50, "duration": 2.0, "audio_filepath": "two.wav", "y": {"duration": 7}, "é": "\\u00e9"}\n'.encode()
        + b'{"audio_filepath": "./three.flac", "text": "", "duration": 3.0}\n'
        + b'{"audio_filepath": "two.wav", "duration": 2.0}\n'
    )
    details = done.json["details"]
    assert (details["changed"], details["more_than_20_ms"], details["without_duration"]) == (3, 1, 1)
    assert details["off_by"] == "median 7.000 s, maximum 7.000 s"


def test_segments(audio: Path) -> None:
    segments = [(0, 0.5), (0.5, 0.25), (2.5, 0.7), (2.5, None), (3.5, 1.0), (3.0, 1.0)]
    records = [{"audio_filepath": "three.flac", "offset": offset, "duration": length} for offset, length in segments]
    whole = [{"audio_filepath": "two.wav", "offset": 0.0, "duration": 1.0}]  # of a file without other segments
    write_lines(audio / "m.json", [*records, *whole])
    done = prepcli("fix-durations", audio / "m.json", audio / "fixed.json", "--max-rejects", 2)
    assert done.code == 0, done.err
    assert [r["duration"] for r in read_lines(audio / "fixed.json")] == [0.5, 0.25, 0.5, 0.5, 2.0]
    beyond = [(r["reject_reason"], r["manifest_line"]) for r in rejects(audio / "fixed.json")]
    assert beyond == [("beyond_audio", 5), ("beyond_audio", 6)]


@pytest.mark.parametrize("name", ["./three.flac", "x/../three.flac", "link/three.flac", "{folder}//three.flac"])
def test_segments_of_a_file_with_two_names(name: str, audio: Path) -> None:
    (audio / "x").mkdir()
    (audio / "link").symlink_to(audio)
    other = name.format(folder=audio)
    for first, second in [("three.flac", other), (other, "three.flac")]:
        start = {"audio_filepath": first, "offset": 0, "duration": 0.5}
        write_lines(audio / "m.json", [start, {"audio_filepath": second, "offset": 0.5, "duration": 0.25}])
        done = prepcli("fix-durations", audio / "m.json", audio / "fixed.json", "--overwrite")
        assert done.code == 0, done.err
        assert [r["duration"] for r in read_lines(audio / "fixed.json")] == [0.5, 0.25]


@pytest.mark.parametrize("path", ["", "a\0b/c.wav", "nowhere/c.wav"])
def test_segments_of_files_that_cannot_be(path: str, audio: Path) -> None:
    write_lines(audio / "m.json", [{"audio_filepath": path, "offset": 1}, {"audio_filepath": "one.wav", "offset": 0}])
    done = prepcli("fix-durations", audio / "m.json", audio / "fixed.json", "--max-rejects", 1)
    assert done.code == 0, done.err
    assert [r["duration"] for r in read_lines(audio / "fixed.json")] == [1.0]
    assert len(rejects(audio / "fixed.json")) == 1


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"duration": 1}', b'{"audio_filepath": "gone.wav"}', b"\xff{}"])
def test_lines_that_cannot_be_used(line: bytes, audio: Path) -> None:
    good = b'{"audio_filepath": "one.wav", "duration": 3}\n'
    (audio / "m.json").write_bytes(good + line)
    done = prepcli("fix-durations", audio / "m.json", audio / "fixed.json", "--max-rejects", 1)
    assert done.code == 0, done.err
    assert len(read_lines(audio / "fixed.json")) == 1
    assert rejects(audio / "fixed.json")[0]["manifest_line"] == 2


def test_a_list_of_rejects_can_be_tried_again(audio: Path) -> None:
    record = {"audio_filepath": "one.wav", "duration": 1.0}
    more = {"reject_reason": "missing_audio", "reject_detail": "", "manifest_line": 1, "manifest_filepath": "m.json"}
    write_lines(audio / "rejects.jsonl", [record | more])
    assert prepcli("fix-durations", audio / "rejects.jsonl", audio / "fixed.json").code == 0
    assert read_lines(audio / "fixed.json") == [record]


def test_rejects_without_a_duration_are_repaired(audio: Path) -> None:
    """A NaN is null in the rejects. A line that cannot be read is there as a text, and stays a reject that says so."""
    (audio / "m.json").write_bytes(
        b'{"audio_filepath": "one.wav", "duration": NaN, "snr": [-Infinity]}\n{"audio_filepath": "one.wav\n'
        b'{"audio_filepath": "\xff", "duration": 1}\n'
    )
    listed = audio / "set.prepcli/rejects.jsonl"
    assert (
        prepcli("manifest-to-tarred", audio / "m.json", audio / "set", "--num-shards", 1, "--max-rejects", 3).code == 0
    )
    options = ("--audio-base-dir", audio, "--max-rejects", 2)
    assert prepcli("fix-durations", listed, audio / "fixed.json", *options).code == 0
    assert read_lines(audio / "fixed.json") == [{"audio_filepath": "one.wav", "duration": 1.0, "snr": [None]}]
    left = rejects(audio / "fixed.json")
    assert [one["manifest_text"] for one in left] == [
        '{"audio_filepath": "one.wav',
        '{"audio_filepath": "\\xff", "duration": 1}',
    ]
    assert all("only the text of a line that cannot be read" in one["reject_detail"] for one in left)


def test_compressed_and_elsewhere(audio: Path) -> None:
    (audio / "m.json.gz").write_bytes(gzip.compress(b'{"audio_filepath": "one.wav", "duration": 3}\n'))
    done = prepcli("fix-durations", audio / "m.json.gz", audio / "new/fixed.json", "--json")
    assert done.json["details"]["audio_base_dir"] == str(audio)
    assert read_lines(audio / "new/fixed.json")[0]["duration"] == 1.0
    assert prepcli("verify", audio / "new/fixed.json").code == 0  # it knows where the audio is
    assert prepcli("fix-durations", audio / "m.json.gz", audio / "other.json", "--dry-run").code == 0


def test_refused(audio: Path) -> None:
    manifest = write_lines(audio / "m.json", [{"audio_filepath": "one.wav"}])
    assert "would replace it; choose another file" in prepcli("fix-durations", manifest, manifest).error_line
    (audio / "a").mkdir()
    other = write_lines(audio / "a/m.json", [{"audio_filepath": "one.wav"}])
    assert "several folders" in prepcli("fix-durations", f"{manifest},{other}", audio / "x.json").error_line
    assert "is a folder" in prepcli("fix-durations", manifest, audio / "a").error_line
    assert "no records" in prepcli("fix-durations", write_lines(audio / "e.json", []), audio / "x.json").error_line


def test_ranks_give_the_same_bytes(tmp_path: Path) -> None:
    records = [
        record | {"audio_filepath": str(MINI_CORPUS / record["audio_filepath"]), "duration": number / 7 + 0.1}
        for number, record in enumerate(read_lines(MINI_CORPUS / "manifest.json") * 3)
    ]
    manifest = write_lines(tmp_path / "m.json", records)
    assert prepcli("fix-durations", manifest, tmp_path / "one.json").code == 0
    for rank in (1, 0, 2):
        done = prepcli("fix-durations", manifest, tmp_path / "three.json", "--rank", rank, "--world-size", 3)
        assert done.code == 0, done.err
    assert (tmp_path / "three.json").read_bytes() == (tmp_path / "one.json").read_bytes()
    (plan,) = (tmp_path / "three.json.prepcli").glob("*/plan.json")
    assert json.loads(plan.read_text())["num_units"] > 2
    again = prepcli("fix-durations", manifest, tmp_path / "one.json")
    assert (again.code, again.out.strip()) == (
        0,
        f"fix-durations: nothing to do, {tmp_path / 'one.json'} is complete",
    )
    assert "finished" in prepcli("status", tmp_path / "one.json").out


def test_lines_are_numbered_over_all_units(audio: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blank lines count as well."""
    monkeypatch.setattr(line_slices, "MIN_UNIT_BYTES", 1)
    good, bad = b'{"audio_filepath": "one.wav"}', b"{"
    (audio / "m.json").write_bytes(b"\n".join([good, b"", b" ", bad, good, b"", bad, good]))
    done = prepcli("fix-durations", audio / "m.json", audio / "fixed.json", "--max-rejects", 2, "--json")
    assert (done.code, done.json["records_out"]) == (0, 3)
    assert done.json["units"] > 2
    assert [r["manifest_line"] for r in rejects(audio / "fixed.json")] == [4, 7]
