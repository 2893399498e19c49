"""A run never replaces or removes its inputs, and stops when one of them changes."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from prepcli.engine.job import AnyJob
from prepcli.engine.plan import AnyPlan, StoredPlan
from prepcli.engine.workspace import Workspace, read_document
from prepcli.errors import UsageError
from prepcli.storage.addresses import is_address
from prepcli.storage.input_files import check_unchanged, same_file
from prepcli.storage.paths import StorePath, absolute, real_path


def refuse_to_lose_inputs(job: AnyJob, plan: AnyPlan, workspace: Workspace, overwrite: bool) -> None:
    """Compare the files that the run would replace, or remove with `overwrite`, with its inputs, before any change.

    Raises:
        UsageError: an input is among them, by name or through a link.
    """
    inputs = [str(path) for path in job.input_files(plan)]
    lost = next((path for path in inputs if workspace.is_record_of_a_run(path)), None)
    if lost is not None:
        raise UsageError(
            f"the input {lost} belongs to the records of {workspace.out} in {workspace.root}, which this run would "
            "replace; choose another output directory, or copy the input first"
        )
    if not (
        overwrite or read_document(workspace.plan_file, StoredPlan) is None or any(_may_be_in(workspace.out, inputs))
    ):
        return  # a run that is continued need not look at each of its files
    outputs = workspace.outputs(job.output_patterns(plan))
    found = _same_object(outputs, inputs) if isinstance(workspace.out, StorePath) else same_file(outputs, inputs)
    if found is not None:
        output, path = found
        same = "" if str(output) == path else f" (it is {output})"
        verb = "remove" if overwrite else "replace"
        raise UsageError(
            f"the input {path}{same} lies where this command writes its output, which would {verb} it; choose "
            "another output directory"
        )


def _same_object(outputs: Iterable[Path], inputs: Sequence[str]) -> tuple[Path, str] | None:
    """`same_file` for outputs in an object store."""
    by_address = {str(path): path for path in outputs}
    return next(((by_address[path], path) for path in map(absolute, inputs) if path in by_address), None)


def _may_be_in(out: Path, inputs: Sequence[str]) -> Iterator[bool]:
    """For each input, whether it can be a file in `out`: it is in that folder, or has several names."""
    folder = real_path(out) + os.sep
    for path in inputs:
        if is_address(path):
            yield absolute(path).startswith(folder)
            continue
        yield os.path.realpath(path).startswith(folder)
        yield os.path.abspath(path).startswith(folder)
        yield os.path.exists(path) and os.stat(path).st_nlink > 1


def check_inputs(plan: AnyPlan) -> None:
    """Check that the inputs are unchanged since the plan was made.

    Raises:
        InputChangedError: one of them has changed.
    """
    for file in plan.inputs:
        if file.state is not None:
            check_unchanged(file.path, file.state, same_content=file.has_same_content if file.digest_of else None)
