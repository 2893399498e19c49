"""Expressions: what they mean, and where the `^` stands in the message for a mistake."""

import pytest

from prepcli.commands.filter.evaluation import Block
from prepcli.commands.filter.grammar import Field, fields_of, needed_fields, parse, read_fields
from prepcli.errors import UsageError

MISTAKES = {
    "": "the expression is empty, at the ^ in: ^",
    "duration >": "a field or a value is missing, at the ^ in: duration >^",
    "duration = 3": "write `==`, not `=`, at the ^ in: duration ^= 3",
    "duration => 3": "write `>=`, not `=>`, at the ^ in: duration ^=> 3",
    "duration > 3 && x == 1": "write `and`, not `&&`",
    "!missing(x)": "write `not`, not `!`",
    "duration * 2 > 3": "there is no arithmetic in expressions, at the ^ in: duration ^* 2",
    "x == 'a": "the closing ' is missing, at the ^ in: x == ^'a",
    "x == null": "use `missing(x)`",
    "x == True": "write `true`",
    "(x > 3": "`)` is missing",
    "x > 3 y": "`and` or `or` is missing, at the ^ in: x > 3 ^y",
    "1 < 2": "the expression names no field",
    "x in 3": "or a field, comes after `in`, at the ^ in: x in ^3",
    "x in []": "the list is empty",
    "x in [y]": "a list takes numbers, texts, true and false",
    "len(x) in ['a']": "the list has no number",
    "len(x) > 'a'": "a number does not compare with a text",
    "x < true": "true and false do not compare by <",
    "x == [1]": "a list is compared by `in`",
    "[1] in x": "a list cannot be in something",
    "x not 3": "`in` is missing after `not`",
    "lenn(x) > 3": "did you mean `len`?",
    "foo(x) > 3": "known are len, lower, matches, missing, number, quantile",
    "len(3) > 3": "`len` takes a field with a text",
    "lower(len(x)) == 'a'": "`lower` takes a field with a text",
    "matches(x, '(')": "that is not a regular expression",
    "matches(x, y)": 'a regular expression between " is missing',
    "missing(len(x))": "`missing` takes a field",
    "missing(chars_per_second)": "`missing` takes a field",
    "x > quantile(x, 2)": "a share from 0 to 1 is missing, at the ^ in: x > quantile(x, ^2)",
    "x > quantile(3, 0.5)": "`quantile` takes a field with a number",
    "chars_per_second": "a comparison is missing",
    "x > 1e999": "the number is too large",
    f"x > {'9' * 5000}": "the number is too large",
    "x; y": "';' is not understood",
    "__import__('os') == 1": "there is no function `__import__`",
    "missing(x) == 3": "`missing` is a condition, not a value, at the ^ in: ^missing",
    "missing(x)(y)": "`and` or `or` is missing, at the ^ in: missing(x)^(y)",
    "(len)(x) > 3": "there is no function",
    "matches(x)": "`matches` takes a text, and a regular expression",
    "(x > 3]": "`)` is missing, at the ^ in: (x > 3^]",
    "(not x y)": "`and` or `or` is missing, at the ^ in: (not x ^y)",
    "x in [1, 2": "`]` is missing, at the ^ in: x in ^[1, 2",
    "x in y == z": "`and` or `or` is missing, at the ^ in: x in y ^== z",
    "x == (y < 3)": "a field or a value is missing",
    "x in (1, 2)": "a field or a value is missing, at the ^ in: x in ^(1, 2)",
    "x[3] == 2": "`and` or `or` is missing, at the ^ in: x^[3]",
    "x == 1\0": "'\\x00' is not understood",
    f"{'lower(' * 300}x{')' * 300} == 'a'": "conditions are within each other",
    f"{'(' * 99}x{')' * 99}": "conditions are within each other",
    f"{'not ' * 5000}x": "conditions are within each other",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(text, "--keep")
    assert str(raised.value).startswith("--keep: ")
    assert MISTAKES[text] in str(raised.value)


def test_or_binds_less_than_and_and_that_less_than_not() -> None:
    assert parse("a or not b and c", "") == parse("a or ((not b) and c)", "")
    assert parse("a or b and c", "") != parse("(a or b) and c", "")
    assert parse("not b and c", "") != parse("not (b and c)", "")


@pytest.mark.parametrize("word", ["or", "and"])
def test_thousands_of_conditions_in_a_row(word: str) -> None:
    found = parse(f" {word} ".join(f"x == {number}" for number in range(5000)), "")
    assert read_fields(found) == {"x"}
    block = Block({"x": [3, 4999, 5000]}, {})
    assert block.holds(found).true.tolist() == [word == "or", word == "or", False]


def test_a_long_row_of_comparisons() -> None:
    assert read_fields(parse(" < ".join(["x"] * 3000), "")) == {"x"}


def test_words_of_python_are_fields() -> None:
    found = parse("class == 1 and is in ['a', 'None'] or None_", "")
    assert [one.name for one in fields_of(found)] == ["class", "is", "None_"]
    assert [one.name for one in fields_of(parse("aﬁ == 007 and `and` and match", ""))] == ["aﬁ", "and", "match"]


def test_texts_have_escapes_of_their_own() -> None:
    found = parse("x in ['\\d', 'it\\'s', \"a\nb\", '\0']", "")
    assert Block({"x": ["\\d", "it's", "a\nb", "\0"]}, {}).holds(found).true.all()


def test_brackets_around_values() -> None:
    assert parse("(x) == (3)", "") == parse("x == 3", "")


def test_comparisons_in_a_row() -> None:
    assert parse("1 <= x < 3", "") == parse("1 <= x and x < 3", "")
    assert parse("x not in [1]", "") == parse("not x in [1]", "")


def test_the_fields_of_an_expression() -> None:
    found = parse("`my field` == lower(x) and missing(y) and chars_per_second < quantile(z, 0.5)", "")
    assert [one.name for one in fields_of(found)] == ["my field", "x", "y", "chars_per_second", "z"]
    assert Field("y", 0) not in needed_fields(found)
    assert read_fields(found) == {"my field", "x", "y", "z", "text", "duration"}
