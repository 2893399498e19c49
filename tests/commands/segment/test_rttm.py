"""RTTM files of windows, read by NeMo's data set for Sortformer: the targets are those of the whole recording."""

import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import soundfile

from tests.conftest import Lines, read_lines, write_lines
from tests.support.lazy import lazy
from tests.support.running import prepcli
from tests.support.seeds import draw_for
from tests.support.tools import need_package

torch = lazy("torch")

RATE, STEP = 16000, 0.08
MAX_SPEAKERS = 4
pytestmark = [pytest.mark.nemo]


class Turn(NamedTuple):
    """The start and end of a turn in seconds, and its speaker."""

    start: float
    end: float
    speaker: str


def random_turns(seeded: random.Random, seconds: float) -> list[Turn]:
    """Turns of four speakers who interrupt each other; some pauses of one speaker are shorter than 0.1 s.

    Two ends of one speaker are at least 90 ms apart, and none is in the middle of a frame.
    """
    turns = []
    for speaker in ("ann", "bob", "eve", "kim"):
        at = seeded.uniform(0, 5)
        while at < seconds:
            end = at + seeded.choice([0.1, 0.5, 2, 4, 14]) + seeded.random() / 2
            turns.append(Turn(int(at * 100) / 100 + 0.004, int(end * 100) / 100 + 0.006, speaker))
            at = end + seeded.choice([0.095, 0.3, 2, 8]) + seeded.random() / 1000
    return sorted(turn for turn in turns if turn.start < seconds)


def rttm_of(turns: list[Turn]) -> str:
    return "".join(
        f"SPEAKER talk 1 {start:.3f} {end - start:.3f} <NA> <NA> {speaker} <NA> <NA>\n" for start, end, speaker in turns
    )


def talk(folder: Path, seconds: float, rate: int) -> Path:
    path = folder / "talk.wav"
    noise = np.random.default_rng(0).integers(-900, 900, round(seconds * rate)).astype(np.int16)
    soundfile.write(path, noise, rate)
    return path


def windows_of(folder: Path, source: Path, turns: list[Turn]) -> Lines:
    """The lines that `segment` writes to `out.json`, for windows of 10 s of the audio in `source`."""
    (folder / "talk.rttm").write_text(rttm_of(turns))
    options = ("--by", "windows", "--window", 10, "--times", folder / "talk.rttm", "--rttm-out", folder / "rttms")
    done = prepcli("segment", source, folder / "out.json", *options)
    assert done.code == 0, done.err
    return read_lines(folder / "out.json")


def read_by_nemo(manifest: Path) -> list[Any]:
    """The targets (steps, speakers) of each line."""
    need_package("nemo")
    from nemo.collections.asr.data.audio_to_diar_label import AudioToSpeechE2ESpkDiarDataset
    from nemo.collections.asr.modules import AudioToMelSpectrogramPreprocessor
    from nemo.collections.asr.parts.preprocessing.features import WaveformFeaturizer

    dataset = AudioToSpeechE2ESpkDiarDataset(
        manifest_filepath=str(manifest),
        soft_label_thres=0.5,
        session_len_sec=-1,
        num_spks=MAX_SPEAKERS,
        featurizer=WaveformFeaturizer(sample_rate=RATE),
        fb_featurizer=AudioToMelSpectrogramPreprocessor(sample_rate=RATE).featurizer,
        window_stride=0.01,
        global_rank=0,
        soft_targets=False,
        device="cpu",
    )
    targets = []
    for number in range(len(dataset)):
        samples, length, target, num_steps = dataset[number]
        assert len(samples) == length > 0
        assert len(target) == num_steps
        targets.append(target.numpy())
    return targets


