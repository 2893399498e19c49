"""Messages name the options of the command line, or in a call from Python its arguments."""

import ast
import re
from pathlib import Path

import pytest

import prepcli
from prepcli.errors import UsageError
from prepcli.interface.commands import COMMANDS
from tests.conftest import SHORT_CORPUS

ROOT = Path(prepcli.__file__).parent
_OPTION = re.compile(r"(?<![\w-])--[a-z]|the same command")
_IN_A_SHELL = re.compile(rf"\b({'|'.join(command.name for command in COMMANDS)}) --[a-z-]+")


def test_errors_leave_the_names_of_options_to_option() -> None:
    """`prepcli.errors.option` gives the name that the reader of the message uses."""
    found = []
    for path in ROOT.rglob("*.py"):
        if path.is_relative_to(ROOT / "cli"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and _function(node.exc) not in ("RecordRejected", ""):
                found += [
                    f"{path.relative_to(ROOT)}: {text}"
                    for text in _texts(node)
                    if _OPTION.search(_IN_A_SHELL.sub("", text))
                ]
    assert found == []


def _texts(node: ast.AST) -> list[str]:
    """The literals in a statement, without those that are given to `option`."""
    if _function(node) == "option":
        return []
    own = [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
    return own + [text for child in ast.iter_child_nodes(node) for text in _texts(child)]


def _function(node: ast.AST | None) -> str:
    return getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""


@pytest.mark.parametrize(
    ("name", "words"),
    [("a\0b", "out has a NUL character: 'a"), ("x" * 256, "too long for a path: x"), ("\u00e9" * 128, "too long")],
)
def test_names_that_no_file_can_have(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(prepcli.UsageError) as refused:
        prepcli.score(SHORT_CORPUS / "manifest.json", name, fields="text")
    assert words in str(refused.value)
    with pytest.raises(prepcli.UsageError):
        prepcli.manifest_to_wenet(SHORT_CORPUS / "manifest.json", tmp_path / name / "out")
    assert list(tmp_path.iterdir()) == []


def test_names_between_commas_may_be_a_list_and_names_with_values_a_dictionary(tmp_path: Path) -> None:
    manifest = SHORT_CORPUS / "manifest.json"
    prepcli.split(manifest, tmp_path / "parts", part={"a": 0.5, "b": "rest"}, by="none")
    assert prepcli.split(manifest, tmp_path / "parts", part=["a=0.5", "b=rest"], by="none").status == "nothing_to_do"
    out = tmp_path / "out.jsonl"
    by_both = prepcli.find_duplicates(manifest, out, by=["text", "audio"])
    assert [found["by"] for found in by_both.details["found"]] == ["text", "audio"]
    assert prepcli.find_duplicates(manifest, out, by="text,audio").status == "nothing_to_do"
    with pytest.raises(UsageError, match="fields is an empty list"):
        prepcli.score(manifest, tmp_path / "scored.json", fields=[])
    with pytest.raises(UsageError, match="fields must be of type str"):
        prepcli.score(manifest, tmp_path / "scored.json", fields=[1])  # type: ignore[list-item]
