"""Bins for bucketed training on texts and conversations, by input tokens, or by input and output tokens."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prepcli.audio.seconds import seconds_of
from prepcli.commands.estimate_bins.durations import notes_on_fewer_buckets
from prepcli.commands.estimate_bins.nested import nested_bins, notes_on_pairs, place
from prepcli.commands.estimate_bins.padding import paddings_of
from prepcli.commands.estimate_bins.settings import (
    TokenSettings,
    lower_limit,
    upper_limit,
    with_keys_of,
    with_prompt_of,
)
from prepcli.commands.estimate_bins.text import BinsText, percentiles_text, plain_list
from prepcli.commands.estimate_bins.text_lengths import (
    FileLengths,
    FileTask,
    Floats,
    Ints,
    count_file,
)
from prepcli.commands.estimate_bins.two_d import check_finite, token_counter
from prepcli.errors import UsageError, option
from prepcli.formats.conversations import ConversationSet
from prepcli.formats.sets import open_set
from prepcli.interface.printing import number_of
from prepcli.interface.reports import brief, percentiles
from prepcli.jobs.inputs.conversations import conversation_file, conversation_shard, conversation_tars
from prepcli.manifest.datasets import DataSet, Mix, TextSet
from prepcli.manifest.durations import read_input
from prepcli.manifest.inputs import notes_on_input, resolve_input
from prepcli.manifest.mixing import LeafDurations, draw, leaves_of
from prepcli.planning.cut_points import duration_bins
from prepcli.processes.pools import map_in_order
from prepcli.storage.paths import path_of
from prepcli.tokenizers.counting import TokenizerSpec, by_word_or_whole, load_tokenizers

# With less text than this, starting workers takes longer than counting.
_INLINE_BYTES = 1 << 20
_SECONDS_PER_TOKEN = 0.08


@dataclass
class TokenBinsReport(BinsText):
    """Bins by number of tokens, and the padding that results. "tpt" stands for output tokens per input token."""

    num_buckets: int
    """Number of buckets by length that the bins make; if it is smaller than the requested number, `notes` say why."""
    bucket_duration_bins: list[tuple[int, int]] | list[int]
    max_tokens: int
    """The length of the longest example in tokens, measured as NeMo's loader does to filter by `max_tokens`."""
    max_tpt: list[float] | float
    measure_total_length: bool
    token_equivalent_duration: float
    """Seconds of audio that count as one token."""
    prompt_format: str | None
    num_examples: int
    num_discarded: int
    num_skipped: int
    num_rejected: int
    first_rejected: str | None
    num_input_tokens: int
    num_output_tokens: int
    num_outliers: int
    """Number of examples left out of 2-D bins because they have too many output tokens per input token."""
    num_unplaced: int
    """Number of examples that fit no bucket."""
    suggested_max_tpt: float
    """One limit for all buckets: the maximum output tokens per input token, outliers left out."""
    num_above_suggested: int
    input_percentiles: dict[str, float]
    output_percentiles: dict[str, float]
    tpt_percentiles: dict[str, float]
    batch_tokens: float
    padding: list[float]
    """One or two shares of padding, from 0 to 1: the share in `inputs`; for 2-D bins also the share in `outputs`."""
    padding_without_buckets: list[float]
    notes: list[str]
    inputs: Ints = field(repr=False)
    """The lengths by which the examples are put into buckets, shape (num_examples,).

    These are input tokens; for 1-D bins with `measure_total_length`, input and output tokens together.
    """
    outputs: Ints = field(repr=False)

    def __repr__(self) -> str:
        return brief(self, "num_buckets", "bucket_duration_bins", "max_tokens", "max_tpt", "num_examples")

    def lines(self) -> list[str]:
        """The lines that the command prints; those to paste into a config are worded as in NeMo's script."""
        text = percentiles_text
        measured = "input and output" if self.measure_total_length else "input"
        max_tpt = self.max_tpt if isinstance(self.max_tpt, float) else plain_list(self.max_tpt)
        return [
            *self.first_lines("token count"),
            f"\tnum_buckets={self.num_buckets}",
            f"\tbucket_duration_bins={self.bins_alone()}",
            f"\tmax_tokens={self.max_tokens}",
            f"\tmax_tpt={max_tpt}",
            "",
            f"{self.num_input_tokens:,} tokens of input, {self.num_output_tokens:,} of output",
            f"tokens that choose the bucket, at percentiles: {text(self.input_percentiles, '.0f')}",
            f"output tokens at percentiles: {text(self.output_percentiles, '.0f')}",
            f"output tokens per input token at percentiles: {text(self.tpt_percentiles)}",
            f"Suggestion for one limit: max_tpt={self.suggested_max_tpt}, which leaves out "
            f"{self.num_above_suggested:,} of {self.num_examples:,} examples.",
            f"The bins were made without {self.num_outliers:,} outliers in output tokens per input token; "
            f"{self.num_unplaced:,} examples fit no bucket.",
            f"Padding in batches of {self.batch_tokens:g} tokens ({measured}): {_shares(self.padding)} with these "
            f"bins, {_shares(self.padding_without_buckets)} without bucketing.",
        ]

    def bins_alone(self) -> str:
        """The bins as NeMo's script prints them: `[24,48]`, or pairs of input and output tokens."""
        bins = self.bucket_duration_bins
        return plain_list([f"[{bound[0]},{bound[1]}]" if isinstance(bound, tuple) else str(bound) for bound in bins])


