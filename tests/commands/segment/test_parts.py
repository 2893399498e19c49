"""Long recordings are divided into parts that any worker can make: nothing is lost, and nothing is twice."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import soundfile

from prepcli.commands.segment import parts
from tests.commands.segment.test_command import segmented
from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.running import prepcli
from tests.support.tools import without

pytestmark = without("onnxruntime")


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Path]:
    """All recordings of the mini corpus in one, with pauses: three minutes, of which a part lasts 30 s here."""
    samples: list[Any] = []
    for number, record in enumerate(read_lines(MINI_CORPUS / "manifest.json")):
        speech, rate = soundfile.read(MINI_CORPUS / record["audio_filepath"], dtype="int16")
        samples += [speech, np.zeros(round((0.3 + number % 3) * rate), np.int16)]
    (tmp_path / "talks").mkdir()
    soundfile.write(tmp_path / "talks/a.flac", np.concatenate(samples), rate)
    with patch.object(parts, "PART_SECONDS", 30.0):
        yield tmp_path / "talks"


@pytest.mark.slow
def test_parts_meet_in_pauses_and_lose_nothing(talk: Path, tmp_path: Path) -> None:
    report, lines = segmented(talk, tmp_path / "parts.json")
    assert report["units"] == 6
    assert report["details"]["recordings"] == 1
    assert report["details"]["seconds"]["in"] == pytest.approx(soundfile.info(talk / "a.flac").duration)
    with patch.object(parts, "PART_SECONDS", 3600.0):
        _, whole = segmented(talk, tmp_path / "whole.json")
    assert [line["offset"] for line in lines] == sorted(line["offset"] for line in lines)
    for one, other in pairwise(lines):
        assert one["offset"] + one["duration"] <= other["offset"] + 1e-6
    covered = sum(line["duration"] for line in lines)
    assert covered == pytest.approx(sum(line["duration"] for line in whole), rel=0.02)


@pytest.mark.slow
def test_ranks_and_engines_make_the_same_bytes(talk: Path, tmp_path: Path) -> None:
    segmented(talk, tmp_path / "one.json")
    for rank in (2, 1, 0):
        done = prepcli("segment", talk, tmp_path / "three.json", "--rank", rank, "--world-size", 3)
        assert done.code == 0, done.err
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "three.json").read_bytes()


@pytest.mark.slow
def test_a_part_without_speech_and_a_damaged_part_are_rejects_of_their_own(tmp_path: Path) -> None:
    speech, rate = soundfile.read(MINI_CORPUS / "long/s01.flac", dtype="int16")
    silence = np.zeros(65 * rate, np.int16)
    samples = np.concatenate([speech, silence, speech, silence, silence])
    soundfile.write(tmp_path / "a.flac", samples, rate)
    write_lines(tmp_path / "m.json", [{"audio_filepath": "a.flac", "duration": len(samples) / rate}])
    with patch.object(parts, "PART_SECONDS", 50.0):
        report, lines = segmented(tmp_path / "m.json", tmp_path / "out.json")
        assert report["rejects_by_reason"] == {"no_speech": 2}
        assert lines
        data = bytearray((tmp_path / "a.flac").read_bytes())
        middle = len(data) * 7 // 10  # in the second speech
        data[middle : middle + 4000] = bytes(4000)
        (tmp_path / "a.flac").write_bytes(data)
        report, damaged = segmented(tmp_path / "m.json", tmp_path / "damaged.json", "--max-rejects", 9)
    assert report["rejects_by_reason"]["unreadable_audio"] == 1
    assert damaged == lines[:1]
    reject = next(
        line
        for line in read_lines(tmp_path / "damaged.json.prepcli/rejects.jsonl")
        if line["reject_reason"] == "unreadable_audio"
    )
    assert reject["offset"] < 82 < reject["offset"] + reject["duration"]
    assert reject["duration"] < 80


def test_a_missing_recording_is_one_reject(tmp_path: Path) -> None:
    write_lines(tmp_path / "m.json", [{"audio_filepath": "none.flac", "duration": 90000.0}])
    report, _ = segmented(tmp_path / "m.json", tmp_path / "out.json", "--max-rejects", 9)
    assert report["rejects_by_reason"] == {"missing_audio": 1}
    assert not any("is it in" in note for note in report["notes"])
    assert report["units"] == 25
    assert report["details"]["seconds"]["rejects"] == 90000
    assert report["details"]["recordings"] == 1


def test_units_of_recordings() -> None:
    class Index:
        duration = np.array([100.0, 7300.0, 3600.0, 3600.0, 3601.0, 10.0])

    class Records:
        index = Index()

    made = parts.units_of_recordings(Records(), by_parts=True)  # type: ignore[arg-type]
    assert [(unit.lo, unit.hi, unit.part, unit.num_parts, unit.num_records) for unit in made] == [
        (0, 1, 0, 1, 1),
        (1, 2, 0, 2, 1),
        (1, 2, 1, 2, 0),
        (2, 4, 0, 1, 2),
        (4, 6, 0, 1, 2),
    ]
    assert len(parts.units_of_recordings(Records(), by_parts=False)) == 4  # type: ignore[arg-type]
