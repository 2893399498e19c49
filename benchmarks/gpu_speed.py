"""The speed steps of `gpu.py`: the encoder alone, NeMo's own, new shapes, what a batch launches, and both commands."""

import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gpu_checks import extend
from gpu_models import Command, codec_file, corpus, load_codec, load_speaker, speaker_file
from gpu_report import Bench

from prepcli.commands.extend_codec_codes.encoding import BatchShape, encode_rows, move_rows
from prepcli.models.batches import equal_length_batches, full_batches
from prepcli.models.devices import use_full_float32, use_tf32
from prepcli.models.protocols import Codec, Precision
from prepcli.models.running import ModelRunner

if TYPE_CHECKING:
    from torch import Tensor

PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "bf16")
BATCH_SECONDS = 120.0


def wait_for(bench: Bench) -> None:
    """Wait until the device is idle."""
    if not bench.is_dry:
        import torch

        torch.cuda.synchronize()


def timed(bench: Bench, call: Callable[[], object], times: int = 5) -> float:
    """Seconds of a call: the mean of `times` calls that follow each other, after one that prepares the shapes."""
    call()
    wait_for(bench)
    begun = time.perf_counter()
    for _ in range(1 if bench.is_dry else times):
        call()
    wait_for(bench)
    return (time.perf_counter() - begun) / (1 if bench.is_dry else times)


def batch_of(bench: Bench, codec: Codec, seconds: float, rows: int = 1) -> "tuple[Tensor, Tensor]":
    """Noise on the device, and its lengths on the CPU."""
    import torch

    frames = max(20, int(seconds * codec.sampling_rate / codec.samples_per_frame))
    audio = torch.randn(rows, frames * codec.samples_per_frame, device=bench.device) / 10
    return audio, torch.full((rows,), audio.shape[1])


def nemos_codec(bench: Bench) -> Any:
    """NeMo's codec as NeMo loads it, on the device."""
    from prepcli.models.nemo import load_nemo

    return load_nemo("AudioCodecModel", str(codec_file(bench)), "--codec-model", collection="tts").to(bench.device)


def encode_by_nemo(model: Any, audio: "Tensor", lengths: "Tensor", precision: Precision) -> None:
    """NeMo's own `encode`, in a precision; of bf16 the codes mean nothing, as the quantizer is computed in it too."""
    import torch

    use_tf32() if precision == "tf32" else use_full_float32()
    with torch.inference_mode(), torch.autocast(audio.device.type, torch.bfloat16, enabled=precision == "bf16"):
        model.encode(audio=audio, audio_len=lengths)


