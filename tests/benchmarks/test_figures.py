"""The figures of both READMEs are those that the named commands have printed: `benchmarks/results`."""

import re
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_NUMBER = r"\d[\d,]*(?:\.\d+)?"


def _rows(page: str, first: str) -> list[list[str]]:
    """The cells of the rows of the table in whose head `first` is the first cell."""
    lines = iter((ROOT / page).read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line.startswith(f"| {first} |"):
            next(lines)
            break
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def _commands() -> dict[str, str]:
    """The name of the result of each call of a benchmark in `all.sh`."""
    calls = re.findall(r"^measure (\S+) (.+)$", (ROOT / "benchmarks/all.sh").read_text(), flags=re.MULTILINE)
    return {call.partition(" ${")[0]: name for name, call in calls}


def _is_printed(figure: str, result: str) -> bool:
    """Whether a number is one of the result's, rounded, or the inverse of one."""
    value, half = float(figure.replace(",", "")), 0.5001 * 10 ** -len(figure.partition(".")[2])
    printed = [float(number.replace(",", "")) for number in re.findall(_NUMBER, result)]
    return any(abs(value - number) <= half or (number and abs(value - 1 / number) <= half) for number in printed)


def wrong(cell: str, result: str) -> list[str]:
    """The figures of a cell that the result does not have. `6.8 (3.79 / 0.56)`: the quotient of two that it has."""
    cell = re.sub(r"\(target [^)]*\)", "", cell)
    problems = []
    for quotient, above, below in re.findall(rf"({_NUMBER}) \(({_NUMBER}) / ({_NUMBER})\)", cell):
        exact = float(above.replace(",", "")) / float(below.replace(",", ""))
        if abs(exact - float(quotient)) > 0.5001 * 10 ** -len(quotient.partition(".")[2]):
            problems.append(f"{quotient} is not {above} / {below}")
        cell = cell.replace(f"{quotient} (", "(", 1)
    return problems + [figure for figure in re.findall(_NUMBER, cell) if not _is_printed(figure, result)]


_SHOWN = _rows("README.md", "measured as whole processes on two cores")
_ALL = _rows("benchmarks/README.md", "work")


@pytest.mark.parametrize("row", _SHOWN, ids=[row[0] for row in _SHOWN])
def test_what_the_readme_says(row: list[str]) -> None:
    command = row[3].strip("`").removeprefix("python benchmarks/")
    name = _commands()[command]
    result = (ROOT / f"benchmarks/results/{name}.txt").read_text(encoding="utf-8")
    assert not wrong(row[2], result)
    others = list(chain.from_iterable(re.findall(_NUMBER, other[2]) for other in _ALL if other[4] == f"`{name}`"))
    assert set(re.findall(_NUMBER, row[2])) <= set(others), "benchmarks/README.md says otherwise"


@pytest.mark.parametrize("row", _ALL, ids=[f"{number}-{row[0]}" for number, row in enumerate(_ALL)])
def test_the_table_of_all_benchmarks(row: list[str]) -> None:
    names = re.findall(r"`(\w+)`", row[4])
    assert names and set(names) <= set(_commands().values())
    result = "".join((ROOT / f"benchmarks/results/{name}.txt").read_text(encoding="utf-8") for name in names)
    assert not wrong(row[2], result)
    assert not wrong(row[3], result)


def test_a_figure_that_nobody_printed_is_noticed() -> None:
    assert wrong("7.3; 12 (3.0 / 0.5)", "took 3.00 s, 0.50 s: 7.21 x") == ["12 is not 3.0 / 0.5", "7.3"]
    assert not wrong("7.2; 6.0 (3.0 / 0.5); 0.14 (target 99)", "took 3.00 s, 0.50 s: 7.21 x")


def test_results_name_no_place_of_the_machine() -> None:
    results = sorted((ROOT / "benchmarks/results").iterdir())
    assert len(results) > 15
    named = re.compile(r"(?<![\w.])/(?:tmp|root|home|work|mnt|data)/")
    assert [one.name for one in results if named.search(one.read_text(encoding="utf-8"))] == []
