"""The commands that estimate bins for bucketed training."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import Unpack

from prepcli.commands.estimate_bins.arguments import (
    FROM_INPUT,
    IGNORED,
    LANG_FIELD,
    TEXT_FIELD,
    AudioInput,
    BatchDuration,
    MaxDuration,
    MinDuration,
    NumExamples,
    OutputArguments,
    TokenizerArguments,
    Tokenizers,
    TokensAndOutputArguments,
)
from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths, PathText, several, texts_of
from prepcli.interface.shared_options import NumWorkers, Progress

if TYPE_CHECKING:
    from prepcli.commands.estimate_bins.durations import BinsReport
    from prepcli.commands.estimate_bins.tokens import TokenBinsReport
    from prepcli.commands.estimate_bins.two_d import Bins2dReport
    from prepcli.tokenizers.counting import TokenizerSpec


@command("estimate-bins")
def estimate_bins(
    data: AudioInput,
    *,
    num_buckets: Annotated[int, Option("Number of buckets.", names=("--buckets", "-b"), minimum=2)] = 30,
    num_examples: NumExamples = -1,
    min_duration: MinDuration = None,
    max_duration: MaxDuration = None,
    batch_duration: BatchDuration = 360.0,
    num_workers: NumWorkers = None,
    progress: Progress = False,
    keep: Annotated[
        str | Sequence[str],
        Option(
            "Use only the examples for which this is true, as in filter.",
            metavar="EXPR",
            one_each=True,
        ),
    ] = (),
    text_field: Annotated[str, IGNORED] = "text",
    lang_field: Annotated[str, IGNORED] = "lang",
    **more: Unpack[OutputArguments],
) -> "BinsReport":
    """Estimate duration bins for bucketed training, and the share of padding in batches.

    The bins, and the lines to paste into a training config, are identical to those of lhotse and NeMo. Input weights
    only matter with -n: they decide which examples are used.

    Example: prepcli estimate-bins train.json -b 30 -u 40 --plot bins.png

    Returns:
        The bins in seconds, and the share of padding from 0 to 1; `durations` is a sorted array, seconds.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or fewer examples than buckets.
        IncompleteError: a worker process was killed.
        TooManyRejectsError: more lines cannot be used than `max_rejects` allows; its `report` has the bins.

    Examples:
        >>> import prepcli
        >>> report = prepcli.estimate_bins("manifest.json", num_buckets=5)
        >>> report.bucket_duration_bins
        [1.74, 3.26, 3.64, 5.06]
        >>> report.max_duration
        6.52
    """
    from prepcli.commands.estimate_bins.durations import bins_of_durations
    from prepcli.commands.estimate_bins.output import output_of
    from prepcli.commands.estimate_bins.settings import DurationSettings
    from prepcli.jobs.inputs.data import data_of
    from prepcli.processes.workers import available_processors

    settings = DurationSettings(
        data=str(data),
        num_buckets=num_buckets,
        num_examples=num_examples,
        min_duration=min_duration,
        max_duration=max_duration,
        batch_duration=batch_duration,
        num_workers=num_workers or available_processors(),
    )
    output = output_of(settings.data, more)
    output.check(lambda: data_of(settings.data, "leave out"))
    settings = output.with_limits(settings)
    report = bins_of_durations(settings, several(keep))
    if output.plot is not None:
        from prepcli.commands.estimate_bins.plots import plot_bins

        plot_bins(report, output.plot)
    config: dict[str, Any] = {
        "use_bucketing": True,
        "num_buckets": report.num_buckets,
        "bucket_duration_bins": report.bucket_duration_bins,
        "max_duration": report.max_duration if settings.max_duration is None else settings.max_duration,
    }
    if min_duration is not None:
        config["min_duration"] = min_duration
    output.conclude(report, config, {"max_duration": max_duration})
    return report


@command("estimate-bins-2d")
def estimate_bins_2d(
    data: AudioInput,
    tokenizer: Tokenizers,
    *,
    num_buckets: Annotated[int, Option("Number of duration buckets.", names=("--buckets", "-b"), minimum=1)] = 30,
    sub_buckets: Annotated[
        int, Option("Number of token buckets in each duration bucket.", names=("--sub-buckets", "-s"), minimum=1)
    ] = 2,
    token_outlier_threshold: Annotated[
        float,
        Option(
            "Leave out examples with tokens per second more than this many standard deviations above the mean.",
            minimum=0,
        ),
    ] = 4.0,
    num_examples: NumExamples = -1,
    min_duration: MinDuration = None,
    max_duration: MaxDuration = None,
    text_field: Annotated[
        str | None, Option("The field with the transcript.", shown_default=f"{FROM_INPUT}, or {TEXT_FIELD}")
    ] = None,
    lang_field: Annotated[
        str | None, Option("The field with the language.", shown_default=f"{FROM_INPUT}, or {LANG_FIELD}")
    ] = None,
    batch_duration: BatchDuration = 360.0,
    num_workers: NumWorkers = None,
    progress: Progress = False,
    **more: Unpack[TokensAndOutputArguments],
) -> "Bins2dReport":
    """Estimate bins by duration and number of tokens, for two-dimensional bucketing.

    The bins, and the lines to paste into a training config, are identical to those of NeMo's script. max_tps is only
    needed if the data contain long transcripts for little audio.

    Example: prepcli estimate-bins-2d train.json -t tokenizer.model -b 30 -s 5 -u 40 --plot bins.png

    Returns:
        The bins as pairs of seconds and tokens, `max_tps` in tokens per second, and the shares of padding from 0 to 1.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or no example that can be used.
        IncompleteError: a worker process was killed.
        TooManyRejectsError: more lines cannot be used than `max_rejects` allows; its `report` has the bins.

    Examples:
        >>> import prepcli
        >>> report = prepcli.estimate_bins_2d("manifest.json", "tokenizer.model", num_buckets=3, sub_buckets=2)
        >>> report.num_examples, len(report.bucket_duration_bins)
        (48, 6)
    """
    from prepcli.commands.estimate_bins.output import output_of
    from prepcli.commands.estimate_bins.settings import Settings2d
    from prepcli.commands.estimate_bins.two_d import bins_in_two_dimensions
    from prepcli.jobs.inputs.data import data_of
    from prepcli.processes.workers import available_processors

    settings = Settings2d(
        data=str(data),
        num_buckets=num_buckets,
        sub_buckets=sub_buckets,
        token_outlier_threshold=token_outlier_threshold,
        num_examples=num_examples,
        min_duration=min_duration,
        max_duration=max_duration,
        text_field=text_field,
        lang_field=lang_field,
        batch_duration=batch_duration,
        num_workers=num_workers or available_processors(),
    )
    output = output_of(settings.data, more)
    output.check(lambda: data_of(settings.data, "leave out"), texts_of(tokenizer))
    settings = output.with_limits(settings)
    report = bins_in_two_dimensions(settings, _tokenizers(tokenizer, more))
    if output.plot is not None:
        from prepcli.commands.estimate_bins.plots import plot_bins_2d

        plot_bins_2d(report, output.plot)
    config: dict[str, Any] = {
        "use_bucketing": True,
        "num_buckets": report.num_buckets,
        "bucket_duration_bins": [list(pair) for pair in report.bucket_duration_bins],
        "max_duration": report.max_duration if settings.max_duration is None else settings.max_duration,
        "max_tps": report.max_tps,
    }
    if min_duration is not None:
        config["min_duration"] = min_duration
    output.conclude(report, config, {"max_duration": max_duration, "max_tps": None})
    return report


@command("estimate-token-bins")
def estimate_token_bins(
    data: Annotated[
        PathText,
        Option(
            "An input_cfg or a training config, with entries of type txt, txt_pair, multimodal_conversation, and of "
            "audio; or one of the other inputs of estimate-bins.",
            metavar="INPUT.yaml",
            is_argument=True,
            may_be_path=True,
        ),
    ],
    tokenizer: Tokenizers,
    *,
    num_buckets: Annotated[int, Option("Number of length buckets.", names=("--buckets", "-b"), minimum=2)] = 30,
    sub_buckets: Annotated[
        int | None,
        Option(
            "Number of output token buckets in each length bucket.",
            names=("--sub-buckets", "-s"),
            minimum=1,
            shown_default="one dimension",
        ),
    ] = None,
    token_outlier_threshold: Annotated[
        float,
        Option(
            "Leave out examples whose output tokens per input token are more than this many standard deviations above "
            "the mean.",
            minimum=0,
        ),
    ] = 6.0,
    num_examples: NumExamples = -1,
    min_tokens: Annotated[
        float | None,
        Option("Leave out texts with fewer tokens.", names=("--min-tokens", "-l"), shown_default=FROM_INPUT),
    ] = None,
    max_tokens: Annotated[
        float | None,
        Option("Leave out texts with more tokens.", names=("--max-tokens", "-u"), shown_default=FROM_INPUT),
    ] = None,
    max_tpt: Annotated[
        float | None,
        Option("Leave out texts with more output tokens per input token than this.", shown_default=FROM_INPUT),
    ] = None,
    measure_total_length: Annotated[
        bool | None,
        Option(
            "The length of an example is input plus output (decoder-only models), else input only (encoder-decoder "
            "models). With --sub-buckets this affects only --min-tokens and --max-tokens.",
            names=("--measure-total-length/--no-measure-total-length", "-m"),
            shown_default=f"{FROM_INPUT}, or yes without --sub-buckets",
        ),
    ] = None,
    token_equivalent_duration: Annotated[
        float | None,
        Option("Seconds of audio that count as one token.", shown_default=f"{FROM_INPUT}, or 0.08"),
    ] = None,
    audio_locator_tag: Annotated[
        str | None, Option("Tag that stands for audio in a prompt.", shown_default=FROM_INPUT)
    ] = None,
    batch_tokens: Annotated[float, Option("Tokens per batch, to compute the share of padding.", above=0)] = 16_000,
    num_workers: NumWorkers = None,
    progress: Progress = False,
    **more: Unpack[TokensAndOutputArguments],
) -> "TokenBinsReport":
    """Estimate bins by number of tokens, for bucketed training on texts, conversations and audio.

    With --prompt-format, lengths are measured as NeMo's samplers do. Without it, the last turn of an example is its
    output (the target of a pair, the whole of a plain text), and everything before is its input. Audio counts as one
    token per --token-equivalent-duration, its transcript is output.

    Example: prepcli estimate-token-bins input_cfg.yaml -t tokenizer.model -b 30 -s 5

    Returns:
        The bins in tokens, and the shares of padding from 0 to 1. With `sub_buckets` a bin is a pair of input and
        output tokens; else it is a number of tokens, of input and output together or, with
        `measure_total_length=False`, of input alone.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, no example that can be used, or, for
            bins without `sub_buckets`, fewer examples than buckets.
        IncompleteError: a worker process was killed.
        TooManyRejectsError: more lines cannot be used than `max_rejects` allows; its `report` has the bins.

    Examples:
        >>> import prepcli
        >>> report = prepcli.estimate_token_bins("texts.yaml", "tokenizer.model")
        >>> report.num_examples
        48
    """
    from prepcli.commands.estimate_bins.output import output_of
    from prepcli.commands.estimate_bins.settings import TokenSettings
    from prepcli.commands.estimate_bins.tokens import bins_of_tokens
    from prepcli.manifest.inputs import resolve_input
    from prepcli.processes.workers import available_processors

    settings = TokenSettings(
        data=str(data),
        num_buckets=num_buckets,
        sub_buckets=sub_buckets,
        token_outlier_threshold=token_outlier_threshold,
        num_examples=num_examples,
        min_tokens=min_tokens,
        max_tokens=max_tokens,
        max_tpt=max_tpt,
        measure_total_length=measure_total_length,
        token_equivalent_duration=token_equivalent_duration,
        audio_locator_tag=audio_locator_tag,
        batch_tokens=batch_tokens,
        num_workers=num_workers or available_processors(),
    )
    output = output_of(settings.data, more)
    output.check(lambda: resolve_input(settings.data, "read"), texts_of(tokenizer))
    settings = output.with_limits(settings)
    report = bins_of_tokens(settings, _tokenizers(tokenizer, more))
    if output.plot is not None:
        from prepcli.commands.estimate_bins.plots import plot_token_bins

        plot_token_bins(report, output.plot)
    bins = [list(bound) if isinstance(bound, tuple) else bound for bound in report.bucket_duration_bins]
    config: dict[str, Any] = {
        "use_multimodal_sampling": True,
        "use_bucketing": True,
        "num_buckets": report.num_buckets,
        "bucket_duration_bins": bins,
        "max_tokens": report.max_tokens,
        "max_tpt": report.max_tpt,
        "measure_total_length": report.measure_total_length,
        "token_equivalent_duration": report.token_equivalent_duration,
    }
    if min_tokens is not None:
        config["min_tokens"] = int(min_tokens)
    if report.prompt_format is not None:
        config["prompt_format"] = report.prompt_format
    output.conclude(report, config, {"max_tokens": max_tokens, "max_tpt": max_tpt})
    return report


def _tokenizers(tokenizers: Paths, more: TokenizerArguments) -> "TokenizerSpec":
    """The tokenizers that the options name; raises `UsageError` if they do not match the languages."""
    from prepcli.tokenizers.counting import TokenizerSpec

    langs, prompt_format, prompt = several(more["langs"]), more["prompt_format"], more["prompt"]
    return TokenizerSpec(tokenizers=texts_of(tokenizers), langs=langs, prompt_format=prompt_format, prompt=prompt)
