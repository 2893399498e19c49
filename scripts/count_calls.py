"""Count the files and functions of prepcli that a run enters, in all and for each record.

    python scripts/count_calls.py -- manifest-to-tarred tests/data/mini_corpus/manifest.json /tmp/out --num-shards 4
    python scripts/count_calls.py --list --records 48 -- score tests/data/mini_corpus/manifest.json /tmp/out.json

Runs the command with one worker. "Each record" are the functions that worker processes have entered at least as often
as there are records (`--records`, default 48: those of the mini corpus). Lambdas, comprehensions and class bodies are
not counted; a generator counts each time that it goes on. The exit code is that of the command.
"""

import argparse
import inspect
import mmap
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "prepcli"
Place = tuple[str, int]
"""The file of a function below the package, and its first line."""


def functions_of(code: CodeType) -> Iterator[CodeType]:
    """The functions in a module, function or class."""
    for part in code.co_consts:
        if isinstance(part, CodeType):
            if part.co_flags & inspect.CO_OPTIMIZED and not part.co_name.startswith("<"):
                yield part
            yield from functions_of(part)


class Counts:
    """How often each function was entered, in this process and in its children, in memory that all share.

    Workers are killed at the end of a run, so they cannot report.
    """

    def __init__(self, package: Path) -> None:
        self.names: dict[Place, str] = {}
        for path in sorted(package.rglob("*.py")):
            module = compile(path.read_bytes(), str(path), "exec")
            for function in functions_of(module):
                self.names[str(path), function.co_firstlineno] = getattr(
                    function, "co_qualname", function.co_name
                )  # from Python 3.11 on
        self._indexes = {place: index for index, place in enumerate(self.names)}
        self._shared = memoryview(mmap.mmap(-1, 8 * 2 * len(self.names))).cast("q")
        self._start = 0

    def begin(self) -> None:
        """Count what all threads of this process enter from now on, and what its children do."""
        os.register_at_fork(after_in_child=self._begin_child)
        self._count_here()

    def _begin_child(self) -> None:
        self._start = len(self.names)
        self._count_here()

    def _count_here(self) -> None:
        threading.setprofile(self._enter)
        sys.setprofile(self._enter)

    def _enter(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            index = self._indexes.get((frame.f_code.co_filename, frame.f_code.co_firstlineno))
            if index is not None:
                self._shared[self._start + index] += 1

    def at_least(self, count: int, *, only_children: bool) -> dict[Place, int]:
        """The functions that were entered so often, by all processes or by children alone."""
        found = {}
        for place, index in self._indexes.items():
            times = self._shared[len(self.names) + index] + (0 if only_children else self._shared[index])
            if times >= count:
                found[place] = times
        return found


def report(what: str, entered: dict[Place, int], counts: Counts, is_listed: bool) -> None:
    """Print how many files and functions there are, and which."""
    print(f"{what}: {len({path for path, _ in entered})} files, {len(entered)} functions")
    if is_listed:
        for (path, line), times in entered.items():
            print(f"  {Path(path).relative_to(ROOT)}:{line} {counts.names[path, line]} {times}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and print what it has entered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=48, help="number of records of the input")
    parser.add_argument("--list", action="store_true", help="also print each function, and how often it was entered")
    parser.add_argument("words", nargs="+", metavar="COMMAND", help="a command of prepcli, after --")
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(ROOT))
    sys.argv = ["prepcli", *options.words, "--num-workers", "1"]
    counts = Counts(PACKAGE)
    counts.begin()
    try:
        from prepcli.cli.app import main as prepcli

        prepcli()
        code = 0
    except SystemExit as done:
        code = int(done.code or 0)
    finally:
        sys.setprofile(None)
    report("the whole run", counts.at_least(1, only_children=False), counts, options.list)
    report("each record", counts.at_least(options.records, only_children=True), counts, options.list)
    return code


if __name__ == "__main__":
    sys.exit(main())
