"""Commands that are built of a dataclass, and command lines that are built of its values."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from typer.testing import CliRunner

from prepcli.cli.app import VariadicCommand
from prepcli.cli.building import build_command
from prepcli.errors import UsageError, arguments_named_by, option, same_command
from prepcli.interface.calls import called, command_line
from prepcli.interface.from_python import argument
from prepcli.interface.options import Option, settings_of, words_of
from prepcli.interface.values import make_options
from tests.support.running import prepcli


@dataclass(frozen=True)
class Shared:
    size: Annotated[int, Option("How large (metres).", names=("--size", "-s"), minimum=1)] = 2
    note: Annotated[str | None, Option("A note.", shapes_output=False)] = None


@dataclass(frozen=True, kw_only=True)
class Draw(Shared):
    """Draw a shape.

    Example: prepcli draw here --colour red
    """

    path: Annotated[Path, Option("Where.", metavar="PATH", is_argument=True, shapes_output=False)]
    colour: Annotated[Literal["red", "blue"], Option("Which colour.")]
    ratio: Annotated[float | None, Option("Width by height.", shown_default="as it is", minimum=-1)] = None
    tags: Annotated[tuple[str, ...], Option("Some tags.", names=("--tag", "-t"))] = ()
    last: Annotated[bool, Option("The last one.")] = False
    frame: Annotated[bool, Option("No frame around it.", names=("--no-frame",))] = True
    fill: Annotated[bool, Option("Fill it.", names=("--fill/--no-fill",))] = True
    in_python: Annotated[bool, Option("Not on the command line.", only="Python")] = False
    loud: Annotated[bool, Option("Not in Python.", only="command line")] = False


def run(*arguments: str) -> tuple[int, list[Draw], str]:
    seen: list[Draw] = []

    def draw(options: Draw) -> str:
        seen.append(options)
        return "drawn"

    app = typer.Typer(rich_markup_mode=None)
    command = build_command(["draw"], Draw, lambda: draw)
    app.command("draw", cls=VariadicCommand)(command)
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, seen, result.output


EVERYTHING = Draw(
    path=Path("here"),
    colour="blue",
    ratio=-0.5,
    tags=("a", "b c"),
    last=True,
    frame=False,
    fill=False,
    size=3,
    note="n",
)


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


def test_defaults_hold() -> None:
    assert run("here", "--colour", "red")[1] == [Draw(path=Path("here"), colour="red")]


@pytest.mark.parametrize(
    "options", [EVERYTHING, Draw(path=Path("-x"), colour="red"), Draw(path=Path("--"), colour="blue", tags=("-t",))]
)
def test_words_give_the_same_values(options: Draw) -> None:
    assert run(*words_of(options))[1] == [options]


@pytest.mark.parametrize(
    "arguments", [["here"], ["--colour", "red"], ["here", "--colour", "green"], ["here", "--colour", "red", "-s", "0"]]
)
def test_what_is_wrong_is_refused(arguments: list[str]) -> None:
    code, seen, _ = run(*arguments)
    assert (code, seen) == (2, [])


def test_the_command_that_does_what_is_left_of_all_ranks() -> None:
    words = ["draw", "--rank=1", "here", "--world-size", "2", "--launch-id", "x", "--tag", "--rank-1", "--overwrite"]
    with called(words, progress=False):
        assert command_line(of_rank=False) == "prepcli draw here --tag --rank-1"
        assert command_line() == "prepcli draw --rank=1 here --world-size 2 --launch-id x --tag --rank-1"


def test_nan_is_below_every_minimum(tmp_path: Path) -> None:
    done = prepcli("status", tmp_path, "--watch", "--every", "nan")
    assert (done.code, "--every must be 0.1 or more, not nan" in done.error_line) == (2, True)


def test_help_shows_what_is_declared() -> None:
    output = run("--help")[2]
    for words in ("Draw a shape.", "-s, --size", "How large (metres).", "(as it is)", "red|blue", "--no-fill", "PATH"):
        assert words in output
    assert "--in-python" not in output
    assert output.index("--colour") < output.index("--ratio") < output.index("--size")


def test_settings_are_what_shapes_the_output() -> None:
    settings = settings_of(EVERYTHING)
    assert (settings["--size"], settings["--frame"], settings["--tags"]) == (3, False, ["a", "b c"])
    assert not {"--note", "--path"} & set(settings)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"size": 2.5}, "size must be of type int, not 2.5"),
        ({"size": 0}, "size must be 1 or more, not 0"),
        ({"last": 1}, "last must be of type bool, not 1"),
        ({"ratio": "x"}, "ratio must be of type float, not 'x'"),
        ({"ratio": float("nan")}, "ratio must be -1 or more, not nan"),
        ({"colour": "green"}, "colour must be one of 'red', 'blue', not 'green'"),
        ({"tags": ["a", 1]}, "tags must be of type str, not 1"),
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
    ("words", "shell", "expected"),
    [
        (("--note",), "--note", "note"),
        (("--size",), "--size", "size"),
        (("--size", 3), "--size 3", "size=3"),
        (("--colour", "red"), "--colour red", "colour='red'"),
        (("--path", Path("a b")), "--path a b", "path='a b'"),
        (("--last",), "--last", "last=True"),
        (("--no-frame",), "--no-frame", "frame=False"),
        (("--no-fill",), "--no-fill", "fill=False"),
        (("--other", 3), "--other 3", "--other 3"),
        (("--tag", "x"), "--tag x", "tags='x'"),
    ],
)
def test_messages_for_python(words: tuple[str, object], shell: str, expected: str) -> None:
    assert option(*words) == shell
    with arguments_named_by(partial(argument, Draw)):
        assert option(*words) == expected
    assert option(*words) == shell


def test_what_is_repeated_in_python() -> None:
    assert same_command() == "the same command"
    with arguments_named_by(partial(argument, Draw)):
        assert same_command() == "the same call"
