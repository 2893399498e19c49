"""Turns a wrong command line into an error of one line, which names the command whose `--help` shows the right use.

For options that a command does not have, the error has advice: NeMo, WeNet and lhotse name many options differently.
"""

import sys
from collections.abc import Collection, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from prepcli.errors import UsageError
from prepcli.interface.commands import COMMANDS

# Newer versions of typer have their own copy of click; the classes have the same names in both.
CommandLineError: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)
"""The exception that typer raises for a wrong command line."""

_PLAIN = {
    "is not a valid int range": "is not a whole number",
    "is not a valid float range": "is not a number",
    "is not a valid int": "is not a whole number",
    "is not a valid float": "is not a number",
    "(Possible options:": "(similar:",
}
"""Phrases of click, each with a plainer one."""
_SEVERAL = {
    **dict.fromkeys(("MANIFEST", "INPUT", "PATH"), "; several manifests are one argument, a.json,b.json"),
    "SOURCE": "; for several, give the folder above them, or a file that lists paths",
    "OUT": "; give one at a time",
}
"""Advice for messages on how to give several values to the first argument of a command, by the name of the argument."""


def run_app(app: typer.Typer, name: str = "prepcli") -> int:
    """Run a program of commands, and return its exit code; `name` is its name in help and messages.

    Raises:
        UsageError: the command line is wrong.
        BrokenPipeError: the process at the other end of a pipe has ended, such as the reader of the output.
    """
    try:
        return int(app(prog_name=name, standalone_mode=False) or 0)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # typer makes code 1 of it, without a message
            raise ended.__context__ from None
        raise
    except CommandLineError as error:
        if type(error).__name__ != "NoArgsIsHelpError":
            raise _in_one_line(error) from None
        print(error, file=sys.stderr)  # nothing was asked for, and the help is the answer
        return 2


def _in_one_line(error: Any) -> UsageError:
    text = " ".join(error.format_message().split()).removesuffix(".")
    for word, plain in _PLAIN.items():
        text = text.replace(word, plain)
    if "%' is not a number" in text:
        text += "; a share is a number below 1, such as 0.05"
    context: Any = getattr(error, "ctx", None)
    if text.startswith("Got unexpected extra argument"):
        text = f"u{text.removeprefix('Got u')}: {_takes(context.command)}"
    missing = getattr(error, "param", None)
    if text.startswith("Missing argument") and missing is not None and missing.nargs == -1:
        text += f": {_takes(context.command)}"  # the only value went to the last argument
    return UsageError(f"{text[:1].lower()}{text[1:]} (see {_named(context)} --help)")


def _takes(command: Any) -> str:
    """Return a text for a message: the arguments that a command takes, and how to give an option several values."""
    names = [
        parameter.metavar or str(parameter.name).upper()
        for parameter in command.params
        if parameter.param_type_name == "argument"
    ]
    several = next((advice for first, advice in _SEVERAL.items() if names and first in names[0].split("|")), "")
    return f"the command takes {' and '.join(names) or 'no arguments'}{several}"


def _named(context: Any) -> str:
    """Return the name of the command that was called, with `prepcli` before it."""
    if context is not None:
        return str(context.command_path)
    called = [entry.name for entry in COMMANDS if sys.argv[1:][: len(entry.name.split())] == entry.name.split()]
    return " ".join(["prepcli", *called[:1]])


