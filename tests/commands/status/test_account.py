"""The seconds of a chain of runs add up, and nothing is hidden by them."""

from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

from tests.conftest import read_lines, write_lines
from tests.support.chains import RATE, random_chain, run
from tests.support.running import prepcli


@pytest.mark.parametrize("seed", range(3))
def test_random_chains_add_up_to_the_sample(tmp_path: Path, seed: int) -> None:
    chain = random_chain(tmp_path, seed)
    found = prepcli("status", "--account", "tarred", "--json", cwd=chain.folder).json
    assert abs(found["seconds_in"] * RATE - chain.num_samples) < 0.5
    assert abs(found["seconds_kept"] + sum(found["left_out"].values()) - found["seconds_in"]) * RATE < 0.5
    manifest = read_lines(chain.folder / "tarred/sharded_manifests/manifest_0.json")
    assert abs(found["seconds_kept"] - sum(line["duration"] for line in manifest)) * RATE < 0.5
    dev = sum(line["duration"] for line in read_lines(chain.folder / "parts/dev.json"))
    assert found["left_out"]["in other outputs"] == pytest.approx(dev, abs=1e-4)
    for step in found["steps"]:
        rest = step["seconds_in"] - step["seconds_out"] - sum(step["left_out"].values())
        assert abs(rest) * RATE < 0.5, step
    assert {"measured again", "skipped by _skipme"}.isdisjoint(found["left_out"])
    by_name = {step["command"]: step for step in found["steps"]}
    assert [*by_name] == ["segment", "score", "filter", "split", "manifest-to-tarred"]
    assert by_name["split"]["not_used_outputs"] == ["dev.json"]
    text = prepcli("status", "--account", "tarred", cwd=chain.folder).out
    assert "s in = " in text
    assert "not used: dev.json" in text


def test_skipped_records_and_new_durations_are_named(tmp_path: Path, short_corpus: Path) -> None:
    lines = read_lines(short_corpus / "manifest.json")[:6]
    for line in lines:
        line["audio_filepath"] = str(short_corpus / line["audio_filepath"])
    lines[1]["duration"] *= 0.5
    write_lines(tmp_path / "m.json", lines)
    run(tmp_path, "fix-durations", "m.json", "fixed.json")
    run(tmp_path, "filter", "fixed.json", "marked.json", "--drop", "duration > 0.12", "--skipme")
    skipped = [line["duration"] for line in read_lines(tmp_path / "marked.json") if line.get("_skipme")]
    assert 0 < len(skipped) < 6
    run(tmp_path, "filter", "marked.json", "kept.json", "--keep", "duration > 0.01")
    found = prepcli("status", "--account", "kept.json", "--json", cwd=tmp_path).json
    assert found["left_out"] == {
        "measured again": pytest.approx(-lines[1]["duration"], abs=1e-3),
        "skipped by _skipme": pytest.approx(sum(skipped), abs=1e-3),
    }
    assert found["seconds_in"] == pytest.approx(sum(line["duration"] for line in lines), abs=1e-4)


def test_two_inputs_and_a_record_without_duration(tmp_path: Path, short_corpus: Path) -> None:
    lines = read_lines(short_corpus / "manifest.json")
    for line in lines:
        line["audio_filepath"] = str(short_corpus / line["audio_filepath"])
    write_lines(tmp_path / "a.json", lines[:6])
    write_lines(tmp_path / "b.json", [*lines[6:9], lines[9] | {"duration": None}])
    run(tmp_path, "filter", "a.json", "kept_a.json", "--keep", "duration > 0.2")
    run(tmp_path, "find-duplicates", "a.json", "kept_a.json", "same.jsonl", "--by", "text")
    run(tmp_path, "filter", "kept_a.json,b.json", "both.json", "--drop-listed", "same.jsonl")
    found = prepcli("status", "--account", "both.json", "--json", cwd=tmp_path).json
    assert found["unknown"] == 1
    assert found["seconds_in"] == pytest.approx(sum(line["duration"] for line in lines[:9]), abs=1e-4)
    assert found["seconds_kept"] + sum(found["left_out"].values()) == pytest.approx(found["seconds_in"], abs=1e-5)


