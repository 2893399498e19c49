"""Commands that are built of a dataclass, and command lines that are built of its values."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer
from typer.testing import CliRunner

from prepcli.cli.app import VariadicCommand
from prepcli.cli.building import build_command
from prepcli.interface.options import Option, settings_of, words_of


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
    ratio: Annotated[float | None, Option("Width by height.", shown_default="as it is", minimum=-1, maximum=9)] = None
    tags: Annotated[str | Sequence[str], Option("Some tags.", names=("--tag", "-t"))] = ()
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


def test_defaults_hold() -> None:
    assert run("here", "--colour", "red")[1] == [Draw(path=Path("here"), colour="red")]


@pytest.mark.parametrize(
    "options", [EVERYTHING, Draw(path=Path("-x"), colour="red"), Draw(path=Path("--"), colour="blue", tags=("-t",))]
)
def test_words_give_the_same_values(options: Draw) -> None:
    assert run(*words_of(options))[1] == [options]


def test_help_shows_what_is_declared() -> None:
    output = run("--help")[2]
    for words in ("Draw a shape.", "-s, --size", "How large (metres).", "(as it is)", "red|blue", "--no-fill", "PATH"):
        assert words in output
    assert "--in-python" not in output
    assert output.index("--colour") < output.index("--size") < output.index("--ratio")


def test_settings_are_what_shapes_the_output() -> None:
    settings = settings_of(EVERYTHING)
    assert (settings["--size"], settings["--frame"], settings["--tags"]) == (3, False, ["a", "b c"])
    assert not {"--note", "--path"} & set(settings)
