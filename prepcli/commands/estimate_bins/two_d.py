"""Bins for bucketed training by duration and number of tokens, for models whose decoder cost depends on the tokens."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from prepcli.commands.estimate_bins.arguments import LANG_FIELD, TEXT_FIELD
from prepcli.commands.estimate_bins.durations import check_limits, explain_empty, read_within
from prepcli.commands.estimate_bins.nested import Floats, nested_bins, notes_on_pairs, place
from prepcli.commands.estimate_bins.padding import paddings_of
from prepcli.commands.estimate_bins.settings import Settings2d, upper_limit, with_keys_of, with_prompt_of
from prepcli.commands.estimate_bins.text import BinsText, percentiles_text, plain_list
from prepcli.errors import UsageError, option
from prepcli.interface.reports import brief, percentiles
from prepcli.jobs.inputs.data import data_of
from prepcli.manifest.datasets import DataSet, Mix
from prepcli.manifest.durations import Durations
from prepcli.manifest.inputs import notes_on_input
from prepcli.manifest.mixing import leaves_of
from prepcli.manifest.parts import Numbers
from prepcli.manifest.seconds import notes_on_limit, notes_on_seconds, typical_seconds
from prepcli.tokenizers.counting import TokenizerSpec, by_word_or_whole, load_tokenizers


@dataclass
class Bucket2d:
    """A bucket: the examples longer than `above` and not longer than `up_to` seconds, with up to `max_tokens` tokens.

    Examples that fit an earlier bucket with fewer tokens are in that one.
    """

    above: float
    up_to: float
    max_tokens: int
    max_tps: float
    num_examples: int
    hours: float
    tokens: int


@dataclass
class Paddings:
    """The share of padding, from 0 to 1, in the seconds of all batches, and the share in their tokens."""

    seconds: float
    tokens: float

    def __str__(self) -> str:
        return f"{self.seconds:.1%} of seconds and {self.tokens:.1%} of tokens"


@dataclass
class Bins2dReport(BinsText):
    """Bins by duration and tokens, their buckets, and the padding that results. Durations are in seconds."""

    num_buckets: int
    """Number of buckets by duration that the bins make; if it is smaller than the requested number, `notes` say why."""
    bucket_duration_bins: list[tuple[float, int]]
    max_duration: float
    max_tps: list[float]
    num_examples: int
    hours: float
    num_tokens: int
    num_discarded: int
    num_skipped: int
    num_rejected: int
    first_rejected: str | None
    num_outliers: int
    """Number of examples left out of the bins because they have too many tokens per second."""
    num_unplaced: int
    """Number of examples that fit no bucket; training leaves them out."""
    num_above_max_tps: int
    """Number of examples that are in a bucket, but above its `max_tps`, because that is rounded to two decimals."""
    percentiles: dict[str, float]
    token_percentiles: dict[str, float]
    tps_percentiles: dict[str, float]
    buckets: list[Bucket2d]
    batch_duration: float
    padding: Paddings
    padding_with_durations_alone: Paddings
    padding_without_buckets: Paddings
    notes: list[str]
    durations: Floats = field(repr=False)
    """The durations of the examples in ascending order, of shape (num_examples,)."""
    tokens: npt.NDArray[np.int32] = field(repr=False)
    """The number of tokens of each example, in the order of `durations`, of shape (num_examples,)."""

    def __repr__(self) -> str:
        return brief(self, "num_buckets", "bucket_duration_bins", "max_duration", "max_tps", "num_examples", "hours")

    def lines(self) -> list[str]:
        """The lines that the command prints; those to paste into a config are worded as in NeMo's script."""
        text = percentiles_text
        return [
            *self.first_lines("min/max duration"),
            f"\tnum_buckets={self.num_buckets}",
            f"\tbucket_duration_bins={self.bins_alone()}",
            f"\tmax_duration={self.max_duration}",
            f"\tmax_tps={plain_list([f'{ratio:.2f}' for ratio in self.max_tps])}",
            "",
            f"{self.hours:,.2f} hours, {self.num_tokens:,} tokens",
            f"seconds at percentiles: {text(self.percentiles)}",
            f"tokens at percentiles: {text(self.token_percentiles, '.0f')}",
            f"tokens per second at percentiles: {text(self.tps_percentiles)}",
            f"The bins were made without {self.num_outliers:,} outliers in tokens per second; {self.num_unplaced:,} "
            f"examples fit no bucket, and max_tps would leave out {self.num_above_max_tps:,} more.",
            f"Padding in batches of {self.batch_duration:g} s: {self.padding} with these bins, "
            f"{self.padding_with_durations_alone} with only their durations, "
            f"{self.padding_without_buckets} without bucketing.",
            "",
            "bucket   longer than    up to (s)       tokens      max tps     examples        hours",
            *(
                f"{number:6d} {bucket.above:13.3f} {bucket.up_to:12.3f} {bucket.max_tokens:12,} {bucket.max_tps:12.2f} "
                f"{bucket.num_examples:12,} {bucket.hours:12,.2f}"
                for number, bucket in enumerate(self.buckets)
            ),
        ]

    def bins_alone(self) -> str:
        """The bins as NeMo's script prints them: `[[1.740,12],[1.740,30]]`."""
        return plain_list([f"[{size:.3f},{limit}]" for size, limit in self.bucket_duration_bins])


