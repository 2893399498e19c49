"""`prepcli estimate-bins`."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from prepcli.cli import bins_options as given
from prepcli.cli import bins_output
from prepcli.cli.groups import takes
from prepcli.cli.options import available_processors

if TYPE_CHECKING:
    from prepcli.bins.durations import BinsReport


@takes(output=given.OutputOptions)
def estimate_bins(
    data: given.AudioInput,
    *,
    buckets: Annotated[int, typer.Option("--buckets", "-b", min=2, help="Number of buckets.")] = 30,
    num_examples: given.NumExamples = -1,
    min_duration: given.MinDuration = None,
    max_duration: given.MaxDuration = None,
    batch_duration: given.BatchDuration = 360.0,
    output: given.OutputOptions,
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
    from prepcli.bins.durations import BinsOptions
    from prepcli.bins.durations import estimate_bins as estimate

    output.check()
    options = BinsOptions(
        num_buckets=buckets,
        num_examples=num_examples,
        min_duration=-float("inf") if min_duration is None else min_duration,
        max_duration=float("inf") if max_duration is None else max_duration,
        batch_duration=batch_duration,
        num_workers=output.num_workers or available_processors(),
    )
    report = estimate(data, options)
    if output.plot is not None:
        from prepcli.bins.bins_plot import plot_bins

        plot_bins(report, output.plot)
    config = {
        "use_bucketing": True,
        "num_buckets": report.num_buckets,
        "bucket_duration_bins": report.bucket_duration_bins,
        "max_duration": report.max_duration,
    }
    bins_output.conclude(
        report,
        bins=bins_output.plain_list(report.bucket_duration_bins),
        lines=lambda: _lines(report),
        config=config if min_duration is None else config | {"min_duration": min_duration},
        output=output,
    )


def _lines(report: "BinsReport") -> list[str]:
    """What people read, with the lines to paste worded as NeMo's script words them."""
    padding = ", ".join(f"{count}: {share:.1%}" for count, share in report.padding_by_num_buckets.items())
    return [
        *bins_output.notes(report, "min/max duration"),
        f"Used {report.num_examples} examples for the estimation.",
        "Use the following options in your config:",
        f"\tnum_buckets={report.num_buckets}",
        f"\tbucket_duration_bins={bins_output.plain_list(report.bucket_duration_bins)}",
        f"\tmax_duration={report.max_duration}",
        "",
        f"{report.hours:,.2f} hours; seconds at percentiles: {bins_output.percentiles_text(report.percentiles)}",
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
