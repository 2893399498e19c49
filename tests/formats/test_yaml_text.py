"""YAML that others have written."""

import pytest
import yaml

from prepcli.formats.yaml_text import parse_yaml


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


def test_a_value_that_stands_in_several_places() -> None:
    """Aliases are fine, also where their number of expansions is beyond counting."""
    assert parse_yaml("a: &a [1]\nb: [*a, {c: *a}]") == {"a": [1], "b": [[1], {"c": [1]}]}
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 1}]" for n in range(60))
    assert len(parse_yaml(levels)["a59"]) == 9
