"""`download` from the options of each corpus to its report."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from prepcli.commands.download.options import (
    DownloadAishell,
    DownloadAishell2,
    DownloadAn4,
    DownloadFisher,
    DownloadHub5,
    DownloadLibrispeech,
    DownloadLjspeech,
    FetchOptions,
)
from prepcli.commands.download.running import DownloadReport, prepare_data_sets
from prepcli.engine.run.report import Report
from prepcli.engine.run.run_command import run_command
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError
from prepcli.interface.options import settings_of

if TYPE_CHECKING:
    from prepcli.commands.download.data_set import DataSet

Function = TypeVar("Function", bound=Callable[..., Any])

_SECTIONS = """

Returns:
    {returns}

Raises:
    UsageError: {wrong_use}

Example:
    >>> import prepcli
    >>> report = prepcli.{call}
    >>> report.outputs["{output}"]
    {path!r}
"""


def _documented(call: str, output: str, path: str, *, returns: str, wrong_use: str) -> Callable[[Function], Function]:
    """Complete the docstring of a command: the sections that all corpora share, and an example of its own."""

    def complete(function: Function) -> Function:
        sections = _SECTIONS.format(returns=returns, wrong_use=wrong_use, call=call, output=output, path=path)
        function.__doc__ = f"{function.__doc__}{sections}"
        return function

    return complete


_makes_manifests = partial(
    _documented,
    returns="The report; `data_sets` has the report of each data set by name. `outputs` are the manifests.",
    wrong_use="the data set is unknown, other files are in its place, or the given archive is damaged.",
)
_makes_slices = partial(
    _documented,
    returns='The report of the run; `outputs` are the manifests, `details["slices"]` is the number of slices.',
    wrong_use="options that do not go together, or inputs that cannot be read.",
)


@_makes_manifests('download_librispeech("data", data_sets="mini")', "dev_clean_2", "/.../data/dev_clean_2.json")
def download_librispeech(options: DownloadLibrispeech) -> DownloadReport:
    """Make manifests of the corpus."""
    from prepcli.commands.download.published import librispeech as corpus

    chosen = corpus.data_sets(options.data_sets, options.audio_format)
    return _prepare(chosen, options)


@_makes_manifests('download_an4("data")', "train_manifest", "/.../data/an4/train_manifest.json")
def download_an4(options: DownloadAn4) -> DownloadReport:
    """Make manifests of the corpus."""
    from prepcli.commands.download.published import an4 as corpus

    return _prepare([corpus.data_set()], options)


@_makes_manifests('download_aishell("data")', "train", "/.../data/data_aishell/train.json")
def download_aishell(options: DownloadAishell) -> DownloadReport:
    """Make manifests of the corpus."""
    from prepcli.commands.download.published import aishell as corpus

    return _prepare([corpus.data_set()], options)


@_makes_manifests('download_aishell2("AISHELL-2", "data")', "train", "/.../data/train.json")
def download_aishell2(options: DownloadAishell2) -> DownloadReport:
    """Make manifests of the corpus."""
    from prepcli.commands.download.published import aishell2 as corpus

    return _prepare([corpus.data_set(options.audio_folder)], options)


@_makes_manifests(
    'download_ljspeech("data", val_size=1, test_size=1)', "val_manifest", "/.../data/LJSpeech-1.1/val_manifest.json"
)
def download_ljspeech(options: DownloadLjspeech) -> DownloadReport:
    """Make manifests of the corpus."""
    from prepcli.commands.download.published import ljspeech as corpus

    chosen = corpus.data_set(options.val_size, options.test_size, options.split_seed)
    return _prepare([chosen], options)


@_makes_slices(
    'download_fisher("LDC", "fisher", remove_noises=True)', "manifest_train", "/.../fisher/manifest_train.json"
)
def download_fisher(options: DownloadFisher) -> Report:
    """Slice a licensed copy of the corpus."""
    from prepcli.commands.download.published.fisher import Fisher
    from prepcli.commands.download.slices import FisherJob
    from prepcli.commands.download.spoken_text import Noises

    if options.remove_noises and options.noises_to_emoji:
        raise UsageError("--remove-noises and --noises-to-emoji exclude each other")
    noises = Noises.REMOVE if options.remove_noises else Noises.EMOJI if options.noises_to_emoji else Noises.KEEP
    engine = options.engine()
    corpus = Fisher(options.ldc_root, options.keep_low_conf, noises)
    job = FisherJob(corpus, options.min_slice_duration, _settings(options), engine.num_workers)
    return run_command(job, Workspace(options.dest_root), options, engine)


@_makes_slices('download_hub5("LDC", "hub5")', "manifest_hub5", "/.../hub5/manifest_hub5.json")
def download_hub5(options: DownloadHub5) -> Report:
    """Slice a licensed copy of the test set."""
    from prepcli.commands.download.published.hub5 import Hub5
    from prepcli.commands.download.slices import Hub5Job

    engine = options.engine()
    corpus = Hub5(options.data_root)
    job = Hub5Job(corpus, options.min_slice_duration, _settings(options), engine.num_workers)
    return run_command(job, Workspace(options.dest_root), options, engine)


def _prepare(data_sets: "Sequence[DataSet]", options: Any) -> DownloadReport:
    fetch = options if isinstance(options, FetchOptions) else FetchOptions()
    return prepare_data_sets(data_sets, options.data_root, fetch, options)


def _settings(options: DownloadFisher | DownloadHub5) -> dict[str, Any]:
    """The settings under the names that existing plans have, without leading dashes."""
    return {name.removeprefix("--"): value for name, value in settings_of(options).items()}
