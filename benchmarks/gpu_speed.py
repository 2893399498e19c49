"""The speed steps of `gpu.py`: the encoder alone, NeMo's own, new shapes, what a batch launches, and both commands."""

import json
import os
import sys
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

from prepcli.commands.exports.mels.spectrogram import MelForm, MelSpectrogram
from prepcli.commands.extend_codec_codes.encoding import BatchShape, encode_rows, move_rows
from prepcli.commands.extend_context_audio.job import BATCH_SECONDS as BATCH_SECONDS_OF
from prepcli.jobs.model_job import WAITED, WALL
from prepcli.models.batches import equal_length_batches, full_batches
from prepcli.models.devices import use_full_float32, use_tf32
from prepcli.models.protocols import Codec, Precision
from prepcli.models.running import ModelRunner

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "bf16")
BATCH_SECONDS = 120.0
KERNELS_SHOWN = 40


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
    """The encoder alone against NeMo's own, in batches of 6 and 120 s."""
    codec, model = load_codec(bench, bench.device), nemos_codec(bench)
    wanted = {"fp32": 1.3, "bf16": 2.5}
    for total in (1,) if bench.is_dry else (6, 120):
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
    """What a batch launches, its longest kernels, and where it waits for the device."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    codec, model = load_codec(bench, bench.device), nemos_codec(bench)
    audio, lengths = batch_of(bench, codec, 1 if bench.is_dry else 6, 1 if bench.is_dry else 20)
    on_device = lengths.to(bench.device)
    activities = [ProfilerActivity.CPU] + ([] if bench.is_dry else [ProfilerActivity.CUDA])
    for what, call in (
        ("prepcli, fp32", lambda: codec.encode(audio, lengths, "fp32")),
        ("prepcli, bf16", lambda: codec.encode(audio, lengths, "bf16")),
        ("NeMo's encode, fp32", lambda: encode_by_nemo(model, audio, on_device, "fp32")),
    ):
        call()
        with torch.inference_mode(), profile(activities=activities) as profiler:
            call()
            wait_for(bench)
        kernels = kernels_of(profiler, "CPU" if bench.is_dry else "CUDA")
        bench.kernels[what] = kernels[:KERNELS_SHOWN]
        bench.add(f"{what}: kernels", sum(count for _, count, _ in kernels))
        bench.add(f"{what}: time of kernels", round(sum(ms for *_, ms in kernels), 2), "ms")
    if not bench.is_dry:
        bench.check("synchronizations of a batch", (found := synchronizations(codec, audio.cpu(), lengths)) == 0, found)


def kernels_of(profiler: Any, device: str) -> list[tuple[str, int, float]]:
    """Name, number and milliseconds of each kernel, the longest first.

    A kernel is an event of its own on the device. `key_averages` would also count it at the operator that launched it.
    """
    found: dict[str, list[float]] = {}
    for event in profiler.events():
        if event.device_type.name == device:
            found.setdefault(event.name, []).append(event.time_range.elapsed_us() / 1000)
    rows = [(name, len(times), round(sum(times), 3)) for name, times in found.items()]
    return sorted(rows, key=lambda row: -row[2])


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
            encode = partial(encode_rows, codec, "fp32", sys.maxsize)
            running = runner.run(encode, audio, lengths, frames, prepare=move)
            count = len(caught)
            running.result()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return count


def durations_of(bench: Bench) -> "NDArray[np.float64]":
    """Seconds of the records of the corpus's first hour."""
    durations = np.array([json.loads(line)["duration"] for line in corpus(bench).read_text().splitlines()])
    found: NDArray[np.float64] = durations[np.cumsum(durations) <= 3600]
    return found


def codes_alone(bench: Bench, precision: Precision) -> float:
    """Seconds of true audio per second of the encoder, on the batches of an hour as the command encodes it."""
    codec, durations = load_codec(bench, bench.device), durations_of(bench)
    step = codec.samples_per_frame
    frames = np.ceil(durations * codec.sampling_rate / step).astype(np.int64)
    limit = int((4.0 if bench.is_dry else BATCH_SECONDS) * codec.sampling_rate) // step
    batches = full_batches(frames, limit)
    rows = {
        (count, length): batch_of(bench, codec, (length + 0.5) * step / codec.sampling_rate, count)
        for _, count, length in batches
    }

    def all_batches() -> None:
        for _, count, length in batches:
            codec.encode(*rows[count, length], precision)

    return float(durations.sum()) / timed(bench, all_batches, 1)


def codes_end_to_end(bench: Bench) -> None:
    """extend-codec-codes over hours of FLAC, half at 44.1 kHz, against the encoder alone; what workers inherit."""
    forks = bench.work / "forks.txt"
    for precision in ("fp32",) if bench.is_dry else ("fp32", "bf16"):
        out = bench.work / ("codes" if bench.is_dry or precision == "bf16" else "codes_fp32")
        extend(bench, out, "--precision", precision, forks=forks).checked()
        alone = codes_alone(bench, precision)  # type: ignore[arg-type]
        state = out.with_name(out.name + ".prepcli") / "codes_x"
        show_speed(bench, state, ("encoded_seconds",), alone, 0.9, precision)
        details = json.loads((state / "report.json").read_text())["details"]
        if precision != "fp32":
            bench.add(f"{precision}: codes differ from fp32", details["codes_unlike_fp32"])
    noted = forks.read_text()
    bench.check("workers that inherit CUDA", "2" not in noted and noted != "", f"{noted.count('2')} of {len(noted)}")
    bench.add("workers that inherit /dev/nvidia*, opened by NeMo's import", f"{noted.count('1')} of {len(noted)}")


