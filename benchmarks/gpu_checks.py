"""The correctness steps of `gpu.py`: the GPU against the CPU, mixed batches against each row alone, and failures."""

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gpu_models import Command, Samples, codec_file, corpus, load_codec, load_speaker, mini_corpus
from gpu_report import Bench

from prepcli.commands.extend_codec_codes.encoding import BatchShape, move_rows
from prepcli.commands.extend_context_audio.bundle import Segments, select_contexts
from prepcli.models.devices import use_same_algorithms
from prepcli.models.protocols import Codec, Precision, SpeakerEncoder
from prepcli.models.running import ModelRunner
from prepcli.models.sinc import resample_sinc, resampled_length
from prepcli.models.widths import MAX_VALUES
from prepcli.models.windows import encode_in_windows

if TYPE_CHECKING:
    from torch import Tensor, dtype

CODES_DIFFER = 1e-3
"""Share of codes that may differ by float rounding. A random codec is more sensitive than a trained one: of a batch of
equal lengths and its rows alone, up to 4 of 10,000 codes differ on a CPU as well. In float64 none may."""


def encode_alone(
    codec: Codec, audio: list[Samples], device: str, precision: Precision = "fp32", dtype: "dtype | None" = None
) -> "list[Tensor]":
    """Codes (C, F) of each row by itself, on the CPU."""
    import torch

    found = []
    for samples in audio:
        row = torch.from_numpy(samples)[None].to(device, dtype)
        row = torch.nn.functional.pad(row, (0, -row.shape[1] % codec.samples_per_frame))
        lengths = torch.tensor([len(samples)], device="cpu" if getattr(codec, "mixes_lengths", False) else device)
        found.append(codec.encode(row, lengths, precision)[0][0].cpu())
    return found


