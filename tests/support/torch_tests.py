"""Which tests of a file import PyTorch or NeMo, found in its text: only these need a process that has it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SIGNS = re.compile(
    r"lazy\(\"(torch|lhotse)|(import|from|importorskip\(\") ?(torch|lhotse|datasets|webdataset)|\"resemblyzer\""
    r"|schema_of|extend_context_audio|\"manifest_to_mels\"|toy_codec|toy_voice|codes_sets|speaker_models|one_thread"
)
"""What a statement has that imports PyTorch, or names a fixture or a module of tests that does."""
NEMO_SIGNS = re.compile(
    r"mark\.nemo|\b(speaker|codec)_model\b|\"blend\"(?!.*--no-check)"  # `blend` lets NeMo read what it has written
    r"|nemo\.collections|(import|from) nemo|nemo_loaders|(codec|speaker|hf)_models"
)
"""The same for NeMo."""


@cache
def names_with_torch(file: Path) -> frozenset[str]:
    """The names that a test file binds at its top, by definitions or imports, and that lead to PyTorch.

    These are those of statements with a sign of it, and of all statements that use such a name. With `pytestmark` among
    them, or a fixture for all tests, all tests import it.
    """
    return _names_with(SIGNS, file)


@cache
def names_with_nemo(file: Path) -> frozenset[str]:
    """The same for NeMo."""
    return _names_with(NEMO_SIGNS, file)


def _names_with(signs: re.Pattern[str], file: Path) -> frozenset[str]:
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    parts = [(_bound(statement), _source(lines, statement)) for statement in _statements(ast.parse(text).body)]
    found: set[str] = set()
    while True:
        more = {
            name
            for bound, source in parts
            if signs.search(source) or found.intersection(re.findall(r"\w+", source))
            for name in bound
        }
        if more <= found:
            return frozenset(found)
        found |= more


def imports_torch(file: Path, test: str) -> bool:
    """Whether a test, or class of tests, of a file imports PyTorch; where in doubt it does."""
    return not names_with_torch(file).isdisjoint({test, "pytestmark"})


def imports_nemo(file: Path, test: str) -> bool:
    """Whether a test, or class of tests, of a file imports NeMo; where in doubt it does."""
    return not names_with_nemo(file).isdisjoint({test, "pytestmark"})


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those below an `if` as well."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _statements([*statement.body, *statement.orelse])
        else:
            yield statement


def _bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {"pytestmark" if "autouse=True" in map(ast.unparse, _keywords(statement)) else statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(name.asname or name.name).partition(".")[0] for name in statement.names}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _keywords(statement: ast.FunctionDef | ast.ClassDef) -> list[ast.keyword]:
    return [keyword for one in statement.decorator_list if isinstance(one, ast.Call) for keyword in one.keywords]


def _source(lines: list[str], statement: ast.stmt) -> str:
    first = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", []))])
    return "\n".join(lines[first - 1 : statement.end_lineno])
