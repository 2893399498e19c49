"""The library `shim.c`: compiled once per process, what it is told, and the log that it writes."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.tools import need

VARIABLE = "FAULTS_OF_TESTS"
SHORT = -1
"""In the place of an errno: a transfer of half of the bytes."""
KILL = -2
"""In the place of an errno: SIGKILL before the call."""
STOP = -3
"""In the place of an errno: SIGSTOP after the call."""


@cache
def library() -> Path:
    """The compiled library; the test is skipped where there is no compiler."""
    made = Path(tempfile.mkdtemp(prefix="prepcli-faults-")) / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run([need("gcc", "cc"), "-O1", "-shared", "-fPIC", "-o", made, source, "-lpthread"], check=True)
    return made


@dataclass(frozen=True)
class Fault:
    """Which calls on which kinds of files fail: from the `nth`, once or (`stays`) all that follow, with an errno."""

    calls: tuple[str, ...]
    kinds: tuple[str, ...]
    nth: int
    error: int
    stays: bool = False

    def __str__(self) -> str:
        what = {SHORT: "SHORT", KILL: "KILL", STOP: "STOP"}.get(self.error) or os.strerror(self.error)
        return f"{'+'.join(self.calls)} {'+'.join(self.kinds)} {self.nth}{' on' * self.stays}: {what}"


@dataclass(frozen=True)
class Event:
    """A call on a file. `error`: its errno or 0. `other`: the new name, or for `open` whether it made the file (new,
    cut, old). `content`: of a file that was flushed, with `mtime_ns`."""

    call: str
    kind: str
    error: int
    is_folder: bool
    inode: int
    mtime_ns: int
    path: str
    other: str
    content: bytes


def variables(
    inputs: Path, run: Path, log: Path | None = None, *, contents: bool = False, fault: Fault | None = None
) -> dict[str, str]:
    """What a process needs in its environment."""
    lines = [f"inputs={inputs}", f"run={run}", f"contents={int(contents)}"]
    if log is not None:
        lines.append(f"log={log}")
    if fault is not None:
        lines += [f"calls={','.join(fault.calls)}", f"kinds={','.join(fault.kinds)}", f"nth={fault.nth}"]
        lines += [f"until={0 if fault.stays else fault.nth}", f"error={fault.error}"]
    return {"LD_PRELOAD": str(library()), VARIABLE: "\n".join(lines)}


def read_log(path: Path) -> Sequence[Event]:
    """The events of a run, in order."""
    data, at, events = path.read_bytes() if path.exists() else b"", 0, []
    while at < len(data):
        end = data.index(b"\n", at)
        call, kind, error, is_folder, inode, mtime_ns, size, name, other = data[at:end].decode().split("\t")
        at = end + 1 + int(size)
        events.append(
            Event(call, kind, int(error), is_folder == "1", int(inode), int(mtime_ns), name, other, data[end + 1 : at])
        )
    return events