def test_what_is_read_several_times_is_named(tmp_path: Path) -> None:
    lines = [{"audio_filepath": f"{n}.wav", "duration": 1.0 + n} for n in range(6)]
    write_lines(tmp_path / "m.json", lines)
    run(tmp_path, "filter", "m.json", "all.json", "--keep", "duration > 1")
    run(tmp_path, "filter", "all.json", "long.json", "--keep", "duration > 3")
    run(tmp_path, "filter", "all.json", "short.json", "--keep", "duration <= 3")
    run(tmp_path, "filter", "long.json,short.json,long.json", "both.json", "--keep", "duration > 2")
    found = prepcli("status", "--account", "both.json", "--json", cwd=tmp_path).json
    assert (found["seconds_in"], found["seconds_kept"]) == (21, 3 + 2 * 15)
    # all.json is read twice, and so is long.json.
    assert found["left_out"] == {"read several times": -20 - 15, "by rule": 1 + 5 + 15 + 2}
    run(tmp_path, "filter", "m.json,m.json", "twice.json", "--keep", "duration > 5")
    found = prepcli("status", "--account", "twice.json", "--json", cwd=tmp_path).json
    assert (found["seconds_in"], found["seconds_kept"], found["left_out"]) == (42, 12, {"by rule": 30})


def test_an_input_that_has_changed_is_named(tmp_path: Path) -> None:
    lines = [{"audio_filepath": f"{n}.wav", "duration": 1.0 + n} for n in range(6)]
    write_lines(tmp_path / "m.json", lines)
    run(tmp_path, "filter", "m.json", "all.json", "--keep", "duration > 1")
    run(tmp_path, "filter", "all.json", "long.json", "--keep", "duration > 3")
    run(tmp_path, "filter", "m.json", "all.json", "--keep", "duration > 2", "--overwrite")
    found = prepcli("status", "--account", "long.json", "--json", cwd=tmp_path).json
    assert found["left_out"] == {"by rule": 3 + 5, "its input has changed since": -2}
    assert found["seconds_in"] == found["seconds_kept"] + sum(found["left_out"].values())


def test_overlap_that_is_left_out_counts_once(tmp_path: Path) -> None:
    (tmp_path / "talks").mkdir()
    sf.write(tmp_path / "talks/a.wav", np.random.default_rng(0).normal(0, 0.1, 10 * RATE), RATE)
    times = ((0.5, 2.0), (1.5, 3.0), (4.0, 6.0))
    lines = [f"{n}\n00:00:0{start},000 --> 00:00:0{end},000\nWords." for n, (start, end) in enumerate(times, 1)]
    (tmp_path / "talks/a.srt").write_text("\n\n".join(lines).replace(".5,000", ",500").replace(".0,000", ",000"))
    run(tmp_path, "segment", "talks", "segments.json", "--by", "times", "--times", "talks", "--min", 0.2)
    assert [one["reject_reason"] for one in read_lines(tmp_path / "segments.json.prepcli/rejects.jsonl")]
    found = prepcli("status", "--account", "segments.json", "--json", cwd=tmp_path).json
    assert {*found["left_out"]} == {"pauses", "overlap"}  # and nothing that makes up for a sum that is wrong
    assert found["seconds_in"] == 10
    assert found["seconds_kept"] + sum(found["left_out"].values()) == pytest.approx(10, abs=1e-4)


