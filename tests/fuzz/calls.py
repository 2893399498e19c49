"""What must hold of every call."""

import json
import os
import shutil
import tempfile
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.running import Outcome, prepcli

UNSAFE = ("Cc", "Cs", "Zl", "Zp")
"""Unicode categories: control characters, lone surrogates, separators of lines and paragraphs."""
ALLOWED = frozenset({0, 2, 3})
"""Exit codes of a command whose input is bad: done, refused, too many rejects."""


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for one example, where those of tests are: hypothesis runs many of them within one test."""
    folder = Path(tempfile.mkdtemp(prefix="prepcli-fuzz-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def check_call(
    folder: Path, out: Path, *arguments: object, allowed: Collection[int] = ALLOWED, stays_empty: bool = True
) -> Outcome:
    """Call, and see that an error is one clear line and that nothing lands outside OUT.

    `stays_empty`: what is refused (exit code 2) has written nothing.
    """
    before = _listing(folder, out)
    done = prepcli(*arguments)
    assert done.code in allowed, (done.code, done.err[-3000:])
    for text in (done.out, done.err):
        assert "Traceback" not in text, text
        assert "a bug in prepcli" not in text, text
    if done.code and (done.err or done.code != 1):
        warned, line = done.err.splitlines()[:-1], done.err.splitlines()[-1]
        assert all(text.startswith("prepcli: warning: ") for text in warned), done.err
        assert line.startswith("prepcli: "), line
        # Not by the program's own rule: nothing that commands a terminal, breaks the line or hides.
        assert not any(unicodedata.category(char) in UNSAFE or char == "\ufeff" for char in line), ascii(line)
        assert len(line) < 2000, line
    else:
        assert all(text.startswith("prepcli: warning: ") for text in done.err.splitlines()), done.err
    assert _listing(folder, out) == before
    if done.code == 2 and stays_empty:
        assert not out.exists() or not any(path.is_file() for path in out.rglob("*")), "refused, but written to"
    return done


def check_report(workspace: Path, data: Sequence[bytes] | None = None) -> dict[str, Any]:
    """`report.json` adds up, agrees with `rejects.jsonl`, and (given the manifests) counts every line."""
    report = json.loads((workspace / "report.json").read_bytes())
    assert report["records_in"] == report["records_out"] + report["rejects"]
    assert sum(report["rejects_by_reason"].values()) == report["rejects"]
    assert len(json_lines(workspace / "rejects.jsonl")) == report["rejects"]
    if data is not None:
        lines = sum(1 for one in data for line in one.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip())
        assert report["records_in"] + report["skipped"] == lines
    return dict(report)


def json_lines(path: Path) -> list[Any]:
    """The lines of a file, each of which must be JSON that Python reads; U+2028 and its like end no line."""
    *lines, rest = path.read_bytes().split(b"\n")
    assert rest == b""
    return [json.loads(line) for line in lines]


def _listing(folder: Path, out: Path) -> dict[Path, int]:
    """Sizes of all files below `folder` that are not the command's own."""
    own = (out, out.with_name(out.name + ".prepcli"))
    return {
        path: path.lstat().st_size
        for path in folder.rglob("*")
        if not any(path == one or path.is_relative_to(one) for one in own)
    }