def encoder(bench: Bench) -> None:
    """The encoder alone against NeMo's own, in batches of 6, 24 and 120 s."""
    codec, model = load_codec(bench, bench.device), nemos_codec(bench)
    wanted = {"fp32": 1.5, "bf16": 2.5}
    for total in (1,) if bench.is_dry else (6, 24, 120):
        rows = max(1, total // 6)
        audio, lengths = batch_of(bench, codec, total / rows, rows)
        on_device = lengths.to(bench.device)
        nemo_fp32 = 0.0
        for precision in PRECISIONS:
            ours = timed(bench, partial(codec.encode, audio, lengths, precision))
            theirs = timed(bench, partial(encode_by_nemo, model, audio, on_device, precision))
            nemo_fp32 = nemo_fp32 or theirs
            bench.add(f"{precision}, {total} s", round(audio.numel() / codec.sampling_rate / ours), "x real time")
            bench.add(f"{precision}, {total} s: NeMo's encode takes", round(theirs / ours, 2), "x")
            if total in (1, 120) and precision in wanted:
                what = f"{precision}, {total} s: NeMo's encode in fp32 takes"
                bench.judge_speed(what, nemo_fp32 / ours, wanted[precision])


def shapes(bench: Bench) -> None:
    """New shapes against repeated ones, and mixed lengths against equal ones."""
    codec = load_codec(bench, bench.device)
    first: list[float] = []
    second: list[float] = []
    for number in range(2 if bench.is_dry else 8):
        audio, lengths = batch_of(bench, codec, (0.5 if bench.is_dry else 3.1) + number / 7, 1 if bench.is_dry else 16)
        for found in (first, second):
            wait_for(bench)
            begun = time.perf_counter()
            codec.encode(audio, lengths, "fp32")
            wait_for(bench)
            found.append(time.perf_counter() - begun)
    bench.add("a batch of a new shape", round(1000 * float(np.median(first)), 1), "ms")
    bench.add("the same shape again", round(1000 * float(np.median(second)), 1), "ms")
    equal = timed(bench, lambda: codec.encode(audio, lengths, "fp32"))
    lengths[::2] -= 5 * codec.samples_per_frame
    mixed = timed(bench, lambda: codec.encode(audio, lengths, "fp32"))
    bench.add("mixed lengths take", round(mixed / equal, 3), "x as long as equal ones")
    frames = (np.random.default_rng(3).lognormal(4.7, 0.6, 1100)).astype(np.int64) + 1
    bench.add("shapes of a pool of two hours, mixed", len({shape[1:] for shape in full_batches(frames, 2580)}))
    equal_shapes = {(len(one), int(frames[one[0]])) for one in equal_length_batches(frames, 2580)}
    bench.add("shapes of a pool of two hours, equal lengths", len(equal_shapes))


def launches(bench: Bench) -> None:
    """What a batch launches, and where it waits for the device."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    codec, model = load_codec(bench, bench.device), nemos_codec(bench)
    audio, lengths = batch_of(bench, codec, 1 if bench.is_dry else 6, 1 if bench.is_dry else 20)
    on_device = lengths.to(bench.device)
    for what, call in (
        ("prepcli", lambda: codec.encode(audio, lengths, "fp32")),
        ("NeMo's encode", lambda: encode_by_nemo(model, audio, on_device, "fp32")),
    ):
        call()
        activities = [ProfilerActivity.CPU] + ([] if bench.is_dry else [ProfilerActivity.CUDA])
        with torch.inference_mode(), profile(activities=activities) as profiler:
            call()
            wait_for(bench)
        events = profiler.events() or []
        name = "cudaLaunchKernel" if not bench.is_dry else "aten::"
        bench.add(f"{what}: operations" if bench.is_dry else f"{what}: kernels", sum(name in e.name for e in events))
        if not bench.is_dry:
            busy = sum(event.self_device_time_total for event in profiler.key_averages())
            bench.add(f"{what}: time of kernels", round(busy / 1000, 2), "ms")
    if not bench.is_dry:
        bench.check("synchronizations of a batch", (found := synchronizations(codec, audio.cpu(), lengths)) == 0, found)


def synchronizations(codec: Codec, audio: "Tensor", lengths: "Tensor") -> int:
    """How often Python waits for the device between two batches of a run."""
    import torch

    lengths = lengths.clone()
    lengths[::2] -= 5 * codec.samples_per_frame
    frames = lengths // codec.samples_per_frame
    shape = BatchShape(codec.sampling_rate, int(frames.max()), len(audio), len(audio), mixes_lengths=True)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught, ModelRunner("cuda:0", None, to_host=True) as runner:
            warnings.simplefilter("always")
            move = partial(move_rows, codec, shape, "cuda:0")
            running = runner.run(partial(encode_rows, codec, "fp32"), audio, lengths, frames, prepare=move)
            count = len(caught)
            running.result()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return count


def codes_alone(bench: Bench, precision: Precision) -> float:
    """Seconds of true audio per second of the encoder, on the batches of the hour that the command encodes."""
    codec = load_codec(bench, bench.device)
    lines = corpus(bench).read_text().splitlines()
    durations = np.array([json.loads(line)["duration"] for line in lines])
    frames = np.ceil(durations * codec.sampling_rate / codec.samples_per_frame).astype(np.int64)
    limit = int((4.0 if bench.is_dry else BATCH_SECONDS) * codec.sampling_rate) // codec.samples_per_frame
    batches = full_batches(frames, limit)
    step = codec.samples_per_frame
    rows = {
        (count, length): batch_of(bench, codec, (length + 0.5) * step / codec.sampling_rate, count)
        for _, count, length in batches
    }

    def all_batches() -> None:
        for _, count, length in batches:
            codec.encode(*rows[count, length], precision)

    return float(durations.sum()) / timed(bench, all_batches, 1)


def codes_end_to_end(bench: Bench) -> None:
    """extend-codec-codes over an hour of FLAC against the encoder alone."""
    for precision in ("fp32",) if bench.is_dry else ("fp32", "bf16"):
        out = bench.out / f"speed_{precision}"
        extend(bench, out, "--precision", precision, "--batch-duration", 4 if bench.is_dry else BATCH_SECONDS).checked()
        alone = codes_alone(bench, precision)  # type: ignore[arg-type]
        show_report(bench, out.with_name(out.name + ".prepcli") / "codes_x/report.json", alone, 0.85, precision)


def contexts_end_to_end(bench: Bench) -> None:
    """extend-context-audio over an hour of FLAC against the speaker model alone."""
    import torch

    model = load_speaker(bench, bench.device)
    manifest, out = corpus(bench), bench.out / "speed_contexts"
    devices = "cpu" if bench.is_dry else "1"
    words = ["--speaker-model", speaker_file(bench), "--devices", devices, "--max-rejects", 0.99]
    Command(bench, "extend-context-audio", manifest, out, *words, "--context-min-ssim", -1).checked()
    durations = np.array([json.loads(line)["duration"] for line in manifest.read_text().splitlines()])
    padded = model.padded_lengths((durations * model.sampling_rate).astype(np.int64))
    batches = equal_length_batches(padded, int(BATCH_SECONDS * model.sampling_rate))
    rows = [torch.randn(len(one), int(padded[one[0]]), device=bench.device) / 10 for one in batches]

    def all_batches() -> None:
        for row in rows[: 2 if bench.is_dry else None]:
            model.embed(row, torch.full((len(row),), row.shape[1] - 100, device=row.device))

    alone = float(durations.sum()) / timed(bench, all_batches, 1)
    show_report(bench, out.with_name(out.name + ".prepcli") / "report.json", alone, 0.8, "embeddings")


def show_report(bench: Bench, report: Path, alone: float, at_least: float, what: str) -> None:
    """What a command reports of itself, beside the model alone."""
    details = json.loads(report.read_text())["details"]
    speed = float(details["real_time_factor"])
    bench.add(f"{what}: the model alone", round(alone), "x real time")
    bench.add(f"{what}: the command", speed, "x real time")
    bench.add(f"{what}: waited for audio", float(details["waited_for_audio"]), "of the time")
    bench.judge_speed(f"{what}: share of the model alone", speed / alone, at_least, "")
