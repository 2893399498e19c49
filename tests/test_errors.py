"""Errors of the operating system name the file that they are about, and say what to do."""

import os
import sys
from pathlib import Path

import pytest

from prepcli.errors import MORE_FILES, lacks_open_files, naming
from tests.conftest import MINI_CORPUS
from tests.support.running import run_process


def test_an_error_without_a_file_gets_its_name(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(IsADirectoryError) as caught, naming(tmp_path / "a"):
            os.read(folder, 1)
    finally:
        os.close(folder)
    assert caught.value.filename == str(tmp_path / "a")


def test_an_error_with_a_file_keeps_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, naming(tmp_path / "a"):
        (tmp_path / "b").read_bytes()
    assert Path(caught.value.filename) == tmp_path / "b"


def test_an_import_that_cannot_open_a_library_lacks_open_files() -> None:
    """In a process that has none left, as the imports of score and of the models are."""
    code = (
        "import importlib.machinery, os, resource, sys\n"
        "import prepcli.errors as errors\n"
        "found = importlib.machinery.PathFinder.find_spec('_zoneinfo')\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "try:\n    import _zoneinfo\n"
        "except ImportError as error:\n    print(errors.lacks_open_files(error), error.name)\n"
    )
    done = run_process([sys.executable, "-c", code])
    assert (done.out, done.err) == ("True _zoneinfo\n", "")
    assert not lacks_open_files(ImportError("No module named 'x'"))


@pytest.mark.parametrize("words", ["inspect {}", "manifest-to-tarred {} out --num-shards 2"])
def test_too_few_open_files_are_one_line_that_says_what_to_do(words: str, tmp_path: Path) -> None:
    command = words.format(MINI_CORPUS / "manifest.json").split()
    limited = ["bash", "-c", 'ulimit -n 8; exec "$@"', "-", sys.executable, "-m", "prepcli"]
    done = run_process([*limited, *command], cwd=tmp_path)
    assert done.code == 1
    assert MORE_FILES in done.error_line
