"""`prepcli extend-context-audio`: its three costs, each compared with the simple method.

    python benchmarks/context.py                     # selection, padding, and how decoding hides behind a model
    python benchmarks/context.py --only selection --large 50000
    python benchmarks/context.py --only rows --speaker-model FILE.nemo    # one utterance at a time against batches

Selection: 10,000 utterances of 192 dimensions in one voice. The reference multiplies the full matrix, sorts every row
and takes the first utterance that fits; each runs in a process of its own, in turn, and must choose the same. Padding:
batches over log-normal durations (median 5.5 s, up to 20 s; no audio), against batches of neighbours in the order of
the manifest. Overlap: a corpus of noise in FLAC at 44.1 kHz through Resemblyzer's encoder on the processor: decoding
alone, the model alone, and the command with both.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from side_by_side import Contestant, print_table

COMMON = """
import sys, time, resource
import numpy as np, torch
from prepcli.commands.extend_context_audio.bundle import Segments
from prepcli.commands.extend_context_audio.bundle import select_contexts
count = int(sys.argv[1])
embeddings = torch.nn.functional.normalize(torch.randn(count, 192, generator=torch.Generator().manual_seed(0)), dim=1)
durations = np.random.default_rng(0).lognormal(1.7, 0.6, count)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
"""
REPORT = """
seconds = time.perf_counter() - start
extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
print(f"{seconds} {extra} {hash(tuple(best))}")
"""
SORTED = """
similarities, order = torch.sort(embeddings @ embeddings.T, dim=1, descending=True)
order, best = order.numpy(), []
for row in range(count):
    best.append(next((int(j) for j in order[row] if j != row and durations[j] >= 3.0), -1))
