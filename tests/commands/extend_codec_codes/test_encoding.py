"""What a GPU does with a batch, on the CPU: few shapes, mixed lengths, resampling there, and too little memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from prepcli.commands.extend_codec_codes import encoding
from prepcli.commands.extend_codec_codes.command import extend_codec_codes
from prepcli.commands.extend_codec_codes.encoding import BatchShape, encode_rows, move_rows
from prepcli.commands.extend_codec_codes.on_device import CodecOnDevice
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report
from prepcli.models import devices
from prepcli.models.nemo_codec import Rows, convolve
from prepcli.models.protocols import Precision
from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.codes_sets import read_codes
from tests.support.engine_options import call_with, codes_workspace
from tests.support.lazy import lazy
from tests.support.shar_sets import make
from tests.support.toy_codec import ToyCodec, use_toy_codec

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

pytestmark = pytest.mark.usefixtures("one_thread")


class MixingCodec(ToyCodec):
    """The toy codec with exact ends in mixed batches; notes the shapes, and has memory for `max_samples` samples."""

    mixes_lengths = True
    rows_on_cpu: int | None = None  # as on a GPU

    def __init__(self, max_samples: int = 1 << 40) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []
        self._max_samples = max_samples

    def encode(
        self, audio: torch.Tensor, lengths: torch.Tensor, precision: Precision
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.shapes.append(tuple(audio.shape))
        assert audio.shape[1] % self.samples_per_frame == 0
        if audio.numel() > self._max_samples:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        frames = -(-lengths // self.samples_per_frame)
        with torch.inference_mode():
            out = convolve(self._layer, audio[:, None], Rows(frames * self.samples_per_frame))
            if precision != "fp32":
                out = out.bfloat16().float()
            return ((torch.tanh(4 * out) + 1) / 2 * (self.codebook_size - 1)).round().long(), frames


@pytest.fixture(scope="module")
def shar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen records of the mini corpus with contexts, at 22.05 kHz, three at 8 kHz, and a file of half a minute."""
    folder = tmp_path_factory.mktemp("shar")
    records = read_lines(MINI_CORPUS / "manifest_with_context.json")[::3]
    for record in records:
        for field in ("audio_filepath", "context_audio_filepath"):
            record[field] = str(MINI_CORPUS / record[field])
    for number, (seconds, rate) in enumerate(((1.0, 8000), (2.5, 8000), (0.3, 8000), (30.0, 16000))):
        write_audio(folder / f"{number}.wav", seconds, rate)
        records.append(records[number] | {"audio_filepath": f"{number}.wav", "duration": seconds})
    make(write_lines(folder / "m.json", records), folder / "shar", "--shard-size", 8)
    return folder / "shar"


def extend(
    shar: Path,
    out: Path,
    codec: ToyCodec,
    monkeypatch: pytest.MonkeyPatch,
    precision: str = "fp32",
    batch_duration: float = 20.0,
    **run: bool,
) -> Report:
    use_toy_codec(monkeypatch.setattr, lambda _: codec)
    engine = RunOptions(num_workers=1, **run)  # type: ignore[arg-type]
    options: dict[str, Any] = {
        "output_dir": out,
        "batch_duration": batch_duration,
        "precision": precision,
        "devices": "cpu",
    }
    return call_with(engine, extend_codec_codes, shar, "toy", codec_name="toy", **options)


def different_codes(one: Path, other: Path) -> tuple[int, int]:
    """How many codes differ, and how many there are; the names and shapes are equal."""
    different = total = 0
    for tar in sorted(one.rglob("*.tar")):
        for left, right in zip(read_codes(tar), read_codes(other / tar.relative_to(one)), strict=True):
            assert left.cut_id == right.cut_id
            assert left.codes is not None and right.codes is not None
            assert left.codes.shape == right.codes.shape
            different += int(np.count_nonzero(left.codes != right.codes))
            total += left.codes.size
    return different, total


