"""The gate: missing values, what a field may hold, where a segment may lie, ids that occur once."""

import math
import random
from pathlib import Path
from typing import Any

import pytest

from prepcli.errors import RecordRejected, RejectReason
from prepcli.gate import ROUNDING, FirstPlaces, SeenIds, checked_fields, fit, is_missing, text_hash
from tests.conftest import Lines, read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli


@pytest.mark.parametrize("value", [None, float("nan")])
def test_null_and_nan_are_missing(value: object) -> None:
    assert is_missing(value)
    assert checked_fields({"text": value, "speaker": value, "lang": value, "id": value, "other": value}) == {}


@pytest.mark.parametrize("value", [0, "", False, [], float("inf"), "nan"])
def test_other_values_are_not_missing(value: object) -> None:
    assert not is_missing(value)
    assert checked_fields({"other": value}) == {"other": value}


@pytest.mark.parametrize("value", [12, 1.5, True, ["a", "b"], {"a": 1}, float("inf")])
@pytest.mark.parametrize("name", ["text", "normalized_text"])
def test_a_text_is_a_string(name: str, value: Any) -> None:
    with pytest.raises(RecordRejected, match=rf"^bad_field: {name} is .*; it must be a string$"):
        checked_fields({name: value})


@pytest.mark.parametrize("value", [1.5, True, ["a"], {"a": 1}])
@pytest.mark.parametrize("name", ["speaker", "lang", "id"])
def test_a_name_is_a_string_or_an_integer(name: str, value: Any) -> None:
    assert checked_fields({name: 12}) == {name: 12}
    with pytest.raises(RecordRejected, match=rf"^bad_field: {name} is .*; it must be a string or an integer$"):
        checked_fields({name: value})


def test_a_segment_within_its_container_is_unchanged() -> None:
    assert fit(0.1, 0.2, 0.3, "the segment", "its file") == (0.1, 0.2, False)
    assert fit(0.0, 5.0, math.inf, "the segment", "its file") == (0.0, 5.0, False)


def test_a_segment_that_is_outside_by_rounding_ends_at_the_bound() -> None:
    assert fit(-0.01, 1.01, 5.0, "the segment", "its file") == (0.0, 1.0, True)
    assert fit(4.0, 1.009, 5.0, "the segment", "its file") == (4.0, 1.0, True)
    # One sample at 22.05 Hz, of a sensor, is more than the written decimals.
    assert fit(4.0, 1.04, 5.0, "the segment", "its file", rate=22.05) == (4.0, 1.0, True)


@pytest.mark.parametrize(
    ("start", "duration", "reason"),
    [
        (-0.011, 1.0, RejectReason.BAD_OFFSET),
        (-3.0, 2.0, RejectReason.BAD_OFFSET),
        (-0.005, 0.004, RejectReason.BAD_OFFSET),
        (4.0, 1.011, RejectReason.BAD_OFFSET),
        (5.0, 0.005, RejectReason.BAD_OFFSET),
        (7.0, 1.0, RejectReason.BAD_OFFSET),
        (2.0, 0.0, RejectReason.BAD_DURATION),
        (2.0, -1.0, RejectReason.BAD_DURATION),
        (float("nan"), 1.0, RejectReason.BAD_OFFSET),
        (0.0, float("inf"), RejectReason.BAD_OFFSET),
    ],
)
def test_other_segments_are_rejects(start: float, duration: float, reason: RejectReason) -> None:
    with pytest.raises(RecordRejected) as caught:
        fit(start, duration, 5.0, "the segment x", "its cut")
    assert caught.value.reason is reason
    assert "the segment x" in caught.value.detail


@pytest.mark.parametrize("decimals", [2, 3, 8])
def test_rounded_times_are_never_rejects(decimals: int) -> None:
    rng = random.Random(7)
    for _ in range(2000):
        length = rng.uniform(1, 3600)
        start = rng.uniform(0, length - 0.5)
        fitted = fit(round(start, decimals), round(length - start, decimals), length, "the segment", "its file")
        assert 0 <= fitted.start < length
        assert fitted.start + fitted.duration <= length + 1e-9
        assert abs(fitted.start - start) <= ROUNDING


def test_the_second_of_an_id_is_a_reject_that_names_both_places() -> None:
    seen = SeenIds()
    ids = ["a", "b", "a", "c", "a"]
    for id in ids:
        seen.add(id)
    assert seen.repeated() == {text_hash("a")} == {7405662395035962911}  # in every process
    places = FirstPlaces(seen.repeated())
    rejected = []
    for number, id in enumerate(ids, 1):
        try:
            places.check(id, f"text:{number}")
        except RecordRejected as error:
            rejected.append(error.detail)
    assert rejected == [
        "the id a is there twice, in text:1 and in text:3; the first is used",
        "the id a is there twice, in text:1 and in text:5; the first is used",
    ]


def test_ids_with_equal_hashes_are_compared_by_their_text() -> None:
    places = FirstPlaces(frozenset({hash("a"), hash("b")}))  # as if both had one hash
    places.check("a", "text:1")
    places.check("b", "text:2")
    assert SeenIds().repeated() == frozenset()


# The same lines in every command that reads manifests.

