"""One launch, several ranks: which units they divide, and rank processes on this machine."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from prepcli.engine.plan import Unit, pack
from prepcli.engine.ranks import Rank
from prepcli.engine.signals import STOP_SIGNALS
from prepcli.engine.workspace import Workspace, publish_json_once
from prepcli.errors import IncompleteError, UsageError
from prepcli.processes import LIFELINE

_ROOT = str(Path(__file__).parents[2])
_RUN = "import sys; sys.path[:] = [*filter(None, sys.path), {root!r}]; from prepcli.__main__ import main; main()"
"""What a rank process runs: this very prepcli. Nothing is imported from the current folder (`python -P` does the same,
from Python 3.11 on), where a file may be called `typer.py`."""

CLEAR_TIMEOUT = 600.0
"""Seconds that a rank waits for the rank that clears the directory (`--overwrite`)."""


def shares(workspace: Workspace, rank: Rank, units: Sequence[Unit], missing: Sequence[Unit]) -> list[list[Unit]]:
    """The units of every rank of this launch, including those that are done already.

    Ranks may start minutes apart, so none may divide "what is missing now" by its own look. With a launch id, the
    first rank to arrive writes once which units were missing, and all ranks of the launch divide those. Without one,
    ranks divide all units. Either way each rank then skips what is done: no unit is left out or done twice.
    """
    if rank.world_size == 1:
        return pack(missing, 1)
    if rank.launch_id is None:
        return pack(units, rank.world_size)
    agreed = set(_agree(workspace, rank, [unit.id for unit in missing]))
    if not agreed.issuperset(unit.id for unit in missing):
        # Within a launch, what is missing only ever shrinks.
        raise UsageError(f"the launch id {rank.launch_id} was used before on {workspace.out}; give a new one")
    return pack([unit for unit in units if unit.id in agreed], rank.world_size)


def _launch_name(rank: Rank) -> str:
    return f"{rank.launch_id}-of-{rank.world_size}"


def _agreed_file(workspace: Workspace, rank: Rank) -> Path:
    return workspace.launches / f"{_launch_name(rank)}.json"


def has_agreed(workspace: Workspace, rank: Rank) -> bool:
    """Whether a rank of this launch has written which units they divide; one rank alone has nobody to agree with."""
    return rank.world_size > 1 and _agreed_file(workspace, rank).exists()


def _agree(workspace: Workspace, rank: Rank, missing: list[str]) -> list[str]:
    agreed_file = _agreed_file(workspace, rank)
    agreed = publish_json_once(agreed_file, missing, list[str])
    if not isinstance(agreed, list):
        raise IncompleteError(f"{agreed_file} is damaged; start again with another --launch-id")
    return agreed


def clear_once(workspace: Workspace, rank: Rank, patterns: Sequence[str]) -> None:
    """`--overwrite`: empty the output once a launch, by the first rank to arrive; the others wait for it.

    Raises:
        UsageError: this rank of the launch was here before, so the launch is another one under an old id.
        IncompleteError: the rank that was clearing has not finished in time (it died, or the disk hangs).
    """
    if rank.world_size == 1:
        workspace.clear(patterns)
        return
    workspace.launches.mkdir(parents=True, exist_ok=True)
    claim = workspace.launches / f"{_launch_name(rank)}.clear"
    cleared = workspace.launches / f"{_launch_name(rank)}.cleared"
    try:
        claim.mkdir()
        is_first = True
    except FileExistsError:
        is_first = False
    try:
        (claim / f"rank_{rank.rank}").touch(exist_ok=False)
    except FileExistsError:
        raise UsageError(
            f"the launch id {rank.launch_id} was used before with --overwrite on {workspace.out}, which is therefore "
            "not cleared again: give all ranks a new --launch-id to start again, or leave --overwrite out to continue"
        ) from None
    if not is_first:
        deadline = time.monotonic() + CLEAR_TIMEOUT
        while not cleared.exists():
            if time.monotonic() > deadline:
                raise IncompleteError(
                    f"another rank began to clear {workspace.out} and has not finished after "
                    f"{CLEAR_TIMEOUT:.0f} s; start again with another --launch-id"
                ) from None
            time.sleep(0.1)
        return
    workspace.clear(patterns)
    cleared.touch()


def spawn_ranks(arguments: Sequence[str], num_ranks: int, stderrs: Sequence[IO[bytes] | None] = ()) -> int:
    """Run `prepcli ARGUMENTS` as `num_ranks` processes on this machine, one a device, and wait for them.

    The ranks get torchrun's variables (`RANK`, `WORLD_SIZE`, `LOCAL_RANK`, a run id of their own), and end when this
    process does. Stop signals are passed on. `stderrs`: a file for what each rank prints on stderr.
    Returns one exit code for all: a failure (1, 2) before incomplete (4), before too many rejects (3), before 0.
    """
    launch_id = f"local-{uuid.uuid4().hex[:12]}"
    base = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")}
    processes: list[subprocess.Popen[bytes]] = []
    received: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        received.append(number)
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    in_main_thread = threading.current_thread() is threading.main_thread()
    previous = {number: signal.signal(number, pass_on) for number in STOP_SIGNALS if in_main_thread}
    # The ranks watch the reading end: it becomes ready when this process dies, however it dies.
    watched, held = os.pipe()
    try:
        for rank in range(num_ranks):
            environ = base | {
                "RANK": str(rank),
                "WORLD_SIZE": str(num_ranks),
                "LOCAL_RANK": str(rank),
                "TORCHELASTIC_RUN_ID": launch_id,
                LIFELINE: str(watched),
            }
            command = [sys.executable, "-c", _RUN.format(root=_ROOT), *arguments]
            stderr = stderrs[rank] if stderrs else None
            processes.append(
                subprocess.Popen(command, env=environ, pass_fds=[watched], start_new_session=True, stderr=stderr)
            )
        codes = [process.wait() for process in processes]
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for process in processes:
            if process.poll() is None:
                process.kill()
        os.close(held)
        os.close(watched)
    return combine_exit_codes(codes)


def combine_exit_codes(codes: Sequence[int]) -> int:
    """One exit code for several ranks; a rank that a signal ended counts as incomplete."""
    seen = {4 if code < 0 or code > 128 else code for code in codes}
    return next((code for code in (2, 1, 4, 3) if code in seen), max(seen, default=0))
