from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from prepcli.cli.groups import takes

Size = Annotated[int, typer.Option("--size", "-s", min=1, help="How large.")]


@dataclass(frozen=True)
class Shape:
    size: Size
    colour: Annotated[str, typer.Option(help="Which colour.")] = "red"


def run(*arguments: str) -> tuple[int, dict[str, Any], str]:
    seen: dict[str, Any] = {}
    app = typer.Typer(rich_markup_mode=None)

    @app.command()
    @takes(shape=Shape)
    def draw(path: str, *, shape: Shape, last: bool = False) -> None:
        """Draw."""
        seen.update(path=path, shape=shape, last=last)

    result = CliRunner().invoke(app, arguments)
    return result.exit_code, seen, result.output


def test_the_fields_of_a_group_are_options_and_reach_the_command_together() -> None:
    code, seen, _ = run("here", "-s", "3", "--colour", "blue", "--last")
    assert code == 0
    assert seen == {"path": "here", "shape": Shape(3, "blue"), "last": True}


def test_defaults_of_a_group_hold() -> None:
    assert run("here", "--size", "3")[1]["shape"] == Shape(3, "red")


@pytest.mark.parametrize("arguments", [["here"], ["here", "--size", "0"], ["here", "--size", "x"]])
def test_options_of_a_group_are_checked_as_others_are(arguments: list[str]) -> None:
    code, seen, output = run(*arguments)
    assert code == 2
    assert not seen
    assert "size" in output


def test_help_shows_the_options_of_a_group_where_the_group_stands() -> None:
    output = run("--help")[2]
    assert "shape" not in output
    assert output.index("--size") < output.index("--colour") < output.index("--last")
