"""Bins for bucketed training on texts and conversations, by input tokens, or by input and output tokens."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from prepcli.bins.cut_points import duration_bins
from prepcli.bins.durations import notes_on_fewer_buckets
from prepcli.bins.nested import nested_bins, notes_on_pairs, place
from prepcli.bins.options import TokenBinsOptions, lower_limit, upper_limit
from prepcli.bins.padding import paddings_of
from prepcli.bins.token_lengths import FileLengths, FileTask, Ints, count_file
from prepcli.bins.two_d import check_finite
from prepcli.display.reports import brief, percentiles
from prepcli.errors import UsageError
from prepcli.manifest.datasets import DataSet, Mix
from prepcli.manifest.mixing import LeafDurations, draw, leaves_of
from prepcli.manifest.text_inputs import TextSet, parse_text_cfg
from prepcli.processes.pools import map_in_order
from prepcli.processes.workers import available_processors
from prepcli.tokenizers.counting import TokenizerSpec, by_word_or_whole, load_tokenizers

# For less text than this, starting workers takes longer than counting.
_INLINE_BYTES = 1 << 20


@dataclass
class TokenBinsReport:
    """Bins and their effect on the data. Lengths are in tokens; tpt is output tokens per input token."""

    num_buckets: int
    """The buckets by length that the bins make: fewer than asked for where `notes` say so."""
    bucket_duration_bins: list[tuple[int, int]] | list[int]
    max_tokens: int
    """Length of the longest example, as the loader's filter measures it."""
    max_tpt: list[float] | float
    measure_total_length: bool
    num_examples: int
    num_discarded: int
    num_skipped: int
    num_rejected: int
    first_rejected: str | None
    num_input_tokens: int
    num_output_tokens: int
    num_outliers: int
    """Examples with so many output tokens per input token that they were left out of 2-D bins."""
    num_unplaced: int
    """Examples that fit no bucket."""
    suggested_max_tpt: float
    """Maximum output tokens per input token without outliers: a limit for all buckets."""
    num_above_suggested: int
    input_percentiles: dict[str, float]
    output_percentiles: dict[str, float]
    tpt_percentiles: dict[str, float]
    batch_tokens: float
    padding: list[float]
    """Of the length by which batches are filled, and in two dimensions of the output as well."""
    padding_without_buckets: list[float]
    notes: list[str]
    inputs: Ints = field(repr=False)
    """Shape (num_examples,); with `measure_total_length` in one dimension, input and output together."""
    outputs: Ints = field(repr=False)

    def __repr__(self) -> str:
        return brief(self, "num_buckets", "bucket_duration_bins", "max_tokens", "max_tpt", "num_examples")


@dataclass
class _Read:
    lengths: FileLengths
    num_discarded: int


def estimate_token_bins(
    input_cfg: str, tokenizer: TokenizerSpec, options: TokenBinsOptions | None = None
) -> TokenBinsReport:
    """Estimate the bins of the texts that the YAML file `input_cfg` names (see `parse_text_cfg`).

    Raises `UsageError` for inputs and tokenizers that cannot be read, for endless data without a number of examples,
    and where there is no example; `IncompleteError` when a worker process dies. Lines that cannot be used are counted.
    """
    options = options or TokenBinsOptions()
    for name, value in (
        ("batch tokens", options.batch_tokens),
        ("token equivalent duration", options.token_equivalent_duration),
    ):
        if not value > 0:
            raise UsageError(f"the {name} must be above 0, not {value:g}")
    data = parse_text_cfg(input_cfg)
    check_finite(data, options.num_examples)
    if tokenizer.prompt_format is not None:
        from prepcli.models.prompts import load_prompt

        load_prompt(tokenizer)  # before workers are forked
    else:
        load_tokenizers(tokenizer)
    found, notes = by_word_or_whole(tokenizer, lambda spec: _read(data, spec, options))
    lengths = found.lengths
    if not len(lengths.inputs):
        first = f"; the first unusable line is {lengths.first_rejected}" if lengths.first_rejected else ""
        raise UsageError(
            f"{input_cfg} holds no example that can be used ({found.num_discarded} are outside the limits, "
            f"{lengths.num_rejected} lines are unusable{first})"
        )
    if options.sub_buckets is None and options.measure_total_length:
        lengths.inputs = lengths.inputs + lengths.outputs
    if not lengths.inputs.any():
        raise UsageError(
            f"{input_cfg} has no input tokens at all: plain texts (txt) are all output; "
            "estimate with --measure-total-length, without --sub-buckets"
        )
    return _report(found, options, notes)


