"""Changes of a small output that are killed at a call of the commit, and what must hold then and after the next run."""

import errno
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import msgspec

from prepcli.engine.ledger import Ledger
from prepcli.engine.lock import LOCK_FILE
from tests.conftest import read_lines, tree
from tests.engine.folder_runs import as_of_earlier
from tests.faults import runs as faults
from tests.faults.cases import CASES, Place
from tests.faults.shim import KILL, STOP, Event, Fault
from tests.support.running import HANG_SECONDS, Outcome, prepcli

CALLS = ("rename", "link", "unlink", "mkdir", "rmdir", "fsync")
ON_FULL_DISK = ("write", "writev", "pwrite", "copy", "open", "mkdir", "link", "rename")
KINDS = ("OUT", "STATE", "TMP")
_RUN_FOLDER = re.compile(r"(?<=/)[0-9a-f]{16}(\.[0-9a-z]+)?(?=/|$)")


@dataclass(frozen=True)
class Change:
    """A command that changes an output; `again`: the command that continues it, if that is another one."""

    command: Sequence[object]
    again: Sequence[object] = ()
    names_once: bool = False
    """Whether a second call has nothing to do, and refuses that."""


def _tarred(place: Place, *options: object, count: int = 6, shards: int = 3) -> list[object]:
    return ["manifest-to-tarred", place.manifest(count=count), place.out, "--num-shards", shards, *options]


def _made(place: Place, *commands: Sequence[object]) -> None:
    """The output as it is before the change."""
    for command in commands:
        done = prepcli(*command)
        assert done.code == 0, done.err
    place.run.rename(place.template)


def _fresh(place: Place) -> Change:
    return Change(_tarred(place))


def _score(place: Place) -> Change:
    return Change(["score", place.manifest(count=6), place.run / "out.json"])


def _overwrite(place: Place) -> Change:
    _made(place, _tarred(place, shards=2))
    return Change(_tarred(place, "--overwrite"), _tarred(place))


def _same(place: Place) -> Change:
    _made(place, _tarred(place))
    return Change(_tarred(place, "--overwrite"), _tarred(place))


def _retry(place: Place) -> Change:
    command = _tarred(place, "--max-rejects", 1)
    audio = Path(read_lines(Path(str(command[1])))[4]["audio_filepath"])
    aside = audio.rename(audio.with_suffix(".aside"))
    _made(place, command)
    aside.rename(audio)
    return Change([*command, "--retry-rejects"], command)


def _repair(place: Place) -> Change:
    _made(place, _tarred(place))
    (place.template / "out/audio_1.tar").unlink()
    return Change(_tarred(place))


def _concat(place: Place) -> Change:
    _made(place, _tarred(place))
    return Change(["manifest-to-tarred", place.manifest(6, 3, name="more.json"), "--concat-to", place.out])


def _undo(place: Place) -> Change:
    more = ["manifest-to-tarred", place.manifest(6, 3, name="more.json"), "--concat-to", place.out]
    other = ["manifest-to-tarred", place.manifest(12, 3, name="other.json"), "--concat-to", place.out]
    _made(place, _tarred(place), more, other)
    return Change(["manifest-to-tarred", "--undo-concat", place.out], names_once=True)


def _earlier(place: Place) -> Change:
    _made(place, _tarred(place, shards=2))
    as_of_earlier(place.template / place.out.name)
    return Change(_tarred(place, "--overwrite"), _tarred(place))


CHANGES: dict[str, Callable[[Place], Change]] = {
    "fresh": _fresh,
    "score": _score,
    "overwrite": _overwrite,
    "same": _same,
    "retry": _retry,
    "repair": _repair,
    "concat": _concat,
    "undo": _undo,
    "earlier": _earlier,
}


