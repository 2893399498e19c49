"""Reading audio that may crash its decoder, in commands that are not jobs: worker processes, and notes after a crash.

Jobs keep their notes in OUT.prepcli (`prepcli.engine.run.crashes`); here they last as long as the call.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from prepcli.processes.in_hand import noting, read_note
from prepcli.processes.pools import CRASHES, Result, Task, WorkerDiedError, map_in_order

MAX_CRASHES = 20
"""Maximum number of crashes per call; more are not caused by single files."""


def map_refusing_crashes(
    function: Callable[[Task], Result], tasks: Sequence[Task], num_workers: int = 1
) -> Iterator[Result]:
    """`map_in_order`, in worker processes even if it is one: `take_in_hand` rejects audio that has crashed one twice.

    The first crash only tells that notes are needed; the second tells the audio.

    Args:
        function: a module-level function that calls `take_in_hand` with the audio before it is read.
        tasks: its arguments.
        num_workers: the maximum number of worker processes.

    Raises:
        IncompleteError: a worker was killed, or workers crash for a reason that no note tells.
    """
    done = num_crashes = 0
    refused: frozenset[str] = frozenset()
    with tempfile.TemporaryDirectory(prefix="prepcli-notes-") as folder:
        while done < len(tasks):
            called = partial(_call_with_notes, Path(folder), refused, function) if num_crashes else function
            try:
                for result in map_in_order(called, tasks[done:], num_workers, always_fork=True):
                    done += 1
                    yield result
            except WorkerDiedError as error:
                found = {read_note(Path(folder, str(pid))) for pid in error.dead}
                crashing = refused | {name for name in found if name}
                num_crashes += 1
                explained = num_crashes == 1 or crashing != refused
                if not set(error.dead.values()) <= CRASHES or not explained or num_crashes > MAX_CRASHES:
                    raise
                refused = crashing


def _call_with_notes(folder: Path, refused: frozenset[str], function: Callable[[Task], Result], task: Task) -> Result:
    with noting(folder / str(os.getpid()), refused):
        return function(task)
