import pytest
import typer
from typer.testing import CliRunner

from prepcli.cli.app import VariadicCommand

app = typer.Typer()


@app.command(cls=VariadicCommand)
def command(
    data: str,
    values: list[str] = typer.Option([], "--value", "-t"),  # noqa: B008 - typer's way
    other: list[str] = typer.Option([], "-a"),  # noqa: B008
    number: int = typer.Option(0, "-n"),
    flag: bool = typer.Option(False, "-q"),
) -> None:
    print(data, values, other, number, flag)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("in -t a b -a c d", "in ['a', 'b'] ['c', 'd'] 0 False"),
        ("-t a b -a c d -n -1 in", "in ['a', 'b'] ['c', 'd'] -1 False"),
        ("-t a -q in", "in ['a'] [] 0 True"),
        ("-t a in", "in ['a'] [] 0 False"),  # or there would be no argument
        ("-t a b in -n 3", "in ['a', 'b'] [] 3 False"),
        ("-t a -t b in", "in ['a', 'b'] [] 0 False"),
        ("in --value a b --value c", "in ['a', 'b', 'c'] [] 0 False"),
        ("in --value=a -t b", "in ['a', 'b'] [] 0 False"),
        ("-t a b -- in", "in ['a', 'b'] [] 0 False"),
        ("-n 3 in", "in [] [] 3 False"),
    ],
)
def test_values_in_a_row(line: str, shown: str) -> None:
    done = CliRunner().invoke(app, line.split())
    assert (done.exit_code, done.output.strip()) == (0, shown)


def test_what_is_wrong_stays_wrong() -> None:
    for line in ("-t", "-t a", "in --nothing", ""):
        assert CliRunner().invoke(app, line.split()).exit_code == 2
