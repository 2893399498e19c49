"""The result of a search: lists for a training config, and a table with what each number is based on."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from prepcli.commands.estimate_batch_sizes.buckets import Bound, Lists, duration_of, final_lists, shown, tokens_of
from prepcli.commands.estimate_batch_sizes.messages import Hello
from prepcli.commands.estimate_batch_sizes.options import EstimateBatchSizes
from prepcli.commands.estimate_batch_sizes.probes import Found, Outcome, Record
from prepcli.commands.estimate_batch_sizes.search import num_nemo_steps
from prepcli.commands.estimate_batch_sizes.searching import Search
from prepcli.interface.printing import printable

Floats = npt.NDArray[np.float64]

GIB = 2**30
BUFFER_SIZE = 10_000
"""The default of `bucket_buffer_size` in NeMo's loader."""
_SHOWN = 3


def make_result(
    bounds: Sequence[Bound],
    sizes: Sequence[int],
    starts: Sequence[int],
    search: Search,
    record: Record,
    hello: Hello,
    longest: Found | None,
    options: EstimateBatchSizes,
    durations: Floats | None,
) -> dict[str, Any]:
    """The result as JSON values.

    Args:
        bounds: of the buckets.
        sizes: batch size of each; 0 where not one example fits.
        starts: where NeMo's search of each begins.
        search: which knows whether sizes fit.
        record: the steps.
        hello: the device and the model.
        longest: the longest duration that fits, where that is not all.
        options: of the command.
        durations: of the data that the training config names, in seconds; None if it names none.
    """
    lists = final_lists(bounds, sizes)
    rows = [_row(number, bounds[number], size, search, record) for number, size in enumerate(sizes)]
    outcomes = Counter(probe.outcome for number in range(len(sizes)) for probe in record.of(number))
    notes = [*_unfit(bounds, sizes, longest), *_odd(outcomes), *_large(lists, durations)]
    if options.buckets is None and options.buckets_from is None:
        notes.append("the buckets are NeMo's default ones; estimate-bins chooses those of your data (--buckets-from)")
    is_estimate = any(row["is_estimate"] for row in rows)
    if is_estimate:
        notes.append(
            f"every number is an estimate for {hello.memory / GIB:.1f} GiB: the bytes of tensors in small steps on a "
            "CPU, extrapolated. Kernels of a GPU may need other memory, and fragmentation and CUDA itself need more; "
            "measure on the GPU before a long training"
        )
    steps = [
        num_nemo_steps(start, search.threshold, search.answer(number))
        for number, (start, size) in enumerate(zip(starts, sizes, strict=True))
        if size
    ]
    return {
        "bucket_duration_bins": [list(one) if isinstance(one, tuple) else one for one in lists.bins],
        "bucket_batch_size": lists.sizes,
        "max_duration": duration_of(lists.bins[-1]) if lists.bins else None,
        "max_tps": _max_tps(lists, options.ratio),
        "device": hello.device,
        "model": hello.model,
        "memory": hello.memory,
        "limit": hello.limit,
        "is_estimate": is_estimate,
        "buckets": rows,
        "steps": sum(outcomes.values()) if not is_estimate else sum(len(row["measured"]) for row in rows),
        "steps_of_nemo": sum(steps),
        "longest_duration": None if longest is None else longest.duration,
        "advice": notes,
    }


def _max_tps(lists: Lists, ratio: float) -> float | None:
    """Output tokens per second of audio of the batches that were tried, for the longest bucket as in NeMo."""
    if not lists.bins:
        return None
    tokens = tokens_of(lists.bins[-1])
    return ratio if tokens is None else tokens / duration_of(lists.bins[-1])


