"""The result of a search: bins and batch sizes for a training config, and a table with the steps of each bucket."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from prepcli.commands.estimate_batch_sizes.buckets import Bound, duration_of, final_bins, shown, tokens_of
from prepcli.commands.estimate_batch_sizes.search import BucketResults, DeviceFacts, Outcome, peak_of
from prepcli.commands.estimate_batch_sizes.settings import SearchSettings
from prepcli.errors import option
from prepcli.interface.printing import number_of, printable

Floats = npt.NDArray[np.float64]

GIB = 2**30
BUFFER_SIZE = 10_000
"""The default of `bucket_buffer_size` in NeMo's loader."""
_SHOWN = 3


def make_result(
    bounds: Sequence[Bound],
    results: Sequence[BucketResults],
    nemo_steps: int,
    facts: DeviceFacts,
    longest: float | None,
    settings: SearchSettings,
    durations: Floats | None,
) -> dict[str, Any]:
    """The result of a search as JSON values: bins, batch sizes, steps of each bucket, and `advice` for the user.

    `results`: the results for each of `bounds`. `nemo_steps`: number of training steps that NeMo's script would make.
    `longest`: the longest duration in seconds that fits; None if all buckets fit, or are two-dimensional. `durations`:
    the seconds of each record of the data that a config of the options names; None if there are no such data.
    """
    sizes = [bucket.size for bucket in results]
    bins = final_bins(bounds, sizes)
    outcomes = Counter(step.outcome for bucket in results for step in bucket.steps)
    notes = [*_unfit(bounds, sizes, longest), *_odd(outcomes), *_large(bins, durations)]
    if settings.buckets is None and settings.buckets_from is None:
        notes.append(
            "the buckets are NeMo's default ones; estimate-bins chooses those of your data "
            f"({option('--buckets-from')})"
        )
    if settings.is_estimate:
        notes.append(
            f"every number is an estimate for {facts.memory / GIB:.1f} GiB: the bytes of tensors in small steps on a "
            "CPU, extrapolated. Kernels of a GPU may need other memory, and fragmentation and CUDA itself need more; "
            "measure on the GPU before a long training"
        )
    return {
        "bucket_duration_bins": [list(bound) if isinstance(bound, tuple) else bound for bound, _ in bins],
        "bucket_batch_size": [size for _, size in bins],
        "max_duration": duration_of(bins[-1][0]) if bins else None,
        "max_tps": _max_tps(bins[-1][0], settings.ratio) if bins else None,
        "device": facts.device,
        "model": facts.model,
        "memory": facts.memory,
        "limit": facts.limit,
        "is_estimate": settings.is_estimate,
        "buckets": [_row(bound, bucket) for bound, bucket in zip(bounds, results, strict=True)],
        "steps": outcomes.total(),
        "steps_of_nemo": nemo_steps,
        "longest_duration": longest,
        "advice": notes,
    }


def _max_tps(longest: Bound, ratio: float) -> float:
    """The value of NeMo's `max_tps`: output tokens per second of audio in the trial batches of the longest bucket."""
    tokens = tokens_of(longest)
    return ratio if tokens is None else tokens / duration_of(longest)


def _row(bound: Bound, bucket: BucketResults) -> dict[str, Any]:
    steps = sorted(bucket.steps, key=lambda step: step.size)
    measured = [(step.size, step.peak) for step in steps if step.outcome == "fits"]
    failed = [(step.size, step.outcome) for step in steps if step.outcome != "fits"]
    peak = dict(measured).get(bucket.size)
    return {
        "duration": duration_of(bound),
        "tokens": tokens_of(bound),
        "batch_size": bucket.size,
        "is_estimate": bool(bucket.lines),
        "lines": bucket.lines,
        "peak": peak_of(bucket.lines, bucket.size) if bucket.lines and bucket.size else peak,
        "measured": measured,
    } | ({} if bucket.lines else {"failed": failed})


