"""The options of the commands that estimate bins."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from prepcli.interface.options import Option
from prepcli.interface.shared_options import Json, MaxRejects, NumWorkers, Progress

if TYPE_CHECKING:
    from prepcli.engine.publishing.rejects import Budget
    from prepcli.manifest.datasets import DataSet, Mix
    from prepcli.tokenizers.counting import TokenizerSpec

Options = TypeVar("Options", "EstimateBins", "EstimateBins2d", "EstimateTokenBins")

AudioInput = Annotated[
    str,
    Option(
        "Manifest(s): a path, several separated by commas, or a brace pattern; [[a.json,0.7],[b.json,0.3]]; an "
        "input_cfg .yaml or a training config; a Shar, tarred or Parquet directory; or key=value with the key "
        "manifest_filepath, shar_path (also {cuts: ..., ...}), cuts_path or input_cfg.",
        metavar="INPUT",
        several_paths=True,
        is_argument=True,
        takes_address=True,
    ),
]
_IGNORED = Option("Ignored; accepted so that the same call works for estimate-bins-2d.", order=1)
NumExamples = Annotated[
    int,
    Option(
        "Maximum number of examples, taken from the start of each input in proportion to its weight. -1: all.",
        names=("--num-examples", "-n"),
    ),
]
TEXT_FIELD, LANG_FIELD = "text", "lang"
"""The default fields of transcript and language, as in NeMo."""
FROM_INPUT = "what the input says"
"""The default that the help shows for an option whose value may come from the config of the input."""
MinDuration = Annotated[
    float | None,
    Option("Leave out shorter examples (seconds).", names=("--min-duration", "-l"), shown_default=FROM_INPUT),
]
MaxDuration = Annotated[
    float | None,
    Option("Leave out longer examples (seconds).", names=("--max-duration", "-u"), shown_default=FROM_INPUT),
]
BatchDuration = Annotated[float, Option("Seconds of audio per batch, to compute the share of padding.", above=0)]


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
            may_be_path=True,
        ),
    ]
    langs: Annotated[
        tuple[str, ...],
        Option(
            "The language of each tokenizer.",
            names=("--langs", "-a"),
            metavar="LANG...",
            shown_default="one for all",
            order=-1,
        ),
    ] = ()
    prompt_format: Annotated[
        str | None,
        Option(
            "Count tokens in one of NeMo's prompt formats, e.g. canary (needs the extra nemo).",
            names=("--prompt-format", "-f"),
            shown_default=FROM_INPUT,
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
        """The options as a `TokenizerSpec`.

        Raises:
            UsageError: tokenizers and languages do not match.
        """
        from prepcli.tokenizers.counting import TokenizerSpec

        return TokenizerSpec(
            tokenizers=self.tokenizer, langs=self.langs, prompt_format=self.prompt_format, prompt=self.prompt
        )


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """The options for the output, and `max_rejects`, the limit for unusable lines."""

    quiet: Annotated[bool, Option("Print the bins and nothing else.", names=("--quiet", "-q"), only="command line")] = (
        False
    )
    plot: Annotated[Path | None, Option("Plot the data with the bins.", metavar="FILE.png", names_file=True)] = None
    write_config: Annotated[
        Path | None,
        Option(
            "Write the options into a data loader's config: into model.train_ds, data.train_ds or train_ds of an "
            "existing file (of a multi_config, into the part that reads INPUT), whose other keys and comments stay, or "
            "into a new file. Limits that the file has stay, unless another limit is given here.",
            metavar="FILE.yaml",
            names_file=True,
        ),
    ] = None
    as_json: Json = False
    max_rejects: MaxRejects = 0.05

    def check(self, spec: str, data: "Callable[[], DataSet | Mix]", tokenizers: Sequence[str] = ()) -> None:
        """Check the options and output files before the work, so that the command does not fail after the work.

        `data` returns the input data that `spec` names, and is called only if an output file already exists.
        `tokenizers`: paths that count as inputs too.

        Raises:
            UsageError: `max_rejects` is invalid, a plot or a config cannot be written, or an output file is one of the
                inputs.
        """
        from prepcli.storage.input_files import refuse_input_as_output

        if self.write_config is not None:
            from prepcli.manifest.loader_config import check_kind_of_file, check_loader_config

            check_kind_of_file(self.write_config)  # checked before it is opened to compare it: a pipe must not be read

        def inputs() -> "Iterator[str | Path]":
            from prepcli.manifest.inputs import files_of

            yield from files_of(data())
            for one in map(Path, tokenizers):
                yield from one.iterdir() if one.is_dir() else [one]

        refuse_input_as_output("--write-config", self.write_config, inputs)
        if self.write_config is not None:
            check_loader_config(self.write_config, spec)
        self.budget()
        if self.plot is not None:
            from prepcli.engine.publishing.plots import check_plot

            check_plot(self.plot)

    def budget(self) -> "Budget":
        """The limit for rejects, from `--max-rejects`.

        Raises:
            UsageError: the number is negative or not a number.
        """
        from prepcli.engine.publishing.rejects import Budget

        return Budget(self.max_rejects)


@dataclass(frozen=True, kw_only=True)
class EstimateBins(OutputOptions):
    """Estimate duration bins for bucketed training, and the share of padding in batches.

    The bins, and the lines to paste into a training config, are identical to those of lhotse and NeMo. Input weights
    only matter with -n: they decide which examples are used.

    Example: prepcli estimate-bins train.json -b 30 -u 40 --plot bins.png
    """

    num_buckets: Annotated[int, Option("Number of buckets.", names=("--buckets", "-b"), minimum=2)] = 30
    num_examples: NumExamples = -1
    min_duration: MinDuration = None
    max_duration: MaxDuration = None
    batch_duration: BatchDuration = 360.0
    num_workers: NumWorkers = None
    progress: Progress = False
    keep: Annotated[
        tuple[str, ...],
        Option(
            "Use only the examples for which this is true, as in filter.",
            metavar="EXPR",
            one_each=True,
        ),
    ] = ()
    data: AudioInput
    text_field: Annotated[str, _IGNORED] = "text"
    lang_field: Annotated[str, _IGNORED] = "lang"


@dataclass(frozen=True, kw_only=True)
class EstimateBins2d(TokenizerOptions, OutputOptions):
    """Estimate bins by duration and number of tokens, for two-dimensional bucketing.

    The bins, and the lines to paste into a training config, are identical to those of NeMo's script. max_tps is only
    needed if the data contain long transcripts for little audio.

    Example: prepcli estimate-bins-2d train.json -t tokenizer.model -b 30 -s 5 -u 40 --plot bins.png
    """

    num_buckets: Annotated[int, Option("Number of duration buckets.", names=("--buckets", "-b"), minimum=1)] = 30
    sub_buckets: Annotated[
        int, Option("Number of token buckets in each duration bucket.", names=("--sub-buckets", "-s"), minimum=1)
    ] = 2
    token_outlier_threshold: Annotated[
        float,
        Option(
            "Leave out examples with tokens per second more than this many standard deviations above the mean.",
            minimum=0,
        ),
    ] = 4.0
    num_examples: NumExamples = -1
    min_duration: MinDuration = None
    max_duration: MaxDuration = None
    text_field: Annotated[
        str | None, Option("The field with the transcript.", shown_default=f"{FROM_INPUT}, or {TEXT_FIELD}")
    ] = None
    lang_field: Annotated[
        str | None, Option("The field with the language.", shown_default=f"{FROM_INPUT}, or {LANG_FIELD}")
    ] = None
    batch_duration: BatchDuration = 360.0
    num_workers: NumWorkers = None
    progress: Progress = False
    data: AudioInput


@dataclass(frozen=True, kw_only=True)
class EstimateTokenBins(TokenizerOptions, OutputOptions):
    """Estimate bins by number of tokens, for bucketed training on texts, conversations and audio.

    With --prompt-format, lengths are measured as NeMo's samplers do. Without it, the last turn of an example is its
    output (the target of a pair, the whole of a plain text), and everything before is its input. Audio counts as one
    token per --token-equivalent-duration, its transcript is output.

    Example: prepcli estimate-token-bins input_cfg.yaml -t tokenizer.model -b 30 -s 5
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
            "the mean.",
            minimum=0,
        ),
    ] = 6.0
    num_examples: NumExamples = -1
    min_tokens: Annotated[
        float | None,
        Option("Leave out texts with fewer tokens.", names=("--min-tokens", "-l"), shown_default=FROM_INPUT),
    ] = None
    max_tokens: Annotated[
        float | None,
        Option("Leave out texts with more tokens.", names=("--max-tokens", "-u"), shown_default=FROM_INPUT),
    ] = None
    max_tpt: Annotated[
        float | None,
        Option("Leave out texts with more output tokens per input token than this.", shown_default=FROM_INPUT),
    ] = None
    measure_total_length: Annotated[
        bool | None,
        Option(
            "The length of an example is input plus output (decoder-only models), else input only (encoder-decoder "
            "models). With --sub-buckets this affects only --min-tokens and --max-tokens.",
            names=("--measure-total-length/--no-measure-total-length", "-m"),
            shown_default=f"{FROM_INPUT}, or yes without --sub-buckets",
        ),
    ] = None
    token_equivalent_duration: Annotated[
        float | None,
        Option("Seconds of audio that count as one token.", shown_default=f"{FROM_INPUT}, or 0.08"),
    ] = None
    audio_locator_tag: Annotated[
        str | None, Option("Tag that stands for audio in a prompt.", shown_default=FROM_INPUT)
    ] = None
    batch_tokens: Annotated[float, Option("Tokens per batch, to compute the share of padding.", above=0)] = 16_000
    num_workers: NumWorkers = None
    progress: Progress = False
    data: Annotated[
        str,
        Option(
            "An input_cfg or a training config, with entries of type txt, txt_pair, multimodal_conversation, and of "
            "audio; or one of the other inputs of estimate-bins.",
            metavar="INPUT.yaml",
            is_argument=True,
        ),
    ]


def with_keys_of(options: Options, data: "DataSet | Mix") -> Options:
    """Return the options. An option that is None gets the value that the input's training config has for it."""
    from prepcli.manifest.mixing import leaves_of

    known = vars(leaves_of(data)[0].settings.loader)
    given = {name: value for name, value in known.items() if value is not None and hasattr(options, name)}
    return replace(options, **{name: value for name, value in given.items() if getattr(options, name) is None})


def with_prompt_of(tokenizer: "TokenizerSpec", data: "DataSet | Mix") -> "TokenizerSpec":
    """Return `tokenizer`. If it has no prompt format, it gets the one in the input's training config."""
    from prepcli.manifest.mixing import leaves_of

    known = leaves_of(data)[0].settings.loader.prompt_format
    return tokenizer if tokenizer.prompt_format is not None else replace(tokenizer, prompt_format=known)


def lower_limit(value: float | None) -> float:
    """The lower limit; minus infinity if there is none."""
    return -math.inf if value is None else value


def upper_limit(value: float | None) -> float:
    """The upper limit; infinity if there is none."""
    return math.inf if value is None else value
