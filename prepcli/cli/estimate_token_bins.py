"""`prepcli estimate-token-bins`."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from prepcli.cli import bins_options as given
from prepcli.cli import bins_output
from prepcli.cli.groups import takes
from prepcli.cli.options import available_processors

if TYPE_CHECKING:
    from prepcli.bins.tokens import TokenBinsReport


@takes(tokenizers=given.TokenizerOptions, output=given.OutputOptions)
def estimate_token_bins(
    data: Annotated[
        str,
        typer.Argument(
            metavar="INPUT.yaml", help="An input_cfg with entries of type txt, txt_pair or multimodal_conversation."
        ),
    ],
    *,
    tokenizers: given.TokenizerOptions,
    buckets: Annotated[int, typer.Option("--buckets", "-b", min=2, help="Number of buckets of lengths.")] = 30,
    sub_buckets: Annotated[
        int | None,
        typer.Option(
            "--sub-buckets",
            "-s",
            min=1,
            help="Number of buckets of output tokens in each of these.",
            show_default="one dimension",
        ),
    ] = None,
    num_examples: given.NumExamples = -1,
    min_tokens: Annotated[
        float | None, typer.Option("--min-tokens", "-l", help="Leave out examples with fewer tokens.")
    ] = None,
    max_tokens: Annotated[
        float | None, typer.Option("--max-tokens", "-u", help="Leave out examples with more tokens.")
    ] = None,
    max_tpt: Annotated[
        float | None,
        typer.Option("--max-tpt", help="Leave out examples with more output tokens per input token than this."),
    ] = None,
    token_outlier_threshold: Annotated[
        float,
        typer.Option(
            "--token-outlier-threshold",
            help="Leave out examples whose output per input is so many standard deviations above the mean.",
        ),
    ] = 6.0,
    measure_total_length: Annotated[
        bool,
        typer.Option(
            "--measure-total-length",
            "-m",
            help="An example is as long as input and output together (decoder-only models); else as its input. In two "
            "dimensions this is for --min-tokens and --max-tokens alone.",
        ),
    ] = False,
    token_equivalent_duration: Annotated[
        float,
        typer.Option(
            "--token-equivalent-duration",
            help="Seconds of audio that count as one token, where the input does not say.",
        ),
    ] = 0.08,
    audio_locator_tag: Annotated[
        str | None,
        typer.Option("--audio-locator-tag", help="What stands for audio in a prompt, where the input does not say."),
    ] = None,
    batch_tokens: Annotated[
        float, typer.Option("--batch-tokens", help="Tokens in a batch, for the share of padding.")
    ] = 16_000,
    output: given.OutputOptions,
) -> None:
    """Estimate bins by number of tokens, for bucketed training on texts and conversations.

    With --prompt-format the lengths are those that NeMo's samplers measure. Without one the last turn of an example is
    its output (of pairs the target, of plain texts all), and everything before it the input.

    Example: prepcli estimate-token-bins input_cfg.yaml -t tokenizer.model -b 30 -s 5
    """
    # Before numpy is first imported: its BLAS would start a thread a processor, and nothing here multiplies.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from prepcli.bins.tokens import TokenBinsOptions
    from prepcli.bins.tokens import estimate_token_bins as estimate

    output.check()
    infinity = float("inf")
    options = TokenBinsOptions(
        num_buckets=buckets,
        sub_buckets=sub_buckets,
        token_outlier_threshold=token_outlier_threshold,
        num_examples=num_examples,
        min_tokens=-infinity if min_tokens is None else min_tokens,
        max_tokens=infinity if max_tokens is None else max_tokens,
        max_tpt=infinity if max_tpt is None else max_tpt,
        measure_total_length=measure_total_length,
        token_equivalent_duration=token_equivalent_duration,
        audio_locator_tag=audio_locator_tag,
        batch_tokens=batch_tokens,
        num_workers=output.num_workers or available_processors(),
    )
    report = estimate(data, tokenizers.spec(), options)
    if output.plot is not None:
        from prepcli.bins.nested_plot import plot_token_bins

        plot_token_bins(report, output.plot)
    bins = [list(one) if isinstance(one, tuple) else one for one in report.bucket_duration_bins]
    config = {
        "use_multimodal_sampling": True,
        "use_bucketing": True,
        "num_buckets": report.num_buckets,
        "bucket_duration_bins": bins,
        "max_tokens": report.max_tokens,
        "max_tpt": report.max_tpt,
        "measure_total_length": report.measure_total_length,
        "token_equivalent_duration": token_equivalent_duration,
    }
    if min_tokens is not None:
        config["min_tokens"] = int(min_tokens)
    if tokenizers.prompt_format is not None:
        config["prompt_format"] = tokenizers.prompt_format
    bins_output.conclude(
        report,
        bins=_bins(report),
        lines=lambda: _lines(report),
        config=config,
        output=output,
    )


def _lines(report: "TokenBinsReport") -> list[str]:
    """What people read, with the lines to paste worded as NeMo's script words them."""
    text = bins_output.percentiles_text
    measured = "input and output" if report.measure_total_length else "input"
    max_tpt = report.max_tpt if isinstance(report.max_tpt, float) else bins_output.plain_list(report.max_tpt)
    return [
        *bins_output.notes(report, "token count"),
        *(f"Note: {note}." for note in report.notes),
        f"Used {report.num_examples} examples for the estimation.",
        "Use the following options in your config:",
        f"\tnum_buckets={report.num_buckets}",
        f"\tbucket_duration_bins={_bins(report)}",
        f"\tmax_tokens={report.max_tokens}",
        f"\tmax_tpt={max_tpt}",
        "",
        f"{report.num_input_tokens:,} tokens of input, {report.num_output_tokens:,} of output",
        f"tokens by which buckets are chosen, at percentiles: {text(report.input_percentiles, '.0f')}",
        f"output tokens at percentiles: {text(report.output_percentiles, '.0f')}",
        f"output tokens per input token at percentiles: {text(report.tpt_percentiles)}",
        f"Suggestion for one limit: max_tpt={report.suggested_max_tpt}, which leaves out "
        f"{report.num_above_suggested:,} of {report.num_examples:,} examples.",
        f"The bins were made without {report.num_outliers:,} outliers in output tokens per input token; no bucket "
        f"takes {report.num_unplaced:,} examples.",
        f"Padding in batches of {report.batch_tokens:g} tokens ({measured}): {_shares(report.padding)} with these "
        f"bins, {_shares(report.padding_without_buckets)} without bucketing.",
    ]


def _shares(paddings: list[float]) -> str:
    return " and ".join(
        f"{share:.1%} of {what}" for share, what in zip(paddings, ("the length", "the output"), strict=False)
    )


def _bins(report: "TokenBinsReport") -> str:
    return bins_output.plain_list(
        [f"[{one[0]},{one[1]}]" if isinstance(one, tuple) else str(one) for one in report.bucket_duration_bins]
    )
