"""The list of all commands, with the package of each. Nothing is imported before it is used."""

import importlib
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

from prepcli.interface.corpora import CORPORA, Corpus

if TYPE_CHECKING:
    from prepcli.interface.command import Declaration

_REPORT_OF_JOB = "engine.run.report.Report"


class Command(NamedTuple):
    """A command of the command line and a function of the API.

    Attributes:
        name: as typed on the command line, e.g. `download librispeech`.
        package: the package below `prepcli.commands`.
        summary: one line for the list of commands.
        report: the class of the report, with its module below `prepcli`. The command prints `str(report)`.
        items: the class of the items, if the report is a list.
        module: the module in `package` with the function, whose parameters are the options.
    """

    name: str
    package: str
    summary: str
    report: str = _REPORT_OF_JOB
    items: str | None = None
    module: str = "command"

    @property
    def python_name(self) -> str:
        """The name in the API, e.g. `download_librispeech`."""
        return self.name.replace(" ", "_").replace("-", "_")

    def load_options(self) -> type[Any]:
        """Import the function, and return a dataclass of its options."""
        return self._declaration().options

    def runs_models(self) -> bool:
        """Whether the command has an option for the device, or the devices, of a model."""
        return any(field.name in ("device", "devices") for field in fields(self.load_options()))

    def load_function(self) -> Callable[[Any], Any]:
        """Import the function, and return one that takes an object of `load_options`."""
        return self._declaration().work

    @property
    def module_name(self) -> str:
        """The module of the function of the API, below `prepcli`."""
        return f"commands.{self.package}.{self.module}"

    def _declaration(self) -> "Declaration":
        from prepcli.interface.command import declaration

        return declaration(getattr(importlib.import_module(f"prepcli.{self.module_name}"), self.python_name))


def _command(name: str, summary: str, report: str = _REPORT_OF_JOB, *, package: str = "", **more: Any) -> Command:
    """Return a command. If `package` is empty, it follows from the name of the command."""
    return Command(name, package or name.replace("-", "_"), summary, report, **more)


def _of_corpus(corpus: Corpus) -> Command:
    report = _REPORT_OF_JOB if corpus.is_sliced else "commands.download.report.DownloadReport"
    module = corpus.module or corpus.name.replace("-", "_")
    return _command(f"download {corpus.name}", corpus.summary, report, package="download.published", module=module)


TASKS: dict[str, tuple[Command, ...]] = {
    "Get data and make manifests": (
        *map(_of_corpus, CORPORA),
        _command(
            "download lhotse",
            "Any corpus that lhotse prepares, from your copy.",
            "commands.download.report.DownloadReport",
            package="download",
            module="by_lhotse",
        ),
        _command("make-manifest", "Make a manifest of your own audio"),
        _command("segment", "Cut long recordings by speech, texts or windows"),
        _command("fix-durations", "Measure the durations of a manifest again"),
        _command("prepare-texts", "Make records of text alone, for a TTS model"),
    ),
    "Select records of manifests": (
        _command("score", "Measure loudness, noise, speech and texts"),
        _command(
            "filter",
            "Keep records by rules, and merge manifests",
            "commands.filter.report.FilterReport",
        ),
        _command(
            "split",
            "Divide records into parts that share no speaker",
            "commands.split.report.SplitReport",
        ),
        _command(
            "find-duplicates",
            "Find equal audio and texts, also between sets",
            "commands.find_duplicates.report.DuplicatesReport",
        ),
    ),
    "Prepare training data from manifests": (
        _command("manifest-to-tarred", "Make tar shards with manifests, for NeMo"),
        _command("manifest-to-shar", "Make a Lhotse Shar set, for NeMo and lhotse"),
        _command(
            "manifest-to-wenet",
            "Make shards or a data list for WeNet",
            package="exports.wenet",
        ),
        _command(
            "manifest-to-mels",
            "Make mel-spectrograms for Tacotron 2",
            package="exports.mels",
        ),
        _command(
            "manifest-to-parquet",
            "Make Parquet files, for NeMo and datasets",
            package="exports.parquet",
        ),
        _command(
            "convert-audio",
            "Cut, resample or unpack audio into plain files",
            package="exports.files",
        ),
    ),
    "Prepare training data from conversations and texts": (
        _command(
            "conversations-to-tarred",
            "Make tars of conversations, for speech LLMs",
            package="exports.conversations",
        ),
        _command("texts-to-shards", "Divide texts or text pairs into shards", package="exports.texts"),
    ),
    "Extend manifests and Shar sets": (
        _command(
            "extend-context-audio",
            "Give each record another utterance of its voice",
        ),
        _command(
            "extend-text-context",
            "Give the cuts of a Shar texts that name the voice",
        ),
        _command(
            "extend-codec-codes",
            "Add codes of an audio codec to a Shar or manifest",
        ),
    ),
    "Estimate bins for bucketed training": (
        _command(
            "estimate-bins",
            "By duration",
            "commands.estimate_bins.durations.BinsReport",
        ),
        _command(
            "estimate-bins-2d",
            "By duration and number of tokens",
            "commands.estimate_bins.two_d.Bins2dReport",
            package="estimate_bins",
        ),
        _command(
            "estimate-token-bins",
            "By number of tokens, for texts and conversations",
            "commands.estimate_bins.tokens.TokenBinsReport",
            package="estimate_bins",
        ),
        _command(
            "estimate-batch-sizes",
            "The largest batch of each bucket",
            "commands.estimate_batch_sizes.report.BatchSizesReport",
        ),
    ),
    "Mix and index finished sets": (
        _command(
            "blend",
            "Mix finished sets by weights in one input_cfg",
            "commands.blend.report.BlendReport",
        ),
        _command(
            "index",
            "Index sets that exist, to resume in mid-epoch",
            "commands.index.report.IndexReport",
        ),
    ),
    "Look and check": (
        _command(
            "inspect",
            "Show what a file or a set holds, with examples",
            "commands.inspect.report.Inspection",
        ),
        _command(
            "status",
            "Show how far commands are, and how to continue them",
            "engine.run.status.Statuses",
            items="engine.run.status.Status",
        ),
        _command(
            "compare",
            "Show in what two manifests or data sets differ",
            "commands.compare.report.Comparison",
        ),
        _command(
            "explain",
            "Say where a record is from, or why it was dropped",
            "commands.explain.report.Explanation",
        ),
        _command(
            "verify",
            "Check that a set is complete and readable",
            "commands.verify.report.VerifyReport",
        ),
    ),
}
"""The commands by task, in the order of `prepcli --help`."""
COMMANDS = tuple(command for commands in TASKS.values() for command in commands)
BY_PYTHON_NAME = {command.python_name: command for command in COMMANDS}
_CLASSES = sorted({name for command in COMMANDS for name in (command.report, command.items) if name})
PUBLIC_NAMES = {
    **dict.fromkeys(("IncompleteError", "PrepcliError", "TooManyRejectsError", "UsageError"), "errors"),
    **{name: BY_PYTHON_NAME[name].module_name for name in sorted(BY_PYTHON_NAME)},
    **{name: module for module, _, name in (path.rpartition(".") for path in _CLASSES)},
}
"""Each name of the API, with its module below `prepcli`: errors, functions, and the classes of reports."""
