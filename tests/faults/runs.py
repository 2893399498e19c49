"""Runs of a case: undisturbed, with a fault, and again; and what must hold after them."""

import errno
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import tree
from tests.faults.cases import CASES, ONCE, Place
from tests.faults.shim import Event, Fault, read_log, variables
from tests.support.running import HANG_SECONDS, Outcome, Process, start_prepcli

MODULE = "tests.faults.here"
OF_USERS = "mine.txt"
"""A file of the user's beside the output."""


@dataclass
class Runs:
    """The runs of one case in its place."""

    name: str
    place: Place
    arguments: list[object]
    undisturbed: dict[str, str] = field(default_factory=dict)
    events: Sequence[Event] = ()
    num_losses: int = 0

    def start_afresh(self) -> None:
        """Make `run` what it is before the command."""
        shutil.rmtree(self.place.run, ignore_errors=True)
        if self.place.template.exists():
            shutil.copytree(self.place.template, self.place.run)
        else:
            self.place.run.mkdir()
        (self.place.run / OF_USERS).write_text("mine")

    def start(
        self,
        fault: Fault | None = None,
        log: Path | None = None,
        *,
        contents: bool = False,
        arguments: Sequence[object] = (),
    ) -> Process:
        """The command, or that of other `arguments`, in a process."""
        words = [*map(str, arguments or self.arguments), "--num-workers", "1"]
        more = variables(self.place.inputs, self.place.run, log, contents=contents, fault=fault)
        return start_prepcli(*words, module=MODULE, environ=more)

    def call(
        self,
        fault: Fault | None = None,
        log: Path | None = None,
        *,
        contents: bool = False,
        arguments: Sequence[object] = (),
    ) -> Outcome:
        """As `start`, to its end."""
        process = self.start(fault, log, contents=contents, arguments=arguments)
        try:
            out, err = process.communicate(timeout=HANG_SECONDS)
        except BaseException:
            process.kill()
            raise
        assert process.returncode is not None
        return Outcome(process.returncode, out, err)

    def results(self) -> dict[str, str]:
        """The files of the output, and the rejects; without the state of the run."""
        found = tree(self.place.run)
        return {
            name: digest
            for name, digest in found.items()
            if (name.endswith("/rejects.jsonl") and "/units/" not in name)
            or not (".prepcli/" in name or _is_draft(name))
        }

    def left(self) -> list[str]:
        """What a whole run may not leave: temporary files, drafts, claims."""
        names = (str(path.relative_to(self.place.run)) for path in self.place.run.rglob("*"))
        return [name for name in names if "/tmp/" in name or name.endswith("/claims") or _is_draft(name)]

    def faults(self, fault: Fault) -> list[str]:
        """Run with a fault and again; everything that was not as it must be."""
        self.start_afresh()
        inputs = _states(self.place.inputs)
        failed = self.call(fault)
        found = [*self._of_failure(failed, fault)]
        if failed.code == 0 and self.results() != self.undisturbed:
            found.append("exit code 0 with another output")
        found += self.after_again()
        if _states(self.place.inputs) != inputs:
            found.append("an input has changed")
        return [f"{self.name} {fault}: {one}" for one in found]

    def after_again(self, *, may_refuse: bool = False) -> list[str]:
        """Run the same command again, which `may_refuse` clearly; everything that was not as it must be."""
        again = self.call()
        if may_refuse and again.code in (1, 2):
            return [*self._of_failure(again, Fault((), (), 0, errno.EACCES))]
        if again.code != 0:
            return [f"again: exit code {again.code}: {again.err.strip()[-600:]}"]
        found = []
        if (results := self.results()) != self.undisturbed:
            names = sorted({*results, *self.undisturbed})
            differ = [name for name in names if results.get(name) != self.undisturbed.get(name)]
            found.append(f"again: {len(differ)} files differ: {differ[:5]}")
        # Nobody knows whose drafts are that a dead process has left beside other files.
        if left := [name for name in self.left() if not (may_refuse and _is_draft(name))]:
            found.append(f"again: left: {left[:5]}")
        return found

    def _of_failure(self, done: Outcome, fault: Fault) -> Iterator[str]:
        allowed = {0, 1, 4} | ({2} if fault.error == errno.EACCES else set())
        if done.code not in allowed:
            yield f"exit code {done.code}: {done.err.strip()[-600:]}"
        if done.code == 0:
            return
        lines = [line for line in done.err.splitlines() if line.startswith("prepcli: ")]
        if not done.err and "cannot be read" in done.out:
            lines = [" ".join(done.out.splitlines())]  # the report of `index`
        if len(lines) != 1 or "Traceback" in done.err:
            yield f"not one line: exit code {done.code}: {done.err.strip()[-600:]!r}"
        elif "a bug in prepcli" in lines[0]:
            yield f"a bug: {lines[0]}"
        elif str(self.place.folder) not in lines[0]:
            yield f"names no file: {lines[0]}"


def _is_draft(name: str) -> bool:
    last = name.rpartition("/")[2]
    return "~" in last and "/tmp/" not in name and not last.startswith(".list~")  # an empty folder of `refresh_listing`


def _states(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (found.st_size, found.st_mtime_ns) for path in folder.rglob("*") if (found := path.lstat())}


@contextmanager
def prepared(name: str, folder: Path | None = None, *, contents: bool = False) -> Iterator[Runs]:
    """The runs of a case, after one that was not disturbed."""
    with ExitStack() as stack:
        if folder is None:
            root = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prepcli-faults-", dir=root)))
        place = Place(folder, stack)
        place.inputs.mkdir(parents=True)
        runs = Runs(name, place, (CASES | ONCE)[name](place))
        runs.start_afresh()
        log = folder / "log"
        done = runs.call(log=log, contents=contents)
        assert done.code == 0, done.err
        runs.undisturbed, runs.events = runs.results(), read_log(log)
        assert runs.left() == []
        yield runs


def calls_of(events: Sequence[Event]) -> Counter[tuple[str, str]]:
    """How often each call was made on each kind of files."""
    return Counter((event.call, event.kind) for event in events)
