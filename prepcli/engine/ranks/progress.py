"""Progress across ranks: each rank writes a small file every few seconds; rank 0 shows one bar for all."""

import contextlib
import os
import resource
import socket
import struct
import sys
import time
from collections.abc import Sequence
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import msgspec

from prepcli.engine.state.workspace import Workspace, read_document, write_json
from prepcli.interface.bars import progress_bar
from prepcli.interface.calls import tell
from prepcli.processes.owner import Owner, start_time, this_place
from prepcli.processes.ranks import Rank
from prepcli.processes.workers import no_interruption

FILE_INTERVAL = 2.0
"""Seconds between two writes of a rank's progress file."""
LINE_INTERVAL = 60.0
"""Seconds between two lines where stderr is not a terminal."""
STALE_AFTER = 60.0
"""Seconds without an update after which a rank with the state `running` counts as dead."""


class RankProgress(msgspec.Struct):
    """`progress/rank_<r>.json`. `state`: running, done, interrupted or failed; times are seconds since the epoch.

    `place` and `process_started` are those of `prepcli.processes.owner.Owner`.
    """

    rank: int
    world_size: int
    launch_id: str | None
    host: str
    pid: int
    state: str
    units_total: int
    units_done: int
    records_total: int
    records_done: int
    seconds_total: float
    seconds_done: float
    rejects: int
    started: float
    updated: float
    max_rss_mb: float = 0.0
    message: str = ""
    place: str = ""
    process_started: int = 0
    knows_seconds: bool = True

    @property
    def work(self) -> tuple[float, float]:
        """What is done and the total: seconds of audio, or records if the plan does not know seconds."""
        if self.knows_seconds:
            return self.seconds_done, self.seconds_total
        return self.records_done, self.records_total

    @property
    def process(self) -> Owner:
        """The process that writes this."""
        return Owner("", self.place, self.pid, self.process_started)

    @property
    def is_stale(self) -> bool:
        """Whether the rank says it is running, but its process is seen to have ended, or was silent for too long."""
        if self.state != "running":
            return False
        return bool(self.process.is_gone) or time.time() - self.updated > STALE_AFTER


class SharedCounter:
    """Records and seconds done by a rank's processes, added up in the process that made it.

    The others send what they did through a pipe, in pieces that are written whole or not at all. A lock around shared
    memory would do too, until a worker is killed while it holds it: then everybody waits for ever.
    """

    _PIECE = struct.Struct("=qd")

    def __init__(self, context: BaseContext) -> None:
        self._owner = os.getpid()
        self._receive, self._send = context.Pipe(duplex=False)
        self._records = 0
        self._seconds = 0.0

    def add(self, records: int, seconds: float) -> None:
        """Add; called in any of the processes, a few times per second."""
        if os.getpid() == self._owner:
            self._records += records
            self._seconds += seconds
        else:
            self._send.send_bytes(self._PIECE.pack(records, seconds))

    def read(self) -> tuple[int, float]:
        """Records, seconds; called in the process that made the counter."""
        # A signal within a piece would leave half of it, and the next to read would wait for what its middle promises.
        with no_interruption():
            while self._receive.poll():
                records, seconds = self._PIECE.unpack(self._receive.recv_bytes())
                self._records += records
                self._seconds += seconds
        return self._records, self._seconds


class Reporter:
    """Writes this rank's progress file, and shows the bar (rank 0) or plain lines (no terminal).

    `records_before` are the records that earlier runs have done, `records_all` those of the whole job.
    """

    def __init__(
        self,
        workspace: Workspace,
        rank: Rank,
        command: str,
        own: RankProgress,
        records_before: int,
        records_all: int,
    ) -> None:
        self._workspace = workspace
        self._rank = rank
        self._command = command
        self.own = own
        self._before = records_before
        self._all = records_all
        self._last_file = 0.0
        self._last_line = time.monotonic()
        self._bar: Any = None
        if rank.rank == 0:
            self._bar = progress_bar(
                total=records_all,
                initial=records_before,
                bar_format="{desc}: {percentage:3.0f}%|{bar}| {unit}",  # the unit is all that `describe` says
                unit="",
                delay=0.5,
                desc=command,
            )

    def update(self, force: bool = False) -> None:
        """Show and store how far we are; cheap enough to call several times a second."""
        now = time.monotonic()
        if force or now - self._last_file >= FILE_INTERVAL:
            self._last_file = now
            self.own.updated = time.time()
            # Linux counts ru_maxrss in KiB; children include the workers that have ended.
            usage = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
            self.own.max_rss_mb = round(max(usage) / 1024, 1)
            write_json(progress_file(self._workspace, self._rank.rank), self.own, durable=False)
        if self._bar is not None:
            ranks = self._ranks()
            done = self._before + sum(rank.records_done for rank in ranks)
            self._bar.n = min(done, self._all)
            self._bar.unit = describe(self._bar.n, self._all, ranks, time.time())
            self._bar.update(0)
        elif not sys.stderr.isatty() and now - self._last_line >= LINE_INTERVAL:
            self._last_line = now
            self._print_line()

    def beat(self) -> None:
        """Store a sign of life of the rank even if its work has not called `update` for a while; from any thread."""
        self.own.updated = time.time()
        write_json(progress_file(self._workspace, self._rank.rank), self.own, durable=False)

    def close(self, state: str, message: str = "") -> None:
        """Store the last state of this rank and end the bar."""
        self.own.state = state
        self.own.message = message
        self.update(force=True)
        if self._bar is not None:
            self._bar.close()

    def _ranks(self) -> list[RankProgress]:
        """This rank and the others of its launch."""
        if self._rank.world_size == 1:
            return [self.own]
        others = (
            progress
            for progress in read_progress(self._workspace)
            if progress.rank != self._rank.rank and progress.launch_id == self._rank.launch_id
        )
        return [self.own, *others]

    def _print_line(self) -> None:
        own = self.own
        share = own.records_done / own.records_total if own.records_total else 1.0
        words = describe(own.records_done, own.records_total, [own], time.time())
        tell(
            f"[{own.rank}/{own.world_size}] {self._command}: {share:.0%}, {words}, "
            f"{own.units_done:,} of {own.units_total:,} units"
        )


