"""The options that several of the commands that estimate bins have."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from prepcli.interface.options import Option, Paths, PathText
from prepcli.interface.shared_options import Json, MaxRejects

AudioInput = Annotated[
    Paths,
    Option(
        "Manifest(s): a path, several separated by commas, or a brace pattern; [[a.json,0.7],[b.json,0.3]]; an "
        "input_cfg .yaml or a training config (train.yaml:speech: a part of its multi_config); a Shar, tarred or "
        "Parquet directory; or key=value with the key manifest_filepath, shar_path (also {cuts: ..., ...}), cuts_path "
        "or input_cfg.",
        metavar="INPUT",
        several_paths=True,
        is_argument=True,
        takes_address=True,
    ),
]
IGNORED = Option("Ignored; accepted so that the same call works for estimate-bins-2d.", order=1)
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
Tokenizers = Annotated[
    Paths,
    Option(
        "A SentencePiece model; a Hugging Face tokenizer.json, folder or name; a folder with one of them. "
        "Several, one per language, need --langs.",
        names=("--tokenizer", "-t"),
        metavar="TOKENIZER...",
        may_be_path=True,
    ),
]


class OutputArguments(TypedDict, total=False):
    """The options for the output, and `max_rejects`, the limit for unusable lines."""

    quiet: Annotated[
        bool,
        Option("Print the bins and nothing else.", names=("--quiet", "-q"), only="command line", default=False),
    ]
    plot: Annotated[PathText | None, Option("Plot the data with the bins.", metavar="FILE.png", names_file=True)]
    write_config: Annotated[
        PathText | None,
        Option(
            "Write the options into a data loader's config: into model.train_ds, data.train_ds or train_ds of an "
            "existing file (of a multi_config, into the part that reads INPUT), whose other keys and comments stay, or "
            "into a new file. Limits that the file has stay, unless another limit is given here.",
            metavar="FILE.yaml",
            names_file=True,
        ),
    ]
    as_json: Json
    max_rejects: MaxRejects


class TokenizerArguments(TypedDict, total=False):
    """The options of tokenizers."""

    langs: Annotated[
        str | Sequence[str],
        Option(
            "The language of each tokenizer.",
            names=("--langs", "-a"),
            metavar="LANG...",
            shown_default="one for all",
            order=-1,
            default=(),
        ),
    ]
    prompt_format: Annotated[
        str | None,
        Option(
            "Count tokens in one of NeMo's prompt formats, e.g. canary (needs the extra nemo).",
            names=("--prompt-format", "-f"),
            shown_default=FROM_INPUT,
        ),
    ]
    prompt: Annotated[
        str | None,
        Option(
            "Prompt slots for records without them: [{'role':'user','slots':{'source_lang':'en'}}].",
            names=("--prompt", "-p"),
        ),
    ]


class TokensAndOutputArguments(TokenizerArguments, OutputArguments, total=False):
    """The options of tokenizers and for the output."""
