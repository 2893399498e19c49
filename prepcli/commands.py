"""The list of all commands, with the package of each. Nothing is imported before it is used."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Command:
    """A command of the command line and a function of the API.

    Attributes:
        name: as typed on the command line, e.g. `download librispeech`.
        package: below `prepcli`; its module `options` has the dataclass, its module `command` has the function.
        options: the dataclass of its options, whose docstring is the help of the command.
    """

    name: str
    package: str
    options: str

    @property
    def python_name(self) -> str:
        """The name in the API, e.g. `download_librispeech`."""
        return self.name.replace(" ", "_").replace("-", "_")

    def load_options(self) -> type[Any]:
        """The dataclass of its options."""
        loaded = getattr(importlib.import_module(f"prepcli.{self.package}.options"), self.options)
        assert isinstance(loaded, type)
        return loaded

    def load_function(self) -> Callable[[Any], Any]:
        """The function that does the work: it takes the dataclass and returns a report."""
        module = importlib.import_module(f"prepcli.{self.package}.command")
        function: Callable[[Any], Any] = getattr(module, self.python_name)
        return function


COMMANDS = tuple(
    Command(name, package, options)
    for name, package, options in (
        ("download librispeech", "corpora", "DownloadLibrispeech"),
        ("download an4", "corpora", "DownloadAn4"),
        ("download aishell", "corpora", "DownloadAishell"),
        ("download aishell2", "corpora", "DownloadAishell2"),
        ("download ljspeech", "corpora", "DownloadLjspeech"),
        ("download fisher", "corpora", "DownloadFisher"),
        ("download hub5", "corpora", "DownloadHub5"),
        ("manifest-to-tarred", "tarred", "ManifestToTarred"),
        ("manifest-to-shar", "shar", "ManifestToShar"),
        ("extend-context-audio", "context", "ExtendContextAudio"),
        ("extend-codec-codes", "codes", "ExtendCodecCodes"),
        ("estimate-bins", "bins", "EstimateBins"),
        ("estimate-bins-2d", "bins", "EstimateBins2d"),
        ("estimate-token-bins", "bins", "EstimateTokenBins"),
        ("inspect", "inspection", "Inspect"),
        ("status", "engine", "ShowStatus"),
        ("verify", "verification", "Verify"),
    )
)
BY_PYTHON_NAME = {command.python_name: command for command in COMMANDS}