def describe(records_done: int, records_all: int, ranks: Sequence[RankProgress], now: float) -> str:
    """How far a launch is: records, time left (that of the slowest rank), hours of audio, rate, and rejects."""
    seconds_done = sum(rank.seconds_done for rank in ranks)
    # The first is this process, whose file is a little older than what it knows.
    ends = [now, *(rank.updated for rank in ranks[1:])]
    times = [max(end - rank.started, 1e-6) for rank, end in zip(ranks, ends, strict=True)]
    left = [
        (total - done) / done * time if done else float("inf")
        for (done, total), time in zip((rank.work for rank in ranks), times, strict=True)
        if total > done
    ]
    longest = max(left, default=0.0)
    rate = sum(rank.seconds_done / time for rank, time in zip(ranks, times, strict=True))
    total = f" of {sum(rank.seconds_total for rank in ranks) / 3600:,.2f}" if ranks[0].knows_seconds else ""
    return (
        f"{records_done:,} of {records_all:,} records, "
        f"{'unknown time' if longest == float('inf') else format_seconds(longest)} left, "
        f"{seconds_done / 3600:,.2f}{total} hours, "
        f"{rate:,.0f} x real time, {sum(rank.rejects for rank in ranks):,} rejects"
    )


def new_progress(rank: Rank) -> RankProgress:
    """A progress record of this process with nothing done yet."""
    now = time.time()
    return RankProgress(
        rank=rank.rank,
        world_size=rank.world_size,
        launch_id=rank.launch_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        state="running",
        units_total=0,
        units_done=0,
        records_total=0,
        records_done=0,
        seconds_total=0.0,
        seconds_done=0.0,
        rejects=0,
        started=now,
        updated=now,
        place=this_place(),
        process_started=start_time(os.getpid()) or 0,
    )


def progress_file(workspace: Workspace, rank: int) -> Path:
    """The path of the progress file of rank `rank`."""
    return workspace.progress / f"rank_{rank:05d}.json"


def read_progress(workspace: Workspace) -> list[RankProgress]:
    """The newest progress of every rank that ever ran on this output, by rank."""
    found = (read_document(path, RankProgress) for path in sorted(workspace.progress.glob("rank_*.json")))
    return [progress for progress in found if progress is not None]


def note_late_rank(workspace: Workspace, rank: Rank) -> None:
    """Note this rank, which came when everything was done, beside the other ranks of its launch.

    Otherwise `status` would show it as one that has not started.
    """
    launch = (rank.launch_id, rank.world_size)
    found = read_progress(workspace) if rank.world_size > 1 else []
    of_launch = {one.rank for one in found if (one.launch_id, one.world_size) == launch}
    if of_launch and rank.rank not in of_launch:
        own = new_progress(rank)
        own.state = "done"
        with contextlib.suppress(OSError):  # a finished output may be read-only
            write_json(progress_file(workspace, rank.rank), own, durable=False)


def is_running_elsewhere(workspace: Workspace, rank: Rank) -> RankProgress | None:
    """The progress of another living process with the same rank, or None."""
    other = read_document(progress_file(workspace, rank.rank), RankProgress)
    if other is None:
        return None
    return other if is_alive(other) else None


def is_alive(progress: RankProgress) -> bool:
    """Whether another process than this one is at work as this rank.

    A process of this machine is looked up by its PID; any other counts as living if its last update is recent.
    """
    if progress.state != "running" or progress.process.is_same_process(Owner.of_this_process("")):
        return False
    gone = progress.process.is_gone
    return not (progress.is_stale if gone is None else gone)


def format_seconds(seconds: float) -> str:
    """`75` -> `1:15`, `3700` -> `1:01:40`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
