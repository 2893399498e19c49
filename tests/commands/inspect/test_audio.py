"""Facts about a sample of audio files."""

import shutil
from pathlib import Path

import pytest

from tests.commands.inspect.conftest import look
from tests.conftest import MINI_CORPUS, read_lines, real_speech, write_lines

HOURS = sum(record["duration"] for record in read_lines(MINI_CORPUS / "manifest.json")) / 3600


def test_manifest_with_a_sample_of_its_audio() -> None:
    found = look(MINI_CORPUS / "manifest.json")
    assert (found.kind, found.records, found.speakers) == ("manifest", 48, 8)
    assert found.hours == pytest.approx(HOURS)
    (audio,) = found.audio
    assert (audio.looked_at, audio.sampling_rates, audio.formats) == (48, {22050: 48}, {"flac PCM_16": 48})
    assert (audio.channels, audio.missing, audio.unreadable, audio.beyond_audio) == ({1: 48}, 0, 0, 0)
    assert look(MINI_CORPUS / "manifest.json", num_audio_files=7).audio[0].looked_at == 7
    assert look(MINI_CORPUS / "manifest.json", num_audio_files=0).audio == []


def test_audio_that_is_missing_broken_or_too_short(tmp_path: Path) -> None:
    shutil.copy(MINI_CORPUS / "s01/s01_u1.flac", tmp_path / "good.flac")
    (tmp_path / "bad.wav").write_bytes(b"RIFF")
    durations = {"good.flac": 1.06, "bad.wav": 1.0, "gone.wav": 1.0}
    lines = [{"audio_filepath": name, "duration": seconds} for name, seconds in durations.items()]
    found = look(write_lines(tmp_path / "m.json", [*lines, lines[0] | {"offset": 0.5}]))
    (audio,) = found.audio
    assert (audio.looked_at, audio.missing, audio.unreadable, audio.beyond_audio) == (3, 1, 1, 1)
    assert [example.rpartition("/")[2].split()[0] for example in audio.examples] == ["bad.wav", "gone.wav", "good.flac"]


def test_audio_below_a_directory_of_its_own(tmp_path: Path) -> None:
    manifest = shutil.copy(MINI_CORPUS / "manifest.json", tmp_path)
    assert look(manifest).audio[0].missing == 48
    assert look(manifest, audio_base_dir=MINI_CORPUS).audio[0].missing == 0


def test_a_manifest_that_a_run_wrote_has_its_audio_where_the_input_has(tmp_path: Path, tarred: Path) -> None:
    shutil.copytree(f"{tarred}.prepcli", tmp_path / "out.prepcli")
    (tmp_path / "out").mkdir()
    shutil.copy(MINI_CORPUS / "manifest.json", tmp_path / "out/extended.json")
    found = look(tmp_path / "out/extended.json")
    assert [run.command for run in found.runs] == ["manifest-to-tarred"]
    assert (found.audio[0].missing, found.audio[0].looked_at) == (0, 48)
    assert look(tmp_path / "out", audio_base_dir=tmp_path).audio[0].missing == 48


def test_audio_file() -> None:
    found = look(MINI_CORPUS / "s01/s01_u1.flac")
    assert (found.kind, found.audio[0].sampling_rates, found.audio[0].seconds) == ("audio", {22050: 1}, (1.06, 1.06))


@pytest.mark.skipif(real_speech() is None, reason="the recordings of real voices are not here")
def test_real_speech() -> None:
    found = look(real_speech() / "manifest.json")  # type: ignore[operator]
    assert (found.records, found.speakers, found.audio[0].sampling_rates) == (480, 2, {8000: 100})
    assert {one.name for one in found.languages} == {"en", "it"}
