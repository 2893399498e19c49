"""The options of the commands that estimate bins."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from prepcli.interface.options import Option
from prepcli.interface.shared_options import Json, MaxRejects, NumWorkers, Progress

if TYPE_CHECKING:
    from prepcli.engine.rejects import Budget
    from prepcli.manifest.datasets import DataSet, Mix
    from prepcli.tokenizers.counting import TokenizerSpec

AudioInput = Annotated[
    str,
    Option(
        "Manifest(s): a path, several separated by commas, or a brace pattern; [[a.json,0.7],[b.json,0.3]]; an "
        "input_cfg .yaml; a Shar or tarred directory; or key=value with the key manifest_filepath, shar_path, "
        "cuts_path or input_cfg.",
        metavar="INPUT",
        is_argument=True,
        takes_address=True,
    ),
]
NumExamples = Annotated[
    int,
    Option(
        "Maximum number of examples, taken from the start of each input in proportion to its weight. -1: all.",
        names=("--num-examples", "-n"),
    ),
]
MinDuration = Annotated[float | None, Option("Leave out shorter examples (seconds).", names=("--min-duration", "-l"))]
MaxDuration = Annotated[float | None, Option("Leave out longer examples (seconds).", names=("--max-duration", "-u"))]
BatchDuration = Annotated[float, Option("Seconds of audio per batch, to compute the share of padding.")]


@dataclass(frozen=True, kw_only=True)
class TokenizerOptions:
    """The options of tokenizers."""

    tokenizer: Annotated[
        tuple[str, ...],
        Option(
            "A SentencePiece model; a Hugging Face tokenizer.json, folder or name; a folder with one of them. "
            "Several, one per language, need --langs.",
            names=("--tokenizer", "-t"),
            metavar="TOKENIZER...",
        ),
    ]
    langs: Annotated[
        tuple[str, ...],
        Option(
            "The language of each tokenizer.",
            names=("--langs", "-a"),
            metavar="LANG...",
            shown_default="one for all",
        ),
    ] = ()
    prompt_format: Annotated[
        str | None,
        Option(
            "Count tokens in one of NeMo's prompt formats, e.g. canary (needs the extra nemo).",
            names=("--prompt-format", "-f"),
        ),
    ] = None
    prompt: Annotated[
        str | None,
        Option(
            "Prompt slots for records without them: [{'role':'user','slots':{'source_lang':'en'}}].",
            names=("--prompt", "-p"),
        ),
    ] = None

    def spec(self) -> "TokenizerSpec":
        """The options as `prepcli.tokenizers` takes them.

        Raises:
            UsageError: tokenizers and languages do not match.
        """
        from prepcli.tokenizers.counting import TokenizerSpec

        return TokenizerSpec(
            tokenizers=self.tokenizer, langs=self.langs, prompt_format=self.prompt_format, prompt=self.prompt
        )


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """The options of output, and of tolerated rejects."""

    quiet: Annotated[bool, Option("Print the bins and nothing else.", names=("--quiet", "-q"), only="command line")] = (
        False
    )
    plot: Annotated[Path | None, Option("Plot the data with the bins.", metavar="FILE.png")] = None
    write_config: Annotated[
        Path | None,
        Option(
            "Write the options into a data loader's config: into model.train_ds, data.train_ds or train_ds of an "
            "existing file, whose other keys and comments stay, or into a new file. Limits that the file has stay, "
            "unless another limit is given here.",
            metavar="FILE.yaml",
        ),
    ] = None
    as_json: Json = False
    max_rejects: MaxRejects = 0.05

    def check(self, data: "Callable[[], DataSet | Mix]", tokenizers: Sequence[str] = ()) -> None:
        """Check before the work what would fail after it.

        Args:
            data: returns the input data; called only if an output file exists.
            tokenizers: files that no output may replace.

        Raises:
            UsageError: a number of rejects that makes no sense, a plot or a config that cannot be written, or an
                output file that is one of the inputs.
        """
        from prepcli.storage.input_files import refuse_input_as_output

        if self.write_config is not None:
            from prepcli.bins.loader_config import check_kind_of_file, check_loader_config

            check_kind_of_file(self.write_config)  # before it is compared with the inputs: a pipe must not be read

        def inputs() -> "Iterator[str | Path]":
            from prepcli.manifest.input_files import files_in, files_of

            yield from files_of(data())
            for name in tokenizers:
                yield from files_in(name)

        refuse_input_as_output("--plot", self.plot, inputs)
        refuse_input_as_output("--write-config", self.write_config, inputs)
        if self.write_config is not None:
            check_loader_config(self.write_config)
        self.budget()
        if self.plot is not None:
            from prepcli.display.plotting import check_plot

            check_plot(self.plot)

    def budget(self) -> "Budget":
        """The maximum of rejects.

        Raises:
            UsageError: the number is negative or not a number.
        """
        from prepcli.engine.rejects import Budget

        return Budget(self.max_rejects)


@dataclass(frozen=True)
class BinsOptions:
    """What to estimate, and from which examples; durations in seconds, both limits included."""

    num_buckets: Annotated[int, Option("Number of buckets.", names=("--buckets", "-b"), minimum=2)] = 30
    num_examples: NumExamples = -1
    min_duration: MinDuration = None
    max_duration: MaxDuration = None
    batch_duration: BatchDuration = 360.0
    num_workers: NumWorkers = None
    progress: Progress = False


@dataclass(frozen=True, kw_only=True)
class EstimateBins(BinsOptions, OutputOptions):
    """Estimate duration bins for bucketed training, and the share of padding in batches.

    The bins, and the lines to paste into a training config, are identical to those of lhotse and NeMo. Input weights
    only matter with -n: they decide which examples are used.

    Example: prepcli estimate-bins train.json -b 30 -u 40 --plot bins.png
    """

    data: AudioInput
    text_field: Annotated[str, Option("Ignored; accepted so that the same call works for estimate-bins-2d.")] = "text"
    lang_field: Annotated[str, Option("Ignored; accepted so that the same call works for estimate-bins-2d.")] = "lang"


@dataclass(frozen=True)
class Bins2dOptions:
    """What to estimate, and from which examples; durations in seconds, both limits included."""

    num_buckets: Annotated[int, Option("Number of duration buckets.", names=("--buckets", "-b"), minimum=1)] = 30
    sub_buckets: Annotated[
        int, Option("Number of token buckets in each duration bucket.", names=("--sub-buckets", "-s"), minimum=1)
    ] = 2
    token_outlier_threshold: Annotated[
        float,
        Option("Leave out examples with tokens per second more than this many standard deviations above the mean."),
    ] = 4.0
    num_examples: NumExamples = -1
    min_duration: MinDuration = None
    max_duration: MaxDuration = None
    text_field: Annotated[str, Option("The field with the transcript.")] = "text"
    lang_field: Annotated[str, Option("The field with the language.")] = "lang"
    batch_duration: BatchDuration = 360.0
    num_workers: NumWorkers = None
    progress: Progress = False


@dataclass(frozen=True, kw_only=True)
class EstimateBins2d(Bins2dOptions, TokenizerOptions, OutputOptions):
    """Estimate bins by duration and number of tokens, for two-dimensional bucketing.

    The bins, and the lines to paste into a training config, are identical to those of NeMo's script. max_tps is only
    needed if the data contain long transcripts for little audio.

    Example: prepcli estimate-bins-2d train.json -t tokenizer.model -b 30 -s 5 -u 40 --plot bins.png
    """

    data: AudioInput


@dataclass(frozen=True)
class TokenBinsOptions:
    """What to estimate, and from which examples; lengths in tokens, limits included.

    Without `sub_buckets` there is one length: that of the input, or with `measure_total_length` that of input and
    output together.
    """

    num_buckets: Annotated[int, Option("Number of length buckets.", names=("--buckets", "-b"), minimum=2)] = 30
    sub_buckets: Annotated[
        int | None,
        Option(
            "Number of output token buckets in each length bucket.",
            names=("--sub-buckets", "-s"),
            minimum=1,
            shown_default="one dimension",
        ),
    ] = None
    token_outlier_threshold: Annotated[
        float,
        Option(
            "Leave out examples whose output tokens per input token are more than this many standard deviations above "
            "the mean."
        ),
    ] = 6.0
    num_examples: NumExamples = -1
    min_tokens: Annotated[
        float | None, Option("Leave out examples with fewer tokens.", names=("--min-tokens", "-l"))
    ] = None
    max_tokens: Annotated[
        float | None, Option("Leave out examples with more tokens.", names=("--max-tokens", "-u"))
    ] = None
    max_tpt: Annotated[
        float | None, Option("Leave out examples with more output tokens per input token than this.")
    ] = None
    measure_total_length: Annotated[
        bool,
        Option(
            "The length of an example is input plus output (decoder-only models), instead of input only. With "
            "--sub-buckets this affects only --min-tokens and --max-tokens.",
            names=("--measure-total-length", "-m"),
        ),
    ] = False
    token_equivalent_duration: Annotated[
        float, Option("Seconds of audio that count as one token, if the input does not say.")
    ] = 0.08
    audio_locator_tag: Annotated[
        str | None, Option("Tag that stands for audio in a prompt, if the input does not say.")
    ] = None
    batch_tokens: Annotated[float, Option("Tokens per batch, to compute the share of padding.")] = 16_000
    num_workers: NumWorkers = None
    progress: Progress = False


@dataclass(frozen=True, kw_only=True)
class EstimateTokenBins(TokenBinsOptions, TokenizerOptions, OutputOptions):
    """Estimate bins by number of tokens, for bucketed training on texts and conversations.

    With --prompt-format, lengths are measured as NeMo's samplers do. Without it, the last turn of an example is its
    output (the target of a pair, the whole of a plain text), and everything before is its input.

    Example: prepcli estimate-token-bins input_cfg.yaml -t tokenizer.model -b 30 -s 5
    """

    data: Annotated[
        str,
        Option(
            "An input_cfg with entries of type txt, txt_pair or multimodal_conversation.",
            metavar="INPUT.yaml",
            is_argument=True,
        ),
    ]


def lower_limit(value: float | None) -> float:
    """The minimum, or minus infinity."""
    return -math.inf if value is None else value


def upper_limit(value: float | None) -> float:
    """The maximum, or infinity."""
    return math.inf if value is None else value