@pytest.mark.slow
def test_mixed_batches_give_each_segment_its_own_codes(
    shar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = extend(shar, tmp_path / "alone", ToyCodec(), monkeypatch)
    monkeypatch.setattr(CodecOnDevice, "is_on_gpu", True)
    monkeypatch.setattr(encoding, "ROWS_COMPARED", 2)
    codec = MixingCodec()
    mixed = extend(shar, tmp_path / "mixed", codec, monkeypatch, "bf16")
    assert alone.records_out == mixed.records_out == 20
    assert mixed.details["codes_unlike_fp32"] > 0
    codes = mixed.details["codes_compared"]
    (num_rows, length), compared = codec.shapes[:2]
    assert num_rows > 2 and compared == (2, length), "two rows of the first batch, not all"
    codec = MixingCodec()
    extend(shar, tmp_path / "exact", codec, monkeypatch)
    different, total = different_codes(tmp_path / "alone", tmp_path / "exact")
    assert different <= total / 10_000
    assert 0 < codes < total
    # As many rows in each batch as fit into 20 s; only the file of 30 s is alone.
    assert all(rows == max(1, 20 * 16000 // length) for rows, length in codec.shapes)
    assert 1 in {rows for rows, _ in codec.shapes}
    assert len(codec.shapes) < 10


def test_a_batch_that_does_not_fit_is_divided_and_loses_nothing(
    shar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    extend(shar, tmp_path / "alone", ToyCodec(), monkeypatch)
    monkeypatch.setattr(CodecOnDevice, "is_on_gpu", True)
    codec = MixingCodec(max_samples=8 * 16000)
    report = extend(shar, tmp_path / "out", codec, monkeypatch)
    assert (report.records_out, report.rejects_by_reason) == (19, {"out_of_memory": 1})
    lines = read_lines(codes_workspace(tmp_path / "out", "toy").root / "rejects.jsonl")
    assert "not enough memory on cpu for the 30 s" in json.dumps(lines)
    before, after = (
        {
            stored.cut_id: stored.codes
            for tar in sorted((tmp_path / name).rglob("target_codes/*.tar"))
            for stored in read_codes(tar)
        }
        for name in ("alone", "out")
    )
    assert sum(codes is None for codes in after.values()) == 1
    assert all(np.array_equal(codes, before[id]) for id, codes in after.items() if codes is not None)  # type: ignore[arg-type]


def test_a_row_that_no_kernel_can_address_is_a_reject_before_it_is_decoded(
    shar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer with so many channels that 25 s of audio have 2^31 values; batches keep below it, too."""
    monkeypatch.setattr(CodecOnDevice, "is_on_gpu", True)
    codec = MixingCodec()
    codec.values_per_sample = 2**31 / (25 * 16000)
    report = extend(shar, tmp_path / "out", codec, monkeypatch, batch_duration=60.0)
    assert (report.records_out, report.rejects_by_reason) == (19, {"out_of_memory": 1})
    assert report.retry_with is not None and report.retry_with.endswith("--retry-rejects")
    (line,) = read_lines(codes_workspace(tmp_path / "out", "toy").root / "rejects.jsonl")
    detail = line["reject_detail"]
    assert "30 s are too long for a layer of the codec on a GPU, which can compute 25 s at once" in detail
    assert "--devices cpu --retry-rejects" in detail
    assert all(rows * length <= 25 * 16000 for rows, length in codec.shapes)
    assert max(rows * length for rows, length in codec.shapes) > 20 * 16000
    monkeypatch.setattr(CodecOnDevice, "is_on_gpu", False)
    again = extend(shar, tmp_path / "out", ToyCodec(), monkeypatch, batch_duration=60.0, retry_rejects=True)
    assert (again.records_out, again.rejects) == (20, 0)


def test_a_row_that_is_longer_than_a_batch_is_encoded_in_windows(
    shar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No kernel, and no memory, then limits how long a record may be."""
    extend(shar, tmp_path / "alone", ToyCodec(), monkeypatch)
    monkeypatch.setattr(CodecOnDevice, "is_on_gpu", True)
    codec = MixingCodec(max_samples=6 * 16000)
    codec.values_per_sample = 2**31 / (25 * 16000)
    codec.reach = 80  # type: ignore[attr-defined]
    report = extend(shar, tmp_path / "out", codec, monkeypatch, batch_duration=6.0)
    assert (report.records_out, report.rejects) == (20, 0)
    different, total = different_codes(tmp_path / "alone", tmp_path / "out")
    assert different <= total / 10_000
    assert sum(length >= 5 * 16000 for rows, length in codec.shapes if rows == 1) >= 5


def encode(
    codec: ToyCodec, shape: BatchShape, precision: Precision, *tensors: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return encode_rows(codec, precision, sys.maxsize, *move_rows(codec, shape, "cpu", *tensors))


def test_a_part_of_a_batch_gets_no_silent_rows() -> None:
    codec = MixingCodec()
    shape = BatchShape(16000, 8, 6, 4, mixes_lengths=True)
    rows, lengths, frames = torch.zeros(4, 900), torch.tensor([900, 800, 0, 640]), torch.tensor([6, 5, 5, 4])
    codes, found = encode(codec, shape, "fp32", rows, lengths, frames)
    assert (codes.shape, found.tolist()) == ((4, 4, 8), [6, 5, 5, 4])
    encode(codec, shape, "fp32", rows[:2], lengths[:2], frames[:2])
    alone = BatchShape(16000, 8, 6, 1, mixes_lengths=True)
    encode(codec, alone, "fp32", rows[:1], lengths[:1], frames[:1])
    assert codec.shapes == [(6, 1280), (2, 1280), (1, 1280)]


def test_nothing_is_behind_the_end_of_a_resampled_row() -> None:
    """A row within a longer batch is what it is alone: the filter writes beyond its end, within its last frame."""
    codec = MixingCodec()
    rows = torch.randn(2, 400, generator=torch.Generator().manual_seed(1))
    rows[1, 130:] = 0
    lengths, frames = torch.tensor([400, 130]), torch.tensor([5, 2])
    both, moved, _ = move_rows(codec, BatchShape(8000, 5, 2, 2, True), "cpu", rows, lengths, frames)
    assert moved.tolist() == [800, 260]
    assert not both[1, 260:].any()
    one, _, _ = move_rows(codec, BatchShape(8000, 2, 1, 1, True), "cpu", rows[1:, :130], lengths[1:], frames[1:])
    assert torch.allclose(both[1, :320], one[0], atol=1e-6)
    assert one[0, :260].any()


def test_audio_is_resampled_in_full_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the batch before has set: otherwise codes would depend on the order of batches."""
    seen: list[tuple[bool, str]] = []

    def resample(audio: torch.Tensor, from_rate: int, to_rate: int) -> torch.Tensor:
        seen.append((torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()))
        return torch.nn.functional.pad(audio, (0, audio.shape[1]))

    class LikeNemo(MixingCodec):
        def encode(
            self, audio: torch.Tensor, lengths: torch.Tensor, precision: Precision
        ) -> tuple[torch.Tensor, torch.Tensor]:
            devices.use_tf32() if precision == "tf32" else devices.use_full_float32()
            return super().encode(audio, lengths, precision)

    monkeypatch.setattr(encoding, "resample_sinc", resample)
    codec, shape = LikeNemo(), BatchShape(8000, 4, 2, 2, mixes_lengths=True)
    try:
        for precision in ("tf32", "tf32", "fp32"):
            tensors = torch.zeros(2, 320), torch.tensor([320, 100]), torch.tensor([4, 2])
            encode(codec, shape, precision, *tensors)
            assert torch.backends.cudnn.allow_tf32 == (precision == "tf32")
    finally:
        devices.use_full_float32()
    assert seen == [(False, "highest")] * 3


def test_jobs_with_a_model_ask_for_the_same_algorithms_in_every_run() -> None:
    """The flags that a GPU's convolutions obey."""
    before = torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic
    try:
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = True, False
        devices.use_same_algorithms()
        assert (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic) == (False, True)
    finally:
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = before