def wanted_of(turns: list[Turn], offset: float, num_steps: int) -> Any:
    """The same from the turns: who speaks at each multiple of 80 ms; the columns are in the order of first turns."""
    wanted = np.zeros((num_steps, MAX_SPEAKERS))
    end = offset + STEP * num_steps
    inside = [turn for turn in turns if turn.start < end and turn.end > offset]
    speakers = list(dict.fromkeys(turn.speaker for turn in sorted(inside, key=lambda turn: max(turn.start, offset))))
    for start, stop, speaker in inside:
        times = offset + STEP * np.arange(num_steps)
        wanted[(start < times) & (times <= stop), speakers.index(speaker)] = 1
    return wanted


def check(folder: Path, lines: Lines, turns: list[Turn]) -> None:
    write_lines(folder / "whole.json", [line | {"rttm_filepath": str(folder / "talk.rttm")} for line in lines])
    made, whole = read_by_nemo(folder / "out.json"), read_by_nemo(folder / "whole.json")
    assert len(made) == len(whole) == len(lines)
    for line, ours, theirs in zip(lines, made, whole, strict=True):
        np.testing.assert_array_equal(ours, theirs, str(line["offset"]))
        wanted = wanted_of(turns, line["offset"], len(ours))
        np.testing.assert_array_equal(ours[1:-1], wanted[1:-1], str(line["offset"]))
        assert line["num_speakers"] >= ours.any(axis=0).sum()


@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_nemo_reads_the_targets_of_the_whole_rttm(tmp_path: Path, rate: int) -> None:
    turns = random_turns(draw_for("turns"), 124)
    path = talk(tmp_path, 124.3, rate)
    lines = windows_of(tmp_path, path, turns)
    assert [line["offset"] for line in lines] == list(range(0, 130, 10))
    assert max(line["num_speakers"] for line in lines) > 2
    check(tmp_path, lines, turns)


def test_a_record_that_is_a_part_of_the_recording(tmp_path: Path) -> None:
    """Turns that begin before it, or end after it, are in its windows as far as they reach."""
    turns = [Turn(2.004, 12.006, "ann"), Turn(14.004, 16.006, "bob"), Turn(37.004, 52.006, "bob")]
    talk(tmp_path, 60, RATE)
    write_lines(tmp_path / "in.json", [{"audio_filepath": "talk.wav", "offset": 10.0, "duration": 30.0}])
    lines = windows_of(tmp_path, tmp_path / "in.json", turns)
    assert [line["offset"] for line in lines] == [10, 20, 30]
    check(tmp_path, lines, turns)


def test_lhotse_reads_the_same_turns(tmp_path: Path) -> None:
    from lhotse import SupervisionSet

    turns = random_turns(draw_for("lhotse"), 60)
    lines = windows_of(tmp_path, talk(tmp_path, 60, RATE), turns)
    for line in lines:
        found = sorted(
            (round(one.start, 3), round(one.end, 3), one.speaker)
            for one in SupervisionSet.from_rttm(tmp_path / line["rttm_filepath"])
        )
        start, end = line["offset"], line["offset"] + line["duration"]
        inside = (turn for turn in turns if turn.start < end and turn.end > start)
        assert found == sorted(
            (round(max(turn.start, start), 3), round(min(turn.end, end), 3), turn.speaker) for turn in inside
        )


def test_targets_of_lhotse_cuts(tmp_path: Path) -> None:
    """Those of NeMo's function for multi-speaker recognition, from the window's file and from that of the recording."""
    need_package("nemo")
    from lhotse import Recording
    from nemo.collections.asr.parts.utils.asr_multispeaker_utils import speaker_to_target

    turns = random_turns(draw_for("cuts"), 60)
    path = talk(tmp_path, 60, RATE)
    for line in windows_of(tmp_path, path, turns):
        cut = Recording.from_file(path, recording_id="talk").to_cut()
        targets = []
        for rttm in (tmp_path / line["rttm_filepath"], tmp_path / "talk.rttm"):
            window = cut.truncate(offset=line["offset"], duration=line["duration"])
            window.custom = {"rttm_filepath": str(rttm)}
            targets.append(speaker_to_target(window, num_speakers=MAX_SPEAKERS, boundary_segments=True).numpy())
        assert targets[0].any()
        np.testing.assert_array_equal(*targets)