def bins_in_two_dimensions(settings: Settings2d, tokenizer: TokenizerSpec) -> Bins2dReport:
    """Estimate the bins.

    Unusable lines are counted, and their number is not limited; else the errors are those of
    `prepcli.estimate_bins_2d`. Lines without a text, and lines in a language without a tokenizer, are unusable too.
    """
    data = data_of(settings.data, "leave out")
    settings, tokenizer = with_keys_of(settings, data), with_prompt_of(tokenizer, data)
    if (settings.text_field or TEXT_FIELD) == (settings.lang_field or LANG_FIELD):
        raise UsageError(f"text and language cannot both be in the field {settings.text_field or TEXT_FIELD!r}")
    check_limits(settings.min_duration, settings.max_duration)
    check_finite(data, settings.num_examples)
    durations, notes = by_word_or_whole(
        tokenizer,
        lambda spec: read_within(data, settings, numbers=token_counter(spec, settings.text_field, settings.lang_field)),
    )
    if not len(durations.seconds):
        raise UsageError(f"{settings.data} holds no example that can be used{explain_empty(durations)}")
    return _report(durations, settings, [*notes_on_input(data), *notes])


def check_finite(data: DataSet | Mix, num_examples: int) -> None:
    """Raise `UsageError` if data never end (`force_finite: false`) and `num_examples` does not limit them (0)."""
    if num_examples <= 0 and any(leaf.settings.endless for leaf in leaves_of(data)):
        raise UsageError(
            "the input says force_finite: false, so its data never end: say how many examples to take with "
            f"{option('--num-examples')} (-n)"
        )


def token_counter(
    tokenizer: TokenizerSpec, text_field: str | None, lang_field: str | None, needs_text: bool = True
) -> Callable[[DataSet], Numbers]:
    """Return the function that counts the tokens of a data set's records.

    `text_field` and `lang_field` name the fields with the text and its language; the config entry of a data set may
    name other fields. The tokenizers are loaded here, before workers are forked. A record without a text is rejected;
    if `needs_text` is false, it counts as 0 tokens.
    """
    if tokenizer.prompt_format is not None:
        from prepcli.models.prompts import PromptedLines, load_prompt

        load_prompt(tokenizer)
    else:
        from prepcli.tokenizers.token_columns import TokensOfCuts, TokensOfTexts

        load_tokenizers(tokenizer)

    def of(data: DataSet) -> Numbers:
        of_text = data.settings.text_field or text_field or TEXT_FIELD
        of_lang = data.settings.lang_field or lang_field or LANG_FIELD
        if tokenizer.prompt_format is not None:
            return Numbers(PromptedLines(tokenizer, of_text, of_lang, data.settings.tags, data.cuts))
        tag = dict(data.settings.tags).get(of_lang)
        lang = None if tag is None else str(tag)
        if data.cuts:
            return Numbers(TokensOfCuts(tokenizer, lang, needs_text))
        return Numbers(TokensOfTexts(tokenizer, of_text, lang, needs_text), (of_text, of_lang))

    return of


