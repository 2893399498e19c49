"""YAML edited in place: the text of the other keys stays as it is, byte by byte."""

from typing import Any

import pytest
import yaml

from prepcli.formats.yaml_edit import EditableYaml

NEW: dict[str, Any] = {"b": [1.5, 2], "new": True}

# What PyYAML would write otherwise: yes, 12:30, 0x10, 1_000, quotes, spaces, a line break, a trailing comma.
BRACES = [
    ("{a: yes, b: 12:30, c: 'x'}", "{a: yes, b: [1.5, 2], c: 'x', new: true}"),
    ("{ a: 0x10,b: {d: 1_000} ,c:   ~ }", "{ a: 0x10,b: [1.5, 2] ,c:   ~, new: true }"),
    ("{a: on,\n  b: 1,\n  c: [x,\n    y],\n}", "{a: on,\n  b: [1.5, 2],\n  c: [x,\n    y], new: true,\n}"),
    ("{'b', a: \"x,\"}", "{'b': [1.5, 2], a: \"x,\", new: true}"),
    ("{ }", "{b: [1.5, 2], new: true }"),
    ("&d {a: 1e-3}", "&d {a: 1e-3, b: [1.5, 2], new: true}"),
]


@pytest.mark.parametrize(("before", "after"), BRACES)
@pytest.mark.parametrize(
    "frame", ["{}", "train:  # these\n  data: {}\nother: no\n", "{{other: no, train: {{data: {}}}}}"]
)
def test_in_braces_only_the_text_of_changed_keys_differs(frame: str, before: str, after: str) -> None:
    place = ("train", "data") if "train" in frame else ()
    assert EditableYaml(frame.format(before)).edited(place, NEW) == frame.format(after)


@pytest.mark.parametrize(
    ("removed", "after"),
    [
        ("a", "{ c: 3,  d: no, b: 0 }"),
        ("ac", "{ d: no, b: 0 }"),
        ("cd", "{ a: 1, b: 0 }"),
        ("acd", "{ b: 0 }"),
    ],
)
def test_keys_in_braces_go(removed: str, after: str) -> None:
    assert EditableYaml("{ a: 1,   c: 3,  d: no }").edited((), {"b": 0}, removed) == after


def test_aliases_beside_what_changes() -> None:
    text = "x: &x 1\ny: {a: *x, b: *x, c: *x}\n"
    assert EditableYaml(text).edited(("y",), {"b": 2}) == "x: &x 1\ny: {a: *x, b: 2, c: *x}\n"


def test_the_value_is_not_changed() -> None:
    config = EditableYaml("a: {b: 1}\n")
    config.edited(("a",), {"b": 2})
    assert config.value == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{a: 1,  # why\n b: 2}", ()),
        ("a: &a {b: 1}\nc: *a\n", ("a",)),
        ("a: &a {b: 1}\nc: *a\n", ("c",)),
        ("a: &a\n  b: 1\nc: *a\n", ("a",)),
        ("a: {b: &b 1}\nc: *b\n", ("a",)),
        ("d: &d {a: {b: 1}}\n<<: *d\n", ("a",)),
    ],
)
def test_what_would_change_something_else_is_refused(text: str, place: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"it would change something else|there is no such mapping"):
        EditableYaml(text).edited(place, NEW)


@pytest.mark.parametrize("text", ["", "# nothing yet"])
def test_an_empty_text(text: str) -> None:
    config = EditableYaml(text)
    assert (config.is_empty, config.value) == (True, None)
    edited = config.edited((), NEW)
    assert edited.startswith(text)
    assert yaml.safe_load(edited) == NEW