def _shares(paddings: list[float]) -> str:
    return " and ".join(
        f"{share:.1%} of {what}" for share, what in zip(paddings, ("the length", "the output"), strict=False)
    )


class _Measure(NamedTuple):
    """Whether a length is the sum of input and output, and the seconds of audio that count as one token."""

    total: bool
    seconds: float


def bins_of_tokens(settings: TokenSettings, tokenizer: TokenizerSpec) -> TokenBinsReport:
    """Estimate the bins.

    Unusable lines are counted, and their number is not limited; else the errors are those of
    `prepcli.estimate_token_bins`.

    Without `sub_buckets`, an example has one length: its tokens of input and output together or, with
    `measure_total_length=False`, its tokens of input. With `sub_buckets`, the bins do not depend on
    `measure_total_length`; it only chooses which of these two lengths `min_tokens` and `max_tokens` limit.
    """
    data = resolve_input(settings.data, "read")
    settings, tokenizer = with_keys_of(settings, data), with_prompt_of(tokenizer, data)
    measure = _measure(settings)
    check_finite(data, settings.num_examples)
    if tokenizer.prompt_format is not None:
        from prepcli.models.prompts import load_prompt

        load_prompt(tokenizer)  # before workers are forked
    else:
        load_tokenizers(tokenizer)
    lengths, notes = by_word_or_whole(tokenizer, lambda spec: _read(data, spec, settings, measure))
    if not len(lengths.inputs):
        first = f"; the first unusable line is {lengths.first_rejected}" if lengths.first_rejected else ""
        raise UsageError(
            f"{settings.data} holds no example that can be used ({lengths.num_discarded} outside the limits, "
            f"{number_of(lengths.num_rejected, 'unusable line')}{first})"
        )
    if settings.sub_buckets is None and measure.total:
        lengths.inputs = lengths.inputs + lengths.outputs
    if not lengths.inputs.any():
        raise UsageError(
            f"{settings.data} has no input tokens at all: plain texts (txt) are all output; estimate without "
            f"{option('--sub-buckets')} and {option('--no-measure-total-length')}, or with the "
            f"{option('--prompt-format')} of the training"
        )
    return _report(lengths, settings, measure, tokenizer.prompt_format, [*notes_on_input(data), *notes])


def _measure(settings: TokenSettings) -> _Measure:
    """How to measure lengths: as the settings say, else as in NeMo's script."""
    total, seconds = settings.measure_total_length, settings.token_equivalent_duration
    measure = _Measure(
        settings.sub_buckets is None if total is None else total, _SECONDS_PER_TOKEN if seconds is None else seconds
    )
    if not measure.seconds > 0:  # the value may be a key of the input
        raise UsageError(f"the token equivalent duration must be above 0, not {measure.seconds:g}")
    return measure


