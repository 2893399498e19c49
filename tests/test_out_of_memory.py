"""Models that have not enough memory: batches are split, and an utterance that does not fit alone is a reject."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile

from prepcli.models import running
from prepcli.models.protocols import Precision
from tests.conftest import MINI_CORPUS, read_lines, tree, write_lines
from tests.support.lazy import lazy
from tests.support.running import Outcome, prepcli
from tests.support.shar_sets import make
from tests.support.tools import need_package
from tests.support.toy_codec import ToyCodec, use_toy_codec

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def first_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process of its own: nothing was said yet."""
    running._noted.clear()


class SmallCodec(ToyCodec):
    """A codec with memory for so many seconds of audio at once, which takes whole batches."""

    rows_on_cpu = None
    seconds = 0.0
    at_once = 0

    def encode(
        self, audio: torch.Tensor, lengths: torch.Tensor, precision: Precision
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if audio.numel() > self.seconds * self.sampling_rate:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nGPU 0 has ...")
        SmallCodec.at_once = max(SmallCodec.at_once, len(audio))
        return super().encode(audio, lengths, precision)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Utterances of equal length, so that batches have several rows, and a long one."""
    folder = tmp_path_factory.mktemp("corpus")
    noise = np.random.default_rng(1)
    records = []
    for number, seconds in enumerate([2.0] * 9 + [5.0]):
        name = f"u{number}.wav"
        soundfile.write(folder / name, noise.normal(0, 0.1, int(16000 * seconds)), 16000)
        records.append({"audio_filepath": name, "duration": seconds, "text": "x", "speaker": "s"})
    make(write_lines(folder / "m.json", records), folder / "shar", "--shard-size", 10)
    return folder / "shar"


def encode(monkeypatch: pytest.MonkeyPatch, corpus: Path, out: Path, seconds: float, *more: object) -> Outcome:
    monkeypatch.setattr(SmallCodec, "seconds", seconds)
    use_toy_codec(monkeypatch.setattr, SmallCodec)
    options = ("--codec-model", "toy", "--codec-name", "x", "--devices", "cpu", "--output-dir", out, "--json")
    return prepcli("extend-codec-codes", corpus, *options, "--num-workers", 1, *more)


def test_a_codec_without_memory_for_its_batches(monkeypatch: pytest.MonkeyPatch, corpus: Path, tmp_path: Path) -> None:
    enough = encode(monkeypatch, corpus, tmp_path / "enough", 1e6)
    assert (enough.code, enough.err) == (0, "")
    assert SmallCodec.at_once == 9
    less = encode(monkeypatch, corpus, tmp_path / "less", 5.5)
    assert less.code == 0, less.err
    assert less.err.splitlines() == [
        "note: a batch did not fit into memory and is split; a smaller --batch-duration fits"
    ]
    assert less.json["rejects"] == 0
    assert less.json["records_out"] == 10
    assert tree(tmp_path / "less") == tree(tmp_path / "enough")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_an_utterance_that_does_not_fit_is_a_reject(
    monkeypatch: pytest.MonkeyPatch, corpus: Path, tmp_path: Path, precision: str
) -> None:
    options = ("--max-rejects", 0.5, "--precision", precision)
    done = encode(monkeypatch, corpus, tmp_path / "out", 4.0, *options)
    assert done.code == 0, done.err
    rejects = read_lines(tmp_path / "out.prepcli/codes_x/rejects.jsonl")
    assert done.json["rejects_by_reason"] == {"out_of_memory": len(rejects)}
    assert [line["duration"] for line in rejects] == [5.0]
    assert done.json["records_out"] == 9
    detail = rejects[0]["reject_detail"]
    assert "target_audio: the codec has not enough memory on cpu for the" in detail
    assert "recording.000000.tar" in detail and "--batch-duration" in detail
    assert prepcli("verify", corpus).code == 0


def test_a_speaker_model_without_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    need_package("resemblyzer")
    from prepcli.models.resemblyzer import ResemblyzerEncoder

    embed = ResemblyzerEncoder.embed

    def small(self: ResemblyzerEncoder, audio: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        if audio.numel() > 5.0 * self.sampling_rate:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return embed(self, audio, lengths)

    monkeypatch.setattr(ResemblyzerEncoder, "embed", small)
    out = tmp_path / "out"
    options = ("--speaker-model", "resemblyzer", "--devices", "cpu", "--max-rejects", 0.9, "--json")
    # The model takes a tenth of a second for each; half of them are longer than 2.5 s.
    chosen = sorted(read_lines(MINI_CORPUS / "manifest.json"), key=lambda record: float(record["duration"]))[::4]
    manifest = write_lines(tmp_path / "m.json", chosen)
    done = prepcli("extend-context-audio", manifest, out, "--audio-base-dir", MINI_CORPUS, *options)
    assert done.code == 0, done.err
    assert "smaller --batch-duration" in done.err
    rejects = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    large = [line for line in rejects if line["reject_reason"] == "out_of_memory"]
    assert large and all(line["duration"] > 2.5 for line in large)
    assert all(line["audio_filepath"] in line["reject_detail"] for line in large)
    assert "--batch-duration" in large[0]["reject_detail"]
    assert done.json["records_out"] > 0


def test_memory_that_is_missing_elsewhere_is_not_a_bug(
    monkeypatch: pytest.MonkeyPatch, corpus: Path, tmp_path: Path
) -> None:
    def fail(self: ToyCodec, device: str) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory.\nProcess 12 has 80 GiB in use")

    monkeypatch.setattr(SmallCodec, "to", fail)
    done = encode(monkeypatch, corpus, tmp_path / "out", 1.0)
    assert done.code == 1
    assert "not enough memory: CUDA out of memory. Process 12 has 80 GiB in use." in done.error_line
    assert "--batch-duration" in done.error_line