def _unfit(bounds: Sequence[Bound], sizes: Sequence[int], longest: float | None) -> list[str]:
    unfit = [shown(bound) for bound, size in zip(bounds, sizes, strict=True) if not size]
    if not unfit:
        return []
    kept = [duration_of(bound) for bound, size in zip(bounds, sizes, strict=True) if size]
    note = f"not one example fits in {'bucket' if len(unfit) == 1 else 'the buckets'} {', '.join(unfit)}"
    if longest is not None:
        note += f"; the longest that does has {longest:g} s" if longest else "; nor in any shorter one"
    if kept:
        note += (
            f". Without {'it' if len(unfit) == 1 else 'them'}, training leaves out what is longer than {max(kept):g} s"
        )
        if longest is not None and longest > max(kept):
            note += f"; a further bucket of up to {longest:g} s with batch size 1 would take more"
    return [note]


def _large(bins: Sequence[tuple[Bound, int]], durations: Floats | None) -> list[str]:
    """Notes on batch sizes that are larger than the number of examples in the bucket, or in NeMo's sampler buffer."""
    notes = []
    if durations is not None:
        edges = sorted({duration_of(bound) for bound, _ in bins})
        counts = np.bincount(np.searchsorted(edges, durations), minlength=len(edges) + 1).tolist()
        records = [counts[edges.index(duration_of(bound))] for bound, _ in bins]
        above = [
            f"{size:,} for {number_of(count, 'record')} up to {shown(bound)}"
            for (bound, size), count in zip(bins, records, strict=True)
            if size > count
        ]
        if above:
            some = "; ".join([*above[:_SHOWN], *["..."] * (len(above) > _SHOWN)])
            notes.append(
                f"{len(above)} of {len(bins)} batch sizes are larger than the bucket's number of records ({some}): "
                "memory is not the limit of this data set, so choose smaller ones for the training"
            )
    if num_buffered := sum(size > BUFFER_SIZE for _, size in bins):
        notes.append(
            f"{num_buffered} of {len(bins)} batch sizes are above {BUFFER_SIZE:,}, the examples that NeMo's "
            "sampler holds (bucket_buffer_size), so that such a batch is never full"
        )
    return notes


def _odd(outcomes: Mapping[Outcome, int]) -> list[str]:
    words: dict[Outcome, str] = {
        "killed": "ended the process",
        "hung": "did not end in time",
        "cuda_error": "failed with an error of CUDA",
    }
    return [
        f"{outcomes[name]} step(s) {text}, and count as not fitting; they are in OUT.prepcli/parts"
        for name, text in words.items()
        if outcomes.get(name)
    ]


def result_file(result: Mapping[str, Any], settings: SearchSettings) -> bytes:
    """The bins and batch sizes as YAML for a training config, with comments on how they were found."""
    import yaml

    gib = result["memory"] / GIB
    basis = "estimated on a CPU for a GPU" if result["is_estimate"] else f"measured on {result['device']}"
    ddp = "yes" if settings.ddp else "no"
    lines = [
        "# Made by prepcli estimate-batch-sizes: paste this section into the config of a NeMo model (model.train_ds).",
        f"# {result['model']}, {basis} with {gib:.1f} GiB, of which {settings.memory_fraction:.0%} may be used;",
        f"# {settings.dtype}, {settings.optimizer}, memory for distributed training: {ddp}.",
        *(f"# {printable(note)}" for note in result["advice"]),
    ]
    text = yaml.safe_dump(loader_options(result), sort_keys=False, default_flow_style=None, width=1 << 20)
    return ("\n".join(lines) + "\n" + text).encode()


def loader_options(result: Mapping[str, Any]) -> dict[str, Any]:
    """The bins and batch sizes of a result as options of NeMo's data loader."""
    return {
        "use_bucketing": True,
        "num_buckets": len(result["bucket_batch_size"]),
        "bucket_duration_bins": result["bucket_duration_bins"],
        "bucket_batch_size": result["bucket_batch_size"],
        "batch_size": None,
        "batch_duration": None,
    }