SPEAKERS = [float("nan"), None, "a", "b", "a", float("nan")]


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Six usable records, two of them without a speaker by NaN, and then three whose values the gate refuses."""
    lines: Lines = []
    for number, speaker in enumerate([*SPEAKERS, "c", "c", ["c"]]):
        write_audio(tmp_path / f"u{number}.wav", 1.0, 16000, seed=number)
        lines.append({"audio_filepath": f"u{number}.wav", "duration": 1.0, "text": f"t{number}", "speaker": speaker})
    lines[0] |= {"text": float("nan"), "sampling_rate": 8000, "sample_rate": 44100}
    lines[1] |= {"text": None, "lang": float("nan"), "id": None}
    lines[6] |= {"text": 12}
    lines[7] |= {"text": ["a", "b"]}
    return write_lines(tmp_path / "m.json", lines)


@pytest.mark.parametrize(
    ("command", "lines_of"),
    [
        (("manifest-to-tarred", "--num-shards", "1"), "out/tarred_audio_manifest.json"),
        (("manifest-to-shar", "--shard-size", "20"), None),
        (("manifest-to-wenet",), None),
        (("manifest-to-parquet",), None),
        (("convert-audio",), "out/manifest.json"),
        (("score", "--fields", "basic"), "out.json"),
        (("fix-durations",), "out.json"),
        (("segment", "--by", "windows", "--min", "0.1"), "out.json"),
        (("filter", "--keep", "duration > 0"), "out.json"),
        (("split", "--part", "all=rest"), "out/all.json"),
    ],
)
def test_every_command_refuses_the_same_values(
    manifest: Path, tmp_path: Path, command: tuple[str, ...], lines_of: str | None
) -> None:
    name, *options = command
    out = tmp_path / ("out.json" if lines_of == "out.json" else "out")
    done = prepcli(name, manifest, out, *options, "--max-rejects", 5, "--json")
    assert done.code == 0, done.err
    reasons = {
        reject["manifest_line"]: reject["reject_detail"]
        for reject in read_lines(Path(f"{out}.prepcli/rejects.jsonl"))
        if reject["reject_reason"] == "bad_field"
    }
    assert reasons == {
        7: "text is 12; it must be a string",
        8: 'text is ["a", "b"]; it must be a string',
        9: 'speaker is ["c"]; it must be a string or an integer',
    }
    if lines_of is None:
        return
    records = read_lines(tmp_path / lines_of)
    assert [one["audio_filepath"].rpartition("/")[2][:2] for one in records] == [f"u{n}" for n in range(6)]
    if name in ("filter", "split", "segment"):  # they copy lines and read no audio, or leave these fields out
        return
    assert (records[0]["text"], records[0]["speaker"], records[1]["lang"]) == (None, None, None)
    assert (records[0]["sampling_rate"], records[0]["sample_rate"]) == (16000, 16000)


def test_records_without_a_speaker_are_not_one_group(manifest: Path, tmp_path: Path) -> None:
    looked = prepcli("inspect", manifest, "--json")
    assert (looked.json["records"], looked.json["speakers"], looked.json["unusable"]) == (6, 2, {"bad_field": 3})
    done = prepcli("split", manifest, tmp_path / "parts", "--part", "all=rest", "--max-rejects", 5)
    assert "3 records without speaker are drawn one by one" in done.out + done.err
    found = prepcli("find-duplicates", manifest, tmp_path / "d.jsonl", "--by", "text", "--max-rejects", 5, "--json")
    assert (found.code, read_lines(tmp_path / "d.jsonl")) == (0, [])
    broken = prepcli("verify", manifest, "--json")
    assert broken.json["problems"] == [
        "m.json:1: " + f"{manifest.parent}/u0.wav: sampling_rate is 8000, but the audio has 16000 Hz",
        "m.json:7: text is 12; it must be a string",
        'm.json:8: text is ["a", "b"]; it must be a string',
        'm.json:9: speaker is ["c"]; it must be a string or an integer',
    ]


def test_a_segment_with_a_rate_is_noted(tmp_path: Path) -> None:
    """NeMo makes the recording as long as the segment if the line has its rate, and cannot load it."""
    write_audio(tmp_path / "long.wav", 5.0, 16000)
    (tmp_path / "t.csv").write_text(
        "audio_filepath,offset,duration,sampling_rate,sample_rate\nlong.wav,1.0,2.0,16000,\nlong.wav,,,8000,8000\n"
    )
    done = prepcli("make-manifest", tmp_path / "t.csv", tmp_path / "m.json")
    assert done.code == 0
    assert "sampling_rate and sample_rate are left out of 1 segment" in done.out
    segment, whole = read_lines(tmp_path / "m.json")
    assert not {"sampling_rate", "sample_rate"} & segment.keys()
    assert (whole["sampling_rate"], whole["sample_rate"]) == (16000, 16000)
    assert prepcli("verify", tmp_path / "m.json", "--json").json["notes"] == []
    write_lines(tmp_path / "m.json", [segment | {"sampling_rate": 16000}, whole])
    checked = prepcli("verify", tmp_path / "m.json", "--json").json
    assert [note.partition(" records ")[0] for note in checked["notes"] if "offset" in note] == ["m.json: 1"]
