"""`download` from the options of each corpus to its report."""

from typing import Any

from prepcli.corpora.options import (
    DownloadAishell,
    DownloadAishell2,
    DownloadAn4,
    DownloadFisher,
    DownloadHub5,
    DownloadLibrispeech,
    DownloadLjspeech,
    FetchOptions,
)
from prepcli.corpora.running import DownloadReport, prepare_data_sets
from prepcli.engine.report import Report
from prepcli.engine.running import run_command
from prepcli.engine.workspace import Workspace
from prepcli.errors import UsageError
from prepcli.options import settings_of


def download_librispeech(options: DownloadLibrispeech) -> DownloadReport:
    """Make manifests of the corpus.

    Returns:
        The report; of several data sets `data_sets` has each one's by its name. `outputs` are the manifests.

    Raises:
        UsageError: there is no such data set, other files are in the data root, or the given archive is damaged.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.download_librispeech("data", data_sets="mini")
        >>> report.outputs["dev_clean_2"]
        'data/dev_clean_2.json'
    """
    from prepcli.corpora.published import librispeech as corpus

    chosen = corpus.data_sets(options.data_sets, options.audio_format)
    return prepare_data_sets(chosen, options.data_root, options, options)


def download_an4(options: DownloadAn4) -> DownloadReport:
    """Make manifests of the corpus.

    Returns:
        The report; of several data sets `data_sets` has each one's by its name. `outputs` are the manifests.

    Raises:
        UsageError: there is no such data set, other files are in the data root, or the given archive is damaged.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.download_an4("data")
        >>> report.outputs["train_manifest"]
        'data/an4/train_manifest.json'
    """
    from prepcli.corpora.published import an4 as corpus

    return prepare_data_sets([corpus.data_set()], options.data_root, options, options)


def download_aishell(options: DownloadAishell) -> DownloadReport:
    """Make manifests of the corpus.

    Returns:
        The report; of several data sets `data_sets` has each one's by its name. `outputs` are the manifests.

    Raises:
        UsageError: there is no such data set, other files are in the data root, or the given archive is damaged.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.download_aishell("data")
        >>> report.outputs["train"]
        'data/data_aishell/train.json'
    """
    from prepcli.corpora.published import aishell as corpus

    return prepare_data_sets([corpus.data_set()], options.data_root, options, options)


def download_aishell2(options: DownloadAishell2) -> DownloadReport:
    """Make manifests of the corpus.

    Returns:
        The report; of several data sets `data_sets` has each one's by its name. `outputs` are the manifests.

    Raises:
        UsageError: there is no such data set, other files are in the data root, or the given archive is damaged.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.download_aishell2("AISHELL-2", "data")
        >>> report.outputs["train"]
        'data/train.json'
    """
    from prepcli.corpora.published import aishell2 as corpus

    return prepare_data_sets([corpus.data_set(options.audio_folder)], options.data_root, FetchOptions(), options)


def download_ljspeech(options: DownloadLjspeech) -> DownloadReport:
    """Make manifests of the corpus.

    Returns:
        The report; of several data sets `data_sets` has each one's by its name. `outputs` are the manifests.

    Raises:
        UsageError: there is no such data set, other files are in the data root, or the given archive is damaged.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.download_ljspeech("data", val_size=1, test_size=1)
        >>> report.outputs["val_manifest"]
        'data/LJSpeech-1.1/val_manifest.json'
    """
    from prepcli.corpora.published import ljspeech as corpus

    chosen = corpus.data_set(options.val_size, options.test_size, options.split_seed)
    return prepare_data_sets([chosen], options.data_root, options, options)


def download_fisher(options: DownloadFisher) -> Report:
    """Slice a licensed copy of the corpus.

    Returns:
        The report of the run; `outputs` are the manifests, `details["slices"]` is the number of slices.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.download_fisher("LDC", "fisher", remove_noises=True)
        >>> report.outputs["manifest_train"]
        'fisher/manifest_train.json'
    """
    from prepcli.corpora.published.fisher import Fisher
    from prepcli.corpora.slices import FisherJob
    from prepcli.corpora.spoken_text import Noises

    if options.remove_noises and options.noises_to_emoji:
        raise UsageError("--remove-noises and --noises-to-emoji exclude each other")
    noises = Noises.REMOVE if options.remove_noises else Noises.EMOJI if options.noises_to_emoji else Noises.KEEP
    engine = options.engine()
    workspace = Workspace(options.dest_root)
    corpus = Fisher(options.ldc_root, options.keep_low_conf, noises)
    job = FisherJob(corpus, workspace, options.min_slice_duration, _settings(options), engine.num_workers)
    return run_command(job, workspace, options, engine)


def download_hub5(options: DownloadHub5) -> Report:
    """Slice a licensed copy of the test set.

    Returns:
        The report of the run; `outputs` are the manifests, `details["slices"]` is the number of slices.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.
        IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
        TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.

    Example:
        >>> import prepcli
        >>> report = prepcli.download_hub5("LDC", "hub5")
        >>> report.outputs["manifest_hub5"]
        'hub5/manifest_hub5.json'
    """
    from prepcli.corpora.published.hub5 import Hub5
    from prepcli.corpora.slices import Hub5Job

    engine = options.engine()
    workspace = Workspace(options.dest_root)
    corpus = Hub5(options.data_root)
    job = Hub5Job(corpus, workspace, options.min_slice_duration, _settings(options), engine.num_workers)
    return run_command(job, workspace, options, engine)


def _settings(options: DownloadFisher | DownloadHub5) -> dict[str, Any]:
    """Under the names that plans have had from the start, without the dashes before them."""
    return {name.removeprefix("--"): value for name, value in settings_of(options).items()}
