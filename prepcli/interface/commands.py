"""The list of all commands, with the package of each. Nothing is imported before it is used."""

import importlib
import re
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
        package: the package below `prepcli.commands`; its module `options` has the dataclass.
        options: the dataclass of its options, whose docstring is the help of the command.
        summary: one line for the list of commands.
        report: the class of the report, with its module below `prepcli`. The command prints `str(report)`.
        items: the class of the items, if the report is a list.
        module: the module in `package` with the function that does the work: `job`, or `command` if the work is not one
            job.
        is_typed: the options are the parameters of the function (`prepcli.interface.command`), not a dataclass.
    """

    name: str
    package: str
    options: str
    summary: str
    report: str = _REPORT_OF_JOB
    items: str | None = None
    module: str = "job"
    is_typed: bool = False

    @property
    def python_name(self) -> str:
        """The name in the API, e.g. `download_librispeech`."""
        return self.name.replace(" ", "_").replace("-", "_")

    def load_options(self) -> type[Any]:
        """Import and return the dataclass of the options."""
        if self.is_typed:
            return self._declaration().options
        loaded = getattr(importlib.import_module(f"prepcli.commands.{self.package}.options"), self.options)
        assert isinstance(loaded, type)
        return loaded

    def runs_models(self) -> bool:
        """Whether the command has an option for the device, or the devices, of a model."""
        return any(one.name in ("device", "devices") for one in fields(self.load_options()))

    def load_function(self) -> Callable[[Any], Any]:
        """Import and return the function that does the work: it takes the dataclass and returns a report."""
        if self.is_typed:
            return self._declaration().work
        module = importlib.import_module(f"prepcli.commands.{self.package}.{self.module}")
        function: Callable[[Any], Any] = getattr(module, self.python_name)
        return function

    @property
    def module_name(self) -> str:
        """The module of the function of the API, below `prepcli`."""
        return f"commands.{self.package}.{self.module}" if self.is_typed else "functions"

    def _declaration(self) -> "Declaration":
        from prepcli.interface.command import declaration

        return declaration(getattr(importlib.import_module(f"prepcli.{self.module_name}"), self.python_name))


def _command(
    name: str, summary: str, report: str = _REPORT_OF_JOB, *, package: str = "", options: str = "", **more: Any
) -> Command:
    """Return a command. If `package` and `options` are empty, the names of both follow from the name of the command."""
    package = package or name.replace("-", "_")
    options = options or "".join(word.capitalize() for word in re.split("[ -]", name))
    return Command(name, package, options, summary, report, **more)


def _of_corpus(corpus: Corpus) -> Command:
    report = _REPORT_OF_JOB if corpus.is_sliced else "commands.download.report.DownloadReport"
    return _command(
        f"download {corpus.name}", corpus.summary, report, package="download", module=corpus.module, is_typed=True
    )


TASKS: dict[str, tuple[Command, ...]] = {
    "Get data and make manifests": (
        *map(_of_corpus, CORPORA),
        _command(
            "download lhotse",
            "Any corpus that lhotse prepares, from your copy.",
            "commands.download.report.DownloadReport",
            package="download",
            module="by_lhotse",
            is_typed=True,
        ),
        _command("make-manifest", "Make a manifest of your own audio", module="command", is_typed=True),
        _command("fix-durations", "Measure the durations of a manifest again", module="command", is_typed=True),
        _command("prepare-texts", "Make records of text alone, for a TTS model", module="command", is_typed=True),
    ),
    "Select records of manifests": (
        _command("score", "Measure loudness, noise, speech and texts", module="command", is_typed=True),
        _command(
            "filter",
            "Keep records by rules, and merge manifests",
            "commands.filter.report.FilterReport",
            module="command",
            is_typed=True,
        ),
        _command(
            "split",
            "Divide records into parts, no speaker in two of them",
            "commands.split.report.SplitReport",
            module="command",
            is_typed=True,
        ),
        _command(
            "find-duplicates",
            "Find equal audio and texts, also between sets",
            "commands.find_duplicates.report.DuplicatesReport",
            module="command",
            is_typed=True,
        ),
    ),
    "Prepare training data from manifests": (
        _command("manifest-to-tarred", "Make tar shards with manifests, for NeMo", module="command", is_typed=True),
        _command("manifest-to-shar", "Make a Lhotse Shar set, for NeMo and lhotse", module="command", is_typed=True),
        _command(
            "manifest-to-wenet",
            "Make shards or a data list for WeNet",
            package="exports.wenet",
            module="command",
            is_typed=True,
        ),
        _command(
            "manifest-to-mels",
            "Make mel-spectrograms for Tacotron 2",
            package="exports.mels",
            module="command",
            is_typed=True,
        ),
        _command(
            "manifest-to-parquet",
            "Make Parquet files, for NeMo and datasets",
            package="exports.parquet",
            module="command",
            is_typed=True,
        ),
        _command(
            "convert-audio",
            "Cut, resample or unpack audio into plain files",
            package="exports.files",
            module="command",
            is_typed=True,
        ),
    ),
    "Extend manifests and Shar sets": (
        _command(
            "extend-context-audio",
            "Give each record another utterance of its voice",
            module="command",
            is_typed=True,
        ),
        _command(
            "extend-text-context",
            "Give the cuts of a Shar texts that name the voice",
            module="command",
            is_typed=True,
        ),
        _command(
            "extend-codec-codes",
            "Add the codes of an audio codec to a Shar or manifest",
            module="command",
            is_typed=True,
        ),
    ),
    "Estimate bins for bucketed training": (
        _command(
            "estimate-bins",
            "By duration",
            "commands.estimate_bins.durations.BinsReport",
            module="command",
            is_typed=True,
        ),
        _command(
            "estimate-bins-2d",
            "By duration and number of tokens",
            "commands.estimate_bins.two_d.Bins2dReport",
            package="estimate_bins",
            module="command",
            is_typed=True,
        ),
        _command(
            "estimate-token-bins",
            "By number of tokens, for texts and conversations",
            "commands.estimate_bins.tokens.TokenBinsReport",
            package="estimate_bins",
            module="command",
            is_typed=True,
        ),
        _command(
            "estimate-batch-sizes",
            "The largest batch of each bucket",
            "commands.estimate_batch_sizes.report.BatchSizesReport",
            module="command",
            is_typed=True,
        ),
    ),
    "Mix and index finished sets": (
        _command(
            "blend",
            "Mix finished sets by weights in one input_cfg",
            "commands.blend.report.BlendReport",
            module="command",
            is_typed=True,
        ),
        _command(
            "index",
            "Index sets that exist, to resume in mid-epoch",
            "commands.index.report.IndexReport",
            module="command",
            is_typed=True,
        ),
    ),
    "Look and check": (
        _command(
            "inspect",
            "Show what a file or a set holds, with examples",
            "commands.inspect.report.Inspection",
            module="command",
            is_typed=True,
        ),
        _command(
            "status",
            "Show how far commands are, and how to continue them",
            "engine.run.status.Statuses",
            items="engine.run.status.Status",
            module="command",
            is_typed=True,
        ),
        _command(
            "verify",
            "Check that a set is complete and readable",
            "commands.verify.report.VerifyReport",
            module="command",
            is_typed=True,
        ),
    ),
}
"""The commands by task, in the order of `prepcli --help`."""
COMMANDS = tuple(command for commands in TASKS.values() for command in commands)
BY_PYTHON_NAME = {command.python_name: command for command in COMMANDS}
_CLASSES = sorted({one for command in COMMANDS for one in (command.report, command.items) if one})
PUBLIC_NAMES = {
    **dict.fromkeys(("IncompleteError", "PrepcliError", "TooManyRejectsError", "UsageError"), "errors"),
    **{name: BY_PYTHON_NAME[name].module_name for name in sorted(BY_PYTHON_NAME)},
    **{name: module for module, _, name in (one.rpartition(".") for one in _CLASSES)},
}
"""Each name of the API, with its module below `prepcli`: errors, functions, and the classes of reports."""