@dataclass
class Kills:
    """The kills of one change."""

    runs: faults.Runs
    change: Change
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    state: set[str] = field(default_factory=set)
    moments: list[int] = field(default_factory=list)
    """Numbers of the calls at which the process is killed."""
    writes: list[int] = field(default_factory=list)
    """Numbers of the calls that need room on the disk."""
    num_disturbed: int = 0
    added: dict[bool, Outcome | dict[str, str]] = field(default_factory=dict)

    @property
    def run(self) -> Path:
        return self.runs.place.run

    def out(self) -> dict[str, str]:
        """The files of the output."""
        return {name: digest for name, digest in tree(self.run).items() if ".prepcli/" not in name}

    def names_of_state(self) -> set[str]:
        names = (str(path.relative_to(self.run)) for path in self.run.rglob("*"))
        # A draft of `train_ds.yaml` may be that of another process.
        return {_RUN_FOLDER.sub("RUN", name) for name in names if ".prepcli/" in name and "/.train_ds" not in name}

    def is_pending(self) -> bool:
        found = next(self.run.glob("*.prepcli/owner.json"), None)
        return found is not None and msgspec.json.decode(found.read_bytes(), type=Ledger).pending is not None

    def start_afresh(self) -> None:
        self.runs.start_afresh()
        self.num_disturbed += 1

    def kill(self, moment: int) -> None:
        self.start_afresh()
        fault = Fault(CALLS, KINDS, moment, KILL)
        done = self.runs.call(fault)
        assert done.code == -9, (str(fault), done)

    def faults(self, moment: int) -> Iterator[str]:
        """Kill there, look, and run again; all that is not as it must be."""
        self.kill(moment)
        is_whole = self.out() in (self.before, self.after)
        if not (is_whole or self.is_pending()):
            yield f"neither whole nor pending: {sorted(self.out())}"
        yield from self.of_readers(is_whole)
        yield from self.after_again()

    def faults_of_full_disk(self, nth: int) -> Iterator[str]:
        """The disk is full from the `nth` call on that needs room; then there is room again."""
        self.start_afresh()
        done = self.runs.call(Fault(ON_FULL_DISK, KINDS, nth, errno.ENOSPC, True))
        is_whole = self.out() in (self.before, self.after)
        if not (is_whole or self.is_pending()):
            yield f"neither whole nor pending: {sorted(self.out())}"
        lines = [line for line in done.err.splitlines() if not line.startswith(("note: ", "removed ", "  "))]
        if done.code == 0 and not (is_whole and not self.is_pending()):
            yield "exit code 0, but it is not done"
        if done.code and (len(lines) != 1 or "No space left" not in lines[0] or "a bug" in lines[0]):
            yield f"exit code {done.code}: {done.err}"
        yield from self.after_again()

    def faults_of_stopping(self, moment: int) -> Iterator[str]:
        """Stop the process after a call for so long that another one takes its lock and completes the change."""
        self.start_afresh()
        stopped = self.runs.start(Fault(CALLS, KINDS, moment, STOP))
        while not is_stopped(stopped.pid) and stopped.poll() is None:
            time.sleep(0.002)
        with (
            patch("prepcli.processes.owner.this_place", lambda: "another machine"),
            patch("prepcli.engine.lock.SILENCE_SECONDS", 0.2),
            patch("prepcli.engine.lock.EMPTY_SECONDS", 0.2),
        ):
            done = prepcli(*(self.change.again or self.change.command))
        if done.code:
            yield f"the other one: exit code {done.code}: {done.err}"
        whole = self.out()
        if whole != self.after:
            yield f"the other one: {sorted(set(whole.items()) ^ set(self.after.items()))}"
        stopped.send_signal(signal.SIGCONT)
        _, err = stopped.communicate(timeout=HANG_SECONDS)
        if stopped.returncode not in (0, 1, 4) or "Traceback" in err or "a bug" in err:
            yield f"the stopped one: exit code {stopped.returncode}: {err}"
        if self.out() != self.after or self.is_pending():
            yield f"the stopped one: {sorted(set(self.out().items()) ^ set(self.after.items()))}"

    def after_again(self) -> Iterator[str]:
        """Run again; all that is not as after an undisturbed run."""
        if self.change.names_once and self.out() == self.after and not self.is_pending():
            return  # it was about to end; a second call would be another removal
        again = self.change.again or self.change.command
        done = self.runs.call(arguments=again)
        if done.code:
            yield f"again: exit code {done.code}: {done.err}"
        if (out := self.out()) != self.after:
            yield f"again: {sorted(set(out.items()) ^ set(self.after.items()))}"
        if (names := self.names_of_state()) != self.state:
            yield f"again: left {sorted(names - self.state)}, missing {sorted(self.state - names)}"
        if self.runs.results() != self.runs.undisturbed:
            yield "again: other rejects"

    def of_readers(self, is_whole: bool) -> Iterator[str]:
        """What `status` and `verify` say of what the killed process has left."""
        out = next(path for path in self.change.command if isinstance(path, Path) and path.name.startswith("out"))
        for command in ("status", "verify", "inspect"):
            done = prepcli(command, out)
            if "Traceback" in done.err or "a bug" in done.err:
                yield f"{command}: {done.err}"
            if command == "verify" and done.code == 0 and not is_whole:
                yield f"verify accepts {sorted(self.out())}: {done.out}"

    def faults_with_an_addition(self, moment: int) -> Iterator[str]:
        """Kill there, and add other records: the addition completes what is pending first."""
        self.kill(moment)
        is_changed = self.is_pending() or self.out() == self.after
        if is_changed not in self.added:
            left = self.run.rename(self.run.with_name("left"))
            self.runs.start_afresh()
            if is_changed:
                assert self.runs.call().code == 0
            self.added[is_changed] = self.add()
            shutil.rmtree(self.run)
            left.rename(self.run)
        found, expected = self.add(), self.added[is_changed]
        if isinstance(found, Outcome):
            if not isinstance(expected, Outcome) or found.code != expected.code:
                yield f"the addition: {found.code}: {found.err}"
        elif found != expected:
            assert isinstance(expected, dict), expected.err
            yield f"the addition: {sorted(set(found.items()) ^ set(expected.items()))}"

    def add(self) -> Outcome | dict[str, str]:
        more = self.runs.place.inputs / "extra.json"
        done = prepcli("manifest-to-tarred", more, "--concat-to", self.runs.place.out)
        return self.out() if done.code == 0 else done


def _takes_lock(event: Event) -> bool:
    return event.path.endswith(f"/{LOCK_FILE}") and event.call == "open"


def calls_of(events: Sequence[Event], calls: Sequence[str]) -> int:
    """How many of the calls are among some events."""
    return sum(event.call in calls and event.kind in KINDS for event in events)


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        return False


@contextmanager
def prepared(name: str) -> Iterator[Kills]:
    """A change, after it was made without being disturbed."""
    changes: list[Change] = []

    def arguments(place: Place) -> list[object]:
        place.run.mkdir()
        place.manifest(20, 3, name="extra.json")
        changes.append(CHANGES[name](place))
        return list(changes[0].command)

    with patch.dict(CASES, {f"change-{name}": arguments}), faults.prepared(f"change-{name}") as runs:
        kills = Kills(runs, changes[0])
        kills.after, kills.state = kills.out(), kills.names_of_state()
        # The lock is taken for the plan of a run, and last for the commit.
        taken = (number for number, event in enumerate(runs.events) if _takes_lock(event))
        lock = max(taken)
        for calls, numbers in ((CALLS, kills.moments), (ON_FULL_DISK, kills.writes)):
            numbers += range(calls_of(runs.events[:lock], calls) + 1, calls_of(runs.events, calls) + 1)
        runs.start_afresh()
        kills.before = kills.out()
        yield kills
