"""kill -9 at random points, continue with another number of ranks: the same bytes as an undisturbed run."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import prepcli, read_lines, start_prepcli, tree, write_lines

NUM_SHARDS = 12
BAD = 7


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini corpus ten times over with offsets that differ, and seven records without audio: about 3 s of work."""
    corpus = Path(__file__).parent / "data/mini_corpus"
    records = []
    for turn in range(10):
        for record in read_lines(corpus / "manifest.json"):
            path = str(corpus / record["audio_filepath"])
            records.append(record | {"audio_filepath": path, "offset": turn * 0.01, "duration": 0.9})
    for number in range(BAD):
        records.insert(60 * number, {"audio_filepath": f"missing_{number}.wav", "duration": 1.0, "text": ""})
    return write_lines(tmp_path_factory.mktemp("kill") / "manifest.json", records)


def arguments(manifest: Path, out: Path) -> list[object]:
    options = ["--num-shards", NUM_SHARDS, "--slice-with-offset", "--target-sample-rate", 16000, "--shuffle"]
    return ["manifest-to-tarred", manifest, out, *options, "--num-workers", 2]


@pytest.fixture(scope="module")
def undisturbed(manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    assert prepcli(*arguments(manifest, out)).code == 0
    return tree(out)


def wait_for_markers(out: Path, count: int, process: "subprocess.Popen[str]") -> None:
    """Until `count` units are published, or the process has ended."""
    done = out.with_name(out.name + ".prepcli") / "done"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if (count == 0 and done.exists()) or (done.exists() and len(list(done.glob("shard_*.json"))) >= count):
            return
        time.sleep(0.002)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def kill_main(process: "subprocess.Popen[str]") -> None:
    process.kill()


def kill_a_worker(process: "subprocess.Popen[str]") -> None:
    workers = children(process.pid)
    if workers:
        os.kill(random.choice(workers), signal.SIGKILL)


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie that nobody collects counts as ended)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def resume(manifest: Path, out: Path, world_size: int) -> None:
    """Continue with `world_size` ranks at once."""
    ranks = [["--rank", rank, "--world-size", world_size] if world_size > 1 else [] for rank in range(world_size)]
    processes = [start_prepcli(*arguments(manifest, out), *rank) for rank in ranks]
    for process in processes:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err


@pytest.mark.parametrize("victim", [kill_main, kill_a_worker])
@pytest.mark.parametrize(("markers", "world_size"), [(0, 1), (3, 2), (8, 5)])
def test_kill_one_process(
    manifest: Path,
    undisturbed: dict[str, str],
    tmp_path: Path,
    victim: Callable[["subprocess.Popen[str]"], None],
    markers: int,
    world_size: int,
) -> None:
    out = tmp_path / "out"
    process = start_prepcli(*arguments(manifest, out))
    wait_for_markers(out, markers, process)
    time.sleep(random.random() * 0.1)
    workers = children(process.pid)
    victim(process)
    _, err = process.communicate(timeout=60)
    if victim is kill_a_worker and process.returncode != 0:
        assert process.returncode == 4
        assert "SIGKILL" in err
        assert "Continue with: prepcli manifest-to-tarred" in err
    deadline = time.monotonic() + 10
    while not all(map(gone, workers)):
        assert time.monotonic() < deadline, "workers outlive their parent"
        time.sleep(0.05)
    whole = {name: digest for name, digest in tree(out).items() if undisturbed.get(name) != digest}
    assert whole == {}  # nothing half under a final name
    resume(manifest, out, world_size)
    assert tree(out) == undisturbed
    assert len(read_lines(tmp_path / "out.prepcli/rejects.jsonl")) == BAD
    assert prepcli("verify", out).code == 0


@pytest.mark.parametrize("world_size", [1, 2, 5])
def test_kill_one_of_two_ranks(manifest: Path, undisturbed: dict[str, str], tmp_path: Path, world_size: int) -> None:
    out = tmp_path / "out"
    ranks = [start_prepcli(*arguments(manifest, out), "--rank", rank, "--world-size", 2) for rank in range(2)]
    wait_for_markers(out, random.randrange(6), ranks[0])
    ranks[1].kill()
    for process in ranks:
        process.communicate(timeout=60)
    assert ranks[0].returncode == 0
    resume(manifest, out, world_size)
    assert tree(out) == undisturbed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
def test_signals_end_the_run_in_good_order(
    manifest: Path, undisturbed: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    process = start_prepcli(*arguments(manifest, out), "--json")
    wait_for_markers(out, 2, process)
    process.send_signal(number)
    stdout, err = process.communicate(timeout=60)
    assert process.returncode == 4, err
    assert f"stopped by {number.name}" in err
    assert "Traceback" not in err
    assert '"status":"incomplete"' in stdout
    assert not any((tmp_path / "out.prepcli/tmp").iterdir())
    status = prepcli("status", out, "--json").json
    assert status["state"] == "stopped"
    assert 0 < status["units_done"] < NUM_SHARDS
    resume(manifest, out, 1)
    assert tree(out) == undisturbed


def test_rank_processes_of_one_machine(manifest: Path, undisturbed: dict[str, str], tmp_path: Path) -> None:
    """The launcher of GPU commands: one rank process a device, ended with their parent, restartable."""
    out = tmp_path / "out"
    code = (
        "import sys; from prepcli.run.launch import spawn_ranks; sys.exit(spawn_ranks(sys.argv[2:], int(sys.argv[1])))"
    )

    def start() -> "subprocess.Popen[bytes]":
        import sys

        command = [sys.executable, "-c", code, "3", *map(str, arguments(manifest, out))]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    first = start()
    wait_for_markers(out, 1, first)  # type: ignore[arg-type]
    ranks = children(first.pid)
    assert len(ranks) == 3
    first.kill()
    first.communicate(timeout=60)
    deadline = time.monotonic() + 10
    while not all(map(gone, ranks)):
        assert time.monotonic() < deadline, "ranks outlive their parent"
        time.sleep(0.05)
    second = start()
    wait_for_markers(out, 5, second)  # type: ignore[arg-type]
    second.terminate()
    _, err = second.communicate(timeout=60)
    assert second.returncode in (0, 4, -signal.SIGTERM), err  # or it was too early for any handler
    third = start()
    _, err = third.communicate(timeout=60)
    assert third.returncode == 0, err
    assert tree(out) == undisturbed
