"""`prepcli estimate-bins-2d`."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from prepcli.cli import bins_options as given
from prepcli.cli import bins_output
from prepcli.cli.groups import takes
from prepcli.cli.options import available_processors

if TYPE_CHECKING:
    from prepcli.bins.two_d import Bins2dReport, Paddings


@takes(tokenizers=given.TokenizerOptions, output=given.OutputOptions)
def estimate_bins_2d(
    data: given.AudioInput,
    *,
    tokenizers: given.TokenizerOptions,
    buckets: Annotated[int, typer.Option("--buckets", "-b", min=1, help="Number of buckets of durations.")] = 30,
    sub_buckets: Annotated[
        int, typer.Option("--sub-buckets", "-s", min=1, help="Number of buckets of tokens in each of these.")
    ] = 2,
    num_examples: given.NumExamples = -1,
    min_duration: given.MinDuration = None,
    max_duration: given.MaxDuration = None,
    token_outlier_threshold: Annotated[
        float,
        typer.Option(
            "--token-outlier-threshold",
            help="Leave out examples whose tokens per second are so many standard deviations above the mean.",
        ),
    ] = 4.0,
    text_field: Annotated[str, typer.Option("--text-field", help="The field with the transcript.")] = "text",
    lang_field: Annotated[str, typer.Option("--lang-field", help="The field with the language.")] = "lang",
    batch_duration: given.BatchDuration = 360.0,
    output: given.OutputOptions,
) -> None:
    """Estimate bins by duration and number of tokens, for two-dimensional bucketing.

    The numbers are those of NeMo's script, and so are the lines to paste into a training config. max_tps is only
    needed where low quality data have long transcripts for little audio.

    Example: prepcli estimate-bins-2d train.json -t tokenizer.model -b 30 -s 5 -u 40 --plot bins.png
    """
    # Before numpy is first imported: its BLAS would start a thread a processor, and nothing here multiplies.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from prepcli.bins.two_d import Bins2dOptions
    from prepcli.bins.two_d import estimate_bins_2d as estimate

    output.check()
    options = Bins2dOptions(
        num_buckets=buckets,
        sub_buckets=sub_buckets,
        token_outlier_threshold=token_outlier_threshold,
        num_examples=num_examples,
        min_duration=-float("inf") if min_duration is None else min_duration,
        max_duration=float("inf") if max_duration is None else max_duration,
        text_field=text_field,
        lang_field=lang_field,
        batch_duration=batch_duration,
        num_workers=output.num_workers or available_processors(),
    )
    report = estimate(data, tokenizers.spec(), options)
    if output.plot is not None:
        from prepcli.bins.nested_plot import plot_bins_2d

        plot_bins_2d(report, output.plot)
    config = {
        "use_bucketing": True,
        "num_buckets": report.num_buckets,
        "bucket_duration_bins": [list(pair) for pair in report.bucket_duration_bins],
        "max_duration": report.max_duration,
        "max_tps": report.max_tps,
    }
    bins_output.conclude(
        report,
        bins=_pairs(report),
        lines=lambda: _lines(report),
        config=config if min_duration is None else config | {"min_duration": min_duration},
        output=output,
    )


def _lines(report: "Bins2dReport") -> list[str]:
    """What people read, with the lines to paste worded as NeMo's script words them."""
    text = bins_output.percentiles_text
    return [
        *bins_output.notes(report, "min/max duration"),
        *(f"Note: {note}." for note in report.notes),
        f"Used {report.num_examples} examples for the estimation.",
        "Use the following options in your config:",
        f"\tnum_buckets={report.num_buckets}",
        f"\tbucket_duration_bins={_pairs(report)}",
        f"\tmax_duration={report.max_duration}",
        f"\tmax_tps={bins_output.plain_list([f'{ratio:.2f}' for ratio in report.max_tps])}",
        "",
        f"{report.hours:,.2f} hours, {report.num_tokens:,} tokens",
        f"seconds at percentiles: {text(report.percentiles)}",
        f"tokens at percentiles: {text(report.token_percentiles, '.0f')}",
        f"tokens per second at percentiles: {text(report.tps_percentiles)}",
        f"The bins were made without {report.num_outliers:,} outliers in tokens per second; no bucket takes "
        f"{report.num_unplaced:,} examples, and max_tps would leave out {report.num_above_max_tps:,} more.",
        f"Padding in batches of {report.batch_duration:g} s: {_both(report.padding)} with these bins, "
        f"{_both(report.padding_with_durations_alone)} with their durations alone, "
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


def _pairs(report: "Bins2dReport") -> str:
    return bins_output.plain_list([f"[{size:.3f},{limit}]" for size, limit in report.bucket_duration_bins])
