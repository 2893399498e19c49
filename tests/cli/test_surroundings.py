"""A full disk under standard output, pipes and devices for files, a current folder that was deleted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS
from tests.support.running import HANG_SECONDS, clean_environment, prepcli

MINI = MINI_CORPUS / "manifest.json"


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--version"], ["inspect", MINI], ["inspect", MINI, "--json"], ["--help"]])
def test_a_full_disk_under_the_output(arguments: list[object], unbuffered: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "prepcli", *map(str, arguments)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment(PYTHONUNBUFFERED=unbuffered),
            timeout=HANG_SECONDS,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "prepcli: cannot write the output: No space left on device\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_under_the_errors_keeps_the_exit_code(unbuffered: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "prepcli", "inspect", str(tmp_path / "none.json")]
    environ = clean_environment(PYTHONUNBUFFERED=unbuffered)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(words, stderr=full, env=environ, timeout=HANG_SECONDS, check=False)
    assert done.returncode == 2


@pytest.mark.parametrize("command", ["inspect", "estimate-bins", "manifest-to-tarred", "extend-context-audio"])
def test_a_pipe_for_a_manifest(command: str, tmp_path: Path) -> None:
    """`<(cat m.json)`: it can be read once, and a run reads its manifest several times."""
    reading, writing = os.pipe()
    try:
        os.write(writing, MINI.read_bytes()[:1000])
        os.close(writing)
        more: dict[str, list[object]] = {
            "manifest-to-tarred": [tmp_path / "out", "--num-shards", 1],
            "extend-context-audio": [tmp_path / "out"],
        }
        done = prepcli(command, f"/dev/fd/{reading}", *more.get(command, []))
    finally:
        os.close(reading)
    assert done.code == 2
    what = "is a pipe, not a file" if command == "inspect" else "is a pipe or a device, not a file"
    assert what in done.error_line
    assert "write it to a file first" in done.error_line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("device", ["/dev/null", "/dev/full"])
def test_a_device_for_a_config(device: str) -> None:
    """One can be read without end, and the other would be replaced by a file."""
    done = prepcli("estimate-bins", MINI, "-b", 2, "--write-config", device)
    assert done.code == 2
    assert f"--write-config {device}: it is not a regular file" in done.error_line
    assert Path(device).is_char_device()


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "m.json"],
        ["inspect", MINI],
        ["manifest-to-tarred", MINI, "out", "--num-shards", "1"],
        ["verify", "x"],
    ],
)
def test_a_current_folder_that_was_deleted(arguments: list[object], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    message = "prepcli: the current folder was deleted; change to one that exists (cd)\n"
    for words, expected in ((arguments, (2, message)), ([arguments[0], "--help"], (0, ""))):
        gone.mkdir()
        command = f'cd "{gone}"; rmdir "{gone}"; exec "$@"'
        done = subprocess.run(
            ["bash", "-c", command, "bash", sys.executable, "-m", "prepcli", *map(str, words)],
            capture_output=True,
            text=True,
            env=clean_environment(),
            timeout=HANG_SECONDS,
            check=False,
        )
        assert (done.returncode, done.stderr) == expected
