"""The chain of runs that made an output: each run's inputs may be the outputs of earlier runs."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from prepcli.engine.publishing.publish import Marker, totals
from prepcli.engine.run.report import Report
from prepcli.engine.state.plan import StoredPlan
from prepcli.engine.state.stored_units import find_plan
from prepcli.engine.state.work_folder import version_roots, work_folder_or_none
from prepcli.engine.state.workspace import Workspace, read_document, workspace_of
from prepcli.errors import UsageError
from prepcli.storage.addresses import is_address
from prepcli.storage.paths import AnyPath, absolute, path_of

_MAX_FOLDERS = 3
"""The number of folders, above a file, that may be the output to which it belongs: OUT/bucket1/manifests/x.json."""


@dataclass(eq=False)
class Step:
    """A run in the chain.

    Attributes:
        workspace: the files of the run.
        plan: the inputs and settings of the run.
        sources: for each input with records, in order: its absolute path or address, and the runs that made it, the
            one that made the output and those that added to it; none for an input that no run has made.
    """

    workspace: Workspace
    plan: StoredPlan
    sources: list[tuple[str, "list[Step]"]] = field(default_factory=list)

    @property
    def out(self) -> str:
        """The absolute path of the output, or its address."""
        return absolute(self.workspace.named)

    @property
    def name(self) -> str:
        """The command and the name of the output, for people."""
        return f"{self.plan.command} {os.path.basename(self.out.rstrip('/'))}" + f" {self.plan.part}".rstrip()

    @property
    def inputs(self) -> list[str]:
        """The absolute paths or addresses of the inputs with records, in their order; one may be there twice."""
        return [absolute_in(self.plan.run_in, path) for path in _inputs_with_records(self.plan)]

    @cached_property
    def files(self) -> set[str]:
        """The names of the files that the units of the run have written, relative to `out`."""
        markers = (read_document(path, Marker) for path in self.workspace.marker_files())
        return {name for marker in markers if marker is not None for name in marker.files}

    @cached_property
    def report(self) -> Report | None:
        """The report of the run; None if it has not finished."""
        return read_document(self.workspace.report_file, Report)

    @cached_property
    def totals(self) -> Counter[str]:
        """The sums over all units: `seconds` of audio in the output, and the counts in `extra`."""
        markers = [read_document(path, Marker) for path in self.workspace.marker_files()]
        done = [marker for marker in markers if marker is not None]
        sums = totals(done)
        sums["seconds"] = sum(round(marker.seconds * 1e6) for marker in done) / 1e6  # type: ignore[assignment]
        return sums

    def rejects(self, sign: bytes = b"") -> Iterator[dict[str, Any]]:
        """The lines of `rejects.jsonl`: records with `reject_reason`, `reject_detail` and their place in the input.

        `sign`: only the lines that hold these bytes.
        """
        if self.workspace.rejects_file.exists():
            with self.workspace.rejects_file.open("rb") as lines:
                yield from (msgspec.json.decode(line) for line in lines if sign in line)


def chain_of(out: AnyPath, work_dir: Path | None = None, *, may_be_part: bool = False) -> list[Step]:
    """The runs that made `out`, each after those that made its inputs; `work_dir` as in `work_folder`.

    With `may_be_part`, `out` may be a file in an output.

    Raises:
        UsageError: no run has made `out`.
    """
    chain = _Chain(work_dir)
    if not (chain.makers(absolute(out)) if may_be_part else chain.made(out)):
        raise UsageError(f"no run of prepcli is known for {out}: give the OUT of a command, with its OUT.prepcli")
    return chain.steps


class _Chain:
    def __init__(self, work_dir: Path | None) -> None:
        self._work_dir = work_dir
        self._made: dict[str, list[Step]] = {}
        self._known: dict[Path, Step] = {}
        self.steps: list[Step] = []

    def made(self, out: AnyPath) -> list[Step]:
        """The runs that made `out` and added records to it; those before them are added to `steps` first."""
        if (known := self._made.get(str(out))) is not None:
            return known
        root = work_folder_or_none(out, self._work_dir)
        steps: list[Step] = []
        if root is not None and root.is_dir():
            later = (Workspace(out, path, work_dir=self._work_dir) for path in version_roots(root))
            found = [(one, find_plan(one)) for one in (workspace_of(out, self._work_dir), *later)]
            steps = [self._step(workspace, plan) for workspace, plan in found if plan is not None]
        self._made[str(out)] = steps
        return steps

    def _step(self, workspace: Workspace, plan: StoredPlan) -> Step:
        if (step := self._known.get(workspace.run)) is None:
            step = self._known[workspace.run] = Step(workspace, plan)
            step.sources = [(path, self.makers(path)) for path in dict.fromkeys(step.inputs)]
            self.steps.append(step)
        return step

    def makers(self, path: str) -> list[Step]:
        """The runs whose output is `path`, or a folder above it."""
        place = path_of(path)
        for _ in range(1 + _MAX_FOLDERS):
            if steps := self.made(place):
                return steps
            place = place.parent
        return []


def absolute_in(folder: str, path: str) -> str:
    """The path from the root, if it starts in `folder`; an address as it is."""
    return path if is_address(path) else os.path.normpath(os.path.join(folder, path))


def _inputs_with_records(plan: StoredPlan) -> list[str]:
    """The paths of the inputs without those that are values of options, such as of `--drop-listed`, as they stand."""
    paths = [one["path"] for one in plan.inputs]
    for value in _texts(plan.settings.values()):
        for named in (value, *value.split(",")):
            at = next((number for number in reversed(range(len(paths))) if paths[number] == named), None)
            if at:  # the first input is always one with records
                del paths[at]
    return paths


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from _texts(value)