def test_lines_outside_of_a_recording_have_none_of_its_seconds(tmp_path: Path) -> None:
    (tmp_path / "talks").mkdir()
    sf.write(tmp_path / "talks/a.wav", np.random.default_rng(0).normal(0, 0.1, 10 * RATE), RATE)
    times = ("00:01,000 --> 00:03,000", "00:04,000 --> 00:04,000", "00:09,000 --> 00:12,000", "00:20,000 --> 00:22,000")
    (tmp_path / "talks/a.srt").write_text("\n\n".join(f"{time}\nWords." for time in times))
    run(tmp_path, "segment", "talks", "segments.json", "--by", "times", "--times", "talks", "--pad", 0)
    found = prepcli("status", "--account", "segments.json", "--json", cwd=tmp_path).json
    assert (found["seconds_in"], found["seconds_kept"]) == (10, 2)
    assert found["left_out"] == {"bad_offset": 1, "bad_duration": 0, "pauses": 7}
    kept = prepcli("explain", "a.wav@2", "--in", "segments.json", "--json", cwd=tmp_path).json["traces"]
    assert [trace["verdict"] for trace in kept] == ["kept"]
    for time in ("6", "0:06", "00:00:06.000"):
        (pause,) = prepcli("explain", f"a.wav@{time}", "--in", "segments.json", "--json", cwd=tmp_path).json["traces"]
        assert (pause["verdict"], pause["reason"], pause["source"]["first_sample"]) == ("dropped", "pause", 6 * RATE)
        assert "the record before ends at 3.000 s, the next begins at 9.000 s" in pause["detail"]
        assert "2 rejects of it without a time, the first is bad_duration: talks/a.srt: the line" in pause["detail"]
    beyond = prepcli("explain", "a.wav@1:01:01", "--in", "segments.json", cwd=tmp_path)
    assert (beyond.code, "a.wav has no 3,661.000 s: it lasts 10.000 s" in beyond.error_line) == (2, True)
    # Of a manifest, it is the record of the whole that is followed.
    run(tmp_path, "make-manifest", "talks", "talks.json")
    run(tmp_path, "segment", "talks.json", "again.json", "--by", "times", "--times", "talks", "--pad", 0)
    again = prepcli("explain", "a.wav@6", "--in", "again.json", "--json", cwd=tmp_path).json["traces"]
    assert [(trace["verdict"], trace["reason"]) for trace in again] == [("dropped", "pause")]
    # The rest of a file of which a record is a part was never looked at.
    (part,) = read_lines(tmp_path / "talks.json")
    write_lines(tmp_path / "part.json", [part | {"offset": 0.5, "duration": 5}])
    run(tmp_path, "segment", "part.json", "part_segments.json", "--by", "times", "--times", "talks", "--pad", 0)
    outside = prepcli("explain", "a.wav@6", "--in", "part_segments.json", cwd=tmp_path)
    assert (outside.code, "no record of a.wav lies at 6.000 s" in outside.error_line) == (2, True)
    inside = prepcli("explain", "a.wav@5", "--in", "part_segments.json", "--json", cwd=tmp_path).json["traces"]
    assert [(trace["verdict"], trace["reason"]) for trace in inside] == [("dropped", "pause")]
    run(tmp_path, "manifest-to-tarred", "segments.json", "tarred", "--num-shards", 1)
    packed = prepcli("explain", "talks/a.wav@6", "--in", "tarred", "--json", cwd=tmp_path).json["traces"]
    assert [(trace["verdict"], trace["by"], trace["reason"]) for trace in packed] == [
        ("dropped", "segment segments.json", "pause")
    ]


def test_what_cannot_be_added_up(tmp_path: Path, short_corpus: Path) -> None:
    unknown = prepcli("status", "--account", "nothing", cwd=tmp_path)
    assert (unknown.code, "no run of prepcli" in unknown.error_line) == (2, True)
    two = prepcli("status", "--account", "one", "two", cwd=tmp_path)
    assert (two.code, "give one" in two.error_line) == (2, True)


def test_a_line_that_cannot_be_used_is_in_the_sum(tmp_path: Path, short_corpus: Path) -> None:
    lines = read_lines(short_corpus / "manifest.json")[:6]
    for line in lines:
        line["audio_filepath"] = str(short_corpus / line["audio_filepath"])
    lines[1]["text"] = 12
    write_lines(tmp_path / "m.json", lines)
    run(tmp_path, "manifest-to-tarred", "m.json", "tarred", "--num-shards", 1, "--max-rejects", 1)
    found = prepcli("status", "--account", "tarred", "--json", cwd=tmp_path).json
    assert found["left_out"] == {"bad_field": pytest.approx(lines[1]["duration"], abs=1e-4)}
    assert found["seconds_in"] == pytest.approx(sum(line["duration"] for line in lines), abs=1e-4)


def test_what_is_too_long_is_one_row(tmp_path: Path) -> None:
    """The detail of each reject has the length of its line, and each was a row."""
    (tmp_path / "talks").mkdir()
    sf.write(tmp_path / "talks/a.wav", np.random.default_rng(0).normal(0, 0.1, 20 * RATE), RATE)
    times = ("00:01,000 --> 00:04,000", "00:05,000 --> 00:09,000", "00:10,000 --> 00:15,000", "00:16,000 --> 00:17,000")
    (tmp_path / "talks/a.srt").write_text("\n\n".join(f"{time}\nWords." for time in times))
    cut = ("--by", "times", "--times", "talks", "--pad", 0, "--max", 2)
    run(tmp_path, "segment", "talks", "segments.json", *cut)
    found = prepcli("status", "--account", "segments.json", "--json", cwd=tmp_path).json
    assert found["left_out"] == {"by rule": 12, "pauses": 7}
    assert found["steps"][0]["left_out"] == {"too_long": 12, "pauses": 7}
