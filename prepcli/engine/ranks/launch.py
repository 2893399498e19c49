"""Starts rank processes on this machine."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from prepcli.engine.run.crashes import MAX_CRASHES
from prepcli.engine.state.store_output import check_writing
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError, called_from_python
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