"""
OURS = """
segments = Segments(np.arange(count, dtype=np.uint64), np.zeros(count), np.zeros(count))
best = select_contexts(embeddings, durations >= 3.0, segments).best.tolist()
"""


def selection(count: int, large: int, runs: int) -> None:
    ours = Contestant("chunks of rows, masked argmax", [sys.executable, "-c", COMMON + OURS + REPORT, str(count)])
    plain = Contestant("full matrix, sort, loop", [sys.executable, "-c", COMMON + SORTED + REPORT, str(count)])
    figures: dict[str, list[list[float]]] = {ours.name: [], plain.name: []}
    choices = set()
    for _ in range(runs):
        for one in (ours, plain):
            one.run()
            seconds, extra, choice = one.output.split()
            figures[one.name].append([float(seconds), float(extra)])
            choices.add(choice)
    print(f"selection among {count:,} utterances of 192 dimensions; whole processes, then the selection alone")
    print_table([ours, plain], ours)
    alone = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in figures.items()}
    for name, (seconds, extra) in alone.items():
        print(f"  {name:<44} {seconds:7.2f} s, {extra:6.0f} MB more than before")
    ratio, memory = (alone[plain.name][k] / max(alone[ours.name][k], 1e-9) for k in (0, 1))
    if len(choices) > 1:
        raise SystemExit("the choices differ")
    print(f"  {ratio:.1f} x as fast in 1/{memory:.0f} of the memory, the same choice")
    if large:
        big = Contestant("", [sys.executable, "-c", COMMON + OURS + REPORT, str(large)])
        big.run()
        seconds, extra, _ = big.output.split()
        print(f"  among {large:,}: {float(seconds):.1f} s, {float(extra):.0f} MB (the full matrix: 40 GB at 50,000)")


def padding(hours: float, batch_seconds: float) -> None:
    """The plan alone: bundles as the command makes them, on the grid of NeMo's models and on Resemblyzer's."""
    from prepcli.commands.extend_context_audio.plan import BUNDLE_SECONDS
    from prepcli.models.batches import equal_length_batches
    from prepcli.models.resemblyzer import ResemblyzerEncoder

    rng = np.random.default_rng(0)
    durations = np.clip(rng.lognormal(1.7, 0.6, int(hours * 3600 / 6.3)), 0.6, 20)
    num_samples = np.rint(durations * 16000).astype(np.int64)
    frames = num_samples // 160 + 1
    lengths = {
        "NeMo's grid of 16 frames": -(-frames // 16) * 16 * 160 - 1,
        "Resemblyzer's partials": ResemblyzerEncoder.padded_lengths(
            ResemblyzerEncoder.__new__(ResemblyzerEncoder), num_samples
        ),
    }
    print(f"padding over {durations.sum() / 3600:.0f} h, batches of {batch_seconds:g} s at most, bundles of 12 h")
    bundle = (np.cumsum(durations) / BUNDLE_SECONDS).astype(int)
    for name, place in lengths.items():
        batches = [
            place[members][batch].sum()
            for members in (np.flatnonzero(bundle == number) for number in range(bundle[-1] + 1))
            for batch in equal_length_batches(place[members], int(batch_seconds * 16000))
        ]
        share = 1 - num_samples.sum() / place.sum()
        print(f"  {name:<26} {share:6.2%} padding, mean batch {np.mean(batches) / 16000:.0f} s")
    whole = int(batch_seconds / durations.mean())
    rows = num_samples[: len(num_samples) // whole * whole].reshape(-1, whole)
    print(f"  {'neighbours, padded':<26} {1 - rows.sum() / (rows.max(1) * whole).sum():6.2%} padding")


def overlap(folder: Path, runs: int) -> None:
    """Seconds for the same corpus: decoding alone, the model alone, both."""
    import json

    import soundfile
    import torch

    from prepcli.engine.state.workspace import Workspace
    from prepcli.jobs.prefetch import Batch, DecodingPool, SegmentDecoder
    from prepcli.jobs.records import Records
    from prepcli.models.batches import equal_length_batches
    from prepcli.models.running import ModelRunner
    from prepcli.models.speakers import load_speaker_encoder

    rng = np.random.default_rng(0)
    durations = np.round(np.clip(rng.lognormal(1.7, 0.6, 200), 1, 20), 2)
    lines = []
    for number, duration in enumerate(durations):
        soundfile.write(folder / f"{number}.flac", rng.normal(0, 0.05, round(duration * 44100)), 44100)
        lines.append(json.dumps({"audio_filepath": f"{number}.flac", "duration": duration}) + "\n")
    (folder / "m.json").write_text("".join(lines))
    records = Records([str(folder / "m.json")])
    encoder = load_speaker_encoder("resemblyzer")
    lengths = encoder.padded_lengths(np.rint(durations * 16000).astype(np.int64))
    most = 60 * 16000
    batches = [Batch(tuple(batch.tolist()), int(lengths[batch[0]])) for batch in equal_length_batches(lengths, most)]

    def decode(with_model: bool) -> float:
        start = time.perf_counter()
        decoder = SegmentDecoder(records, 16000, encoder.min_samples)
        pool = DecodingPool(decoder, most, 2, Workspace(folder / "out"))
        with ModelRunner("cpu", encoder.rows_on_cpu) as runner, pool as workers:
            running = []
            for decoded in workers.decoded(iter(batches), lambda: None):
                if with_model:
                    lengths = torch.from_numpy(np.maximum(decoded.lengths, 400))
                    running.append(runner.run(encoder.embed, torch.from_numpy(decoded.audio), lengths))
            for one in running:
                one.result()
        return time.perf_counter() - start

    def model() -> float:
        start = time.perf_counter()
        with ModelRunner("cpu", encoder.rows_on_cpu) as runner:
            running = []
            for batch in batches:
                shape = (len(batch.items), batch.num_samples)
                lengths = torch.full(shape[:1], batch.num_samples)
                running.append(runner.run(encoder.embed, torch.randn(shape) * 0.05, lengths))
            for one in running:
                one.result()
        return time.perf_counter() - start

    taken = [(decode(False), model(), decode(True)) for _ in range(runs)]
    alone, embedding, both = (statistics.median(column) for column in zip(*taken, strict=True))
    seconds = durations.sum()
    print(f"overlap on the processor: {seconds / 60:.0f} min at 44.1 kHz, {torch.get_num_threads()} threads, 2 workers")
    print(f"  decoding and resampling alone {alone:6.2f} s ({seconds / alone:,.0f} x real time)")
    print(f"  the model alone               {embedding:6.2f} s ({seconds / embedding:,.0f} x real time)")
    print(
        f"  both                          {both:6.2f} s: the slower alone is {max(alone, embedding) / both:.0%} of it"
    )


def rows(name: str, runs: int) -> None:
    """NeMo's model on the processor: whole batches on all threads, against an utterance on each thread."""
    import torch

    from prepcli.models.nemo import load_nemo
    from prepcli.models.nemo_speaker import MODEL_CLASS
    from prepcli.models.running import ModelRunner

    model = load_nemo(MODEL_CLASS, name, "--speaker-model")

    def embed(audio: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            lengths = torch.full((len(audio),), audio.shape[1])
            found: tuple[torch.Tensor, torch.Tensor] = model.forward(input_signal=audio, input_signal_length=lengths)
            return found[1]

    def batched(audio: torch.Tensor) -> float:
        start = time.perf_counter()
        embed(audio)
        return time.perf_counter() - start

    def row_by_row(audio: torch.Tensor) -> float:
        start = time.perf_counter()
        with ModelRunner("cpu", 1) as runner:
            runner.run(embed, audio).result()
        return time.perf_counter() - start

    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters on {torch.get_num_threads()} threads")
    for seconds in (2, 5, 12):
        audio = torch.randn(60 // seconds, seconds * 16000) * 0.05
        taken = [(batched(audio), row_by_row(audio)) for _ in range(runs + 1)][1:]
        batch, one = (statistics.median(column) for column in zip(*taken, strict=True))
        print(f"  {len(audio):>3} of {seconds:>2} s: batch {60 / batch:,.0f} x real time, one by one {60 / one:,.0f} x")


def main() -> None:
    import os

    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command does
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["selection", "padding", "overlap", "rows"])
    parser.add_argument("--speaker-model", help="for `rows`: a pretrained name or a .nemo file")
    parser.add_argument("--utterances", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=0, help="also select among so many, without the reference")
    parser.add_argument("--hours", type=float, default=200)
    parser.add_argument("--batch-duration", type=float, default=120)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    if options.only in (None, "selection"):
        selection(options.utterances, options.large, options.runs)
    if options.only in (None, "padding"):
        padding(options.hours, options.batch_duration)
    if options.only == "rows":
        rows(options.speaker_model, options.runs)
    if options.only in (None, "overlap"):
        with tempfile.TemporaryDirectory(prefix="prepcli-bench-") as folder:
            overlap(Path(folder), options.runs)


if __name__ == "__main__":
    main()
