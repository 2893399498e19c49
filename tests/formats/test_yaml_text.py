"""YAML that others have written."""

from pathlib import Path

import pytest
import yaml

from prepcli.formats import yaml_text
from prepcli.formats.yaml_text import parse_yaml, read_yaml


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &a [*a]", "an alias"),
        ("&a {b: {c: *a}}", "an alias"),
        ("- &a\n  - x\n- [*a, &b [[*b]]]", "an alias"),
        ("[" * 2000, "nested too deeply"),
        ("day: 2024-13-45", "month must be"),
        (b"\xff\xfe\xff", "truncated data"),
        ("a: b: c", "mapping values are not allowed"),
    ],
)
def test_one_kind_of_error(text: str | bytes, words: str) -> None:
    with pytest.raises(yaml.YAMLError, match=words):
        parse_yaml(text)


def test_messages_show_the_text() -> None:
    """Those of libyaml, which reads the text first, do not."""
    with pytest.raises(yaml.YAMLError, match=r"found undefined alias 'x'\n.*line 1, column 4:\n    a: \*x\n"):
        parse_yaml("a: *x")
    assert parse_yaml("{b: 1, c:[1, 2]}") == {"b": 1, "c": [1, 2]}  # libyaml refuses it


def test_the_c_parser_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("yaml.CSafeLoader", raising=False)
    assert parse_yaml("a: [1, é]") == {"a": [1, "é"]}


def chain(levels: int, width: int, form: str) -> str:
    """Values that stand for `width ** levels` others."""
    lines = ["a0: &a0 {x: 1}"]
    for level in range(1, levels + 1):
        aliases = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} " + form.format(aliases))
    return "\n".join(lines)


@pytest.mark.parametrize("form", ["[{}]", "{{<<: [{}]}}", "{{x: [{}]}}"])
def test_aliases_that_stand_for_billions_of_values(form: str) -> None:
    """They would take all memory where they are compared, copied or shown; those of training configs are fine."""
    with pytest.raises(yaml.YAMLError, match="repeat more than 100,000 values"):
        parse_yaml(chain(10, 9, form))
    assert "a3" in parse_yaml(chain(3, 9, form))
    with pytest.raises(yaml.YAMLError, match="repeat more than 100,000 values"):
        parse_yaml(f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]")


def test_anchors_of_training_configs() -> None:
    common = "common: &c {sample_rate: 16000, tags: &t {lang: en, source: books}}\n"
    entries = "".join(f"- {{<<: *c, manifest_filepath: m{n}.json, tags: *t}}\n" for n in range(500))
    document = parse_yaml(f"{common}input_cfg:\n{entries}")
    assert document["input_cfg"][499] == {
        "sample_rate": 16000,
        "tags": {"lang": "en", "source": "books"},
        "manifest_filepath": "m499.json",
    }
    assert parse_yaml("a: &a [1]\nb: [*a, {c: *a}]") == {"a": [1], "b": [[1], {"c": [1]}]}


def test_a_text_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "MAX_BYTES", 100)
    (tmp_path / "long.yaml").write_text("#" * 101)
    for read in (lambda: parse_yaml("#" * 101), lambda: read_yaml(tmp_path / "long.yaml")):
        with pytest.raises(yaml.YAMLError, match="it is longer than"):
            read()
