"""Options that the commands which estimate bins share, written once."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prepcli.cli.options import Json, MaxRejects, NumWorkers

if TYPE_CHECKING:
    from prepcli.engine.rejects import Budget
    from prepcli.tokenizers.counting import TokenizerSpec

AudioInput = Annotated[
    str,
    typer.Argument(
        metavar="INPUT",
        help="Manifest(s): a path, several with commas, or brace forms; [[a.json,0.7],[b.json,0.3]]; an "
        "input_cfg .yaml; a Shar or tarred directory; or key=value with manifest_filepath, shar_path, "
        "cuts_path or input_cfg.",
    ),
]
NumExamples = Annotated[
    int,
    typer.Option(
        "--num-examples",
        "-n",
        help="Use so many examples, from the start of each input in proportion to its weight. -1: all.",
    ),
]
MinDuration = Annotated[
    float | None, typer.Option("--min-duration", "-l", help="Leave out shorter examples (seconds).")
]
MaxDuration = Annotated[float | None, typer.Option("--max-duration", "-u", help="Leave out longer examples (seconds).")]
BatchDuration = Annotated[float, typer.Option("--batch-duration", help="Seconds in a batch, for the share of padding.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the bins and nothing else.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw the data with the bins.")]
WriteConfig = Annotated[
    Path | None,
    typer.Option(
        "--write-config",
        metavar="FILE.yaml",
        help="Put the options into a data loader's config: into model.train_ds, data.train_ds or train_ds of a file "
        "that is there, whose other keys and comments stay, or into a new file.",
    ),
]
Tokenizer = Annotated[
    list[str],
    typer.Option(
        "--tokenizer",
        "-t",
        metavar="TOKENIZER...",
        help="A SentencePiece model; a Hugging Face tokenizer.json, folder or name; a folder with one of them. "
        "Several, one a language: with --langs.",
    ),
]
Langs = Annotated[
    list[str] | None,
    typer.Option(
        "--langs", "-a", metavar="LANG...", help="The language of each tokenizer.", show_default="one for all"
    ),
]
PromptFormat = Annotated[
    str | None,
    typer.Option(
        "--prompt-format", "-f", help="Count texts in one of NeMo's prompts, e.g. canary (with the extra nemo)."
    ),
]
Prompt = Annotated[
    str | None,
    typer.Option(
        "--prompt",
        "-p",
        help="Slots of the prompt for records without them: [{'role':'user','slots':{'source_lang':'en'}}].",
    ),
]


@dataclass(frozen=True, slots=True)
class TokenizerOptions:
    """What counts tokens."""

    tokenizer: Tokenizer
    langs: Langs = None
    prompt_format: PromptFormat = None
    prompt: Prompt = None

    def spec(self) -> "TokenizerSpec":
        """The same for `prepcli.tokenizers`; raises `UsageError` for tokenizers and languages that do not match."""
        from prepcli.tokenizers.counting import TokenizerSpec

        return TokenizerSpec(
            tokenizers=tuple(self.tokenizer),
            langs=tuple(self.langs or ()),
            prompt_format=self.prompt_format,
            prompt=self.prompt,
        )


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """What is shown of the bins, and what is tolerated."""

    quiet: Quiet = False
    plot: Plot = None
    write_config: WriteConfig = None
    as_json: Json = False
    max_rejects: MaxRejects = 0.05
    num_workers: NumWorkers = None

    def check(self) -> None:
        """Raise `UsageError` for what could not be done after all the work: a senseless budget, a plot nowhere."""
        self.budget()
        if self.plot is not None:
            from prepcli.plotting import check_plot

            check_plot(self.plot)

    def budget(self) -> "Budget":
        """The rejects to tolerate; raises `UsageError` for a senseless number."""
        from prepcli.engine.rejects import Budget

        return Budget(self.max_rejects)