def _read(data: DataSet | Mix, tokenizer: TokenizerSpec, options: TokenBinsOptions) -> _Read:
    leaves = [leaf for leaf in leaves_of(data) if isinstance(leaf, TextSet)]
    tasks = [list(_tasks(leaf, tokenizer, options)) for leaf in leaves]
    flat = [task for of_leaf in tasks for task in of_leaf]
    num_bytes = sum(Path(task.path).stat().st_size for task in flat)
    num_workers = options.num_workers or available_processors()
    counted = map_in_order(count_file, flat, num_workers if num_bytes >= _INLINE_BYTES else 1)
    whole = FileLengths()
    inputs, outputs, read = [], [], []
    for of_leaf in tasks:
        files = [next(counted) for _ in of_leaf]
        for file in files:
            whole.num_skipped += file.num_skipped
            whole.num_rejected += file.num_rejected
            whole.first_rejected = whole.first_rejected or file.first_rejected
        inputs.append(np.concatenate([file.inputs for file in files]))
        outputs.append(np.concatenate([file.outputs for file in files]))
        lengths = inputs[-1] + outputs[-1] if options.measure_total_length else inputs[-1]
        inside = (lengths >= lower_limit(options.min_tokens)) & (lengths <= upper_limit(options.max_tokens))
        inside &= _tpt(inputs[-1], outputs[-1]) <= upper_limit(options.max_tpt)
        read.append(LeafDurations(lengths.astype(np.float64), inside, sum(file.num_lines for file in files)))
    if options.num_examples > 0:
        places, num_drawn = draw(data, read, options.num_examples)
    else:
        places, num_drawn = [np.flatnonzero(leaf.inside) for leaf in read], sum(len(leaf.inside) for leaf in read)
    whole.inputs = np.concatenate([of_leaf[at] for of_leaf, at in zip(inputs, places, strict=True)])
    whole.outputs = np.concatenate([of_leaf[at] for of_leaf, at in zip(outputs, places, strict=True)])
    return _Read(whole, num_drawn - len(whole.inputs))


def _tasks(data: TextSet, tokenizer: TokenizerSpec, options: TokenBinsOptions) -> Iterator[FileTask]:
    if data.audio_locator_tag is None:
        data = replace(data, audio_locator_tag=options.audio_locator_tag)
    seconds = data.token_equivalent_duration or options.token_equivalent_duration
    targets = data.target_paths or (None,) * len(data.paths)
    for path, target in zip(data.paths, targets, strict=True):
        yield FileTask(data, path, target, tokenizer, seconds)


def _tpt(inputs: Ints, outputs: Ints) -> npt.NDArray[np.float64]:
    return outputs / np.maximum(inputs, 1)


def _report(found: _Read, options: TokenBinsOptions, notes: list[str]) -> TokenBinsReport:
    lengths = found.lengths
    inputs, outputs = lengths.inputs, lengths.outputs
    total_as_input = options.sub_buckets is None and options.measure_total_length
    tpt = _tpt(inputs - outputs if total_as_input else inputs, outputs)
    ordinary = tpt <= tpt.mean() + options.token_outlier_threshold * tpt.std()
    suggested = _up(float(tpt[ordinary].max() if ordinary.any() else tpt.max()))
    # The loader's filter measures the total length, which differs from the first of two dimensions.
    max_length = (inputs + outputs if options.measure_total_length and not total_as_input else inputs).max()
    columns = np.stack([inputs, outputs], axis=1).astype(np.float64)
    bins: list[tuple[int, int]] | list[int]
    max_tpt: list[float] | float
    num_outliers = 0
    if options.sub_buckets is None:
        bins = [int(edge) for edge in duration_bins(inputs, options.num_buckets)]
        max_tpt = suggested
        numbers = np.searchsorted(bins, inputs)
        columns = columns[:, :1]
        num_buckets = len(bins) + 1
        num_empty = num_buckets - len(np.unique(numbers))
        more = notes_on_fewer_buckets(options.num_buckets, num_buckets, num_empty, "tokens")
    else:
        nested = nested_bins(
            inputs.astype(np.int64), outputs, options.num_buckets, options.sub_buckets, options.token_outlier_threshold
        )
        bins = [(int(size), limit) for size, limit in nested.pairs]
        max_tpt = [_up(ratio) for ratio in nested.max_ratio]
        numbers = place(columns[:, 0], outputs, nested.pairs)
        num_outliers = nested.num_outliers
        num_buckets = len({size for size, _ in nested.pairs})
        num_empty = len(nested.pairs) - len(np.unique(numbers[numbers >= 0]))
        more = notes_on_pairs(nested.pairs, options.num_buckets, options.sub_buckets, num_empty)
    placed = numbers >= 0

    return TokenBinsReport(
        num_buckets=num_buckets,
        bucket_duration_bins=bins,
        max_tokens=int(max_length),
        max_tpt=max_tpt,
        measure_total_length=options.measure_total_length,
        num_examples=len(inputs),
        num_discarded=found.num_discarded,
        num_skipped=lengths.num_skipped,
        num_rejected=lengths.num_rejected,
        first_rejected=lengths.first_rejected,
        num_input_tokens=int((inputs - outputs if total_as_input else inputs).sum(dtype=np.int64)),
        num_output_tokens=int(outputs.sum(dtype=np.int64)),
        num_outliers=num_outliers,
        num_unplaced=int(len(placed) - placed.sum()),
        suggested_max_tpt=suggested,
        num_above_suggested=int((tpt > suggested).sum()),
        input_percentiles=percentiles(np.sort(inputs)),
        output_percentiles=percentiles(np.sort(outputs)),
        tpt_percentiles=percentiles(np.sort(tpt)),
        batch_tokens=options.batch_tokens,
        padding=paddings_of(columns[placed], numbers[placed], options.batch_tokens),
        padding_without_buckets=paddings_of(columns[placed], np.zeros_like(numbers[placed]), options.batch_tokens),
        notes=[*notes, *more],
        inputs=inputs,
        outputs=outputs,
    )


def _up(ratio: float) -> float:
    """Round up to three decimals: rounded down, the limit would exclude the example it comes from."""
    return math.ceil(round(ratio * 1e3, 6)) / 1e3
