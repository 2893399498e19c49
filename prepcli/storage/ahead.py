"""Many small objects are requested at once and used in order, so that the time of a request is not waited for."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from prepcli.errors import PrepcliError
from prepcli.processes.workers import is_worker
from prepcli.storage import client
from prepcli.storage.access import call
from prepcli.storage.addresses import is_address
from prepcli.storage.client import ObjectInfo

if TYPE_CHECKING:  # importing it takes a fifth of a small run's time
    from concurrent.futures import Future, ThreadPoolExecutor

Item = TypeVar("Item")

AT_ONCE = 64
"""Requests of a worker that are under way at the same time."""
BEGINNING_BYTES = 1 << 20
"""Bytes of an object that are requested ahead; longer ones, such as recordings of many segments, are read in ranges."""
MAX_BYTES = 32 << 20
"""Bytes that may be held ahead; with long objects, fewer of them are requested at once."""
BATCH = 16
"""Items whose objects are requested together outside of workers."""
_FIRST_AT_ONCE = 16
_RECENT = 32

_Beginning = tuple[bytes, ObjectInfo | None]


class ObjectRange(NamedTuple):
    """Some bytes of an object, such as a member of a tar."""

    address: str
    start: int
    length: int


Wanted = str | ObjectRange
"""An object by its address, of which the beginning is requested, or a piece of one."""


class _Ahead:
    """What has been requested ahead in this process."""

    futures: "dict[Wanted, Future[_Beginning]]" = {}  # noqa: RUF012 - one table per process


def files_ahead(items: Sequence[Item], path_of: Callable[[Item], str]) -> Iterator[Item]:
    """`reading_ahead` for items with a file each, which may be in an object store."""
    if not any(is_address(path_of(item)) for item in items):
        return iter(items)
    return reading_ahead(items, lambda item: list(filter(is_address, [path_of(item)])))


def objects_ahead(paths: Sequence[Path]) -> Iterator[Path]:
    """`reading_ahead` for paths that are opened one after the other, some of which may be in an object store."""
    return files_ahead(paths, str)


def piece_of(piece: ObjectRange) -> bytes:
    """A piece of an object, requested now unless that was done ahead; raises `OSError` if it is not there."""
    future = _Ahead.futures.get(piece)
    return call(client.read_range, *piece) if future is None else future.result()[0]


def beginning_of(address: str) -> tuple[bytes, ObjectInfo]:
    """The first `BEGINNING_BYTES` of an object and its properties; requested now unless that was done ahead.

    Raises:
        FileNotFoundError: there is no such object.
    """
    return requested(address) or call(client.read_beginning, address, BEGINNING_BYTES)


def requested(address: str) -> tuple[bytes, ObjectInfo] | None:
    """The same, but None where it was not requested ahead."""
    future = _Ahead.futures.get(address)
    beginning, info = future.result() if future is not None else (b"", None)
    return None if info is None else (beginning, info)


def reading_ahead(items: Iterable[Item], wanted_of: Callable[[Item], Sequence[Wanted]]) -> Iterator[Item]:
    """The items in order; while one is in use, what those that follow need is on the way.

    `wanted_of` gives the addresses of an item's objects, for `beginning_of` and `open_object`, or pieces, for
    `piece_of`. Outside of workers, what some items need is requested together before the first of them is in use.
    """
    source = iter(items)
    if not is_worker():
        while batch := list(islice(source, BATCH)):
            yield from _in_batch(batch, wanted_of)
        return
    from concurrent.futures import ThreadPoolExecutor

    waiting: deque[tuple[Item, Sequence[Wanted]]] = deque()
    users: dict[Wanted, int] = {}
    sizes: deque[int] = deque(maxlen=_RECENT)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="store") as pool:
        try:
            while True:
                _request(source, waiting, users, _depth(sizes), wanted_of, pool)
                if not waiting:
                    return
                item, wanted = waiting.popleft()
                yield item
                for one in wanted:
                    _note_size(sizes, _Ahead.futures.get(one))
                    _release(one, users)
        finally:
            for one in list(users):
                users[one] = 1
                _release(one, users)


def _in_batch(items: Sequence[Item], wanted_of: Callable[[Item], Sequence[Wanted]]) -> Iterator[Item]:
    from concurrent.futures import Future

    wanted = tuple(dict.fromkeys(one for item in items for one in wanted_of(item) if one not in _Ahead.futures))
    found = call(fetch_together, wanted) if len(wanted) > 1 else []
    for one, beginning in zip(wanted, found, strict=False):
        if beginning is not None:
            _Ahead.futures[one] = Future()
            _Ahead.futures[one].set_result(beginning)
    try:
        yield from items
    finally:
        for one in wanted:
            _Ahead.futures.pop(one, None)


def fetch_together(wanted: Sequence[Wanted]) -> list[_Beginning | None]:
    """What is wanted; None for what cannot be read, which will fail again where it is used."""
    from concurrent.futures import ThreadPoolExecutor

    def fetch(one: Wanted) -> _Beginning | None:
        with contextlib.suppress(OSError, PrepcliError):
            return _fetch(one)
        return None

    with ThreadPoolExecutor(len(wanted), thread_name_prefix="store") as pool:
        return list(pool.map(fetch, wanted))


def _request(
    source: Iterator[Item],
    waiting: "deque[tuple[Item, Sequence[Wanted]]]",
    users: dict[Wanted, int],
    depth: int,
    wanted_of: Callable[[Item], Sequence[Wanted]],
    pool: "ThreadPoolExecutor",
) -> None:
    """Take items from the source, and request their objects, until `depth` items wait."""
    while len(waiting) < depth:
        try:
            item = next(source)
        except StopIteration:
            return
        wanted = wanted_of(item)
        waiting.append((item, wanted))
        for one in wanted:
            users[one] = users.get(one, 0) + 1
            if one not in _Ahead.futures:
                _Ahead.futures[one] = pool.submit(_fetch, one)


def _fetch(wanted: Wanted) -> _Beginning:
    if isinstance(wanted, ObjectRange):
        return client.read_range(*wanted), None
    return client.read_beginning(wanted, BEGINNING_BYTES)


def _depth(sizes: "deque[int]") -> int:
    """The number of items to hold, from the sizes of recent objects."""
    if len(sizes) < 4:
        return _FIRST_AT_ONCE
    mean = sum(sizes) / len(sizes)
    return max(2, min(AT_ONCE, int(MAX_BYTES / max(mean, 1))))


def _note_size(sizes: "deque[int]", future: "Future[_Beginning] | None") -> None:
    if future is not None and future.done():
        with contextlib.suppress(Exception):
            sizes.append(len(future.result()[0]))


def _release(wanted: Wanted, users: dict[Wanted, int]) -> None:
    """Forget what no waiting item needs."""
    users[wanted] -= 1
    if not users[wanted]:
        del users[wanted]
        future = _Ahead.futures.pop(wanted, None)
        if future is not None:
            future.cancel()
