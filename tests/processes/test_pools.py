"""Pools: results in order, errors of workers, and workers that are killed."""

import errno
import gc
import os
import signal
import struct
import subprocess
import sys
import time
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import pytest

from prepcli.errors import IncompleteError, UsageError
from prepcli.processes.pools import map_in_order
from tests.support.running import HANG_SECONDS


def slow_double(number: int) -> tuple[int, int]:
    time.sleep(0.02 * (number % 3))
    return 2 * number, os.getpid()


def die(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def complain(number: int) -> int:
    raise UsageError(f"no {number}")


def test_results_come_in_order_from_several_processes() -> None:
    results = list(map_in_order(slow_double, range(20), 2))
    assert [value for value, _ in results] == [2 * number for number in range(20)]
    processes = {process for _, process in results}
    assert os.getpid() not in processes
    assert len(processes) == 2


def test_one_worker_is_this_process() -> None:
    assert list(map_in_order(slow_double, [1], 4)) == [(2, os.getpid())]


def test_a_killed_worker_is_an_error_and_no_hang() -> None:
    with pytest.raises(IncompleteError, match=r"worker process was killed \(SIGKILL\)"):
        list(map_in_order(die, range(8), 2))


def test_a_folder_for_locks_that_is_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in some containers; a mount would need more permissions than tests have."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("_multiprocessing.SemLock", refuse)
    with pytest.raises(OSError, match="Read-only file system: '/dev/shm'"):
        list(map_in_order(slow_double, range(3), 2))


def test_errors_of_workers_arrive() -> None:
    with pytest.raises(UsageError, match="no 0"):
        list(map_in_order(complain, range(8), 2))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks into /proc")
def test_workers_do_not_outlive_a_killed_parent() -> None:
    code = (
        "from tests.processes.test_pools import slow_double; from prepcli.processes.pools import map_in_order\n"
        "results = map_in_order(slow_double, range(1000), 2)\n"
        "pids = {next(results)[1] for _ in range(20)}\n"
        "print(*pids, flush=True)\n"
        "import time; time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert workers
        parent.kill()
    deadline = time.monotonic() + HANG_SECONDS
    while any(Path(f"/proc/{pid}/cmdline").exists() and _lives(pid) for pid in workers):
        assert time.monotonic() < deadline, "a worker is still there"
        time.sleep(0.1)


def die_in_a_result(_: object) -> None:
    """Send the beginning of a result, and die."""
    queues = [one for one in gc.get_objects() if isinstance(one, SimpleQueue)]
    for queue in queues:
        os.write(queue._writer.fileno(), struct.pack("!i", 1000) + b"half")  # type: ignore[attr-defined]
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="the pipes of Linux")
def test_a_worker_that_is_killed_in_a_result_does_not_keep_the_process() -> None:
    """The thread that reads results waited for the rest, and Python for the thread."""
    code = (
        "from prepcli.processes.pools import WorkerPool, WorkerDiedError\n"
        "from tests.processes.test_pools import die_in_a_result\n"
        "import os, time\n"
        "with WorkerPool(1, os.getpid, ()) as pool:\n"
        "    pool.submit(die_in_a_result, 0)\n"
        "    time.sleep(1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_SECONDS, check=True
    )
    assert done.stderr == ""


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
