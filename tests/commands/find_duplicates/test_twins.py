"""Files with equal bytes are decoded once; segments, other bytes and damaged files are told apart."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from prepcli.audio.segments import Segment, decode
from prepcli.commands.find_duplicates import command, keys
from prepcli.commands.find_duplicates.twins import by_duration
from prepcli.jobs.records import Records
from prepcli.planning.arrays import Scratch
from tests.conftest import Lines, read_lines, write_lines
from tests.support.running import prepcli

RATE = 8000
NAMES = ["a.flac", "b.flac", "c.wav", "d.wav"]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []

    def counted(segment: Segment) -> NDArray[Any]:
        names.append(Path(segment.name).name)
        return decode(segment)

    monkeypatch.setattr(keys, "decode", counted)
    return names


@pytest.fixture
def train(tmp_path: Path) -> Path:
    """Audio of 2 s: two FLAC files, two WAV files of one size, and a damaged FLAC file."""
    for seed, name in enumerate(NAMES):
        noise = np.random.default_rng(seed).integers(-9000, 9000, 2 * RATE).astype(np.int16)
        soundfile.write(tmp_path / name, noise, RATE)
    whole = (tmp_path / "a.flac").read_bytes()
    (tmp_path / "bad.flac").write_bytes(whole[:9000] + bytes(2000) + whole[11000:])
    (tmp_path / "copies").mkdir()
    for name in NAMES:
        shutil.copy(tmp_path / name, tmp_path / "copies" / f"0{name}")
    shutil.copy(tmp_path / "bad.flac", tmp_path / "copies/bad.flac")
    os.link(tmp_path / "a.flac", tmp_path / "copies/link.flac")
    return tmp_path


def lines(*names: str, **more: float) -> Lines:
    return [{"audio_filepath": name, "duration": 2.0, **more} for name in names]


@pytest.mark.parametrize("by", ["audio,near-audio", "near-audio", "audio"])
def test_equal_files_are_decoded_once(train: Path, decoded: list[str], by: str) -> None:
    first = write_lines(train / "first.json", lines(*NAMES, "bad.flac"))
    names = ["bad.flac", "link.flac", *(f"0{name}" for name in reversed(NAMES))]
    second = write_lines(train / "copies/second.json", lines("../b.flac", *names))
    options = ("--by", by, "--max-rejects", 2, "--json")
    done = prepcli("find-duplicates", first, second, train / "out.jsonl", *options)
    assert done.code == 0, done.err
    # The samples of WAV files are read as fast as their bytes are compared.
    wave = ["0c.wav", "0d.wav"] if by == "audio" else []
    assert sorted(decoded) == sorted([*NAMES, *wave, "bad.flac", "bad.flac"])
    assert (done.json["records_out"], done.json["rejects"]) == (10, 2)
    groups: dict[tuple[str, int], list[str]] = {}
    for line in read_lines(train / "out.jsonl"):
        groups.setdefault((line["duplicate_by"], line["duplicate_group"]), []).append(Path(line["audio_filepath"]).name)
    expected = [["a.flac", "link.flac", "0a.flac"], ["b.flac", "b.flac", "0b.flac"], ["c.wav", "0c.wav"]]
    expected.append(["d.wav", "0d.wav"])
    kinds = by.split(",")
    assert groups == {
        (kind, 4 * place + number): names for place, kind in enumerate(kinds) for number, names in enumerate(expected)
    }
    assert all(one.get("not_compared", 0) == 0 for one in done.json["details"]["found"])


def test_segments_of_equal_files_are_told_apart(train: Path, decoded: list[str]) -> None:
    parts = [{"audio_filepath": name, "duration": 1.5} for name in ("a.flac", "copies/0a.flac", "copies/link.flac")]
    parts[2]["offset"] = 0.5
    parts.append({"audio_filepath": "a.flac", "duration": 1.5, "offset": 0.5})
    done = prepcli("find-duplicates", write_lines(train / "m.json", parts), train / "out.jsonl", "--by", "audio")
    assert done.code == 0, done.err
    assert decoded == ["a.flac", "link.flac"]
    found = [(line["duplicate_group"], line.get("offset", 0.0)) for line in read_lines(train / "out.jsonl")]
    assert found == [(0, 0.0), (0, 0.0), (1, 0.5), (1, 0.5)]


def test_copies_come_in_one_unit(train: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of equal duration follow each other; the result is that of the order of the input, also with ranks."""
    monkeypatch.setattr(command, "_UNIT_SIZE", 2)
    some: Lines = []
    for number, name in enumerate([*NAMES, *(f"copies/0{name}" for name in NAMES)]):
        some.append({"audio_filepath": name, "duration": 2.0 + number % 4 / 1000})
    manifest = write_lines(train / "m.json", some)
    records = Records([str(manifest)], None)
    assert by_duration(records, Scratch()).tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    options = ("--by", "near-audio,audio")
    assert prepcli("find-duplicates", manifest, train / "one.jsonl", *options).code == 0
    assert sorted(decoded) == NAMES  # units with the longest audio come first
    found = [(one["duplicate_group"], one["manifest_line"]) for one in read_lines(train / "one.jsonl")]
    pairs = [(group, line) for group in range(4) for line in (group + 1, group + 5)]
    # By near-audio, the longest comes first, which is the first of two that are equally long.
    assert found == pairs + [(group + 4, line) for group, line in pairs]
    for rank in (1, 0, 2):
        ranks = ("--rank", rank, "--world-size", 3)
        assert prepcli("find-duplicates", manifest, train / "three.jsonl", *options, *ranks).code == 0
    assert (train / "one.jsonl").read_bytes() == (train / "three.jsonl").read_bytes()
    some[3]["offset"] = 0.1
    cut = Records([str(write_lines(train / "cut.json", some))], None)
    assert by_duration(cut, Scratch()).tolist() == list(range(8))


def test_short_records_are_not_compared_by_near_audio(train: Path) -> None:
    """Neither are those of which the bytes are equal."""
    short = [{"audio_filepath": name, "duration": 0.4} for name in ("a.flac", "copies/0a.flac")]
    done = prepcli(
        "find-duplicates", write_lines(train / "m.json", short), train / "out.jsonl", "--by", "near-audio,audio"
    )
    assert done.code == 0, done.err
    assert [line["duplicate_by"] for line in read_lines(train / "out.jsonl")] == ["audio", "audio"]
    assert "2 records have less than 0.6 s of sound" in done.out
