"""The text of the reports of bins: lines to paste into a config, tables, and the document for `--json`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prepcli.commands.estimate_bins.command import Counted
    from prepcli.commands.estimate_bins.durations import BinsReport
    from prepcli.commands.estimate_bins.tokens import TokenBinsReport
    from prepcli.commands.estimate_bins.two_d import Bins2dReport, Paddings


class BinsText(ABC):
    """The text and the JSON document of a report of bins.

    `format(report, "quiet")` has only the bins, as `--quiet` prints them.
    """

    @abstractmethod
    def lines(self) -> list[str]:
        """The lines that the command prints."""

    @abstractmethod
    def bins_alone(self) -> str:
        """The bins as NeMo's scripts print them."""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __format__(self, spec: str) -> str:
        return self.bins_alone() if spec == "quiet" else format(str(self), spec)

    def document(self) -> dict[str, Any]:
        """The document for `--json`: all fields except the arrays with a number for each example."""
        report: Any = self
        arrays = [one.name for one in fields(report) if not one.repr]
        found = asdict(replace(report, **{name: getattr(report, name)[:0] for name in arrays}))
        return {name: value for name, value in found.items() if name not in arrays}


def notes(report: "Counted", left_out_by: str) -> list[str]:
    """Notes on the lines that were not used, worded as in NeMo's scripts; `left_out_by` names the filters."""
    lines = []
    if report.num_discarded:
        total = report.num_examples + report.num_discarded
        lines.append(
            f"Note: we discarded {report.num_discarded}/{total} ({report.num_discarded / total:.2%}) utterances "
            f"due to {left_out_by} filtering."
        )
    if report.num_skipped:
        lines.append(f"Note: we skipped {report.num_skipped} lines with a true _skipme.")
    if report.num_rejected:
        lines.append(f"Note: {report.num_rejected} lines cannot be used; the first is {report.first_rejected}")
    return lines


def plain_list(values: Sequence[object]) -> str:
    """Bins as NeMo's scripts print them."""
    return f"[{','.join(map(str, values))}]"


def percentiles_text(percentiles: Mapping[str, float], spec: str = ".2f") -> str:
    """The percentiles in one line, such as `p50 3.20  p100 9.00`."""
    return "  ".join(f"{name} {value:{spec}}" for name, value in percentiles.items())


def lines_of_bins(report: "BinsReport") -> list[str]:
    """The lines that the command prints; the lines to paste are worded as in NeMo's script."""
    padding = ", ".join(f"{count}: {share:.1%}" for count, share in report.padding_by_num_buckets.items())
    return [
        *notes(report, "min/max duration"),
        *(f"Note: {note}." for note in report.notes),
        f"Used {report.num_examples} examples for the estimation.",
        "Use the following options in your config:",
        f"\tnum_buckets={report.num_buckets}",
        f"\tbucket_duration_bins={plain_list(report.bucket_duration_bins)}",
        f"\tmax_duration={report.max_duration}",
        "",
        f"{report.hours:,.2f} hours; seconds at percentiles: {percentiles_text(report.percentiles)}",
        f"Padding in batches of {report.batch_duration:g} s: {report.padding:.1%} with these bins, "
        f"{report.padding_without_buckets:.1%} without bucketing.",
        f"Padding by number of buckets: {padding}",
        "",
        "bucket   longer than    up to (s)     examples        hours",
        *(
            f"{number:6d} {bucket.above:13.3f} {bucket.up_to:12.3f} {bucket.num_examples:12,} {bucket.hours:12,.2f}"
            for number, bucket in enumerate(report.buckets)
        ),
    ]


