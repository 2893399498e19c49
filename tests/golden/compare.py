"""`python -m tests.golden.compare`: all calls with two trees of prepcli, and what differs; see scripts/compare_with.sh.

Each scenario runs in the same folder with one tree and then with the other, because paths are part of outputs.
"""

import argparse
import difflib
import fnmatch
import gzip
import io
import re
import shutil
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.commands.download.server import Site, serving
from tests.golden.calls import scenarios
from tests.golden.forks import Ready, Tree
from tests.golden.inputs import make_inputs
from tests.golden.running import Seen, Store, run_scenario, steps_of

WANTED = Path(__file__).with_name("wanted_differences.toml")


@dataclass(frozen=True)
class Difference:
    """A text that differs after a call: `what` is its name, `lines` are those of a unified diff without context."""

    scenario: str
    number: int
    call: str
    what: str
    lines: tuple[str, ...]

    @property
    def place(self) -> str:
        return f"{self.scenario}:{self.number}"


@dataclass(frozen=True)
class Wanted:
    """Differences that are intended: by call, text and changed lines."""

    calls: str
    what: str
    lines: re.Pattern[str]
    issue: int
    why: str

    def covers(self, difference: Difference) -> bool:
        """Whether all changed lines of a difference are wanted."""
        return (
            fnmatch.fnmatch(f"{difference.place} {difference.call}", self.calls)
            and fnmatch.fnmatch(difference.what, self.what)
            and all(self.lines.search(line) for line in difference.lines)
        )


def read_wanted(path: Path) -> list[Wanted]:
    """The list of wanted differences; each needs a call, a text, lines, an issue and a reason."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("difference", [])
    return [Wanted(**{**entry, "lines": re.compile(entry["lines"])}) for entry in entries]


def differences(scenario: str, before: Sequence[Seen], after: Sequence[Seen], store: Store) -> Iterator[Difference]:
    """What differs, call by call; a file that differs is shown after the call that made it so."""
    known: set[tuple[str, ...]] = set()
    for number, (one, other) in enumerate(zip(before, after, strict=True), 1):
        for what in dict.fromkeys((*one.texts, *other.texts)):
            lines = _changed(one.texts.get(what), other.texts.get(what))
            if what == "files" and lines:
                lines += _in_files(one, other, store)
            if lines and (what, *lines) not in known:
                if what not in ("exit", "stdout", "stderr"):
                    known.add((what, *lines))
                yield Difference(scenario, number, one.step.text, what, tuple(lines))


def _changed(before: str | None, after: str | None) -> list[str]:
    if before is None or after is None:
        return [] if before == after else [f"{'-' if after is None else '+'}(there only {'before' if after is None else 'after'})"]
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in diff if not line.startswith(("---", "+++", "@@"))]


def _in_files(before: Seen, after: Seen, store: Store) -> list[str]:
    """The changed lines of files that both have."""
    lines = []
    for path in sorted({*before.contents} & {*after.contents}):
        hashes = before.contents[path], after.contents[path]
        if hashes[0] != hashes[1]:
            texts = [_as_text(store.get(digest)) for digest in hashes]
            lines += [f"{line[0]}{path}: {line[1:]}" for line in _changed(*texts)]
    return lines


def _as_text(data: bytes | None) -> str | None:
    """A file for people: what a tar or gzip holds, text as it is; None for what is too large to be kept."""
    if data is None:
        return None
    if data[:2] == b"\x1f\x8b":
        return _as_text(gzip.decompress(data))
    if data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            return "".join(f"{member.name} {member.size}\n" for member in tar)
    return data.decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Ground:
    """The folder in which scenarios run, with the inputs, and the address of the server of archives."""

    folder: Path
    site: str

    def run(self, name: str, ready: Ready, store: Store) -> list[Seen]:
        """Run a scenario; its folder is removed at the end."""
        folder = self.folder / "calls" / name.replace("/", "_")
        try:
            return run_scenario(steps_of(scenarios()[name], site=self.site), folder, self.folder / "inputs", ready, store)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def prepared(folder: Path) -> Iterator[Ground]:
    """Make the inputs in a folder, and serve what `prepcli download` fetches."""
    make_inputs(folder / "inputs")
    published = {path.name: path.read_bytes() for path in (folder / "inputs/published").iterdir()}
    with serving(Site(published)) as site:
        yield Ground(folder, site.url)


def compare(before: Tree, after: Tree, names: Sequence[str], at_once: int, folder: Path) -> list[Difference]:
    """All differences of these scenarios; prints each scenario when it has been compared."""
    with prepared(folder) as ground, ThreadPoolExecutor(at_once) as pool:

        def both(name: str) -> list[Difference]:
            started, store = time.monotonic(), Store()
            seen = [ground.run(name, tree, store) for tree in (before, after)]
            found = list(differences(name, *seen, store))
            declared = [f"{name}:{one.step.text}: exit {one.exit_codes}" for one in seen[1] if one.exit_codes[-1] != one.step.code]
            print("\n".join([f"{name}: {len(seen[1])} calls, {len(found)} differences, {time.monotonic() - started:.0f} s", *declared]), flush=True)
            return found

        return [difference for found in pool.map(both, names) for difference in found]


def report(found: Sequence[Difference], wanted: Sequence[Wanted], max_lines: int) -> int:
    """Print the table of differences that are not wanted, and stale entries; the exit code."""
    unwanted = [one for one in found if not any(entry.covers(one) for entry in wanted)]
    for one in unwanted:
        print(f"\n{one.place}  {one.what}\n  prepcli {one.call}")
        for line in one.lines[:max_lines]:
            print(f"    {line[:400]}")
        if len(one.lines) > max_lines:
            print(f"    ... {len(one.lines) - max_lines} more lines")
    stale = [entry for entry in wanted if not any(entry.covers(one) for one in found)]
    for entry in stale:
        print(f"\nstale in {WANTED.name}: issue {entry.issue}, {entry.what} of {entry.calls}: nothing differs so")
    print(f"\n{len(unwanted)} differences, {len(found) - len(unwanted)} wanted ones, {len(stale)} stale entries")
    return 1 if unwanted or stale else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="the tree to compare with")
    parser.add_argument("--before-python", type=Path, default=Path(sys.executable))
    parser.add_argument("--after", type=Path, default=Path(__file__).parents[2])
    parser.add_argument("--after-python", type=Path, default=Path(sys.executable))
    parser.add_argument("--at-once", type=int, default=2, help="scenarios at the same time")
    parser.add_argument("--lines", type=int, default=12, help="lines shown of each difference")
    parser.add_argument("patterns", nargs="*", default=["*"], help="names of scenarios, such as 'tarred/*'")
    options: Any = parser.parse_args(arguments)
    names = [name for name in scenarios() if any(fnmatch.fnmatch(name, one) for one in options.patterns or ["*"])]
    before = Tree(options.before.resolve(), options.before_python)
    after = Tree(options.after.resolve(), options.after_python)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="prepcli-golden-") as folder:
        found = compare(before, after, names, options.at_once, Path(folder))
    wanted = read_wanted(WANTED) if options.patterns in ([], ["*"]) else [one for one in read_wanted(WANTED)]
    code = report(found, wanted, options.lines)
    print(f"{len(names)} scenarios, {time.monotonic() - started:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
