"""Runs the calls of a scenario with one tree of prepcli, and keeps what a user could see after each.

A scenario is a text, a call per line, run in one folder from top to bottom:

    0   manifest-to-tarred corpus/manifest.json out --num-shards 3    # the exit code, then the arguments of prepcli
    0   again --json                                                  # the call before, with more options
    0 & status out                                                    # at the same time as the next line
    $   rm out/audio_0.tar                                            # a line of shell, not compared

Inputs (`tests/golden/inputs.py`) whose names occur in it are copied into the folder first.
"""

import gzip
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.golden.forks import Ready
from tests.golden.inputs import INPUTS
from tests.golden.normal import normal

STATE = re.compile(r"[^\s'\"]*\.prepcli/[^\s'\"]*")
"""A path in the folder of state of a run."""
CONTRACT = ("rejects.jsonl", "report.json")
"""The files of state that users read."""
_LINE = re.compile(r"(?:(\d) (&?)|(\$)) *(.*)")


@dataclass(frozen=True)
class Step:
    """A line of a scenario: the words of a call with its exit code, or with `is_shell` a line of shell."""

    text: str
    code: int = 0
    is_shared: bool = False
    is_shell: bool = False

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text, comments=True)


@dataclass(frozen=True)
class Seen:
    """What a user could see after a call: texts by name, such as `exit`, `stdout`, `files`."""

    step: Step
    exit_codes: tuple[int, ...]
    texts: Mapping[str, str]
    contents: Mapping[str, str] = field(default_factory=dict)
    """The hash of each file by its path; `Store` has the contents."""


class Store:
    """The contents of small files by their hash, to show what has changed in them."""

    max_bytes = 1 << 16

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def hash_of(self, path: Path) -> str:
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if len(data) <= self.max_bytes:
            self._contents[digest] = data
        return digest

    def get(self, digest: str) -> bytes | None:
        return self._contents.get(digest)


def steps_of(scenario: str, **values: str) -> list[Step]:
    """The lines of a scenario; `{name}` is replaced by a value, and `again` by the call before."""
    steps: list[Step] = []
    call = ""
    for line in filter(None, map(str.strip, scenario.splitlines())):
        if line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        assert match, f"not a line of a scenario: {line}"
        code, shared, shell, text = match.groups()
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", value)
        if shell:
            steps.append(Step(text, is_shell=True))
            continue
        words = shlex.join(shlex.split(text, comments=True))
        if words.startswith("again"):
            words = f"{call}{words.removeprefix('again')}"
        else:
            call = words
        steps.append(Step(words, int(code), is_shared=bool(shared)))
    return steps


def run_scenario(steps: list[Step], folder: Path, inputs: Path, ready: Ready, store: Store) -> list[Seen]:
    """Run all lines in a new folder, and return what was seen after each call, or group of calls."""
    folder.mkdir(parents=True)
    text = "\n".join(step.text for step in steps)
    for name in INPUTS:
        if re.search(rf"\b{name}\b", text) or (name == "plugin" and "golden:" in text):
            shutil.copytree(inputs / name, folder / name, symlinks=True)
    seen, group = [], []
    for step in steps:
        if step.is_shell:
            subprocess.run(["bash", "-euc", step.text], cwd=folder, check=True, stdin=subprocess.DEVNULL)
            continue
        group.append(step)
        if not step.is_shared:
            seen.append(_run(group, folder, ready, store))
            group = []
    return seen


def _run(group: list[Step], folder: Path, ready: Ready, store: Store) -> Seen:
    outcomes = ready.run([step.words for step in group], folder)
    codes = tuple(code for code, _, _ in outcomes)
    contents = {path: store.hash_of(folder / path) for path in _files(folder)}
    texts = {"exit": f"{' '.join(map(str, codes))}\n", "files": _listing(folder, contents)}
    if len(group) == 1:  # which of several ranks finishes, and what it says, is a matter of time
        texts |= {"stdout": _printed(outcomes[0][1]), "stderr": outcomes[0][2]}
    texts |= _contract(folder, texts)
    known = {str(folder): "<folder>", str(ready.tree.root): "<prepcli>"}
    return Seen(group[-1], codes, {name: normal(name, text, known) for name, text in texts.items()}, contents)


def _printed(text: str) -> str:
    """What was printed; a document in JSON with a line per value."""
    try:
        return f"{json.dumps(json.loads(text), indent=1, ensure_ascii=False)}\n" if text[:1] in "{[" else text
    except ValueError:
        return text


def _paths(folder: Path) -> Iterator[Path]:
    """All that is below a folder but the state of runs, in order; links are not followed."""
    for path in sorted(folder.iterdir()):
        if path.name.endswith(".prepcli"):
            continue
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _paths(path)


def _files(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in _paths(folder) if path.is_file() and not path.is_symlink()]


def _listing(folder: Path, contents: Mapping[str, str]) -> str:
    lines = []
    for path in _paths(folder):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            lines.append(f"{name} -> {os.readlink(path)}")
        elif path.is_dir():
            lines.append(f"{name}/")
        else:
            lines.append(f"{name} {path.stat().st_size} {contents[name]}")
    return "".join(f"{line}\n" for line in lines)


def _contract(folder: Path, texts: Mapping[str, str]) -> dict[str, str]:
    """Rejects and reports, by the output that they belong to: where they lie by contract, and where the call says."""
    named = STATE.findall(texts.get("stdout", "") + texts.get("stderr", ""))
    paths = [Path(os.path.normpath(folder / name.rstrip(".,:;)"))) for name in named]
    states = [path for path in folder.rglob("*.prepcli") if path.is_dir()]
    paths += [state / name for state in sorted(states) for name in CONTRACT]
    found: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        if path.is_file():
            out = str(path.relative_to(folder)).partition(".prepcli/")[0]
            data = path.read_bytes()
            document = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")
            name = f"{path.name} of {out}"
            while name in found:
                name += " (another)"
            found[name] = document
    return found
