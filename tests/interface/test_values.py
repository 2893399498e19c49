"""Values of options are checked and converted, from the command line and from Python."""

from pathlib import Path
from typing import Any

import pytest

from prepcli.errors import UsageError
from prepcli.interface.values import make_options
from tests.cli.test_building import EVERYTHING, Draw, run
from tests.support.running import prepcli


def test_values_become_a_dataclass() -> None:
    words = [
        "here",
        "--colour",
        "blue",
        "--ratio",
        "-0.5",
        "-t",
        "a",
        "--tag",
        "b c",
        "--last",
        "--no-frame",
        "--no-fill",
    ]
    code, seen, output = run(*words, "-s", "3", "--note", "n")
    assert code == 0, output
    assert seen == [EVERYTHING]


@pytest.mark.parametrize(
    "arguments", [["here"], ["--colour", "red"], ["here", "--colour", "green"], ["here", "--colour", "red", "-s", "0"]]
)
def test_what_is_wrong_is_refused(arguments: list[str]) -> None:
    code, seen, _ = run(*arguments)
    assert (code, seen) == (2, [])


def test_nan_is_below_every_minimum(tmp_path: Path) -> None:
    done = prepcli("status", tmp_path, "--watch", "--every", "nan")
    assert (done.code, "--every must be 0.1 or more, not nan" in done.error_line) == (2, True)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"size": 2.5}, "size must be of type int, not 2.5"),
        ({"size": 0}, "size must be 1 or more, not 0"),
        ({"last": 1}, "last must be of type bool, not 1"),
        ({"ratio": "x"}, "ratio must be of type float, not 'x'"),
        ({"ratio": float("nan")}, "ratio must be -1 or more, not nan"),
        ({"ratio": 9.5}, "ratio must be 9 or less, not 9.5"),
        ({"colour": "green"}, "colour must be one of 'red', 'blue', not 'green'"),
        ({"tags": ["a", 1]}, "tags must be of type str, or a list of it, not 1"),
        ({"path": "\udcff"}, "is not a UTF-8 name"),
        ({"note": ""}, "note is empty"),
        ({"size": None}, "size must be of type int, not None"),
    ],
)
def test_values_from_python_are_checked(values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        make_options(Draw, {"path": "here", "colour": "red"} | values)
    assert words in str(raised.value)


def test_values_from_python_are_converted() -> None:
    made = make_options(Draw, {"path": "here", "colour": "red", "tags": "a", "ratio": 2, "note": Path("n")})
    assert made == Draw(path=Path("here"), colour="red", tags=("a",), ratio=2.0, note="n")
    assert isinstance(made.ratio, float)