_INPUTS = (
    *("manifest", "manifests", "manifest-path", "manifest-filepath", "manifest-paths", "input-manifest"),
    *("input", "input-path"),
    *("shar-dir", "cuts-dir", "target-audio-dir", "context-audio-dir"),
)
_OUTPUTS = ("target-dir", "output-dir", "output", "out", "out-dir", "output-path", "dest-dir")
_RENAMED = {
    "workers": "--num-workers",
    "num-jobs": "--num-workers",
    "jobs": "--num-workers",
    "num-threads": "--num-workers",
    "seed": "--shuffle-seed",
    "shards": "--num-shards",
    "num-utts-per-shard": "--shard-size",
    "resample": "--target-sample-rate",
    "num-buckets": "--buckets",
    "tokenizers": "--tokenizer",
    "cuts-per-shard": "--shard-size",
    "gpus": "--devices",
    "num-gpus": "--devices",
    "pretrained-name": "--model",
    "module-name": "--model-class",
    "config-path": "--config",
    "optimizer-name": "--optimizer",
    "processing-chunk-size": "--shard-size",
    "codec-model-name": "--codec-name",
    "codec-model-path": "--codec-model",
    "dataset-name": "--group-by",
    "dataset-path": "--audio-base-dir",
    "audio-base-dirs": "--audio-base-dir",
    "save-dir": "--output-dir",
    "audio-root": "--ldc-root",
    "transcript-root": "--ldc-root",
    "dest-folder": "--data-root",
}
"""Options of lhotse and of the scripts of NeMo and WeNet, each with the option of prepcli that does the same."""
_NOT_NEEDED = {
    "num-nodes": "it starts no other nodes",
    "flush-threshold-items": "memory does not grow with the size of the input",
    "buffer-size": "memory does not grow with the size of the input",
    "mel-files": "the lists of mels are written to OUT/filelists",
    "codec-frame-rate": "the model has its frame rate",
    "write-metadata": "metadata.yaml is always written",
    **dict.fromkeys(("wandb-entity", "wandb-project", "wandb-name"), "prepcli status shows how far a run is"),
    "text-cleaners": "texts stay as they are, and training cleans them",
    "max-wav-value": "samples are scaled by what their files say",
    "log-level": "notes and progress go to stderr",
    "use-lhotse": "it is an option of the training config",
}
"""Options of NeMo's scripts that have no counterpart in prepcli, each with the reason."""
_OTHERWISE = {
    "num-nodes": (
        "--world-size",
        "run it on every node with srun or torchrun, which set the ranks, or give --rank and --world-size",
    ),
    "batch-size": ("--batch-duration", "did you mean --batch-duration? It is in seconds of audio"),
    "concat-manifest-paths": (
        "--concat-to",
        "give the manifests to add as MANIFEST, and the set that they are added to with --concat-to",
    ),
    "metadata": ("--concat-to", "leave it out: metadata.yaml is always written, and read from the set of --concat-to"),
    "wav-files": (
        "--n-mel-channels",
        "MANIFEST is the first argument; prepcli make-manifest LIST.txt MANIFEST --format filelist makes it",
    ),
    "sample-rate": ("--codec-model", "leave it out: the codec has its rate, and other audio is resampled"),
    "pad-multiple": ("--codec-model", "leave it out: the codec says how audio is padded"),
    "dataset-names": ("--codec-model", "leave it out: the paths of codes are those of the audio"),
    "data-root": ("--ldc-root", "--ldc-root is your copy of the corpus, and --dest-root the folder to write"),
    **{
        name: ("--part", f"give each part with its amount, such as --part {name}=0.1")
        for name in ("train", "dev", "val", "valid", "validation", "test")
    },
    "metadata-path": ("--concat-to", "name the folder of the set that is added to with --concat-to"),
}
"""Options of other programs, each with the option of prepcli that replaces it and advice on its use."""


class ExplainingCommand(TyperCommand):
    """A command that suggests the right option if one is unknown."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `click.Command.parse_args`.

        Raises:
            UsageError: an option is unknown, and there is advice on what to write instead.
        """
        spelled = self._spelled(args)
        try:
            return super().parse_args(ctx, list(spelled))
        except typer.Exit:
            self._check_values(ctx, spelled)
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """See `click.Command.collect_usage_pieces`; arguments are named without the braces that typer adds."""
        return [piece[1:-1] if piece[:1] == "{" else piece for piece in super().collect_usage_pieces(ctx)]

    def _check_values(self, ctx: Any, args: list[str]) -> None:
        """After `--help`, check the values of other options, except that files exist: `submit_pipeline.sh` asks so."""
        given, _, _ = self.make_parser(ctx).parse_args(args=args)
        for parameter in self.params:
            if parameter.name in given and parameter.type.name not in ("path", "file", "directory"):
                parameter.type_cast_value(ctx, given[parameter.name])

    def _spelled(self, args: Sequence[str]) -> list[str]:
        """The arguments with dashes in the names of options (`--num_shards`, as scripts of NeMo spell it)."""
        options = [parameter for parameter in self.params if parameter.param_type_name == "option"]
        by_name = {name: parameter for parameter in options for name in (*parameter.opts, *parameter.secondary_opts)}
        spelled: list[str] = []
        is_value = False
        for number, arg in enumerate(args):
            name, equals, value = arg.partition("=")
            if arg == "--" and not is_value:
                return [*spelled, *args[number:]]
            if is_value:
                name = ""
            elif name.startswith("--"):
                dashed = name.replace("_", "-").lower()
                name = dashed if name not in by_name and dashed in by_name else name
                if name not in by_name and (hint := self._hint(name, by_name)) is not None:
                    raise UsageError(f"there is no option {name}: {hint}")
                arg = f"{name}{equals}{value}"
            is_value = name in by_name and not equals and not getattr(by_name[name], "is_flag", False)
            spelled.append(arg)
        return spelled

    def _hint(self, name: str, known: Collection[str]) -> str | None:
        """Return advice on what to write instead of the unknown option `name`; None if nothing is similar."""
        plain = name.removeprefix("--").replace("_", "-").lower()
        arguments = [
            parameter.metavar or str(parameter.name).upper()
            for parameter in self.params
            if parameter.param_type_name == "argument"
        ]
        for names, number, ordinal in ((_INPUTS, 0, "first"), (_OUTPUTS, 1, "second")):
            if plain in names and len(arguments) > number:
                return f"{arguments[number].replace('|', ' or ')} is the {ordinal} argument, without an option"
        about, advice = _OTHERWISE.get(plain, ("", ""))
        if about in known:
            return advice
        if plain in _NOT_NEEDED:
            return f"leave it out: {_NOT_NEEDED[plain]}"
        renamed = _RENAMED.get(plain)
        if renamed in known:
            return f"did you mean {renamed}?"
        import difflib  # imported only after a mistake: the import takes milliseconds

        close = difflib.get_close_matches(f"--{plain}", [name for name in known if name.startswith("--")], 1, 0.75)
        return f"did you mean {close[0]}?" if close else None
