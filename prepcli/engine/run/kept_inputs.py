"""A run never replaces or removes its inputs, and stops when one of them changes."""

import os
import stat
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from prepcli.engine.run.job import AnyJob
from prepcli.engine.state.clearing import Stock
from prepcli.engine.state.plan import AnyPlan, StoredPlan
from prepcli.engine.state.workspace import CLEARED_FILES, CLEARED_FOLDERS, EDITABLE_FILES, Workspace, read_document
from prepcli.errors import UsageError
from prepcli.storage.addresses import is_address
from prepcli.storage.input_files import check_unchanged, same_file
from prepcli.storage.paths import StorePath, absolute, real_path


class _Place(NamedTuple):
    """An input: its path as it was given, absolute, and without symbolic links; and the number of its names."""

    path: str
    absolute: str
    real: str
    num_links: int


def refuse_to_lose_inputs(job: AnyJob, plan: AnyPlan, workspace: Workspace, removed: Stock | None = None) -> None:
    """Compare the files that the run would replace, or remove, with its inputs, before any change.

    Raises:
        UsageError: an input is among them, by name or through a link.
    """
    inputs = [str(path) for path in job.input_files(plan)]
    places = list(_places(inputs))
    lost = _first_among_records(workspace.root, places)
    if lost is not None:
        raise UsageError(
            f"the input {lost} belongs to the state of {workspace.out} in {workspace.root}, which this run would "
            "replace; choose another output directory, or copy the input first"
        )
    is_new = removed is not None or read_document(workspace.plan_file, StoredPlan) is None
    if not (is_new or _may_be_in(workspace.out, places)):
        return  # a run that is continued need not look at each of its files
    outputs: Iterable[Path] = workspace.outputs(job.output_patterns(plan))
    every: Iterable[str] = inputs
    if removed is not None:
        outputs = [workspace.out / name for name in (*removed.ours, *removed.mistakable)]
        every = chain(inputs, map(str, job.files_of_records(plan)))
    found = _same_object(outputs, every) if isinstance(workspace.out, StorePath) else same_file(outputs, every)
    if found is not None:
        output, path = found
        same = "" if str(output) == path else f" (it is {output})"
        verb = "replace" if removed is None else "remove"
        raise UsageError(
            f"the input {path}{same} lies where this command writes its output, which would {verb} it; choose "
            "another output directory"
        )


def _same_object(outputs: Iterable[Path], inputs: Iterable[str]) -> tuple[Path, str] | None:
    """`same_file` for outputs in an object store."""
    by_address = {str(path): path for path in outputs}
    return next(((by_address[path], path) for path in map(absolute, inputs) if path in by_address), None)


def _places(paths: Iterable[str]) -> Iterator[_Place]:
    """The places of inputs; of thousands in one folder, the folder is resolved once."""
    folders: dict[str, tuple[str, str]] = {}
    for path in paths:
        if is_address(path):
            yield _Place(path, absolute(path), absolute(path), 1)
            continue
        folder, name = os.path.split(path)
        if folder not in folders:
            folders[folder] = (os.path.abspath(folder), os.path.realpath(folder))
        place, real = (os.path.join(one, name) for one in folders[folder])
        try:
            found = os.lstat(real)
        except OSError:
            found = None
        if found is not None and stat.S_ISREG(found.st_mode):
            yield _Place(path, place, real, found.st_nlink)
        else:
            num_links = os.stat(path).st_nlink if os.path.exists(path) else 0
            yield _Place(path, os.path.abspath(path), os.path.realpath(path), num_links)


def _first_among_records(root: Path, places: Iterable[_Place]) -> str | None:
    """The first input in OUT.prepcli that a run replaces and that `--overwrite` removes."""
    roots = os.path.abspath(root) + os.sep, os.path.realpath(root) + os.sep
    for place in places:
        for name, above in zip((place.absolute, place.real), roots, strict=True):
            below = name.removeprefix(above).split(os.sep) if name.startswith(above) else [""]
            if below[0] in CLEARED_FOLDERS or (len(below) == 1 and below[0] in (*CLEARED_FILES, *EDITABLE_FILES)):
                return place.path
    return None


def _may_be_in(out: Path, places: Iterable[_Place]) -> bool:
    """Whether some input can be a file in `out`: it is in that folder, or has several names."""
    folder = real_path(out) + os.sep
    return any(one.real.startswith(folder) or one.absolute.startswith(folder) or one.num_links > 1 for one in places)


def check_inputs(plan: AnyPlan) -> None:
    """Check that the inputs are unchanged since the plan was made.

    Raises:
        InputChangedError: one of them has changed.
    """
    for file in plan.inputs:
        if file.state is not None:
            check_unchanged(file.path, file.state, same_content=file.has_same_content if file.digest_of else None)
