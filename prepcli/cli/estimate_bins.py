"""`prepcli estimate-bins`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prepcli.cli.options import Json, MaxRejects, NumWorkers, available_processors

if TYPE_CHECKING:
    from prepcli.bins import BinsReport


def estimate_bins(
    data: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="Manifest(s): a path, several with commas, or brace forms; [[a.json,0.7],[b.json,0.3]]; an "
            "input_cfg .yaml; a Shar or tarred directory; or key=value with manifest_filepath, shar_path, "
            "cuts_path or input_cfg.",
        ),
    ],
    buckets: Annotated[int, typer.Option("--buckets", "-b", min=2, help="Number of buckets.")] = 30,
    num_examples: Annotated[
        int,
        typer.Option(
            "--num-examples",
            "-n",
            help="Use so many examples, from the start of each input in proportion to its weight. -1: all.",
        ),
    ] = -1,
    min_duration: Annotated[
        float | None, typer.Option("--min-duration", "-l", help="Leave out shorter examples (seconds).")
    ] = None,
    max_duration: Annotated[
        float | None, typer.Option("--max-duration", "-u", help="Leave out longer examples (seconds).")
    ] = None,
    batch_duration: Annotated[
        float, typer.Option("--batch-duration", help="Seconds in a batch, for the share of padding.")
    ] = 360.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the bins and nothing else.")] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw the durations with the bin edges.")
    ] = None,
    as_json: Json = False,
    max_rejects: MaxRejects = 0.05,
    num_workers: NumWorkers = None,
    text_field: Annotated[
        str, typer.Option("--text-field", help="Has no say in durations; taken so that commands can be shared.")
    ] = "text",
    lang_field: Annotated[
        str, typer.Option("--lang-field", help="Has no say in durations; taken so that commands can be shared.")
    ] = "lang",
) -> None:
    """Estimate duration bins for bucketed training, and how much padding they leave.

    The bins are those of lhotse and NeMo; the lines to paste into a training config are NeMo's. Weights of the
    input decide which examples come first (-n); over all of them they change nothing.

    Example: prepcli estimate-bins train.json -b 30 -u 40 --plot bins.png
    """
    # Before numpy is first imported: its BLAS would start a thread a processor, and nothing here multiplies.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from prepcli.bins import BinsOptions
    from prepcli.bins import estimate_bins as estimate
    from prepcli.errors import RejectReason, TooManyRejectsError
    from prepcli.run.rejects import Budget

    budget = Budget(max_rejects)
    options = BinsOptions(
        num_buckets=buckets,
        num_examples=num_examples,
        min_duration=-float("inf") if min_duration is None else min_duration,
        max_duration=float("inf") if max_duration is None else max_duration,
        batch_duration=batch_duration,
        num_workers=num_workers or available_processors(),
    )
    report = estimate(data, options)
    if plot is not None:
        from prepcli.bins_plot import plot_bins

        plot_bins(report, plot)
    if report.first_rejected:
        _log(f"warning: {report.num_rejected:,} lines cannot be used; the first is {report.first_rejected}")
    if as_json:
        from prepcli.cli.output import print_json

        print_json(_document(report))
    else:
        typer.echo(_list(report.bucket_duration_bins) if quiet else "\n".join(_lines(report)))
    num_records = report.num_examples + report.num_discarded + report.num_rejected
    if budget.exceeded({RejectReason.BAD_FIELD.value: report.num_rejected}, num_records):
        raise TooManyRejectsError(
            f"{report.num_rejected:,} of {num_records:,} records cannot be used, more than --max-rejects "
            f"allows ({budget})"
        )


def _lines(report: "BinsReport") -> list[str]:
    """What people read, with the lines to paste worded as NeMo's script words them."""
    lines = []
    if report.num_discarded:
        total = report.num_examples + report.num_discarded
        lines.append(
            f"Note: we discarded {report.num_discarded}/{total} ({report.num_discarded / total:.2%}) utterances "
            "due to min/max duration filtering."
        )
    if report.num_skipped:
        lines.append(f"Note: we passed over {report.num_skipped} lines with a true _skipme.")
    if report.num_rejected:
        lines.append(f"Note: {report.num_rejected} lines cannot be used; the first is {report.first_rejected}")
    percentiles = "  ".join(f"{name} {seconds:.2f}" for name, seconds in report.percentiles.items())
    padding = ", ".join(f"{count}: {share:.1%}" for count, share in report.padding_by_num_buckets.items())
    return [
        *lines,
        f"Used {report.num_examples} examples for the estimation.",
        "Use the following options in your config:",
        f"\tnum_buckets={report.num_buckets}",
        f"\tbucket_duration_bins={_list(report.bucket_duration_bins)}",
        f"\tmax_duration={report.max_duration}",
        "",
        f"{report.hours:,.2f} hours; seconds at percentiles: {percentiles}",
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


def _document(report: "BinsReport") -> dict[str, Any]:
    """The report as `--json` prints it: all but the durations themselves."""
    from dataclasses import asdict, replace

    document = asdict(replace(report, durations=report.durations[:0]))
    del document["durations"]
    return document


def _list(bins: list[float]) -> str:
    return f"[{','.join(map(str, bins))}]"


def _log(message: str) -> None:
    print(f"prepcli: {message}", file=sys.stderr)
