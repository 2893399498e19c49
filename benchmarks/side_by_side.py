"""Whole processes measured in turn: A B A B ..., so that a slow moment of the machine hits all of them."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PREPCLI = [sys.executable, "-m", "prepcli"]
_BYTECODE = tempfile.TemporaryDirectory(prefix="bytecode")


def _environment() -> dict[str, str]:
    """Where Python writes no bytecode, it would compile all modules at every start; an installed program does not."""
    found = dict(os.environ)
    if found.pop("PYTHONDONTWRITEBYTECODE", ""):
        found["PYTHONPYCACHEPREFIX"] = _BYTECODE.name
    return found


@dataclass
class Contestant:
    """A command, what is done before each run, and its figures.

    `seconds` by the clock, `processor_seconds` of it and its children, `peak_mb` of the largest process. `codes`: the
    exit codes with which it has not failed.
    """

    name: str
    command: Sequence[str]
    prepare: Callable[[], object] = lambda: None
    seconds: list[float] = field(default_factory=list)
    processor_seconds: list[float] = field(default_factory=list)
    peak_mb: float = 0.0
    output: str = ""
    codes: Sequence[int] = (0,)

    def run(self, count: bool = True) -> None:
        """One run; stops the benchmark if the command fails."""
        self.prepare()
        os.sync()  # no command waits for data that another has left to write
        start = time.perf_counter()
        process = subprocess.Popen(
            self.command, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdout is not None
        self.output = process.stdout.read()
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in self.codes:
            raise SystemExit(f"{self.name}: {' '.join(self.command)} failed with exit code {process.returncode}")
        if count:
            self.seconds.append(seconds)
            self.processor_seconds.append(usage.ru_utime + usage.ru_stime)
            # Linux counts in KiB, and of the children that the process has waited for it counts the largest.
            self.peak_mb = max(self.peak_mb, usage.ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20))

    @property
    def median(self) -> float:
        """Seconds."""
        return statistics.median(self.seconds)


def clear(*outputs: Path) -> None:
    """Remove files or folders, each with the state of its run."""
    for path in outputs:
        path.unlink(missing_ok=True) if path.is_file() else shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(f"{path}.prepcli", ignore_errors=True)


def in_turn(contestants: Sequence[Contestant], runs: int) -> None:
    """One run of each that does not count, then `runs` of each in turn."""
    for number in range(runs + 1):
        for contestant in contestants:
            contestant.run(count=number > 0)


def print_table(contestants: Sequence[Contestant], reference: Contestant) -> None:
    """Median, spread and peak memory of each, and how many times as fast as it `reference` is."""
    for one in contestants:
        ratio = statistics.median(a / b for a, b in zip(one.seconds, reference.seconds, strict=True))
        print(
            f"  {one.name:<44} {one.median:7.2f} s ({min(one.seconds):.2f} to {max(one.seconds):.2f})  "
            f"{one.peak_mb:6.0f} MB   {ratio:6.2f} x"
        )
