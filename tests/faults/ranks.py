"""Processes on simulated machines: greenlets that yield before each call on files; a seed decides who goes on.

A process is started, runs a function, and may be killed, stopped for ever, or paused, between any two calls.
"""

import contextlib
import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import log
from typing import Any

from greenlet import greenlet

from tests.faults.machines import Files, Machine

BEGINNING = 1_800_000_000.0
PAUSE = 600.0
MAX_SLEEP_SECONDS = 10.0
"""Seconds that a short sleep takes if it is repeated: a busy machine wakes nobody in time, and tests are faster."""
GIVE_UP = 6 * 3600.0
"""Seconds after which a process that still runs waits for ever."""


class Ended(BaseException):
    """Thrown into what is left when a schedule has ended: nothing that it does now has an effect."""


@dataclass(eq=False, slots=True)
class Process:
    """A process: what it has returned or raised in the end, and the fault that meets it at the call `fault_at`."""

    name: str
    machine: Machine
    pid: int
    begins: float
    fault: str = ""
    fault_at: int = 0
    num_calls: int = 0
    is_frozen: bool = False
    is_over: bool = False
    resumes: float = 0.0
    met_fault: float | None = None
    ended: float | None = None
    result: Any = None
    error: BaseException | None = None
    own: dict[str, Any] = field(default_factory=dict)


class Task:
    """A thread of a process."""

    __slots__ = ("due", "greenlet", "is_done", "is_main", "joined_by", "left", "num_sleeps", "process")

    def __init__(self, process: Process, run: Callable[[], object], hub: greenlet, is_main: bool) -> None:
        self.process, self.is_main = process, is_main
        self.greenlet = greenlet(lambda: run(), hub)
        self.left = self.num_sleeps = 0
        self.due: float | None = None  # the number of its entry among the sleepers; None while it can go on
        self.is_done = False
        self.joined_by: Task | None = None


