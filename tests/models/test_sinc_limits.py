"""torchaudio's kernel for two rates with a small common divisor would fill the memory: such audio is a reject."""

from pathlib import Path

import pytest

from prepcli.models.sinc import MAX_KERNEL_SIZE, _kernel, can_resample
from tests.conftest import read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli
from tests.support.tools import without
from tests.support.toy_codec import use_toy_codec

pytestmark = [without("torch"), pytest.mark.usefixtures("one_thread")]


@pytest.mark.parametrize(("from_rate", "to_rate"), [(44100, 22050), (8000, 22050), (11025, 16000), (48000, 22050)])
def test_usual_rates_and_the_size_of_their_kernels(
    monkeypatch: pytest.MonkeyPatch, from_rate: int, to_rate: int
) -> None:
    assert can_resample(from_rate, to_rate)
    size = _kernel(from_rate, to_rate, "cpu").kernel.numel()
    monkeypatch.setattr("prepcli.models.sinc.MAX_KERNEL_SIZE", size)
    assert can_resample(from_rate, to_rate)
    monkeypatch.setattr("prepcli.models.sinc.MAX_KERNEL_SIZE", size - 1)
    assert not can_resample(from_rate, to_rate)


def test_odd_rates() -> None:
    assert not can_resample(44101, 22050)
    assert not can_resample(767_999, 16000)
    assert MAX_KERNEL_SIZE * 8 <= 1 << 27  # bytes


def test_codes_of_audio_at_an_odd_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toy_codec(monkeypatch.setattr)
    for name, rate in (("good", 8000), ("odd", 99_991)):
        write_audio(tmp_path / f"{name}.wav", 1.0, rate)
    lines = [{"audio_filepath": f"{name}.wav", "duration": 1.0, "text": "x"} for name in ("good", "odd")]
    manifest = write_lines(tmp_path / "m.json", lines)
    shar = tmp_path / "shar"
    assert prepcli("manifest-to-shar", manifest, shar, "--audio-format", "wav").code == 0
    (tmp_path / "codec.nemo").write_bytes(b"toy")
    options = ("--codec-model", tmp_path / "codec.nemo", "--codec-name", "toy", "--devices", "cpu", "--max-rejects", 1)
    outcome = prepcli("extend-codec-codes", shar, *options)
    assert outcome.code == 0, outcome.err
    (reject,) = read_lines(tmp_path / "shar.prepcli/codes_toy/rejects.jsonl")
    assert reject["reject_reason"] == "unreadable_audio"
    assert "its sampling rate of 99991 Hz has no small ratio to the codec's" in reject["reject_detail"]
