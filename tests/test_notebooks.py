"""The notebooks of the docs run, use the Python API alone, and store small outputs without paths of a machine."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.tools import need_package

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs/examples"
NAMES = ["asr.ipynb", "magpie.ipynb"]
MAX_BYTES = 300_000
HOME = "/home/you/prepcli"
"""The checkout in stored outputs."""


def read(path: Path) -> Any:
    need_package("nbformat")
    import nbformat

    return nbformat.read(path, as_version=4)


def code(book: Any) -> list[Any]:
    return [cell for cell in book.cells if cell.cell_type == "code"]


def streams(book: Any, name: str) -> str:
    return "".join(output.text for cell in code(book) for output in cell.outputs if output.get("name") == name)


def kinds(book: Any) -> set[str]:
    """The kinds of what cells show: a plot is `image/png`, a player for sound is `text/html`."""
    return {kind for cell in code(book) for output in cell.outputs for kind in output.get("data", {})}


def test_all_notebooks_are_tested() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.ipynb")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_what_is_stored(name: str) -> None:
    path = EXAMPLES / name
    assert path.stat().st_size < MAX_BYTES
    book = read(path)
    assert [cell.execution_count for cell in code(book)] == list(range(1, len(code(book)) + 1))
    shown(book)
    printed = streams(book, "stdout") + streams(book, "stderr")
    assert all(found.startswith(HOME) for found in re.findall(r"(?<![\w.])/\w[\w/]+", printed))
    source = "\n".join(cell.source for cell in code(book))
    assert re.findall(r"^\s*[!%].*|subprocess|os\.system", source, re.MULTILINE) == []


def shown(book: Any) -> None:
    """Reports, errors, plots and sound are among the outputs, and no cell has failed."""
    assert {"image/png", "text/html", "text/plain"} <= kinds(book)
    assert "error" not in {output.output_type for cell in code(book) for output in cell.outputs}
    assert re.search(r"^[\w-]+: done, work/", streams(book, "stdout"), re.MULTILINE)


@pytest.mark.slow
@pytest.mark.nemo
def test_they_run(tmp_path: Path) -> None:
    """Both in one kernel, which imports NeMo once; the variables of the first are removed before the second."""
    for package in ("nbclient", "ipykernel", "matplotlib", "resemblyzer", "nemo"):
        need_package(package)
    import nbformat
    from nbclient import NotebookClient

    folder = Path(shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("work")))
    books = [read(folder / name) for name in NAMES]
    for book in books:
        for cell in code(book):
            cell.outputs = []
    between = nbformat.v4.new_code_cell("%reset -f")
    both = nbformat.v4.new_notebook(cells=[*books[0].cells, between, *books[1].cells])
    NotebookClient(both, timeout=600, resources={"metadata": {"path": str(folder)}}, coalesce_streams=True).execute()
    for book in books:
        shown(book)
    assert "48 of 48 records, 0:00 left" in streams(books[1], "stderr")  # the bar
    assert "7 batches, 33 records" in streams(books[0], "stdout")
    assert "work/context was made differently: context_min_ssim was 0.6, now 0.7" in streams(books[1], "stdout")
    assert "done: codes of 48 records, 0 rejects" in streams(books[1], "stdout")