def _row(number: int, bound: Bound, size: int, search: Search, record: Record) -> dict[str, Any]:
    row: dict[str, Any] = {"duration": duration_of(bound), "tokens": tokens_of(bound), "batch_size": size}
    lines = record.lines_of(number)
    if lines is not None:
        return row | {
            "is_estimate": True,
            "peak": lines.peak(size) if size else None,
            "lines": lines.lines,
            "measured": lines.measured,
        }
    probes = record.of(number)
    fitting = [probe for probe in probes if probe.does_fit]
    return row | {
        "is_estimate": False,
        "lines": search.lines(number) if size else [],
        "peak": next((probe.peak for probe in fitting if probe.size == size), None),
        "measured": [(probe.size, probe.peak) for probe in fitting],
        "failed": [(probe.size, probe.outcome) for probe in probes if not probe.does_fit],
    }


def _unfit(bounds: Sequence[Bound], sizes: Sequence[int], longest: Found | None) -> list[str]:
    unfit = [shown(bound) for bound, size in zip(bounds, sizes, strict=True) if not size]
    if not unfit:
        return []
    kept = [duration_of(bound) for bound, size in zip(bounds, sizes, strict=True) if size]
    note = f"not one example fits in {'bucket' if len(unfit) == 1 else 'the buckets'} {', '.join(unfit)}"
    if longest is not None:
        note += (
            f"; the longest that does has {longest.duration:g} s" if longest.duration else "; nor in any shorter one"
        )
    if kept:
        note += (
            f". Without {'it' if len(unfit) == 1 else 'them'}, training leaves out what is longer than {max(kept):g} s"
        )
        if longest is not None and longest.duration > max(kept):
            note += f"; a further bucket of up to {longest.duration:g} s with batch size 1 would take more"
    return [note]


def _large(lists: Lists, durations: Floats | None) -> list[str]:
    """Notes on batch sizes that no batch reaches, because the data or the buffer of NeMo's sampler have fewer."""
    notes = []
    if durations is not None:
        edges = sorted({duration_of(bound) for bound in lists.bins})
        counts = np.bincount(np.searchsorted(edges, durations), minlength=len(edges) + 1)
        records = [int(counts[edges.index(duration_of(bound))]) for bound in lists.bins]
        above = [number for number, size in enumerate(lists.sizes) if size > records[number]]
        if above:
            shown_ones = "; ".join(
                f"{lists.sizes[number]:,} for {records[number]:,} records up to {shown(lists.bins[number])}"
                for number in above[:_SHOWN]
            )
            notes.append(
                f"{len(above)} of {len(lists.sizes)} batch sizes are larger than the bucket's number of records "
                f"({shown_ones}{'; ...' if len(above) > _SHOWN else ''}): memory is not the limit of this data set, so "
                "choose smaller ones for the training"
            )
    buffered = [size for size in lists.sizes if size > BUFFER_SIZE]
    if buffered:
        notes.append(
            f"{len(buffered)} of {len(lists.sizes)} batch sizes are above {BUFFER_SIZE:,}, the examples that NeMo's "
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


def result_file(result: Mapping[str, Any], options: EstimateBatchSizes) -> bytes:
    """The lists as YAML for a training config, with how they were found."""
    import yaml

    gib = result["memory"] / GIB
    basis = "estimated on a CPU for a GPU" if result["is_estimate"] else f"measured on {result['device']}"
    lines = [
        "# Made by prepcli estimate-batch-sizes: paste this section into the config of a NeMo model (model.train_ds).",
        f"# {result['model']}, {basis} with {gib:.1f} GiB, of which {options.memory_fraction:.0%} may be used;",
        f"# {options.dtype}, {options.optimizer}, memory for distributed training: {'yes' if options.ddp else 'no'}.",
        *(f"# {printable(note)}" for note in result["advice"]),
    ]
    text = yaml.safe_dump(loader_options(result), sort_keys=False, default_flow_style=None, width=1 << 20)
    return ("\n".join(lines) + "\n" + text).encode()


def loader_options(result: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a data loader."""
    return {
        "use_bucketing": True,
        "num_buckets": len(result["bucket_batch_size"]),
        "bucket_duration_bins": result["bucket_duration_bins"],
        "bucket_batch_size": result["bucket_batch_size"],
        "batch_size": None,
        "batch_duration": None,
    }
