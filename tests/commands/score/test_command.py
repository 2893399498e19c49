"""score: the fields of records, alone or among others, in manifests and sets; filter and inspect read them."""

import faulthandler
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from prepcli.audio import segments
from prepcli.audio.measures import silence, snr
from prepcli.commands.score import audio, command
from prepcli.commands.score.command import FIELDS, GROUPS, groups_of
from prepcli.errors import UsageError
from tests.conftest import MINI_CORPUS, Lines, read_lines, write_lines
from tests.support.containers import SOURCES
from tests.support.measured import bandwidth, bandwidth_sdp, frames_of, loudness
from tests.support.memory import peak_megabytes
from tests.support.running import prepcli
from tests.support.tools import need_package, without

pytestmark = [without("scipy"), without("pyloudnorm")]

RATE = 16000
LEVELS = ["bandwidth", "loudness", "peak_db", "dc", "clipped", "snr"]
SILENCE = ["silence_share", "silence_start", "silence_end"]
WORDS = ["char_rate", "word_rate", "unique_words", "longest_word"]
BASIC = [*LEVELS, *SILENCE, "equal_channels", *WORDS]
SPEECH = ["speech_share", "speech_start", "speech_end", "speech_segments", "longest_pause"]
TEXT = ["text_lang", "text_lang_probability"]