def _read(data: DataSet | Mix, tokenizer: TokenizerSpec, settings: TokenSettings, measure: _Measure) -> FileLengths:
    leaves = leaves_of(data)
    tasks = [list(_tasks(leaf, tokenizer, settings, measure)) if isinstance(leaf, TextSet) else [] for leaf in leaves]
    flat = [task for of_leaf in tasks for task in of_leaf]
    num_bytes = sum(Path(task.path).stat().st_size for task in flat)
    counted = map_in_order(count_file, flat, settings.num_workers if num_bytes >= _INLINE_BYTES else 1)
    lengths, read = [], []
    for leaf, of_leaf in zip(leaves, tasks, strict=True):
        if isinstance(leaf, TextSet):
            lengths.append(_together([next(counted) for _ in of_leaf]))
        else:
            lengths.append(_of_audio(leaf, tokenizer, settings.sub_buckets is None, measure, settings.num_workers))
        read.append(_inside(lengths[-1], leaf, settings, measure))
    if settings.num_examples > 0:
        places, num_drawn = draw(data, read, settings.num_examples)
    else:
        places, num_drawn = [np.flatnonzero(leaf.inside) for leaf in read], sum(len(leaf.inside) for leaf in read)
    whole = _together(lengths)
    whole.inputs, whole.outputs, whole.ratios = (
        np.concatenate([getattr(of_leaf, name)[at] for of_leaf, at in zip(lengths, places, strict=True)])
        for name in ("inputs", "outputs", "ratios")
    )
    whole.num_discarded = num_drawn - len(whole.inputs)
    return whole


def _together(parts: Sequence[FileLengths]) -> FileLengths:
    """Join the lengths of several files."""
    return FileLengths(
        inputs=np.concatenate([part.inputs for part in parts]),
        outputs=np.concatenate([part.outputs for part in parts]),
        ratios=np.concatenate([part.ratios for part in parts]),
        seconds=np.concatenate([part.seconds for part in parts]),
        num_lines=sum(part.num_lines for part in parts),
        num_skipped=sum(part.num_skipped for part in parts),
        num_rejected=sum(part.num_rejected for part in parts),
        first_rejected=next((part.first_rejected for part in parts if part.first_rejected), None),
    )


def _tasks(data: TextSet, tokenizer: TokenizerSpec, settings: TokenSettings, measure: _Measure) -> Iterator[FileTask]:
    if data.settings.audio_locator_tag is None:
        data = replace(data, settings=replace(data.settings, audio_locator_tag=settings.audio_locator_tag))
    seconds = data.settings.token_equivalent_duration or measure.seconds
    paths = _files(data)
    targets = data.target_paths or (None,) * len(paths)
    for path, target in zip(paths, targets, strict=True):
        yield FileTask(data, path, target, tokenizer, seconds)


def _files(data: TextSet) -> Sequence[str]:
    """The files of texts; those of ShareGPT are read as NeMo's lines, whose durations are those of the audio."""
    if data.kind == "share_gpt_webdataset":
        stored = open_set(path_of(data.paths[0]))
        if not isinstance(stored, ConversationSet) or stored.manifests:
            raise UsageError(f"{data.paths[0]} has no conversations in tars that a wids-meta.json lists")
        return conversation_tars(stored, data.placeholders)
    if data.kind != "share_gpt":
        return data.paths
    if data.tars:
        pairs = zip(data.paths, data.tars, strict=True)
        return [conversation_shard(path, path_of(tar), data.placeholders) for path, tar in pairs]
    root = None if data.audio_root is None else path_of(data.audio_root)
    return [conversation_file(path, root, data.placeholders) for path in data.paths]


def _of_audio(data: DataSet, tokenizer: TokenizerSpec, is_1d: bool, measure: _Measure, num_workers: int) -> FileLengths:
    """The lengths of records of audio: the audio is input, the transcript output.

    As in NeMo's samplers, the seconds of audio per token come from the training config, not from the entry of `data`.
    `is_1d`: bins have one dimension. Only with two dimensions, a record without a text is rejected. With one dimension
    and a prompt format, only the audio counts: prompt and transcript count as 0 tokens.
    """
    keys = data.settings.loader
    has_texts = not is_1d or tokenizer.prompt_format is None
    durations = read_input(
        data,
        num_workers=num_workers,
        numbers=token_counter(tokenizer, keys.text_field, keys.lang_field, needs_text=not is_1d) if has_texts else None,
        seconds_of=seconds_of,
    )
    inputs = np.ceil(durations.seconds / measure.seconds).astype(np.int32)
    outputs = durations.numbers if has_texts else np.zeros_like(inputs)
    no_ratios = np.full(len(inputs), np.nan)
    counts = durations.num_lines, durations.num_skipped, durations.num_rejected, durations.first_rejected
    return FileLengths(inputs, outputs, no_ratios, durations.seconds, *counts)


