"""Progress across ranks: each rank writes a small file every few seconds; on a terminal, rank 0 shows a bar for all."""

import contextlib
import os
import shutil
import socket
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from prepcli.engine.state.workspace import Workspace, children_of, read_document, write_json
from prepcli.interface.bars import can_draw, progress_bar
from prepcli.interface.calls import tell
from prepcli.interface.printing import number_of
from prepcli.processes.owner import DELETE_SECONDS, REPEAT_SECONDS, Owner, has_ended, last_change, owner_of
from prepcli.processes.ranks import Rank
from prepcli.processes.workers import no_interruption, worker_context

FILE_INTERVAL = 2.0
"""Seconds between two writes of a rank's progress file."""
_MIN_BAR = 5
"""Columns of the bar itself, at least."""
LINE_INTERVAL = 60.0
"""Seconds between two lines that show progress, if stderr is not a terminal."""


class RankProgress(msgspec.Struct):
    """The content of `progress/rank_<r>.json`: the progress of one rank.

    `state`: running, done, interrupted or failed; `message`: the error that ended the rank, or "". `started` and
    `updated` are seconds since the epoch, `seconds_total` and `seconds_done` seconds of audio. `rank_id`, `place` and
    `process_started`: as in `prepcli.processes.owner.Owner`.
    """

    rank: int
    world_size: int
    launch_id: str | None
    host: str
    pid: int
    started: float
    updated: float
    state: str = "running"
    units_total: int = 0
    units_done: int = 0
    records_total: int = 0
    records_done: int = 0
    seconds_total: float = 0.0
    seconds_done: float = 0.0
    rejects: int = 0
    message: str = ""
    place: str = ""
    process_started: int = 0
    knows_seconds: bool = True
    rank_id: str = ""

    @property
    def work(self) -> tuple[float, float]:
        """The work that is done, and the total: seconds of audio, or records if the plan does not know seconds."""
        if self.knows_seconds:
            return self.seconds_done, self.seconds_total
        return self.records_done, self.records_total

    @property
    def process(self) -> Owner:
        """The process of the rank: the process that wrote this progress file."""
        return Owner(self.rank_id, self.place, self.pid, self.process_started)


class SharedCounter:
    """A counter of the records and seconds of audio that the processes of a rank have done.

    The process that made the counter adds them up. Other processes send it their counts through a pipe, each count with
    one atomic write. A lock around shared memory would not be safe: if a worker were killed while it holds the lock,
    all processes would wait forever.
    """

    _PIECE = struct.Struct("=qd")

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._receive, self._send = worker_context().Pipe(duplex=False)
        self._records = 0
        self._seconds = 0.0

    def add(self, records: int, seconds: float) -> None:
        """Add records and seconds of audio; called in any process of the rank, a few times per second."""
        if os.getpid() == self._owner:
            self._records += records
            self._seconds += seconds
        else:
            self._send.send_bytes(self._PIECE.pack(records, seconds))

    def read(self) -> tuple[int, float]:
        """Return the total records and seconds of audio; called in the process that made the counter."""
        # A signal during a read would leave half of a piece, and the next read would wait for bytes that never come.
        with no_interruption():
            while self._receive.poll():
                records, seconds = self._PIECE.unpack(self._receive.recv_bytes())
                self._records += records
                self._seconds += seconds
        return self._records, self._seconds


class Reporter:
    """Writes this rank's progress file, and shows progress.

    On a terminal, rank 0 shows a bar for all ranks. Without a terminal, each rank prints lines about its own share.

    `own`: the progress of this rank, which the caller keeps up to date. `records_before`: the number of records in
    units that were done before this rank began. `records_all`: the number of records in all units of the job.
    """

    def __init__(
        self,
        workspace: Workspace,
        command: str,
        own: RankProgress,
        records_before: int,
        records_all: int,
    ) -> None:
        self._workspace = workspace
        self._command = command
        self.own = own
        self._before = records_before
        self._all = records_all
        self._last_file = 0.0
        self._last_line = time.monotonic()
        self._bar: Any = None
        if own.rank == 0:
            self._bar = progress_bar(
                total=records_all,
                initial=records_before,
                bar_format="{desc}: {percentage:3.0f}%|{bar}| {unit}",  # `unit` holds the whole text of `describe`
                unit="",
                delay=0.5,
                desc=command,
            )

    def update(self, force: bool = False) -> None:
        """Show and store the progress, at most as often as the intervals allow; may be called several times a second.

        `force`: whether to write the progress file now in any case.
        """
        now = time.monotonic()
        if force or now - self._last_file >= FILE_INTERVAL:
            self._last_file = now
            self.own.updated = time.time()
            write_json(progress_file(self._workspace, self.own.rank), self.own, durable=False)
        if self._bar is not None:
            ranks = self._ranks()
            done = self._before + sum(rank.records_done for rank in ranks)
            self._bar.n = min(done, self._all)
            columns = (self._bar.ncols or 0) - len(f"{self._bar.desc}: 100%|| ") - _MIN_BAR
            self._bar.unit = describe(self._bar.n, self._all, ranks, time.time(), columns if self._bar.ncols else None)
            self._bar.update(0)
        elif not can_draw() and now - self._last_line >= LINE_INTERVAL:
            self._last_line = now
            self._print_line()

    def close(self, state: str, message: str = "") -> None:
        """Store the last state of this rank and end the bar."""
        self.own.state = state
        self.own.message = message
        self.update(force=True)
        if self._bar is not None:
            self._bar.close()

    def _ranks(self) -> list[RankProgress]:
        """The progress of all ranks of this launch; this rank comes first."""
        own = self.own
        if own.world_size == 1:
            return [own]
        others = (
            progress
            for progress in read_progress(self._workspace)
            if progress.rank != own.rank and progress.launch_id == own.launch_id
        )
        return [own, *others]

    def _print_line(self) -> None:
        own = self.own
        share = own.records_done / own.records_total if own.records_total else 1.0
        words = describe(own.records_done, own.records_total, [own], time.time())
        tell(
            f"[{own.rank}/{own.world_size}] {self._command}: {share:.0%}, {words}, {own.units_done:,} of "
            f"{number_of(own.units_total, 'unit')}"
        )