def scored(manifest: object, out: Path, *options: object) -> Lines:
    done = prepcli("score", manifest, out, *options)
    assert done.code == 0, done.err
    return read_lines(out)


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Six records of the mini corpus in a folder of their own, the last three of which are segments of one file."""
    records = read_lines(MINI_CORPUS / "manifest.json")[:3] + read_lines(MINI_CORPUS / "segments.json")[1:4]
    for record in records:
        path = tmp_path / record["audio_filepath"]
        path.parent.mkdir(exist_ok=True)
        shutil.copyfile(MINI_CORPUS / record["audio_filepath"], path)
    return write_lines(tmp_path / "m.json", records)


def test_the_fields_are_the_measures_of_the_segment(few: Path) -> None:
    before = read_lines(few)
    found = scored(few, few.parent / "out.json", "--fields", "basic,bandwidth_sdp")
    assert len(found) == 6
    for line, original in zip(found, before, strict=True):
        assert list(line)[: len(original)] == list(original)
        assert {name: line[name] for name in original} == original
        assert list(line)[len(original) :] == [*BASIC[:10], "bandwidth_sdp", *WORDS]
        start, length = line.get("offset", 0.0), line["duration"]
        samples, rate = soundfile.read(few.parent / line["audio_filepath"], dtype="int16", always_2d=True)
        cut = samples[round(start * rate) : round((start + length) * rate)] if "offset" in line else samples
        mono = (cut[:, 0] / 32768).astype(np.float32)
        frames = frames_of(mono, rate)
        quiet = silence(frames, len(mono), rate)
        assert quiet is not None
        assert (line["bandwidth"], line["bandwidth_sdp"]) == (bandwidth(mono, rate), bandwidth_sdp(mono, rate))
        reference = {
            "loudness": loudness(cut, rate),
            "snr": snr(frames, len(mono) / rate),
            "peak_db": 20 * np.log10(np.abs(mono).max()),
            "dc": mono.mean(dtype=np.float64),
            "silence_share": quiet.share,
            "silence_start": quiet.start,
            "silence_end": quiet.end,
        }
        assert {name: line[name] for name in reference} == pytest.approx(reference, abs=1e-6)
        words = line["text"].split()
        assert line["char_rate"] == round(len(line["text"]) / length, 2)
        assert line["word_rate"] == round(len(words) / length, 2)
        assert line["longest_word"] == max(map(len, words))


@pytest.mark.slow
def test_a_record_alone_has_the_same_line(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_package("silero_vad")
    need_package("py3langid")
    fields = ("--fields", ",".join(GROUPS))
    scored(few, few.parent / "all.json", *fields)
    together = (few.parent / "all.json").read_bytes().splitlines()
    written = {name for names in FIELDS.values() for name in names}
    assert written == set(json.loads(together[0])) - set(read_lines(few)[0])
    for number, line in enumerate(read_lines(few)):
        alone = write_lines(few.parent / f"{number}.json", [line])
        scored(alone, few.parent / "alone.json", *fields, "--overwrite")
        assert (few.parent / "alone.json").read_bytes() == together[number] + b"\n"
    monkeypatch.setattr(command, "_UNIT_RECORDS", 2)
    for rank in range(3):
        done = prepcli("score", few, few.parent / "ranks.json", *fields, "--rank", rank, "--world-size", 3)
        assert done.code == 0, done.err
    assert (few.parent / "ranks.json").read_bytes().splitlines() == together


@pytest.mark.parametrize("kind", ["tarred", "shar", "parquet", "zip"])
def test_a_data_set_gives_the_same_measures(few: Path, tmp_path: Path, kind: str) -> None:
    whole = write_lines(few.parent / "whole.json", read_lines(few)[:3])
    expected = scored(whole, tmp_path / "out.json")
    name = next(name for name in SOURCES if kind in name)
    (tmp_path / "made").mkdir()
    made = SOURCES[name](whole, tmp_path / "made")
    found = scored(made, tmp_path / "of_set.json")
    assert scored(made, tmp_path / "of_set.json") == found  # nothing to do
    by_text = {line["text"]: line for line in found}
    for line in expected:
        same = by_text[line["text"]]
        assert {field: same[field] for field in BASIC} == {field: line[field] for field in BASIC}
        assert "::" in same["audio_filepath"]
    again = scored(tmp_path / "of_set.json", tmp_path / "again.json")
    assert again == found


@pytest.mark.slow
def test_too_short_silent_and_without_text(tmp_path: Path) -> None:
    need_package("silero_vad")
    need_package("py3langid")
    soundfile.write(tmp_path / "silent.wav", np.zeros(RATE, np.int16), RATE)
    soundfile.write(tmp_path / "short.wav", np.arange(80, dtype=np.int16), RATE)
    lines: Lines = [
        {"audio_filepath": "silent.wav", "duration": 1.0},
        {"audio_filepath": "silent.wav", "duration": 1.0, "text": ""},
        {"audio_filepath": "short.wav", "duration": 0.005, "text": "Ja ja"},
        {"audio_filepath": "short.wav", "duration": 0.005, "text": None},
        {"audio_filepath": "short.wav", "duration": 0.005, "text": 7},
        {"audio_filepath": "none.wav", "duration": 1.0, "text": "x"},
    ]
    manifest = write_lines(tmp_path / "m.json", lines)
    done = prepcli("score", manifest, tmp_path / "out.json", "--fields", ",".join(GROUPS), "--max-rejects", 2, "--json")
    assert (done.code, done.json["rejects_by_reason"]) == (0, {"bad_field": 1, "missing_audio": 1})
    silent, empty, short, null = read_lines(tmp_path / "out.json")
    for name in ("bandwidth", "bandwidth_sdp", "loudness", "peak_db", "snr", "silence_start", "speech_start"):
        assert silent[name] is None
    assert (silent["silence_share"], silent["clipped"], silent["dc"]) == (1.0, 0.0, 0.0)
    assert (silent["speech_share"], silent["speech_segments"], silent["equal_channels"]) == (0.0, 0, None)
    nothing = dict.fromkeys((*WORDS, *TEXT))
    assert {name: silent[name] for name in nothing} == {name: null[name] for name in nothing} == nothing
    assert {name: empty[name] for name in nothing} == nothing | {"char_rate": 0.0, "word_rate": 0.0}
    assert [short[name] for name in ("loudness", "snr", "silence_share", "silence_end")] == [None] * 4
    assert (short["char_rate"], short["unique_words"]) == (1000.0, 1.0)


def test_fields_of_text_need_no_audio(tmp_path: Path) -> None:
    need_package("py3langid")
    lines = [
        {"audio_filepath": "none.wav", "duration": 2, "text": text}
        for text in ("The weather is quite nice today, is it not?", "Das Wetter ist heute wirklich sehr schön.")
    ]
    found = scored(write_lines(tmp_path / "m.json", lines), tmp_path / "out.json", "--fields", "text")
    assert [line["text_lang"] for line in found] == ["en", "de"]
    assert all(0.9 < line["text_lang_probability"] <= 1 for line in found)
    assert set(found[0]) == {"audio_filepath", "duration", "text", *TEXT}


def test_own_fields_are_replaced_and_others_keep_their_text(few: Path) -> None:
    first = b'{"snr": "old", "audio_filepath": "s01/s01_u1.flac", "duration": 1.060, "x": [1.50,2], "snr_old": 1e3}\n'
    few.write_bytes(first)
    scored(few, few.parent / "out.json")
    line = (few.parent / "out.json").read_bytes()
    assert line.startswith(b'{"snr": 1')
    assert b'"duration": 1.060, "x": [1.50,2], "snr_old": 1e3, "bandwidth": ' in line
    scored(few.parent / "out.json", few.parent / "again.json")
    assert (few.parent / "again.json").read_bytes() == line


def test_paths_start_from_the_folder_of_the_output(few: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert scored(few, few.parent / "out.json")[0]["audio_filepath"] == "s01/s01_u1.flac"
    moved = scored(few, tmp_path / "other/out.json")
    assert moved[0]["audio_filepath"] == str(few.parent / "s01/s01_u1.flac")
    assert scored(tmp_path / "other/out.json", tmp_path / "other/again.json") == moved


def test_channels(tmp_path: Path) -> None:
    left = np.random.default_rng(0).integers(-9000, 9000, RATE).astype(np.int16)
    soundfile.write(tmp_path / "two.wav", np.stack([left, left // 2], axis=1), RATE)
    soundfile.write(tmp_path / "twice.wav", np.stack([left, left], axis=1), RATE)
    soundfile.write(tmp_path / "left.wav", left, RATE)
    names: Lines = [{"audio_filepath": f"{name}.wav"} for name in ("two", "twice", "left")]
    lines = [line | {"duration": 1.0} for line in [*names, names[0] | {"channel": 0}, names[0] | {"channel": 2}]]
    manifest = write_lines(tmp_path / "m.json", lines)
    both, twice, one, chosen = scored(manifest, tmp_path / "out.json", "--max-rejects", 1)
    assert [line["equal_channels"] for line in (both, twice, one, chosen)] == [False, True, None, None]
    assert {name: chosen[name] for name in BASIC} == {name: one[name] for name in BASIC}
    assert twice["loudness"] == pytest.approx(one["loudness"] + 20 * np.log10(2) / 2, abs=1e-6)  # power adds up
    assert both["peak_db"] == one["peak_db"]
    second, *_ = scored(write_lines(manifest, lines[:1]), tmp_path / "second.json", "--channel", 1)
    assert second["peak_db"] == pytest.approx(one["peak_db"] - 6.02, abs=0.01)
    mixed, *_ = scored(manifest, tmp_path / "mixed.json", "--channel", "mix")
    assert mixed["peak_db"] == pytest.approx(one["peak_db"] - 2.5, abs=0.01)


def test_filter_takes_the_fields_by_its_presets(tmp_path: Path) -> None:
    rate = 48000
    rng = np.random.default_rng(0)
    loud = rng.standard_normal(2 * rate) * np.repeat([0.0001, 1.0, 0.0001, 1.0], rate // 2) * 0.1
    dull = np.convolve(loud, np.hanning(40) / 20, "same")
    for name, samples in {"good": loud, "dull": dull, "noisy": loud + 0.05 * rng.standard_normal(2 * rate)}.items():
        soundfile.write(tmp_path / f"{name}.wav", samples, rate, subtype="PCM_24")
    texts = {"good": "one two three", "dull": "a a a a", "noisy": "x" * 30}
    lines = [{"audio_filepath": f"{name}.wav", "duration": 2.0, "text": text} for name, text in texts.items()]
    scored(write_lines(tmp_path / "m.json", [dict(line, lang="en") for line in lines]), tmp_path / "scored.json")
    for preset in ("hifitts", "granary-text"):
        done = prepcli("filter", tmp_path / "scored.json", tmp_path / f"{preset}.json", "--preset", preset)
        assert done.code == 0, done.err
        assert [line["audio_filepath"] for line in read_lines(tmp_path / f"{preset}.json")] == ["good.wav"]
    refused = prepcli("filter", tmp_path / "m.json", tmp_path / "x.json", "--preset", "hifitts")
    assert refused.code == 2
    assert "needs the field bandwidth" in refused.error_line


@pytest.mark.usefixtures("forking")
def test_audio_that_crashes_a_measure_is_a_reject(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measure: Callable[..., Any] = audio.audio_measures

    def crash(segment: Any, groups: Any) -> Any:
        if segment.name.endswith("s01_u2.flac"):
            faulthandler.disable()
            os.kill(os.getpid(), signal.SIGSEGV)
        return measure(segment, groups)

    monkeypatch.setattr(audio, "audio_measures", crash)
    done = prepcli("score", few, few.parent / "out.json", "--max-rejects", 1, "--json", "--num-workers", 1)
    assert done.code == 0, done.err
    assert done.json["rejects_by_reason"] == {"crashed_decoder": 1}
    assert len(read_lines(few.parent / "out.json")) == 5


def test_groups_have_one_order(tmp_path: Path, few: Path) -> None:
    out = tmp_path / "out.json"
    scored(few, out, "--fields", "bandwidth_sdp, basic")
    again = prepcli("score", few, out, "--fields", "basic,bandwidth_sdp")
    assert "nothing to do" in again.out
    other = prepcli("score", few, out)
    assert other.code == 2
    with pytest.raises(UsageError, match="takes basic, bandwidth_sdp, speech, text, not loud"):
        groups_of("basic,loud")


def test_damage_behind_the_first_block_is_a_reject(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    durations = {}
    for name in ("s01_u1", "s01_u2"):
        samples, rate = soundfile.read(few.parent / f"s01/{name}.flac", dtype="int16")
        soundfile.write(few.parent / f"s01/{name}.ogg", np.tile(samples, 9), rate)
        durations[name] = 9 * len(samples) / rate
    cut = few.parent / "s01/s01_u2.ogg"
    data = bytearray(cut.read_bytes())
    data[len(data) // 2] ^= 0xFF
    cut.write_bytes(data)
    lines: Lines = [{"audio_filepath": f"s01/{name}.ogg", "duration": seconds} for name, seconds in durations.items()]
    manifest = write_lines(few, lines)
    messages = set()
    for size in (1 << 19, 1000):
        monkeypatch.setattr(segments, "BLOCK_SAMPLES", size)
        out = few.parent / f"{size}.json"
        done = prepcli("score", manifest, out, "--max-rejects", 1, "--json")
        assert (done.code, done.json["rejects_by_reason"]) == (0, {"unreadable_audio": 1})
        assert [line["audio_filepath"] for line in read_lines(out)] == ["s01/s01_u1.ogg"]
        [reject] = read_lines(few.parent / f"{size}.json.prepcli/rejects.jsonl")
        messages.add(reject["reject_detail"])
    assert len(messages) == 1
    assert (few.parent / f"{1 << 19}.json").read_bytes() == (few.parent / "1000.json").read_bytes()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_length(tmp_path: Path) -> None:
    """Decoded as a whole, the longer file would take 200 MB more."""
    need_package("silero_vad")
    noise = np.random.default_rng(0).standard_normal((48000 * 60, 2), np.float32) / 10
    peaks = []
    for minutes in (1, 10):
        path = tmp_path / f"{minutes}.wav"
        with soundfile.SoundFile(path, "w", 48000, 2, "FLOAT") as file:
            for _ in range(minutes):
                file.write(noise)
        peaks.append(peak_megabytes(_MEASURING, path))
    assert peaks[1] - peaks[0] < 60


_MEASURING = """
import sys
from prepcli.audio.probe import probe
from prepcli.audio.segments import whole
from prepcli.commands.score.audio import audio_measures
audio_measures(whole(sys.argv[1], probe(sys.argv[1])), ["basic", "bandwidth_sdp", "speech"])
"""
