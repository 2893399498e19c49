"""Progress across ranks: each writes a small file every few seconds, rank 0 shows all of them as one bar."""

import os
import resource
import socket
import struct
import sys
import time
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import msgspec
from tqdm import tqdm

from prepcli.calls import shows_progress, tell
from prepcli.engine.owner import Owner, start_time, this_place
from prepcli.engine.ranks import Rank
from prepcli.engine.workspace import Workspace, read_document, write_json
from prepcli.processes import no_interruption

FILE_INTERVAL = 2.0
"""Seconds between two writes of a rank's progress file."""
LINE_INTERVAL = 60.0
"""Seconds between two lines where stderr is not a terminal."""
STALE_AFTER = 60.0
"""Seconds without an update after which a rank that says it is running is taken for dead."""


class RankProgress(msgspec.Struct):
    """`progress/rank_<r>.json`. `state`: running, done, interrupted or failed; times are seconds since the epoch.

    `place` and `process_started` are those of `prepcli.engine.owner.Owner`.
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

    @property
    def is_stale(self) -> bool:
        """Whether the rank says it is running, but has been silent for too long."""
        return self.state == "running" and time.time() - self.updated > STALE_AFTER


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
        """Called in any of the processes, a few times a second."""
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
        if rank.rank == 0 and shows_progress() and sys.stderr.isatty():
            self._bar = tqdm(
                total=records_all,
                initial=records_before,
                unit=" records",
                unit_scale=True,
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
            self._bar.n = self._done_by_all()
            rate = self.own.seconds_done / max(time.time() - self.own.started, 1e-6)
            self._bar.set_postfix_str(f"{rate:,.0f} x real time, {self.own.rejects} rejects", refresh=False)
            self._bar.update(0)
        elif not sys.stderr.isatty() and now - self._last_line >= LINE_INTERVAL:
            self._last_line = now
            self._print_line()

    def beat(self) -> None:
        """Store that the rank lives, although its work may not have called `update` for a while; in any thread."""
        self.own.updated = time.time()
        write_json(progress_file(self._workspace, self._rank.rank), self.own, durable=False)

    def close(self, state: str, message: str = "") -> None:
        """Store the last state of this rank and end the bar."""
        self.own.state = state
        self.own.message = message
        self.update(force=True)
        if self._bar is not None:
            self._bar.close()

    def _done_by_all(self) -> int:
        others = 0
        if self._rank.world_size > 1:
            others = sum(
                progress.records_done
                for progress in read_progress(self._workspace)
                if progress.rank != self._rank.rank and progress.launch_id == self._rank.launch_id
            )
        return min(self._before + self.own.records_done + others, self._all)

    def _print_line(self) -> None:
        own = self.own
        share = own.records_done / own.records_total if own.records_total else 1.0
        elapsed = max(time.time() - own.started, 1e-6)
        remaining = (own.seconds_total - own.seconds_done) / max(own.seconds_done / elapsed, 1e-6)
        tell(
            f"[{own.rank}/{own.world_size}] {self._command}: {share:.0%}, {own.records_done} of {own.records_total} "
            f"records, {own.units_done} of {own.units_total} units, {own.rejects} rejects, "
            f"{format_seconds(remaining)} to go"
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
    """Where rank `rank` writes its progress."""
    return workspace.progress / f"rank_{rank:05d}.json"


def read_progress(workspace: Workspace) -> list[RankProgress]:
    """The newest progress of every rank that has ever run on this output, by rank."""
    found = (read_document(path, RankProgress) for path in sorted(workspace.progress.glob("rank_*.json")))
    return [progress for progress in found if progress is not None]


def is_running_elsewhere(workspace: Workspace, rank: Rank) -> RankProgress | None:
    """The progress of another living process that is this very rank, or None.

    A process that can be seen from here is looked up by its id; any other counts if it was heard of lately.
    """
    other = read_document(progress_file(workspace, rank.rank), RankProgress)
    if other is None or other.state != "running":
        return None
    owner = Owner("", other.place, other.pid, other.process_started)
    if owner == Owner.of_this_process(""):
        return None
    gone = other.is_stale if owner.is_gone is None else owner.is_gone
    return None if gone else other


def format_seconds(seconds: float) -> str:
    """`75` -> `1:15`, `3700` -> `1:01:40`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
