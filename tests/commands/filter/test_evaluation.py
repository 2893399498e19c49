"""Conditions over records: three values, and types that do not compare."""

from typing import Any

import pytest

from prepcli.commands.filter.evaluation import Block
from prepcli.commands.filter.grammar import parse
from prepcli.errors import RecordRejected

NAN, INF = float("nan"), float("inf")
RECORDS: dict[str, list[Any]] = {
    "duration": [1.0, 2.0, 4.0, 8.0],
    "text": ["a bc", "Ä", None, ""],
    "n": [1, 2.5, None, NAN],
    "big": [2**53, 2**53 + 1, 10**400, -INF],
    "flag": [True, False, None, True],
    "tags": [["x", "y"], [], None, ["x"]],
    "lang": ["en", "de", "en", "fr"],
    "accent": ["us", NAN, None, "uk"],
    "mixed": [[1, "a"], [2.0], None, [4]],
    "cell": ["0.5", " -2e1 ", "", "n/a"],
    "code": ["007", 7, None, "9007199254740993"],
}
CASES = {
    "n < 2": "10??",
    "n != 1": "01??",
    "not n < 2": "01??",
    "missing(n)": "0011",
    "not missing(n)": "1100",
    "n < 2 or duration > 3": "1011",
    "n < 2 and duration > 3": "00??",
    "n < 2 and duration > 5": "000?",
    "big > 0": "1110",
    "flag": "10?1",
    "not flag": "01?0",
    "flag == false": "01?0",
    "lang == 'en'": "1010",
    "lang in ['en', 'fr']": "1011",
    "lang not in ['en']": "0101",
    "lang < 'en'": "0100",
    "'x' in tags": "10?1",
    "'b' in text": "10?0",
    "len(tags) >= 1": "10?1",
    "len(text) == 1": "01?0",
    "lower(text) == 'ä'": "01?0",
    r"matches(text, '^\w\s')": "10?0",
    "chars_per_second == 4": "10?0",
    "words_per_second == 0.5": "01?0",
    "text == lang": "00?0",
    "n in [1, 2.5]": "11??",
    "big == 9007199254740993": "0100",
    "big > 9007199254740992": "0110",
    "accent == 'us'": "1??0",
    "accent in ['us']": "1??0",
    "missing(accent)": "0110",
    "len(accent) == 2": "1??1",
    "matches(lower(accent), 'k')": "0??1",
    "1 in mixed": "10?0",
    "chars_per_second in mixed": "00?0",
    "number(cell) > 0": "10??",
    "number(cell) in [-20]": "01??",
    "number(code) == 7": "11?0",
    "number(code) == 9007199254740993": "00?1",
    "chars_per_second in [4, 0.5]": "11?0",
}


@pytest.mark.parametrize("text", CASES)
def test_conditions(text: str) -> None:
    found = Block(RECORDS, {}).holds(parse(text, ""))
    marks = ["1" if true else "0" if false else "?" for true, false in zip(found.true, found.false, strict=True)]
    assert "".join(marks) == CASES[text]


MISFITS = {
    "text < 3": 'text is "a", and the comparison by < needs a number',
    "n == 'a'": "n is 1, and the comparison by == needs a text",
    "flag > 3": "flag is true, and the comparison by > needs a number",
    "tags == text": 'tags is ["x"], and the comparison by == needs',
    "n": "n is 1, and a condition needs true or false",
    "n in ['a']": "n is 1, and the list needs a text",
    "matches(n, 'a')": "n is 1, and matches needs a text",
    "len(n) > 1": "n is 1, and len needs a list or a text",
    "object == 'a'": 'object is {"a":1}, and the comparison by == needs a text',
    "n < text": 'text is "a", and the comparison by < needs a number',
    "cell > 3": 'cell is "0.5" (number(cell) reads it), and the comparison by > needs a number',
    "`a cell` > 3": 'a cell is "0.5" (number(`a cell`) reads it), and the comparison by > needs a number',
    "number(text) > 3": 'text is "a", and number needs a number',
    "number(tags) > 3": 'tags is ["x"], and number needs a number or a text',
}


@pytest.mark.parametrize("text", MISFITS)
def test_types_that_do_not_compare(text: str) -> None:
    record: dict[str, list[Any]] = {"text": ["a"], "n": [1], "flag": [True], "tags": [["x"]], "object": [{"a": 1}]}
    record |= {"cell": ["0.5"], "a cell": ["0.5"]}
    with pytest.raises(RecordRejected) as raised:
        Block(record, {}).holds(parse(text, ""))
    assert MISFITS[text] in raised.value.detail


def test_one_and_true_are_two_things() -> None:
    found = Block({"n": [1, 0], "flag": [True, False]}, {}).holds(parse("n == 1 and flag == true", ""))
    assert found.true.tolist() == [True, False]