def _report(examples: Durations, settings: Settings2d, notes: list[str]) -> Bins2dReport:
    order = np.argsort(examples.seconds, kind="stable")  # one sort for all results below
    # The ratios are computed from float32, as NeMo computes them; a shorter duration would be zero there.
    durations, tokens = np.maximum(examples.seconds[order], np.finfo(np.float32).tiny), examples.numbers[order]
    typical = typical_seconds(durations)
    bins = nested_bins(
        durations.astype(np.float32),
        tokens,
        settings.num_buckets,
        settings.sub_buckets,
        settings.token_outlier_threshold,
        decimals=3,
        largest=None if math.isinf(upper_limit(settings.max_duration)) else settings.max_duration,
    )
    pairs, max_tps = bins.pairs, [round(ratio, 2) for ratio in bins.max_ratio]
    numbers = place(durations, tokens, pairs)
    placed = numbers >= 0
    tps = tokens / durations
    of_placed = numbers[placed]
    columns = np.stack([durations[placed], tokens[placed]], axis=1)
    seconds = np.bincount(of_placed, columns[:, 0], len(pairs))
    sums = np.bincount(of_placed, columns[:, 1], len(pairs))
    counts = np.bincount(of_placed, minlength=len(pairs))
    edges = sorted({size for size, _ in pairs})
    lower = dict(zip(edges, [0.0, *edges], strict=False))

    def padding(numbers: npt.NDArray[Any]) -> Paddings:
        return Paddings(*paddings_of(columns, numbers, settings.batch_duration))

    return Bins2dReport(
        num_buckets=len(edges),
        bucket_duration_bins=pairs,
        max_duration=pairs[-1][0],
        max_tps=max_tps,
        num_examples=len(durations),
        hours=float(durations.sum()) / 3600,
        num_tokens=int(tokens.sum(dtype=np.int64)),
        num_discarded=examples.num_discarded,
        num_skipped=examples.num_skipped,
        num_rejected=examples.num_rejected,
        first_rejected=examples.first_rejected,
        num_outliers=bins.num_outliers,
        num_unplaced=int(len(placed) - placed.sum()),
        num_above_max_tps=int((tps[placed] > np.array(max_tps)[of_placed]).sum()),
        percentiles=percentiles(durations),
        token_percentiles=percentiles(np.sort(tokens)),
        tps_percentiles=percentiles(np.sort(tps)),
        buckets=[
            Bucket2d(lower[size], size, limit, ratio, int(count), float(of_bucket) / 3600, int(num_tokens))
            for (size, limit), ratio, count, of_bucket, num_tokens in zip(
                pairs, max_tps, counts, seconds, sums, strict=True
            )
        ],
        batch_duration=settings.batch_duration,
        padding=padding(of_placed),
        padding_with_durations_alone=padding(np.searchsorted(edges, columns[:, 0])),
        padding_without_buckets=padding(np.zeros(len(columns), np.int64)),
        notes=[
            *notes,
            *notes_on_seconds(typical),
            *notes_on_limit(settings.max_duration, typical),
            *notes_on_pairs(pairs, settings.num_buckets, settings.sub_buckets, int(np.count_nonzero(counts == 0))),
        ],
        durations=durations,
        tokens=tokens,
    )