def lines_of_bins_2d(report: "Bins2dReport") -> list[str]:
    """The lines that the command prints; the lines to paste are worded as in NeMo's script."""
    text = percentiles_text
    return [
        *notes(report, "min/max duration"),
        *(f"Note: {note}." for note in report.notes),
        f"Used {report.num_examples} examples for the estimation.",
        "Use the following options in your config:",
        f"\tnum_buckets={report.num_buckets}",
        f"\tbucket_duration_bins={pairs(report)}",
        f"\tmax_duration={report.max_duration}",
        f"\tmax_tps={plain_list([f'{ratio:.2f}' for ratio in report.max_tps])}",
        "",
        f"{report.hours:,.2f} hours, {report.num_tokens:,} tokens",
        f"seconds at percentiles: {text(report.percentiles)}",
        f"tokens at percentiles: {text(report.token_percentiles, '.0f')}",
        f"tokens per second at percentiles: {text(report.tps_percentiles)}",
        f"The bins were made without {report.num_outliers:,} outliers in tokens per second; {report.num_unplaced:,} "
        f"examples fit no bucket, and max_tps would leave out {report.num_above_max_tps:,} more.",
        f"Padding in batches of {report.batch_duration:g} s: {_both(report.padding)} with these bins, "
        f"{_both(report.padding_with_durations_alone)} with only their durations, "
        f"{_both(report.padding_without_buckets)} without bucketing.",
        "",
        "bucket   longer than    up to (s)       tokens      max tps     examples        hours",
        *(
            f"{number:6d} {bucket.above:13.3f} {bucket.up_to:12.3f} {bucket.max_tokens:12,} {bucket.max_tps:12.2f} "
            f"{bucket.num_examples:12,} {bucket.hours:12,.2f}"
            for number, bucket in enumerate(report.buckets)
        ),
    ]


def _both(paddings: "Paddings") -> str:
    return f"{paddings.seconds:.1%} of seconds and {paddings.tokens:.1%} of tokens"


def pairs(report: "Bins2dReport") -> str:
    """The bins in two dimensions as NeMo's script prints them."""
    return plain_list([f"[{size:.3f},{limit}]" for size, limit in report.bucket_duration_bins])


def lines_of_token_bins(report: "TokenBinsReport") -> list[str]:
    """The lines that the command prints; the lines to paste are worded as in NeMo's script."""
    text = percentiles_text
    measured = "input and output" if report.measure_total_length else "input"
    max_tpt = report.max_tpt if isinstance(report.max_tpt, float) else plain_list(report.max_tpt)
    return [
        *notes(report, "token count"),
        *(f"Note: {note}." for note in report.notes),
        f"Used {report.num_examples} examples for the estimation.",
        "Use the following options in your config:",
        f"\tnum_buckets={report.num_buckets}",
        f"\tbucket_duration_bins={token_bins(report)}",
        f"\tmax_tokens={report.max_tokens}",
        f"\tmax_tpt={max_tpt}",
        "",
        f"{report.num_input_tokens:,} tokens of input, {report.num_output_tokens:,} of output",
        f"tokens that choose the bucket, at percentiles: {text(report.input_percentiles, '.0f')}",
        f"output tokens at percentiles: {text(report.output_percentiles, '.0f')}",
        f"output tokens per input token at percentiles: {text(report.tpt_percentiles)}",
        f"Suggestion for one limit: max_tpt={report.suggested_max_tpt}, which leaves out "
        f"{report.num_above_suggested:,} of {report.num_examples:,} examples.",
        f"The bins were made without {report.num_outliers:,} outliers in output tokens per input token; "
        f"{report.num_unplaced:,} examples fit no bucket.",
        f"Padding in batches of {report.batch_tokens:g} tokens ({measured}): {_shares(report.padding)} with these "
        f"bins, {_shares(report.padding_without_buckets)} without bucketing.",
    ]


def _shares(paddings: list[float]) -> str:
    return " and ".join(
        f"{share:.1%} of {what}" for share, what in zip(paddings, ("the length", "the output"), strict=False)
    )


def token_bins(report: "TokenBinsReport") -> str:
    """The bins of tokens as NeMo's script prints them."""
    return plain_list(
        [f"[{one[0]},{one[1]}]" if isinstance(one, tuple) else str(one) for one in report.bucket_duration_bins]
    )