def _inside(examples: FileLengths, data: DataSet, settings: TokenSettings, measure: _Measure) -> LeafDurations:
    """The length of each example, and whether NeMo's filters keep it.

    Limits in tokens apply to texts and conversations, limits in seconds to records and conversations with audio.
    """
    lengths = examples.inputs + examples.outputs if measure.total else examples.inputs
    keys = data.settings.loader
    inside = (examples.seconds >= lower_limit(keys.min_duration)) & (examples.seconds <= upper_limit(keys.max_duration))
    if isinstance(data, TextSet):
        inside |= examples.seconds == 0
        inside &= (lengths >= lower_limit(settings.min_tokens)) & (lengths <= upper_limit(settings.max_tokens))
        inside &= examples.ratios <= upper_limit(settings.max_tpt)
    return LeafDurations(lengths.astype(np.float64), inside, examples.num_lines)


def _report(
    lengths: FileLengths, settings: TokenSettings, measure: _Measure, prompt_format: str | None, notes: list[str]
) -> TokenBinsReport:
    inputs, outputs = lengths.inputs, lengths.outputs
    total_as_input = settings.sub_buckets is None and measure.total
    tpt = _ratios(lengths, inputs - outputs if total_as_input else inputs)
    ordinary = tpt <= tpt.mean() + settings.token_outlier_threshold * tpt.std()
    suggested = _up(float(tpt[ordinary].max() if ordinary.any() else tpt.max()))
    # The loader's filter measures the total length, even if the bins are by input and output.
    max_length = (inputs + outputs if measure.total and not total_as_input else inputs).max()
    columns = np.stack([inputs, outputs], axis=1).astype(np.float64)
    bins: list[tuple[int, int]] | list[int]
    max_tpt: list[float] | float
    num_outliers = 0
    if settings.sub_buckets is None:
        bins = [int(edge) for edge in duration_bins(inputs, settings.num_buckets)]
        max_tpt = suggested
        numbers = np.searchsorted(bins, inputs)
        columns = columns[:, :1]
        num_buckets = len(bins) + 1
        num_empty = num_buckets - len(np.unique(numbers))
        more = notes_on_fewer_buckets(settings.num_buckets, num_buckets, num_empty, "tokens")
    else:
        nested = nested_bins(
            inputs.astype(np.int64),
            outputs,
            settings.num_buckets,
            settings.sub_buckets,
            settings.token_outlier_threshold,
        )
        bins = [(int(size), limit) for size, limit in nested.pairs]
        max_tpt = [_up(ratio) for ratio in nested.max_ratio]
        numbers = place(columns[:, 0], outputs, nested.pairs)
        num_outliers = nested.num_outliers
        num_buckets = len({size for size, _ in nested.pairs})
        num_empty = len(nested.pairs) - len(np.unique(numbers[numbers >= 0]))
        more = notes_on_pairs(nested.pairs, settings.num_buckets, settings.sub_buckets, num_empty)
    placed = numbers >= 0

    return TokenBinsReport(
        num_buckets=num_buckets,
        bucket_duration_bins=bins,
        max_tokens=int(max_length),
        max_tpt=max_tpt,
        measure_total_length=measure.total,
        token_equivalent_duration=measure.seconds,
        prompt_format=prompt_format,
        num_examples=len(inputs),
        num_discarded=lengths.num_discarded,
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
        batch_tokens=settings.batch_tokens,
        padding=paddings_of(columns[placed], numbers[placed], settings.batch_tokens),
        padding_without_buckets=paddings_of(columns[placed], np.zeros_like(numbers[placed]), settings.batch_tokens),
        notes=[*notes, *more],
        inputs=inputs,
        outputs=outputs,
    )


def _ratios(lengths: FileLengths, inputs: Ints) -> Floats:
    """The numbers that `max_tpt` limits: for each text, its output tokens per input token.

    If there are only examples with audio, these numbers are computed for them, with `inputs` as the input tokens.
    """
    of_texts = lengths.ratios[~np.isnan(lengths.ratios)]
    return of_texts if len(of_texts) else lengths.outputs / np.maximum(inputs, 1)


def _up(ratio: float) -> float:
    """Round a limit up to three decimals. If it were rounded down, it would leave out the example that defines it."""
    return math.ceil(round(ratio * 1e3, 6)) / 1e3