def describe(
    records_done: int, records_all: int, ranks: Sequence[RankProgress], now: float, columns: int | None = None
) -> str:
    """The progress of a launch in words: records, time left (of the slowest rank), hours of audio, rate, and rejects.

    `ranks`: the progress of each rank, starting with the rank of this process. `now`: seconds since the epoch.
    `columns`: what does not fit into so many is left out: the rate, then the hours, then the records.
    """
    seconds_done = sum(rank.seconds_done for rank in ranks)
    # The first rank is this process, whose file is slightly older than its counts.
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
    parts = [
        f"{records_done:,} of {number_of(records_all, 'record')}",
        f"{'unknown time' if longest == float('inf') else format_seconds(longest)} left",
        f"{seconds_done / 3600:,.2f}{total} hours",
        f"{rate:,.0f} x real time",
        number_of(sum(rank.rejects for rank in ranks), "reject"),
    ]
    for number in (3, 2, 0):
        if columns is not None and len(", ".join(parts)) > columns:
            del parts[number]
    return ", ".join(parts)


def new_progress(rank: Rank, owner: Owner) -> RankProgress:
    """A progress record of the process `owner` with nothing done yet."""
    now = time.time()
    return RankProgress(
        rank=rank.rank,
        world_size=rank.world_size,
        launch_id=rank.launch_id,
        host=socket.gethostname(),
        pid=owner.pid,
        started=now,
        updated=now,
        place=owner.place,
        process_started=owner.started,
        rank_id=owner.rank_id,
    )


def progress_file(workspace: Workspace, rank: int) -> Path:
    """The path of the progress file of rank `rank`."""
    return workspace.progress / f"rank_{rank:05d}.json"


def read_progress(workspace: Workspace) -> list[RankProgress]:
    """The newest progress of every rank that ever ran on this output, in the order of rank numbers."""
    found = (read_document(path, RankProgress) for path in sorted(workspace.progress.glob("rank_*.json")))
    return [progress for progress in found if progress is not None]


def note_late_rank(workspace: Workspace, rank: Rank) -> None:
    """Add this rank, which started after all units were done, to the progress files of its launch.

    Otherwise `status` would show it as a rank that has not started.
    """
    launch = (rank.launch_id, rank.world_size)
    found = read_progress(workspace) if rank.world_size > 1 else []
    of_launch = {one.rank for one in found if (one.launch_id, one.world_size) == launch}
    if of_launch and rank.rank not in of_launch:
        own = new_progress(rank, workspace.owner)
        own.state = "done"
        with contextlib.suppress(OSError):  # a finished output may be read-only
            write_json(progress_file(workspace, rank.rank), own, durable=False)


def is_running_elsewhere(workspace: Workspace, rank: Rank) -> RankProgress | None:
    """The progress of another process that is running as the same rank; None if there is none."""
    other = read_document(progress_file(workspace, rank.rank), RankProgress)
    if other is None or other.process == workspace.owner or not is_running(workspace, other):
        return None
    return other


def running_here(workspace: Workspace) -> RankProgress | None:
    """The progress of a rank whose process, another one, is known to run on this machine; None if there is none."""
    seen = (one for one in read_progress(workspace) if one.process.is_gone is False and one.pid != os.getpid())
    return next((one for one in seen if is_running(workspace, one)), None)


def is_running(workspace: Workspace, progress: RankProgress, silence: float = REPEAT_SECONDS) -> bool:
    """Whether a rank is running: its progress file says so, and its process has not ended since.

    `silence`: as in `prepcli.processes.owner.has_ended`.
    """
    last_sign = last_change(progress_file(workspace, progress.rank))
    return progress.state == "running" and not has_ended(progress.process, silence, last_sign, workspace.clock())


def signs_of_life(workspace: Workspace) -> dict[str, float]:
    """The time of the last sign of life of each rank that has worked on the run, by the id of its process' rank."""
    return {one.rank_id: last_change(progress_file(workspace, one.rank)) for one in read_progress(workspace)}


def remove_stale_tmp(workspace: Workspace) -> None:
    """Remove the temporary folders of processes that have ended, and their drafts."""
    beside = (*children_of(workspace.root), *children_of(workspace.progress))
    drafts = [entry for entry in beside if entry.name.startswith(".") and owner_of(entry)]
    entries = [*children_of(workspace.tmp), *drafts]
    signs = signs_of_life(workspace) if entries else {}
    for entry in entries:
        owner = owner_of(entry)
        last_sign = max(last_change(entry), signs.get(owner.rank_id, 0.0) if owner is not None else 0.0)
        if has_ended(owner, DELETE_SECONDS, last_sign, workspace.clock()):
            shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)


def format_seconds(seconds: float) -> str:
    """A duration as text: `75` -> `1:15`, `3700` -> `1:01:40`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
