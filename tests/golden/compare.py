"""`python -m tests.golden.compare`: all calls with two trees of prepcli, and what differs; see scripts/compare_with.sh.

Each scenario runs in the same folder with one tree and then with the other, because paths are part of outputs.
"""

import argparse
import difflib
import gzip
import io
import re
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import takewhile
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import yaml

from tests.commands.download.server import Site, serving
from tests.conftest import IN_MEMORY, MIN_FREE_BYTES
from tests.golden.calls import scenarios
from tests.golden.forks import Ready, Tree
from tests.golden.inputs import make_inputs
from tests.golden.running import Seen, Store, run_scenario, steps_of

ROOT = Path(__file__).parents[2]
WANTED = Path(__file__).with_name("wanted_differences.yaml")


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
            fnmatch(f"{difference.place}: {difference.call}", self.calls)
            and fnmatch(difference.what, self.what)
            and all(self.lines.search(line) for line in difference.lines)
        )


def read_wanted(path: Path) -> list[Wanted]:
    """The list of wanted differences; each needs a call, a text, lines, an issue and a reason."""
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
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
        return [] if before == after else ["+(new)" if before is None else "-(gone)"]
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

    def run(self, name: str, scenario: str, ready: Ready, store: Store) -> list[Seen]:
        """Run a scenario; its folder is removed at the end."""
        folder = self.folder / "calls" / name.replace("/", "_")
        try:
            steps = steps_of(scenario, site=self.site)
            return run_scenario(steps, folder, self.folder / "inputs", ready, store)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def prepared(folder: Path) -> Iterator[Ground]:
    """Make the inputs in a folder, and serve what `prepcli download` fetches."""
    make_inputs(folder / "inputs")
    published = {path.name: path.read_bytes() for path in (folder / "inputs/published").iterdir()}
    with serving(Site(published)) as site:
        yield Ground(folder, site.url)


def compare(
    ground: Ground, before: Tree, after: Tree, chosen: Mapping[str, str], at_once: int = 1
) -> Iterator[tuple[str, list[Difference]]]:
    """The differences of each scenario of `chosen`, in their order; so many scenarios run at the same time."""
    with ExitStack() as stack:
        pairs: SimpleQueue[tuple[Ready, Ready]] = SimpleQueue()
        for _ in range(at_once):
            pairs.put((stack.enter_context(before.ready()), stack.enter_context(after.ready())))

        def both(name: str) -> tuple[str, list[Difference]]:
            pair, store = pairs.get(), Store()
            try:
                earlier, later = (ground.run(name, chosen[name], ready, store) for ready in pair)
            finally:
                pairs.put(pair)
            return name, list(differences(name, earlier, later, store))

        with ThreadPoolExecutor(at_once) as pool:
            yield from pool.map(both, chosen)


def report(found: Sequence[Difference], wanted: Sequence[Wanted], max_lines: int, is_whole: bool) -> int:
    """Print the differences that are not wanted, and stale entries if all scenarios were compared; the exit code."""
    unwanted = [one for one in found if not any(entry.covers(one) for entry in wanted)]
    for one in unwanted:
        print(f"\n{one.place}  {one.what}\n  prepcli {one.call}")
        letters = zip(*(line[1:] for line in one.lines), strict=False)
        equal = sum(1 for _ in takewhile(lambda alike: len({*alike}) == 1, letters))
        for line in one.lines[:max_lines]:
            shown = f"{line[0]}...{line[equal - 39 :]}" if equal > 80 else line  # a long line that differs at its end
            print(f"    {shown[:400]}")
        if len(one.lines) > max_lines:
            print(f"    ... {len(one.lines) - max_lines} more lines")
    stale = [entry for entry in wanted if is_whole and not any(entry.covers(one) for one in found)]
    for entry in stale:
        print(f"\nstale in {WANTED.name}: issue {entry.issue}, {entry.what} of {entry.calls}: nothing differs so")
    print(f"\n{len(unwanted)} differences, {len(found) - len(unwanted)} wanted ones, {len(stale)} stale entries")
    return 1 if unwanted or stale else 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="the tree to compare with")
    parser.add_argument("--before-python", type=Path, default=Path(sys.executable), help="its Python")
    parser.add_argument("--after", type=Path, default=ROOT, help="by default this tree")
    parser.add_argument("--at-once", type=int, default=2, help="scenarios at the same time")
    parser.add_argument("--lines", type=int, default=12, help="lines shown of each difference")
    parser.add_argument("patterns", nargs="*", help="names of scenarios, such as 'tarred/*'; by default all")
    options: Any = parser.parse_args(arguments)
    chosen = {
        name: scenario
        for name, scenario in scenarios().items()
        if any(fnmatch(name, pattern) for pattern in options.patterns or ["*"])
    }
    if not chosen:
        parser.error(f"there are no such scenarios: {' '.join(options.patterns)}; there are: {' '.join(scenarios())}")
    started = time.monotonic()
    in_memory = IN_MEMORY.exists() and shutil.disk_usage(IN_MEMORY).free > MIN_FREE_BYTES  # a disk is slow to flush
    room = IN_MEMORY if in_memory else None
    found: list[Difference] = []
    with tempfile.TemporaryDirectory(prefix="prepcli-golden-", dir=room) as folder, prepared(Path(folder)) as ground:
        before, after = Tree(options.before.resolve(), options.before_python.absolute()), Tree(options.after.resolve())
        for name, of_scenario in compare(ground, before, after, chosen, options.at_once):
            print(f"{time.monotonic() - started:4.0f} s  {name}: {len(of_scenario)} differences", flush=True)
            found += of_scenario
    code = report(found, read_wanted(WANTED), options.lines, is_whole=not options.patterns)
    print(f"{len(chosen)} scenarios, {time.monotonic() - started:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
