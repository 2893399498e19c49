"""SIGKILL while fetching, unpacking and converting; then the same command again gives the undisturbed tree."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands.download.conftest import Serve
from tests.commands.download.miniatures import SPEAKERS, checksum_list, librispeech, tar_gz
from tests.conftest import tree
from tests.support.killing import children, kill_a_worker, wait_until_gone
from tests.support.running import HANG_SECONDS, Process, prepcli, start_prepcli

pytestmark = pytest.mark.slow

NAME = "dev-clean-2.tar.gz"


@pytest.fixture(scope="module")
def archive() -> bytes:
    """A larger miniature: every speaker five times, 240 utterances in 4 units, 12 MB."""
    return tar_gz(librispeech("dev-clean-2", SPEAKERS, copies=5))


@pytest.fixture(scope="module")
def checksum_file(archive: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("list") / "md5sum.txt"
    path.write_text(checksum_list({NAME: archive}))
    return path


@pytest.fixture(scope="module")
def undisturbed(archive: bytes, checksum_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / NAME).write_bytes(archive)
    arguments = ["--data-sets", "dev_clean_2", "--archive", folder / NAME, "--checksums", checksum_file]
    done = prepcli("download", "librispeech", "--data-root", folder / "data", *arguments)
    assert done.code == 0, done.err
    found = tree(folder / "data")
    assert len([name for name in found if name.endswith(".wav")]) == 240
    return found


def fetched(root: Path, work: Path) -> int:
    """Bytes that have arrived."""
    part = root / f"archives/{NAME}.part"
    return part.stat().st_size if part.exists() else 0


def unpacked(root: Path, work: Path) -> int:
    return sum(1 for _ in (work / "unpacking").rglob("*.flac"))


def moved(root: Path, work: Path) -> int:
    return int((work / "unpacked.json").exists())


def converted(root: Path, work: Path) -> int:
    return sum(1 for _ in (work / "done").glob("batch_*.json"))


Watch = Callable[[Path, Path], int]
MOMENTS: list[tuple[Watch, int]] = [
    (fetched, 1),
    (fetched, 5_000_000),
    (unpacked, 1),
    (unpacked, 120),
    (moved, 1),
    (converted, 1),
    (converted, 3),
]
STOPS = [
    *((signal.SIGKILL, *moment) for moment in MOMENTS),
    *((signal.SIGTERM, watch, 1) for watch in (fetched, unpacked, converted)),
]


def wait_for(watch: Watch, count: int, root: Path, work: Path, process: Process) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if watch(root, work) >= count:
                return
        except FileNotFoundError:
            pass
        time.sleep(0.001)


@pytest.mark.parametrize(
    ("number", "watch", "count"),
    STOPS,
    ids=lambda value: getattr(value, "name", getattr(value, "__name__", str(value))),
)
def test_stopped_and_run_again(
    serve: Serve,
    archive: bytes,
    checksum_file: Path,
    undisturbed: dict[str, str],
    tmp_path: Path,
    watch: Watch,
    count: int,
    number: signal.Signals,
) -> None:
    data = tmp_path / "data"
    work = tmp_path / "data.prepcli/sets/dev_clean_2"
    # The first connection breaks, so that there is time to be killed while a part lies there.
    cuts = [5_000_000] * 3 if watch is fetched else []
    site = serve({NAME: archive}, cut_after=cuts)
    arguments = ["download", "librispeech", "--data-sets", "dev_clean_2", "--data-root", data, "--num-workers", 2]
    arguments += ["--base-url", site.url, "--checksums", checksum_file]
    process = start_prepcli(*arguments)
    wait_for(watch, count, data, work, process)
    workers = children(process.pid)
    process.send_signal(number)
    _, err = process.communicate(timeout=HANG_SECONDS)
    if number == signal.SIGTERM and process.returncode != 0:
        assert process.returncode == 4, err
        assert "stopped by SIGTERM" in err
        assert "Continue with: prepcli download librispeech" in err
        assert "Traceback" not in err
    wait_until_gone(workers)
    half = {name for name, digest in tree(data).items() if undisturbed.get(name) != digest}
    assert {name for name in half if not name.startswith("archives/")} == set()  # nothing half under a final name
    there = fetched(data, work)
    assert there or count != 5_000_000  # which is where the connection broke
    done = prepcli(*arguments)
    assert done.code == 0, done.err
    if there:
        assert site.asked[-1][1] is not None and site.asked[-1][1].startswith("bytes=")  # it went on where it was
    assert tree(data) == undisturbed
    assert "nothing to do" in prepcli(*arguments).out


def test_a_signal_between_unpacking_and_converting_stops_in_good_order(
    archive: bytes, checksum_file: Path, tmp_path: Path
) -> None:
    (tmp_path / NAME).write_bytes(archive)
    script = (
        "import os, signal, prepcli.commands.download.prepare as fetching\n"
        "from prepcli.cli.app import main\n"
        "fetching.ensure_index = lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)\n"
        "main()\n"
    )
    arguments = ["--data-sets", "dev_clean_2", "--archive", tmp_path / NAME, "--checksums", checksum_file]
    command = [sys.executable, "-c", script, "download", "librispeech", "--data-root", tmp_path / "data", *arguments]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert "stopped by SIGTERM" in done.stderr


def test_a_killed_worker_is_named(
    serve: Serve,
    archive: bytes,
    checksum_file: Path,
    undisturbed: dict[str, str],
    draw: random.Random,
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    work = tmp_path / "data.prepcli/sets/dev_clean_2"
    arguments = ["download", "librispeech", "--data-sets", "dev_clean_2", "--data-root", data, "--num-workers", 2]
    arguments += ["--base-url", serve({NAME: archive}).url, "--checksums", checksum_file]
    process = start_prepcli(*arguments)
    wait_for(converted, 2, data, work, process)
    kill_a_worker(process, draw)
    _, err = process.communicate(timeout=HANG_SECONDS)
    if process.returncode != 0:
        assert process.returncode == 4, err
        assert "SIGKILL" in err
    ranks = [start_prepcli(*arguments, "--rank", rank, "--world-size", 2) for rank in range(2)]
    for rank in ranks:
        _, err = rank.communicate(timeout=HANG_SECONDS)
        assert rank.returncode == 0, err
    assert tree(data) == undisturbed
