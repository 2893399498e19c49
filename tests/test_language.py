"""Phrases that readers stumbled over stay away from all that is read: help, messages, docs, comments, tests."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
RULED_OUT = {
    r"\ba (AudioCodecModel|EncDec\w+)": "name the class without an article",
    r"(?<!here[ _])(?<!here may )(?<!here can )(?<!here would )(?<![a-z])(is|are|was|were|be)[ _]no[ _]"
    r"(?!longer|more\b|other\b)\w+": "is not a ...",
    r"\bLeast (cosine|number|seconds|duration)": "Minimum ...",
    r"\bMost (records|seconds|number)\b": "Maximum ...",
    r"\b(shard|rank|batch|worker|directory|seconds|life), at (most|least)\b": "at most ... per ..., or maximum ...",
    r"\b(process|object|files?|samples|code|worker) a (device|line|shard|frame|rank|batch|worker)\b": "per ...",
    r"\bhas no say\b": "has no effect on ...",
    r"\bhow far runs are\b": "the progress of runs",
    r"\bbeats? cluster\.env": "overrides cluster.env",
    r"\blooked into, ": "checked",
    r"\bpassed[ _]over(\b|_)": "skipped",
    r"(?<![\"'] )(\b|_)in[ _]step(\b|_)(?!\.\w| \d)": "aligned",
    r"\banew(\b|_)": "again",
    r"\bright to the sample\b": "sample-exact",
    r"\brank process each\b": "one rank process per ...",
    r"\bbucket bins\b": "bins for bucketed training",
    r"\bwhy_none\b|\bof_config\b|\b_?(LEAST|MOST|LONGEST|KEPT)_[A-Z]\w*": "MAX_..., MIN_..., or a plain name",
}
"""Patterns, each with what to write instead."""
RULED_OUT_OF_CODE = {
    r"(?:^|(?<=[.;:] )|(?<=\n))(?:Of|What|Where|Who|Whoever)\b": "begin with the noun: The ..., or with a verb",
    r"\b(?:None|True|False|empty|[A-Z]+_[A-Z]+|raises `\w+`) where\b": "if, for a condition",
    r"\bwhere (?:it|they|that|there|this|nothing|none|one|some|any|no|not|all|each)\b": "if, for a condition",
    r"\bbeside\b(?!:)": "next to, or besides",
    r"\b[Ww]hoever\b|\b[Nn]obody\b|\b[Ss]omebody\b": "name the process, the rank, the program or the user",
    r"\b(?:tells?|told)\b": "show, name or report",
    r"\bany such\b|\bthere is such an?\b|\bempty for nothing\b": "name the noun",
    r"\bpassed by\b|\bwithout a word\b|\bused up\b(?=; )": "skipped; without notice; changed",
    r"\ban (?:flag|record|file|unit|rank|set|job|tar|key|path|line|list|store|shard)\b": "a",
    r"\ba (?:index|option|object|address|entry|array|audio|unusable)\b": "an",
    r"\bthat of\b[^.;:]*\bthat of\b[^.;:]*\bthat of\b": "name the noun once more",
}
"""Patterns for docstrings and comments of `prepcli`, which are read without the lines around them."""
COMMENT = re.compile(r"(?:^|\s)# ?(.+)$")
"""A comment; also a line of a string that looks like one, which takes a fifth of the time of Python's tokenizer."""


def texts() -> Iterator[Path]:
    """The files that people read."""
    yield REPOSITORY / "README.md"
    yield REPOSITORY / "CONTRIBUTING.md"
    for folder, patterns in {
        "prepcli": ("*.py",),
        "tests": ("*.py", "*.md"),
        "docs": ("*.md",),
        "scripts": ("*.py", "*.sh", "*.env", "*.md"),
        "recipes": ("*.py", "*.sh", "*.yaml", "*.md"),
    }.items():
        for pattern in patterns:
            yield from (
                file
                for file in sorted((REPOSITORY / folder).rglob(pattern))
                if "work" not in file.relative_to(REPOSITORY).parts and file != Path(__file__)
            )


@pytest.fixture(scope="module")
def contents() -> dict[str, str]:
    return {str(file.relative_to(REPOSITORY)): file.read_text(encoding="utf-8") for file in texts()}


@pytest.mark.parametrize("pattern", RULED_OUT)
def test_ruled_out_phrases_stay_away(contents: dict[str, str], pattern: str) -> None:
    assert len(contents) > 600
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]!r}"
        for name, text in contents.items()
        for match in re.finditer(pattern, text)
    ]
    assert found == [], f"write: {RULED_OUT[pattern]}"


def comments_and_docstrings() -> Iterator[tuple[str, str]]:
    """The place and the text of each docstring and comment; not the help of commands, which tests compare."""
    for file in sorted((REPOSITORY / "prepcli").rglob("*.py")):
        place = str(file.relative_to(REPOSITORY))
        source = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                text = node.value.value
                if "Example: prepcli" not in text and file.name != "functions.py":
                    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
                    yield f"{place}:{node.lineno}", "\n".join(paragraphs)
        for number, line in enumerate(source.splitlines(), 1):
            if comment := COMMENT.search(line):
                yield f"{place}:{number}", comment[1]


@pytest.fixture(scope="module")
def read_alone() -> list[tuple[str, str]]:
    return list(comments_and_docstrings())


@pytest.mark.parametrize("pattern", RULED_OUT_OF_CODE)
def test_docstrings_and_comments_are_understood_alone(read_alone: list[tuple[str, str]], pattern: str) -> None:
    assert len(read_alone) > 4000
    found = [f"{place}: {match[0]!r}" for place, text in read_alone for match in re.finditer(pattern, text)]
    assert found == [], f"write: {RULED_OUT_OF_CODE[pattern]}"
