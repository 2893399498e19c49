"""The inputs of commands that write no data set: they estimate bins, inspect or verify data."""

import shlex
from collections.abc import Sequence

from prepcli.errors import UsageError
from prepcli.formats.wenet import list_kind
from prepcli.interface.printing import printable_command
from prepcli.interface.shared_options import SetInput
from prepcli.jobs.inputs.catalogue import EVERY
from prepcli.jobs.inputs.named import MANIFEST_SUFFIXES, manifests_of
from prepcli.jobs.inputs.revisions import with_commits
from prepcli.jobs.inputs.sets import NoDataSetError
from prepcli.jobs.inputs.splits import check_numbers, split_of
from prepcli.manifest.datasets import DataSet, Mix
from prepcli.manifest.input_cfg import Texts
from prepcli.manifest.inputs import resolve_input
from prepcli.storage.addresses import on_hub
from prepcli.storage.containers import Catalogue
from prepcli.storage.paths import is_dir, is_file, path_of

_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".zip")


def data_of(spec: str, texts: Texts = "refuse") -> DataSet | Mix:
    """The data that `spec` names: the result of `resolve_input`, or the containers at this path.

    Raises:
        UsageError: as by `resolve_input`, a container is damaged, the containers are of several splits, or a numbered
            file of Parquet is missing.
    """
    spec = with_commits(spec)
    if not is_dir(spec):
        containers = containers_at(spec)
        return _of_one_split(containers, spec) if containers else resolve_input(spec, texts)
    try:
        data = resolve_input(spec, texts)
    except UsageError:
        if containers := containers_at(spec):
            return _of_one_split(containers, spec)
        raise
    if isinstance(data, DataSet) and data.parquet is not None:
        check_numbers(data.paths)
    return data


def _of_one_split(paths: Sequence[str], folder: str) -> DataSet:
    """Containers as a data set; raises `UsageError` if their names show several splits."""
    splits = sorted({split_of(path.removeprefix(folder)) for path in paths})
    if len(splits) > 1:
        make = printable_command(shlex.join(["prepcli", "make-manifest", folder, "OUT.json", "--split", "NAME"]))
        raise UsageError(f"{folder} has several splits, {', '.join(splits)}; `{make}` makes a manifest of one")
    return DataSet(tuple(paths))


def containers_at(path: str, *, of_rows: bool = False) -> list[str]:
    """The containers at a path; an empty list for manifests, and for a folder that is not a data set.

    `of_rows`: whether a local Parquet file is a container too; else its columns are read directly. A Parquet file on
    the hub always is a container.

    Raises:
        UsageError: the file cannot be read as a container, the data set in the folder cannot be read or is several, or
            there is no such data set on the hub.
    """
    path = with_commits(path)
    is_folder = is_dir(path)
    suffixes = (*_SUFFIXES, ".parquet") if of_rows or on_hub(path) else _SUFFIXES
    if not is_folder and not is_file(path):
        return []
    is_container = is_folder or path.lower().endswith(suffixes)
    if not is_container and (path.endswith(MANIFEST_SUFFIXES) or list_kind(path_of(path)) is None):
        return []
    try:
        return [
            container for container in manifests_of(path, SetInput(split=EVERY)) if isinstance(container, Catalogue)
        ]
    except NoDataSetError:
        if is_folder and not on_hub(path):
            return []
        raise
