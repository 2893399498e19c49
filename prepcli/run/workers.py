"""A rank's worker processes: each takes a unit, processes and publishes it; a killed one is named, never waited for."""

import contextlib
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import BaseContext

from prepcli.errors import IncompleteError
from prepcli.processes import begin_worker, no_interruption, stop_here
from prepcli.run.job import Job
from prepcli.run.plan import Unit
from prepcli.run.progress import SharedCounter
from prepcli.run.publish import Marker, UnitWriter
from prepcli.run.workspace import Workspace

TICK = 0.25
"""Seconds between two looks at the progress while units are in work."""


class _Worker:
    """What a worker process holds; set once by `_start_worker`."""

    job: Job
    workspace: Workspace
    digest: str
    counter: SharedCounter


def _start_worker(job: Job, workspace: Workspace, digest: str, counter: SharedCounter) -> None:
    begin_worker()
    _Worker.job, _Worker.workspace, _Worker.digest, _Worker.counter = job, workspace, digest, counter


def _do_unit(unit: Unit) -> Marker:
    worker = _Worker
    pending = [0, 0.0]
    last = time.monotonic()

    def advance(records: int, seconds: float) -> None:
        nonlocal last
        pending[0] += records
        pending[1] += seconds
        if time.monotonic() - last > TICK:
            worker.counter.add(int(pending[0]), pending[1])
            pending[:] = [0, 0.0]
            last = time.monotonic()

    with UnitWriter(worker.workspace, worker.digest, unit) as writer:
        worker.job.process(unit, writer, advance)
        marker = writer.publish()
    worker.counter.add(int(pending[0]), pending[1])
    return marker


def process_units(
    job: Job,
    workspace: Workspace,
    digest: str,
    units: Sequence[Unit],
    num_workers: int,
    counter: SharedCounter,
    context: BaseContext,
    tick: Callable[[], None],
) -> Iterator[Marker]:
    """Do `units` (longest first) in `num_workers` processes and yield each one's marker as it is published.

    `tick` is called a few times a second. Whatever ends the iteration early also ends the workers at once.

    Raises:
        IncompleteError: a worker was killed; the message names the signal and the unit it had in hand.
        Exception: whatever `job.process` raised.
    """
    with no_interruption():
        args = (job, workspace, digest, counter)
        pool = ProcessPoolExecutor(min(num_workers, len(units)), context, _start_worker, args)
        processes: list[multiprocessing.process.BaseProcess] = []
        try:
            pending: set[Future[Marker]] = {pool.submit(_do_unit, unit) for unit in units}
            processes = _processes_of(pool)
            while pending:
                done, pending = wait(pending, timeout=TICK, return_when=FIRST_COMPLETED)
                stop_here()
                tick()
                for future in done:
                    yield future.result()
            pool.shutdown(wait=True)
        except BrokenProcessPool:
            raise IncompleteError(_what_died(workspace, processes)) from None
        finally:
            _end(pool, processes or _processes_of(pool))


def _processes_of(pool: ProcessPoolExecutor) -> list[multiprocessing.process.BaseProcess]:
    # Not public, but there is no other way to tell which process died of what.
    return list((getattr(pool, "_processes", None) or {}).values())


def _end(pool: ProcessPoolExecutor, processes: Sequence[multiprocessing.process.BaseProcess]) -> None:
    """Kill what still runs. It is safe at any point: a unit is published whole, or done again."""
    for process in processes:
        with contextlib.suppress(ValueError, AttributeError):
            process.kill()
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        with contextlib.suppress(ValueError, AssertionError):
            process.join(timeout=5)


def _what_died(workspace: Workspace, processes: Sequence[multiprocessing.process.BaseProcess]) -> str:
    time.sleep(0.2)  # the executor ends the healthy workers with SIGTERM; let exit codes settle
    dead = [(process.pid or 0, process.exitcode or 0) for process in processes if process.exitcode]
    # The executor terminates the others once it has noticed: the culprit is the one that did not get SIGTERM from it.
    culprits = [(pid, code) for pid, code in dead if code != -signal.SIGTERM] or dead
    units = workspace.units_in_hand([pid for pid, _ in culprits])
    in_hand = f" while it worked on {', '.join(units)}" if units else ""
    codes = {code for _, code in culprits}
    if -signal.SIGKILL in codes:
        cause = (
            "was killed (SIGKILL), most likely for lack of memory; run the same command again to continue, "
            "with a smaller --num-workers or more memory"
        )
    else:
        names = ", ".join(sorted(_exit_name(code) for code in codes)) or "for an unknown reason"
        cause = f"died ({names}); run the same command again to continue"
    return f"a worker process {cause.replace('; run', in_hand + '; run', 1)}"


def _exit_name(code: int) -> str:
    if code < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-code).name
    return f"exit code {code}"
