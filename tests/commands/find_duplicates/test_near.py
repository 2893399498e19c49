"""Nearly the same audio: planted fingerprints, and real lossy, resampled, louder, trimmed and embedded copies."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from prepcli.audio.fingerprint import Words
from prepcli.audio.resample import resample
from prepcli.audio.segments import Segment, decode
from prepcli.commands.find_duplicates import command, keys
from prepcli.commands.find_duplicates.near import LONG_WORDS, MIN_WORDS, SHORT_WORDS, Fingerprints
from tests.conftest import MINI_CORPUS, Lines, read_lines, write_lines
from tests.support.running import prepcli
from tests.support.tools import tool

Samples = NDArray[np.int16]


def random_words(seed: int, count: int) -> Words:
    return np.random.default_rng(seed).integers(1, 1 << 32, count, dtype=np.uint32)


def with_errors(words: Words, share: float, seed: int = 0) -> Words:
    """Words of which each bit is flipped with the probability `share`, except in every third group of ten."""
    rng = np.random.default_rng(seed)
    flips = np.packbits(rng.random((len(words), 32)) < share * 1.5, axis=1).view(np.uint32).ravel()
    flips[np.arange(len(words)) // 20 % 3 == 0] = 0
    return words ^ flips


def labels(folder: Path, *records: Words) -> list[int]:
    fingerprints = Fingerprints(folder)
    for some in (records[:2], records[2:]):  # as of two units
        counts = np.array([len(words) for words in some], np.int64)
        fingerprints.add(np.concatenate([np.empty(0, np.uint32), *some]), counts)
    found: list[int] = fingerprints.labels()[0].tolist()
    return found


def test_alignments_are_found(tmp_path: Path) -> None:
    one, none = random_words(1, 400), np.empty(0, np.uint32)
    inside = np.concatenate([random_words(2, 300), one, random_words(3, 500)])
    records = [random_words(4, 400), one, none, inside, one[43:], none, with_errors(one, 0.2), random_words(5, 400)]
    assert labels(tmp_path, *records) == [0, 1, 2, 1, 1, 5, 1, 7]
    assert labels(tmp_path) == []
    assert labels(tmp_path, none, none) == [0, 1]


def test_a_codec_of_a_low_rate_changes_every_tenth_bit(tmp_path: Path) -> None:
    """It does so everywhere: hardly any two words of a copy are equal."""
    originals = [random_words(seed, 500) for seed in range(20)]
    rng = np.random.default_rng(0)
    flips = [np.packbits(rng.random((500, 32)) < 0.1, axis=1).view(np.uint32).ravel() for _ in originals]
    copies = [one ^ flip for one, flip in zip(originals, flips, strict=True)]
    found = labels(tmp_path, *originals, *copies)
    assert found[:20] == [*range(20)]
    assert sum(found[20 + n] == n for n in range(20)) >= 18


def test_other_audio_stays_apart(tmp_path: Path) -> None:
    one, other = random_words(1, 400), random_words(2, 400)
    assert labels(tmp_path, one, with_errors(one, 0.3)) == [0, 1]
    short = one[: LONG_WORDS - 1]
    assert labels(tmp_path, short, with_errors(short, 0.2)) == [0, 1]
    assert labels(tmp_path, short, with_errors(short, 0.1)) == [0, 0]
    brief = one[: SHORT_WORDS - 1]
    assert labels(tmp_path, brief, with_errors(brief, 0.12)) == [0, 1]
    assert labels(tmp_path, brief, with_errors(brief, 0.05)) == [0, 0]
    assert labels(tmp_path, one[: MIN_WORDS - 1], one[: MIN_WORDS - 1]) == [0, 1]
    # All keys of a short record are used, so none is missed.
    briefs = [random_words(seed, MIN_WORDS) for seed in range(50)]
    assert labels(tmp_path, *briefs, *briefs) == [*range(50)] * 2
    assert labels(tmp_path, one, one[: MIN_WORDS + 30]) == [0, 0]
    # A jingle of a quarter at the same place, or at the ends; and half of each.
    assert labels(tmp_path, one, np.concatenate([one[:100], other[:300]])) == [0, 1]
    assert labels(tmp_path, one, np.concatenate([other[:300], one[:100]])) == [0, 1]
    assert labels(tmp_path, one, np.concatenate([other[:200], one[:200]])) == [0, 0]


def test_silence_is_not_compared(tmp_path: Path) -> None:
    quiet = np.zeros(400, np.uint32)
    assert labels(tmp_path, quiet, quiet) == [0, 1]
    one, other = random_words(1, 100), random_words(2, 100)
    assert labels(tmp_path, *(np.concatenate([quiet, words, quiet]) for words in (one, other))) == [0, 1]
    # The sound of the first is in the second, whatever the silence around it.
    assert labels(tmp_path, np.concatenate([one, quiet]), np.concatenate([quiet, quiet, one])) == [0, 0]
    fingerprints = Fingerprints(tmp_path)
    fingerprints.add(np.concatenate([one, quiet]), np.array([100, 0, 400]))
    assert fingerprints.labels()[1].tolist() == [True, False, False]


def test_a_common_sound_hides_no_copy(tmp_path: Path) -> None:
    """A hum, and a word that repeats, are in all records; each record is there twice."""
    hum = np.full(60, 0x0F0F0F0F, np.uint32)
    spoken = random_words(99, 20)
    originals = [np.concatenate([hum, random_words(seed, 200), spoken, hum]) for seed in range(300)]
    copies = [with_errors(one, 0.1, seed) for seed, one in enumerate(originals)]
    assert labels(tmp_path, *originals, *copies) == [*range(300)] * 2
    same = [with_errors(originals[0], 0.02, seed) for seed in range(200)]
    assert labels(tmp_path, *same) == [0] * 200


def altered(name: str, samples: Samples, rate: int, folder: Path) -> tuple[Samples, int]:
    if name == "mp3":
        soundfile.write(folder / "wave.wav", samples, rate)
        tool("ffmpeg", "-v", "error", "-y", "-i", folder / "wave.wav", "-b:a", "64k", folder / "lossy.mp3")
        read: tuple[Samples, int] = soundfile.read(folder / "lossy.mp3", dtype="int16")
        return read
    if name == "resampled":
        return resample(samples, rate, 22050), 22050
    if name == "louder":
        return (samples * 2.0).clip(-32768, 32767).astype(np.int16), rate
    if name == "quieter":
        return samples // 2, rate
    return samples[rate // 2 :], rate


@pytest.mark.slow
def test_altered_copies_are_found(tmp_path: Path) -> None:
    """Of the records, every second one has an altered copy in the other input."""
    names = ("mp3", "resampled", "louder", "quieter", "trimmed")
    records = [one for one in read_lines(MINI_CORPUS / "manifest.json") if one["duration"] > 1.7]
    assert len(records) > 25
    train: Lines = []
    for number, record in enumerate(records):
        path = MINI_CORPUS / record["audio_filepath"]
        record["audio_filepath"] = str(path)
        if number % 2:
            samples, rate = soundfile.read(path, dtype="int16")
            copy, copied_rate = altered(names[number // 2 % 5], samples, rate, tmp_path)
            soundfile.write(tmp_path / f"{number}.wav", copy, copied_rate)
            train.append({"audio_filepath": f"{number}.wav", "duration": len(copy) / copied_rate, "text": str(number)})
    inputs = [write_lines(tmp_path / "test.json", records), write_lines(tmp_path / "train.json", train)]
    by = ("--by", "near-audio", "--between")
    done = prepcli("find-duplicates", *inputs, tmp_path / "out.jsonl", *by)
    assert done.code == 1, done.err
    found: dict[int, list[str]] = {}
    for line in read_lines(tmp_path / "out.jsonl"):
        found.setdefault(line["duplicate_group"], []).append(line["audio_filepath"])
    copies = range(1, len(records), 2)
    assert list(found.values()) == [[records[n]["audio_filepath"], str(tmp_path / f"{n}.wav")] for n in copies]


def test_parts_of_a_long_recording(tmp_path: Path) -> None:
    """The recording is the first of its group in its input, so that dropping the others loses nothing."""
    parts, whole = MINI_CORPUS / "segments.json", read_lines(MINI_CORPUS / "segments.json")[0]["audio_filepath"]
    info = soundfile.info(MINI_CORPUS / whole)
    long = {"audio_filepath": str(MINI_CORPUS / whole), "duration": info.duration, "text": "all"}
    lines = read_lines(parts)
    for line in lines:
        line["audio_filepath"] = str(MINI_CORPUS / line["audio_filepath"])
    manifest = write_lines(tmp_path / "m.json", [*lines, long])
    done = prepcli("find-duplicates", manifest, tmp_path / "out.jsonl", "--by", "near-audio", "--json")
    assert done.code == 0, done.err
    found = read_lines(tmp_path / "out.jsonl")
    assert [(one["duplicate_group"], one["duplicate_place"]) for one in found] == [(0, n) for n in range(len(found))]
    durations = [one["duration"] for one in found]
    assert durations == sorted(durations, reverse=True)
    assert found[0]["text"] == "all"
    assert len(found) == len(lines) + 1 - done.json["details"]["found"][0]["not_compared"]
    dropped = prepcli("filter", manifest, tmp_path / "kept.json", "--drop-listed", tmp_path / "out.jsonl")
    assert dropped.code == 0, dropped.err
    assert "all" in [one["text"] for one in read_lines(tmp_path / "kept.json")]
    assert len(read_lines(tmp_path / "kept.json")) == len(lines) + 1 - (len(found) - 1)
    earlier = write_lines(tmp_path / "test.json", lines[-1:])
    done = prepcli("find-duplicates", earlier, manifest, tmp_path / "leaks.jsonl", "--by", "near-audio", "--between")
    assert done.code == 1, done.err
    first, second = read_lines(tmp_path / "leaks.jsonl")[:2]
    assert (first["manifest_filepath"], second["text"]) == (str(earlier), "all")


def test_ranks_and_one_decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes for three ranks; a record that cannot be read has no words and hides no other."""
    monkeypatch.setattr(command, "_UNIT_SIZE", 3)
    decoded: list[Segment] = []

    def counted(segment: Segment) -> NDArray[Any]:
        decoded.append(segment)
        return decode(segment)

    monkeypatch.setattr(keys, "decode", counted)
    (tmp_path / "bad.wav").write_bytes(b"RIFF")
    lines: Lines = []
    for seed in (0, 1, 0, 2, 1, 0, 3, 3):
        noise = np.random.default_rng(seed).integers(-9000, 9000, 32000).astype(np.int16)
        soundfile.write(tmp_path / f"{len(lines)}.wav", noise // (1 + len(lines)), 16000)
        lines.append({"audio_filepath": f"{len(lines)}.wav", "duration": 2.0})
    lines.insert(4, {"audio_filepath": "bad.wav", "duration": 2.0})
    manifest = write_lines(tmp_path / "m.json", lines)
    options = ("--by", "near-audio,audio", "--max-rejects", 1)
    done = prepcli("find-duplicates", manifest, tmp_path / "one.jsonl", *options)
    assert done.code == 0, done.err
    assert len(decoded) == 8
    found = [(one["duplicate_group"], one["audio_filepath"][-5]) for one in read_lines(tmp_path / "one.jsonl")]
    assert found == [(0, "0"), (0, "2"), (0, "5"), (1, "1"), (1, "4"), (2, "6"), (2, "7")]
    for rank in (1, 0, 2):
        ranks = ("--rank", rank, "--world-size", 3)
        assert prepcli("find-duplicates", manifest, tmp_path / "three.jsonl", *options, *ranks).code == 0
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "three.jsonl").read_bytes()
