"""Progress bars on a terminal or in a notebook."""

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, TypeVar

from prepcli.interface.calls import shows_progress

Item = TypeVar("Item")


def can_draw() -> bool:
    """Whether a bar on stderr can be drawn again in its place: on a terminal, or in a cell of a notebook."""
    return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel.")


def shows_bars() -> bool:
    """Whether the call shows progress, and a bar can be drawn."""
    return shows_progress() and can_draw()


def progress_bar(**settings: Any) -> Any:
    """Show a progress bar.

    Args:
        settings: the arguments of `tqdm`.

    Returns:
        A `tqdm`, or None if no bars are shown.
    """
    return _bar_class()(**_size(), **settings) if shows_bars() else None


def with_bar(items: Iterable[Item], total: int, name: str, unit: str) -> Iterable[Item]:
    """Return the items; if bars are shown, a bar with `name` shows how many of `total` have been taken."""
    return _bar_class()(items, **_size(), total=total, unit=f" {unit}", desc=name) if shows_bars() else items


def _size() -> dict[str, int]:
    """Return a size for `tqdm` if the terminal has 0 columns or lines, as in some containers; otherwise an empty dict.

    A bar would not be shown in 0 columns or lines.
    """
    with suppress(OSError):
        if 0 in os.get_terminal_size(sys.stderr.fileno()):
            return {"ncols": 80, "nrows": 24}
    return {}


@cache
def _bar_class() -> Any:
    from tqdm import tqdm

    class Bar(tqdm):  # type: ignore[type-arg]
        monitor_interval = 0

    Bar.set_lock(threading.RLock())
    return Bar


@contextmanager
def bars_of_others() -> Iterator[None]:
    """Within the context, bars of other packages leave no thread and no setting in the program that calls prepcli.

    A bar of `tqdm` starts a thread. Its lock from `multiprocessing` fixes the start method of processes. The bars of
    prepcli have neither.
    """
    from tqdm import tqdm

    interval, tqdm.monitor_interval = tqdm.monitor_interval, 0
    has_lock = hasattr(tqdm, "_lock")
    if not has_lock:
        tqdm.set_lock(threading.RLock())
    try:
        yield
    finally:
        tqdm.monitor_interval = interval
        if not has_lock:
            del tqdm._lock  # type: ignore[attr-defined]
