"""Divides units among the ranks of a launch, and starts rank processes on this machine."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from prepcli.engine.run.crashes import MAX_CRASHES
from prepcli.engine.run.job import AnyJob
from prepcli.engine.state.clearing import clear
from prepcli.engine.state.plan import AnyPlan, Unit, pack
from prepcli.engine.state.store_output import check_writing
from prepcli.engine.state.workspace import Workspace, publish_json_once
from prepcli.errors import IncompleteError, UsageError, called_from_python, option
from prepcli.interface.calls import tell
from prepcli.processes.pools import CRASHES
from prepcli.processes.ranks import Rank
from prepcli.processes.signals import STOP_SIGNALS
from prepcli.processes.workers import CALLED_FROM_PYTHON, JOB_ID, LIFELINE, RESTARTS, TICK
from prepcli.storage.paths import StorePath

_ROOT = str(Path(__file__).parents[3])
_RUN = "import sys; sys.path[:] = [*filter(None, sys.path), {root!r}]; from prepcli.__main__ import main; main()"
"""The code of a rank process. It runs this prepcli, and imports nothing from the current folder, which may have a file
`typer.py` (`python -P` does the same, but only from Python 3.11 on)."""


def shares(
    workspace: Workspace,
    rank: Rank,
    units: Sequence[Unit],
    missing: Sequence[Unit],
    is_done: Callable[[Unit], bool],
) -> list[list[Unit]]:
    """The share of each rank of this launch, by the number of the rank; it may have units that are done already.

    Ranks may start minutes apart and then find different units missing, but all must divide the same list. With a
    launch id, the first rank stores its list of missing units, and all ranks of the launch divide this list. Without a
    launch id, ranks divide all units. In both cases a rank then skips the units of its share that are done. A rank
    without others takes all `missing` units.

    `missing`: the units whose markers were not found in a folder listing. On a network file system, a listing may be
    old, so some of these units may be done. `is_done` opens the marker of a unit to find out.

    Raises:
        UsageError: the launch id was used before.
        IncompleteError: the stored list is damaged.
    """
    if rank.world_size == 1:
        return pack(missing, 1)
    if rank.launch_id is None:
        return pack(units, rank.world_size)
    agreed_file = _agreed_file(workspace, rank)
    found = publish_json_once(agreed_file, [unit.id for unit in missing], list[str])
    if found is None:
        raise IncompleteError(f"{agreed_file} is damaged; start again with another {option('--launch-id')}")
    agreed = set(found)
    if not all(unit.id in agreed or is_done(unit) for unit in missing):
        # Within a launch, the list of missing units can only shrink.
        raise UsageError(f"the launch id {rank.launch_id} was used before on {workspace.out}; give a new one")
    return pack([unit for unit in units if unit.id in agreed], rank.world_size)


def _agreed_file(workspace: Workspace, rank: Rank) -> Path:
    return workspace.launches / f"{rank.launch_id}-of-{rank.world_size}.json"


def has_agreed(workspace: Workspace, rank: Rank) -> bool:
    """Whether a rank of this launch has stored the list of missing units (`shares`); False for a single rank."""
    return rank.world_size > 1 and _agreed_file(workspace, rank).exists()


def has_done(workspace: Workspace, rank: Rank, what: str) -> bool:
    """Whether an earlier start of this job has done the action `what` (`overwrite` or `retry`).

    Each action is done only once per job. A file that `note_done` has made shows that it was done: the first start may
    have ended before. A job without an id has no such file: at each restart, the action counts as done.
    """
    return rank.restarts > 0 and (rank.job_id is None or _done_file(workspace, rank.job_id, what).exists())


def note_done(workspace: Workspace, rank: Rank, what: str) -> None:
    """Record for later starts of the same job that this start has done the action `what` (`has_done`)."""
    if rank.job_id is not None:
        _done_file(workspace, rank.job_id, what).touch()


def _done_file(workspace: Workspace, job_id: str, what: str) -> Path:
    return workspace.launches / f"{job_id}.{what}"


def check_writable(workspace: Workspace) -> None:
    """Check whether a workspace can be prepared; called before slow steps, such as loading a model.

    Nothing is written, except one small object in a store, which is removed at once.

    Raises:
        UsageError: OUT or OUT.prepcli cannot be written. If one of them does not exist, the nearest existing folder
            above it is checked.
    """
    for directory in (workspace.out, workspace.root):
        if isinstance(directory, StorePath):
            workspace.found.list_store()
            check_writing(directory)
            continue
        nearest = next(path for path in (directory, *directory.absolute().parents) if path.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            why = "permission denied" if nearest.is_dir() else f"{nearest} is a file"
            raise UsageError(f"cannot write to {directory}: {why}; choose another output directory")


def has_begun_to_clear(workspace: Workspace, rank: Rank) -> bool:
    """Whether a rank of this launch has begun to empty the output; False for a single rank."""
    return rank.world_size > 1 and _clearing_ranks(workspace, rank).exists()


def _clearing_ranks(workspace: Workspace, rank: Rank) -> Path:
    return _agreed_file(workspace, rank).with_suffix(".clear")


def clear_once(workspace: Workspace, rank: Rank, job: AnyJob, plan: AnyPlan) -> None:
    """Start again: one rank of a launch empties the output; the others wait for it.

    Raises:
        UsageError: this rank of the launch has run before, so another launch has the same id; also raised by `clear`.
    """
    cleared = None
    if rank.world_size > 1:
        ranks = _clearing_ranks(workspace, rank)
        ranks.mkdir(parents=True, exist_ok=True)
        cleared = ranks.with_suffix(".cleared")
        try:
            (ranks / f"rank_{rank.rank}").touch(exist_ok=False)
        except FileExistsError:
            raise UsageError(
                f"the launch id {rank.launch_id} was used before with {option('--overwrite')} on {workspace.out}, "
                f"which is therefore not cleared again: give all ranks a new {option('--launch-id')} to start again, "
                f"or leave {option('--overwrite')} out to continue"
            ) from None
    clear(workspace, job, plan, cleared)
    note_done(workspace, rank, "overwrite")


def spawn_ranks(
    arguments: Sequence[str],
    num_ranks: int,
    stderrs: Sequence[IO[bytes] | None] = (),
    parent: Rank | None = None,
) -> int:
    """Run `prepcli ARGUMENTS` as `num_ranks` processes on this machine, one per device, and wait for them.

    The ranks get torchrun's variables (`RANK`, `WORLD_SIZE`, `LOCAL_RANK`, a run id of their own), and end with this
    process. Stop signals are passed on. A rank that crashes is started again, because the next start knows which
    audio its model was working on (`prepcli.engine.run.crashes`).

    Args:
        arguments: the arguments of the command line.
        num_ranks: the number of processes.
        stderrs: a file for the stderr of each rank; by default, ranks write to the stderr of this process.
        parent: the rank of this process; the new ranks get its job id and its number of restarts.

    Returns:
        The most severe exit code of the ranks (`combine_exit_codes`).
    """
    launch_id = f"local-{uuid.uuid4().hex[:12]}"
    job_id, restarts = (parent.job_id, parent.restarts) if parent else (None, 0)
    base = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")}
    processes: dict[int, subprocess.Popen[bytes]] = {}
    received: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        received.append(number)
        for process in list(processes.values()):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    def start(rank: int, num_crashes: int) -> None:
        environ = base | {
            "RANK": str(rank),
            "WORLD_SIZE": str(num_ranks),
            "LOCAL_RANK": str(rank),
            "TORCHELASTIC_RUN_ID": launch_id,
            LIFELINE: str(watched),
            JOB_ID: job_id or f"torchrun-{launch_id}",
            RESTARTS: str(restarts + num_crashes),
            CALLED_FROM_PYTHON: "1" if called_from_python() else "",
        }
        command = [sys.executable, "-c", _RUN.format(root=_ROOT), *arguments]
        stderr = stderrs[rank] if stderrs else None
        processes[rank] = process = subprocess.Popen(
            command, env=environ, pass_fds=[watched], start_new_session=True, stderr=stderr
        )
        if received:  # pass on a signal that has arrived before this rank existed
            process.send_signal(received[-1])

    in_main_thread = threading.current_thread() is threading.main_thread()
    previous = {number: signal.signal(number, pass_on) for number in STOP_SIGNALS if in_main_thread}
    # The ranks watch the read end of a pipe, which becomes readable when this process dies for any reason.
    watched, held = os.pipe()
    codes: dict[int, int] = {}
    crashes = [0] * num_ranks
    try:
        for rank in range(num_ranks):
            start(rank, 0)
        while len(codes) < num_ranks:
            for rank in sorted(set(range(num_ranks)) - set(codes)):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = processes[rank].wait(timeout=TICK / num_ranks)
                    if code not in CRASHES or received or crashes[rank] + 1 >= MAX_CRASHES:
                        codes[rank] = code
                        continue
                    crashes[rank] += 1
                    tell(f"note: rank {rank} has crashed ({signal.Signals(-code).name}); starting it again")
                    start(rank, crashes[rank])
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for process in processes.values():
            if process.poll() is None:
                process.kill()
        os.close(held)
        os.close(watched)
    return combine_exit_codes(list(codes.values()))


def combine_exit_codes(codes: Sequence[int]) -> int:
    """The most severe exit code: 2 or 1 (failures) before 4 (incomplete), before 3 (too many rejects), before 0.

    A rank that was ended by a signal counts as incomplete.
    """
    seen = {4 if code < 0 or code > 128 else code for code in codes}
    return next((code for code in (2, 1, 4, 3) if code in seen), max(seen, default=0))