class World:
    """The simulated time, the processes, and who goes on; `reset` begins a new schedule."""

    def __init__(self) -> None:
        self.now = BEGINNING
        self.process = Process("", Machine(""), 0, 0.0)
        self.files = Files(self)
        self.reset(0)

    def reset(self, seed: int | str) -> None:
        self.draw = random.Random(seed)
        self.now = BEGINNING
        self.latency = 0.001
        self.mean_calls = 1.0
        self.hub = greenlet.getcurrent()
        self.is_ending = False
        self.processes: list[Process] = []
        self._num_open = 0  # processes that can still do something
        self._pids = itertools.count(1000)
        self._numbers = itertools.count()
        self._ready: list[Task] = []
        self._sleepers: list[tuple[float, int, Task]] = []
        self._tasks: list[Task] = []
        self.task: Task | None = None
        self.files.reset()

    def start(self, name: str, machine: Machine, begins: float, function: Callable[[], object]) -> Process:
        """Start a process `begins` seconds from now."""
        process = Process(name, machine, next(self._pids), self.now + begins)

        def run() -> None:
            machine.pids.add(process.pid)
            try:
                process.result = function()
            except Ended:
                raise
            except BaseException as error:
                process.error = error
            process.ended = self.now
            process.is_over = True
            self._num_open -= 1
            machine.pids.discard(process.pid)

        self.processes.append(process)
        self._num_open += 1
        self._wake(self._task(process, run, is_main=True), process.begins)
        return process

    def _task(self, process: Process, run: Callable[[], object], is_main: bool) -> Task:
        task = Task(process, run, self.hub, is_main)
        self._tasks.append(task)
        return task

    def start_thread(self, run: Callable[[], object]) -> Task:
        """Start a thread of the process at work."""
        task = self._task(self.process, run, is_main=False)
        self._ready.append(task)
        return task

    def _wake(self, task: Task, at: float) -> None:
        number = next(self._numbers)
        task.due = number
        heapq.heappush(self._sleepers, (at, number, task))

    def step(self) -> None:
        """Before each call of a process: here others may go on."""
        self.now += self.latency
        task = self.task
        assert task is not None
        task.left -= 1
        if task.left <= 0:
            self._yield()

    def _yield(self) -> None:
        if not self.is_ending:
            self.hub.switch()
        if self.is_ending:
            raise Ended

    def sleep(self, seconds: float) -> None:
        """Let the thread at work sleep."""
        task = self.task
        assert task is not None
        task.num_sleeps += 1
        longest = max(seconds, min(MAX_SLEEP_SECONDS, seconds * 1.3**task.num_sleeps))
        self._wake(task, self.now + longest)
        self._yield()

    def wait(self, seconds: float | None) -> None:
        """Let the thread at work sleep until `wake` is called for it, or for so many seconds."""
        task = self.task
        assert task is not None
        self._wake(task, self.now + (GIVE_UP if seconds is None else seconds))
        self._yield()

    def wake(self, task: Task) -> None:
        """Wake a thread that waits."""
        if task.due is not None:
            self._wake(task, self.now)

    def run(self) -> None:
        """Go on until all processes have ended, or will never do anything any more."""
        sleepers, ready, random = self._sleepers, self._ready, self.draw.random
        until = self.now + GIVE_UP
        while self._num_open:
            while sleepers and sleepers[0][0] <= self.now:
                _, number, task = heapq.heappop(sleepers)
                process = task.process
                if task.due != number or process.is_over:
                    continue
                if process.resumes > self.now:
                    self._wake(task, process.resumes)
                    continue
                task.due = None
                ready.append(task)
            if not ready:
                if not sleepers:
                    return
                self.now = sleepers[0][0]
                if self.now > until:
                    return
                continue
            index = int(random() * len(ready)) if len(ready) > 1 else 0
            task = ready[index]
            process = task.process
            if not process.is_over and process.resumes <= self.now:
                self._go_on(task)  # which may make others ready, behind those that are
            if process.resumes > self.now and task.due is None:
                self._wake(task, process.resumes)
            if task.is_done or task.due is not None or process.is_over:
                ready[index] = ready[-1]
                ready.pop()

    def _go_on(self, task: Task) -> None:
        """Let a thread make some calls."""
        process = task.process
        calls = 1 if self.mean_calls == 1 else 1 + int(-log(1 - self.draw.random()) * self.mean_calls)
        if process.fault and process.fault_at - process.num_calls < calls:
            calls = process.fault_at - process.num_calls
            if calls <= 0:
                self._meet_fault(process)
                return
        task.left = calls
        self.task, self.process = task, process
        task.greenlet.switch()
        process.num_calls += calls - task.left
        if task.greenlet.dead:
            task.is_done = True
            if task.joined_by is not None:
                self.wake(task.joined_by)

    def _meet_fault(self, process: Process) -> None:
        fault, process.fault = process.fault, ""
        process.met_fault = self.now
        if fault == "paused":
            process.resumes = self.now + PAUSE
            return
        process.is_frozen = process.is_over = True
        self._num_open -= 1
        if fault == "killed":
            process.machine.pids.discard(process.pid)

    def end(self) -> None:
        """End what is left, so that no greenlet is collected while another schedule runs."""
        self.is_ending = True
        for task in self._tasks:
            if not task.greenlet.dead:
                self.task, self.process, task.left = task, task.process, 0
                with contextlib.suppress(Ended):
                    task.greenlet.throw(Ended)
        self._tasks.clear()


class Event:
    """A `threading.Event`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._is_set = False
        self._waiting: list[Task] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        for task in self._waiting:
            self._world.wake(task)
        self._waiting.clear()

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set and self._world.task is not None:
            self._waiting.append(self._world.task)
            self._world.wait(timeout)
            if not self._is_set:
                self._waiting.remove(self._world.task)
        return self._is_set


class Thread:
    """A `threading.Thread`."""

    def __init__(self, world: World, target: Callable[[], object], **_: Any) -> None:
        self._world, self._target = world, target
        self._task: Task | None = None

    def start(self) -> None:
        self._task = self._world.start_thread(self._target)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.is_done

    def join(self, timeout: float | None = None) -> None:
        task = self._task
        if task is not None and not task.is_done and not self._world.is_ending:
            task.joined_by = self._world.task
            self._world.wait(timeout)
