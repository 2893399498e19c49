"""Values of options are checked and converted, from the command line and from Python."""

from pathlib import Path
from typing import Any

import pytest

import prepcli as library
from prepcli.errors import UsageError
from prepcli.interface.values import make_options
from tests.cli.test_building import EVERYTHING, Draw, run
from tests.conftest import SHORT_CORPUS
from tests.support.running import prepcli

MANIFEST = SHORT_CORPUS / "manifest.json"


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


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (("inspect", MANIFEST), ("--html", "--csv")),
        (("estimate-bins", MANIFEST), ("--plot", "--write-config")),
        (("estimate-bins-2d", MANIFEST, "-t", "t.model"), ("--plot", "--write-config")),
        (("estimate-token-bins", "x.yaml", "-t", "t.model"), ("--plot", "--write-config")),
        (("estimate-batch-sizes", "--model", "a.nemo"), ("--write-config", "--plot")),
        (("filter", MANIFEST), ("OUT.json", "--html")),
    ],
)
def test_one_file_for_two_outputs_is_refused(words: tuple[object, ...], flags: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "link.png").symlink_to("x.png")
    (tmp_path / "here").symlink_to(".")
    before = sorted(tmp_path.rglob("*"))
    for other in ("x.png", "here/x.png", "link.png", str(tmp_path / "x.png")):
        given = [word for flag, name in zip(flags, ("x.png", other), strict=True) for word in (flag, name)]
        done = prepcli(*words, *(word for word in given if word != "OUT.json"), cwd=tmp_path)
        assert (done.code, done.out, sorted(tmp_path.rglob("*"))) == (2, "", before), done.err
        assert done.error_line.endswith(
            f"{flags[0]} x.png and {flags[1]} {Path(other)} are one file: give one of them another name"
        )


def test_one_file_for_two_outputs_in_python(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^out='.*/g.json' and html='.*/g.json' are one file"):
        library.filter(MANIFEST, tmp_path / "g.json", html=tmp_path / "g.json")
    assert list(tmp_path.iterdir()) == []


def test_a_device_takes_two_outputs() -> None:
    done = prepcli("inspect", MANIFEST, "--num-audio-files", 0, "--html", "/dev/null", "--csv", "/dev/null")
    assert done.code == 0, done.err
