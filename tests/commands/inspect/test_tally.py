"""What is counted over the lines of manifests, cuts and rejects."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prepcli.commands.inspect.page import draw
from prepcli.commands.inspect.tally import Tally, column, tally_files
from prepcli.errors import UsageError
from prepcli.manifest import scan
from tests.commands.inspect.conftest import look
from tests.conftest import Lines, write_lines


def records(count: int) -> Lines:
    rng = np.random.default_rng(0)
    return [
        {
            "audio_filepath": f"a{i % 7}/{i}.{'wav' if i % 3 else 'flac'}",
            "offset": float(i % 4),
            "duration": round(float(rng.lognormal()), 3),
            "text": "é" * int(rng.integers(1, 40)),
            "speaker": f"s{i % 5}",
            "lang": "de" if i % 2 else "it",
            "context_speaker_similarity": round(float(rng.random()), 3),
        }
        for i in range(count)
    ]


@pytest.mark.slow
def test_measures_of_score(tmp_path: Path) -> None:
    own = records(20)
    for number, one in enumerate(own):
        one |= {"bandwidth": 4000 + number, "snr": number / 2 if number else None}
        one |= {"loudness": -20.0 - number, "speech_share": 0.5}
    own[3]["bandwidth"] = "8000"
    found = look(write_lines(tmp_path / "m.json", own), num_audio_files=0)
    assert (found.bandwidth["p0"], found.bandwidth["p100"]) == (4000, 4019)
    assert [len(found.columns[name]) for name in ("bandwidth", "snr", "loudness", "speech_share")] == [19, 19, 20, 20]
    assert found.snr["p0"] == 0.5
    assert any("lowest bandwidth: 4,000.00 Hz" in one.why for one in found.outliers)
    shown = next(line.split() for line in str(found).splitlines() if "bandwidth (Hz)" in line)
    assert shown[2:4] == ["4,000.00", "4,001.00"]
    plots = dict(draw(found))
    assert list(plots)[3:7] == ["Bandwidth", "Speech to noise", "Loudness", "Share of speech"]
    assert "more, up to" not in plots["Loudness"]  # no tail is cut off where numbers are negative
    assert look(write_lines(tmp_path / "plain.json", records(20)), num_audio_files=0).bandwidth == {}


def test_counts_are_those_of_the_records(tmp_path: Path) -> None:
    own = records(1000)
    found = look(write_lines(tmp_path / "m.json", own), num_audio_files=0)
    assert (found.kind, found.records, found.lines) == ("manifest", 1000, 1000)
    assert found.hours == pytest.approx(sum(one["duration"] for one in own) / 3600)
    assert found.extensions == {"wav": 666, "flac": 334}
    assert found.segments == 750
    assert found.speakers == 5
    hours = {
        name: sum(one["duration"] for one in own if one["speaker"] == name) / 3600
        for name in ["s0", "s1", "s2", "s3", "s4"]
    }
    assert [one.name for one in found.top_speakers] == sorted(hours, key=lambda name: -hours[name])
    assert {one.name: one.hours for one in found.top_speakers} == pytest.approx(hours, abs=1e-6)
    assert {one.name: one.records for one in found.languages} == {"de": 500, "it": 500}
    assert found.fields == dict.fromkeys(own[0], 1000)
    durations = sorted(one["duration"] for one in own)
    assert (found.duration["p0"], found.duration["p50"], found.duration["p100"]) == (
        durations[0],
        durations[500],
        durations[-1],
    )
    speeds = sorted(len(one["text"]) / one["duration"] for one in own)
    assert found.chars_per_second["p95"] == pytest.approx(speeds[950], rel=1e-6)
    assert found.context_similarity["p25"] == sorted(one["context_speaker_similarity"] for one in own)[250]
    assert found.first_records == own[:10]


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_the_same_for_any_number_of_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    own = records(3000)
    lines = [json.dumps(one) + "\n" for one in own]
    data = "".join([*lines[:2500], "{broken\n", *lines[2500:]]).encode()
    paths = [tmp_path / f"{i}.json{'.gz' * packed}" for i in range(2)]
    for path in paths:
        path.write_bytes(gzip.compress(data) if packed else data)
    spec = ",".join(map(str, paths))
    here = look(spec, num_audio_files=10)
    assert (here.records, here.unusable) == (6000, {"broken_json": 2})
    assert here.first_unusable is not None and here.first_unusable.startswith(f"{paths[0]}:2501: broken JSON")
    monkeypatch.setattr(scan, "RANGE_BYTES", 50_000)
    monkeypatch.setattr(scan, "_BLOCK_BYTES", 7_000)
    monkeypatch.setattr(scan, "INLINE_BYTES", 0)
    pieces = look(spec, num_audio_files=10, num_workers=2)
    # Where the stream is cut has a say in which files are looked at, and in the last digits of sums.
    assert pieces.hours == pytest.approx(here.hours)
    ours, theirs = here.document(), pieces.document()
    for name in ("audio", "notes", "hours"):
        ours.pop(name), theirs.pop(name)
    assert theirs == ours
    assert look(spec, num_audio_files=10, num_workers=1).document() == pieces.document()


def test_lines_that_cannot_be_used_are_counted_with_the_first_named(tmp_path: Path) -> None:
    lines: list[Any] = [json.dumps(one) for one in records(20)]
    lines[3] = "{broken"
    lines[7] = '{"audio_filepath": "a.wav", "duration": -1}'
    lines[8] = '{"audio_filepath": "a.wav", "duration": "3"}'
    lines[9] = '{"audio_filepath": "a.wav", "duration": 3, "_skipme": true}'
    lines[10] = ""
    lines[11] = '{"audio_filepath": "a.wav", "duration": 3, "text": NaN}'
    path = tmp_path / "m.json"
    path.write_text("\n".join(lines))
    found = look(path, num_audio_files=0)
    assert (found.lines, found.records, found.skipped) == (20, 15, 1)
    assert found.unusable == {"broken_json": 1, "bad_duration": 2}
    assert found.first_unusable is not None and found.first_unusable.startswith(f"{path}:4: broken JSON")


@pytest.mark.slow
def test_a_file_of_something_else_ends_early(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps(records(1)[0] | {"duration": 0}) + "\n" + '{"a": 1}\n' * 20_000)
    with pytest.raises(UsageError, match=r"m\.json holds no records that can be used: line 1: duration"):
        look(path)


def test_memory_grows_with_numbers_not_with_text(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "m.json", records(5000))
    (tally,) = tally_files([str(path)], "manifest", 100, 1)
    assert isinstance(tally, Tally)
    assert len(column(tally.columns["duration"])) == 5000
    assert column(tally.columns["duration"]).itemsize == 4
    assert len(tally.first_records) == 10
    assert len(tally.named.items) <= 200