def contexts_end_to_end(bench: Bench) -> None:
    """extend-context-audio over hours of FLAC against the speaker model alone; twice the same contexts."""
    import torch

    outs = [bench.work / f"contexts{number}" for number in range(1 if bench.is_dry else 2)]
    words = ["--speaker-model", speaker_file(bench), "--devices", "cpu" if bench.is_dry else "1", "--max-rejects", 0.99]
    words += ["--context-min-ssim", -1, "--context-min-duration", 1]
    for out in outs:
        Command(bench, "extend-context-audio", corpus(bench), out, *words).checked()
    manifests = [sorted(out.glob("*.json"))[0].read_bytes() for out in outs]
    bench.check("records have contexts", manifests[0].count(b"\n") > 0, manifests[0].count(b"\n"), "records")
    bench.check("two runs are identical", len(set(manifests)) == 1)
    model, durations = load_speaker(bench, bench.device), durations_of(bench)
    padded = model.padded_lengths((durations * model.sampling_rate).astype(np.int64))
    seconds = BATCH_SECONDS_OF["cpu" if bench.is_dry else "cuda"]
    batches = equal_length_batches(padded, int(seconds * model.sampling_rate))
    rows = [torch.randn(len(one), int(padded[one[0]]), device=bench.device) / 10 for one in batches]

    def all_batches() -> None:
        for row in rows[: 2 if bench.is_dry else None]:
            model.embed(row, torch.full((len(row),), row.shape[1] - 100, device=row.device))

    alone = float(durations.sum()) / timed(bench, all_batches, 1)
    state = outs[0].with_name(outs[0].name + ".prepcli")
    show_speed(bench, state, ("computed_seconds", "padded_seconds"), alone, 0.8, "embeddings")


def show_speed(bench: Bench, state: Path, keys: tuple[str, ...], alone: float, at_least: float, what: str) -> None:
    """The speed of a command in all units but the first, against the model alone.

    Args:
        bench: the figures.
        state: the folder of the state of its run.
        keys: the count of seconds computed in each unit, and that of the padding among them.
        alone: x real time of the model.
        at_least: the share that is wanted.
        what: name in the figures.
    """
    markers = [json.loads(path.read_text()) for path in sorted(state.glob("*/units/*/unit.json"), key=os.path.getmtime)]
    units = [marker["extra"] for marker in markers if WALL in marker["extra"]]  # but for what finishes the run
    counted = units[0 if bench.is_dry else 1 :]
    computed, *padded = (sum(extra[key] for extra in counted) for key in keys)
    wall, waited = (sum(extra[key] for extra in counted) for key in (WALL, WAITED))
    speed = (computed - sum(padded)) / wall
    bench.add(f"{what}: units counted", f"{len(counted)} of {len(units)}")
    bench.add(f"{what}: the model alone", round(alone), "x real time")
    bench.add(f"{what}: the command", round(speed), "x real time")
    bench.add(f"{what}: waited for audio", round(waited / wall, 3), "of the time")
    bench.judge_speed(f"{what}: share of the model alone", speed / alone, at_least, "")


def mels_end_to_end(bench: Bench) -> None:
    """manifest-to-mels on a GPU against all cores: the same mels, and which is faster."""
    import torch

    took: dict[str, float] = {}
    for device in ("cpu",) if bench.is_dry else ("cpu", "1"):
        begun = time.perf_counter()
        Command(bench, "manifest-to-mels", corpus(bench), bench.work / f"mels_{device}", "--devices", device).checked()
        took[device] = time.perf_counter() - begun
        bench.add(f"--devices {device}", round(took[device], 2), "s")
    names = [path.name for path in sorted((bench.work / "mels_cpu/mels").iterdir())[::20]]
    spectrogram = MelSpectrogram(MelForm())
    spectrogram.to(bench.device)
    clips = [torch.randn(9000 + 700 * row, generator=torch.Generator().manual_seed(row)) / 10 for row in range(32)]
    batch = torch.nn.utils.rnn.pad_sequence(clips, batch_first=True).to(bench.device)
    lengths = torch.tensor([len(clip) for clip in clips], device=bench.device)
    together = timed(bench, lambda: spectrogram.of_batch(batch, lengths))
    one_by_one = timed(bench, lambda: [spectrogram(row) for row in batch])
    bench.add("one by one takes", round(one_by_one / together, 2), "x as long as a batch of 32 clips")
    if not bench.is_dry:
        pairs = [[torch.load(bench.work / f"mels_{device}/mels" / name) for device in took] for name in names]
        furthest = max(float((one - other).abs().max()) for one, other in pairs)
        bench.check("largest difference of a mel", furthest <= 1e-3, furthest, "", "<= 1e-3")
        bench.judge_speed("all cores take", took["cpu"] / took["1"], 1.1)