def encode_mixed(
    codec: Codec, audio: list[Samples], device: str, precision: Precision = "fp32", dtype: "dtype | None" = None
) -> "list[Tensor]":
    """Codes (C, F) of each row of one mixed batch, on the CPU."""
    import torch

    lengths = torch.tensor([len(samples) for samples in audio])
    frames = -(-lengths // codec.samples_per_frame)
    batch = torch.zeros(len(audio), (int(frames.max()) + 3) * codec.samples_per_frame)
    for row, samples in enumerate(audio):
        batch[row, : len(samples)] = torch.from_numpy(samples)
    codes = codec.encode(batch.to(device, dtype), lengths, precision)[0].cpu()
    return [codes[row, :, :count] for row, count in enumerate(frames.tolist())]


def share(one: "list[Tensor]", other: "list[Tensor]", last: int | None = None) -> float:
    """The share of codes that differ: of all frames, or of those before or in the last ten (`last` 0 or 10)."""
    parts = {None: slice(None), 0: slice(0, -10), 10: slice(-10, None)}
    differ = [(a != b)[:, parts[last]] for a, b in zip(one, other, strict=True)]
    return sum(int(part.sum()) for part in differ) / max(1, sum(part.numel() for part in differ))


def codes(bench: Bench) -> None:
    """Codec: GPU against CPU, mixed batches against each row alone."""
    import torch

    audio = mini_corpus(22050, 4, 2.0) if bench.is_dry else mini_corpus(22050, 14)
    codec: Any = load_codec(bench, "cpu")
    use_same_algorithms()
    bench.check("NeMo's codec is run layer by layer", getattr(codec, "mixes_lengths", False))
    for dtype in (torch.float32, torch.float64):
        codec._model.to(dtype)
        codec.to("cpu")
        wanted = encode_alone(codec, audio, "cpu", dtype=dtype)
        codec.to(bench.device)
        alone, mixed = (encode(codec, audio, bench.device, dtype=dtype) for encode in (encode_alone, encode_mixed))
        for what, found, reference in (
            ("alone on the device against the CPU", alone, wanted),
            ("mixed against alone, on the device", mixed, alone),
        ):
            if dtype == torch.float64:  # rounding decides nothing here
                differ = share(found, reference)
                bench.check(f"codes differ in float64, {what}", differ == 0, differ, "", "0")
                continue
            differ, middle, end = (share(found, reference, last) for last in (None, 0, 10))
            bench.add(f"codes differ, {what}", differ)
            bench.add(f"in the last ten frames, {what}", end)
            bench.add(f"before them, {what}", middle)
        if dtype == torch.float32:
            bench.add("codes", sum(one.numel() for one in wanted))
            differ = share(mixed, encode_mixed(codec, audio, bench.device))
            bench.check("two runs are equal", differ == 0, differ, "differ", "0")


def precisions(bench: Bench) -> None:
    """Precision flags: float32 does not depend on what ran before."""
    audio = mini_corpus(22050, 2, 1.0) if bench.is_dry else mini_corpus(22050, 10)
    codec = load_codec(bench, bench.device)
    exact = encode_mixed(codec, audio, bench.device)
    for precision in ("tf32", "bf16"):
        found = encode_mixed(codec, audio, bench.device, precision)
        bench.add(f"codes differ from fp32, {precision}", share(found, exact))
        again = encode_mixed(codec, audio, bench.device)
        bench.check(
            f"fp32 after {precision} is as before", share(again, exact) == 0, share(again, exact), "differ", "0"
        )


def resampling(bench: Bench) -> None:
    """Resampling at 8, 16, 44.1 and 48 kHz after a batch in TF32: GPU against CPU."""
    import torch

    codec = load_codec(bench, bench.device)
    for rate in (8000, 16000, 44100, 48000):
        audio = torch.randn(2, rate // 2, generator=torch.Generator().manual_seed(rate)) / 10
        audio[1, rate // 3 :] = 0
        given = torch.tensor([rate // 2, rate // 3])
        frames = -(-resampled_length(given, rate, codec.sampling_rate) // codec.samples_per_frame)
        shape = BatchShape(rate, int(frames[0]), 2, 2, mixes_lengths=True)
        arguments = codec, shape, bench.device, audio, given, frames
        encode_mixed(codec, [np.zeros(9000, np.float32)] * 2, bench.device, "tf32")
        found, lengths, _ = move_rows(*arguments)
        wanted = resample_sinc(audio, rate, codec.sampling_rate)
        largest = max(
            float((one[:length].cpu() - other[:length]).abs().max())
            for one, other, length in zip(found, wanted, lengths.tolist(), strict=True)
        )
        bench.check(f"largest difference at {rate} Hz", largest <= 1e-6, largest, "", "<= 1e-6")


def embed(encoder: SpeakerEncoder, audio: list[Samples], device: str) -> "Tensor":
    """Embeddings (N, dim) of each row by itself, on the CPU."""
    import torch

    padded = encoder.padded_lengths(np.array([max(len(one), encoder.min_samples) for one in audio]))
    found = []
    for samples, length in zip(audio, padded.tolist(), strict=True):
        row = torch.zeros(1, length)
        row[0, : len(samples)] = torch.from_numpy(samples)
        lengths = torch.tensor([max(len(samples), encoder.min_samples)])
        found.append(encoder.embed(row.to(device), lengths.to(device)).cpu())
    return torch.cat(found)


def speakers(bench: Bench) -> None:
    """Speaker model: GPU against CPU, silence, the shortest row, and the selection."""
    import torch

    encoder = load_speaker(bench, "cpu")
    audio = mini_corpus(encoder.sampling_rate, 4 if bench.is_dry else 24)
    wanted = embed(encoder, audio, "cpu")
    encoder.to(bench.device)
    found = embed(encoder, audio, bench.device)
    furthest = float(1 - (found.double() * wanted.double()).sum(1).min())
    bench.check("largest distance of an embedding", furthest <= 1e-5, furthest, "", "<= 1e-5")
    silence, shortest = np.zeros(16000, np.float32), audio[0][2000 : 2000 + encoder.min_samples]
    bench.add("silence has an embedding", str(bool(torch.isfinite(embed(encoder, [silence], bench.device)).all())))
    good = bool(torch.isfinite(embed(encoder, [shortest], bench.device)).all())
    bench.check(f"the shortest row ({encoder.min_samples} samples) has an embedding", good)
    number = np.arange(len(audio))
    segments = Segments(number.astype(np.uint64), number.astype(np.float64), number.astype(np.float64) + 0.5)
    chosen = [
        select_contexts(one, np.ones(len(audio), bool), segments).best for one in (wanted, wanted.to(bench.device))
    ]
    bench.check("the same contexts are chosen", bool((chosen[0] == chosen[1]).all()))


def memory(bench: Bench) -> None:
    """Too little memory: a batch is divided, and no row is lost."""
    import torch

    codec = load_codec(bench, bench.device)
    step = codec.samples_per_frame
    lengths = torch.full((8,), 40 * step)
    audio = torch.randn(8, 40 * step, generator=torch.Generator().manual_seed(1)) / 10

    def model(rows: "Tensor", lengths: "Tensor") -> "tuple[Tensor, Tensor]":
        if bench.is_dry and len(rows) > 3:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return codec.encode(rows.to(bench.device), lengths, "fp32")

    wanted = torch.cat([codec.encode(row[None].to(bench.device), lengths[:1], "fp32")[0].cpu() for row in audio])
    total = 1
    if not bench.is_dry:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        codec.encode(audio.to(bench.device), lengths, "fp32")
        peak, total = torch.cuda.max_memory_reserved(), torch.cuda.get_device_properties(0).total_memory
        bench.add("memory of 1 s of audio", round(peak / 1e6 / (8 * 40 * step / codec.sampling_rate), 1), "MB")
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(0.6 * peak / total)
    try:
        with ModelRunner(bench.device, None if bench.is_dry else codec.rows_on_cpu, to_host=True) as runner:
            found = runner.run(model, audio, lengths).result()
    finally:
        if not bench.is_dry:
            torch.cuda.set_per_process_memory_fraction(1.0)
    bench.check("no row is lost", found.too_large == [] and len(found.tensors[0]) == 8)
    differ = float((found.tensors[0] != wanted).float().mean())
    bench.check("codes differ", differ <= CODES_DIFFER, differ, "", f"<= {CODES_DIFFER:g}")


def many_values(bench: Bench) -> None:
    """More than 2^31 values in a layer: a batch is divided, and a row is encoded in windows."""
    import torch

    codec = load_codec(bench, bench.device)
    step = codec.samples_per_frame
    frames = 40 if bench.is_dry else int(1.1 * MAX_VALUES / codec.values_per_sample / 8 / step)
    audio = torch.randn(8, frames * step, generator=torch.Generator().manual_seed(1)) / 10
    bench.add("values in the widest layer", 8 * frames * step * codec.values_per_sample / MAX_VALUES, "x 2^31")

    def model(rows: "Tensor", lengths: "Tensor") -> "tuple[Tensor, Tensor]":
        if bench.is_dry and len(rows) > 4:
            raise RuntimeError("input tensor must fit into 32-bit index math")
        return codec.encode(rows.to(bench.device), lengths, "fp32")

    with ModelRunner(bench.device, None, to_host=True) as runner:
        divided = runner.run(model, audio, torch.full((8,), frames * step)).result()
    bench.check("no row of the batch is lost", divided.too_large == [] and len(divided.tensors[0]) == 8)
    row, found = audio.view(1, -1).to(bench.device), []
    for seconds in (4, 5) if bench.is_dry else (120, 480):
        max_frames = int(seconds * codec.sampling_rate / step)
        found.append(encode_in_windows(codec, "fp32", row, 8 * frames, max_frames).cpu())
    differ = float((found[0] != found[1]).float().mean())
    what = "codes differ, windows of a row against longer windows"
    bench.check(what, differ <= CODES_DIFFER, differ, "", f"<= {CODES_DIFFER:g}")


def make_shar(bench: Bench) -> Path:
    """The Shar set that commands extend."""
    shar = bench.work / "shar"
    if not shar.exists():
        manifest = corpus(bench)
        size = 2 if bench.is_dry else 100
        Command(bench, "manifest-to-shar", manifest, shar, "--shard-size", size).checked()
    return shar


def extend(bench: Bench, out: Path, *more: object, forks: Path | None = None) -> Command:
    """`extend-codec-codes` over the Shar set into `out`; a unit has an hour."""
    shar, devices = make_shar(bench), "cpu" if bench.is_dry else "1"
    words: list[object] = ["--codec-model", codec_file(bench), "--codec-name", "x", "--devices", devices, *more]
    words += ["--pool-duration", 1 if bench.is_dry else 3600]
    return Command(bench, "extend-codec-codes", shar, "--output-dir", out, *words, forks=forks)


def stopping(bench: Bench) -> None:
    """SIGTERM and the same command again, against the same command in `codes_end_to_end`."""
    whole, stopped = bench.work / "codes", bench.work / "stopped"
    precision = ["--precision", "fp32" if bench.is_dry else "bf16"]
    command = extend(bench, stopped, *precision)

    def units_of(out: Path) -> int:
        return len(list((out.with_name(f"{out.name}.prepcli") / "codes_x").glob("*/units/*/unit.json")))

    while command.is_running and not units_of(stopped):
        time.sleep(0.01)
    if command.is_running:
        os.kill(command.pid, signal.SIGTERM)
    code = command.wait()
    bench.add("units when it was stopped", f"{units_of(stopped)} of {units_of(whole)}")
    bench.check("exit code after SIGTERM", code in ((0, 4) if bench.is_dry else (4,)), code, "", "4")
    extend(bench, stopped, *precision).checked()
    files = [{str(file.relative_to(out)): file.read_bytes() for file in out.rglob("*.tar")} for out in (whole, stopped)]
    bench.check("the output is identical", files[0] == files[1] and files[0] != {}, len(files[0]), "tars")
