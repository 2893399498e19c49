"""Requests many small objects at once and returns them in order, so that a job does not wait for single requests."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from prepcli.errors import PrepcliError
from prepcli.processes.workers import is_worker
from prepcli.storage import client
from prepcli.storage.access import call
from prepcli.storage.addresses import ByteRange, ObjectInfo, is_address

if TYPE_CHECKING:  # the import takes a fifth of a small run's time
    from concurrent.futures import Future, ThreadPoolExecutor

Item = TypeVar("Item")

AT_ONCE = 64
"""Maximum number of requests of a worker at the same time."""
BEGINNING_BYTES = 1 << 20
"""Number of bytes from the start of each object that are requested before they are needed. The rest of a longer object,
such as a long recording, is requested when it is read.
"""
MAX_BYTES = 32 << 20
"""Approximate maximum of the memory, in bytes, for objects that were requested and are not used yet. The longer the
objects, the fewer of them are requested at the same time.
"""
BATCH = 16
"""In a process that is not a worker: the number of items whose objects in a store are requested together."""
_FIRST_AT_ONCE = 16
_RECENT = 32

_Beginning = tuple[bytes, ObjectInfo | None]


Request = str | ByteRange
"""A request: the address of an object, for its first `BEGINNING_BYTES`, or a range of an object."""


_futures: "dict[Request, Future[_Beginning]]" = {}
"""The requests that this process has sent before their results are needed, each with the future of its result."""


def files_ahead(items: Sequence[Item], source_of: Callable[[Item], Request]) -> Iterator[Item]:
    """The same as `reading_ahead`, for items that need one file each.

    `source_of` returns the path of an item's file, or a range of the file. Local files are not requested.
    """

    def wanted(item: Item) -> list[Request]:
        source = source_of(item)
        return [source] if is_address(source.path if isinstance(source, ByteRange) else source) else []

    return reading_ahead(items, wanted) if any(map(wanted, items)) else iter(items)


def piece_of(piece: ByteRange) -> bytes:
    """The bytes of a range of an object, requested now unless they were requested ahead.

    Raises:
        FileNotFoundError: there is no such object.
    """
    future = _futures.get(piece)
    return call(client.read_range, *piece[:3]) if future is None else future.result()[0]


def beginning_of(address: str) -> tuple[bytes, ObjectInfo]:
    """The first `BEGINNING_BYTES` of an object, and its properties, requested now unless they were requested ahead.

    Raises:
        FileNotFoundError: there is no such object.
    """
    return requested(address) or call(client.read_beginning, address, BEGINNING_BYTES)


def requested(address: str) -> tuple[bytes, ObjectInfo] | None:
    """The same as `beginning_of` for an object that was requested ahead; None for other objects."""
    future = _futures.get(address)
    beginning, info = future.result() if future is not None else (b"", None)
    return None if info is None else (beginning, info)


def reading_ahead(items: Iterable[Item], wanted_of: Callable[[Item], Sequence[Request]]) -> Iterator[Item]:
    """Yield the items in order; while one is in use, objects that the next items need are requested.

    `wanted_of` returns what an item needs: addresses of objects, which are then read by `beginning_of` or
    `open_object`, and ranges of objects, which are then read by `piece_of`. In a process that is not a worker, the
    objects of `BATCH` items are requested together before the first of these items is in use.
    """
    source = iter(items)
    if not is_worker():
        while batch := list(islice(source, BATCH)):
            yield from _in_batch(batch, wanted_of)
        return
    from concurrent.futures import ThreadPoolExecutor

    waiting: deque[tuple[Item, Sequence[Request]]] = deque()
    users: dict[Request, int] = {}
    sizes: deque[int] = deque(maxlen=_RECENT)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="store") as pool:
        try:
            while True:
                _request(source, waiting, users, _depth(sizes), wanted_of, pool)
                if not waiting:
                    return
                item, wanted = waiting.popleft()
                yield item
                for request in wanted:
                    future = _futures.get(request)
                    if future is not None and future.done() and future.exception() is None:
                        sizes.append(len(future.result()[0]))
                    _release(request, users)
        finally:
            for request in list(users):
                users[request] = 1
                _release(request, users)


def _in_batch(items: Sequence[Item], wanted_of: Callable[[Item], Sequence[Request]]) -> Iterator[Item]:
    from concurrent.futures import Future

    wanted = tuple(dict.fromkeys(request for item in items for request in wanted_of(item) if request not in _futures))
    beginnings = call(fetch_together, wanted) if len(wanted) > 1 else []
    for request, beginning in zip(wanted, beginnings, strict=False):
        if beginning is not None:
            _futures[request] = Future()
            _futures[request].set_result(beginning)
    try:
        yield from items
    finally:
        for request in wanted:
            _futures.pop(request, None)


def fetch_together(wanted: Sequence[Request]) -> list[_Beginning | None]:
    """Request objects at the same time, and return them in order; None for an object that cannot be read.

    When such an object is used, it is requested again, and its error is raised.
    """
    from concurrent.futures import ThreadPoolExecutor

    def fetch(request: Request) -> _Beginning | None:
        with contextlib.suppress(OSError, PrepcliError):
            return _fetch(request)
        return None

    with ThreadPoolExecutor(len(wanted), thread_name_prefix="store") as pool:
        return list(pool.map(fetch, wanted))


def _request(
    source: Iterator[Item],
    waiting: "deque[tuple[Item, Sequence[Request]]]",
    users: dict[Request, int],
    depth: int,
    wanted_of: Callable[[Item], Sequence[Request]],
    pool: "ThreadPoolExecutor",
) -> None:
    """Take items from `source`, append them to `waiting`, and request their objects, until `depth` items are waiting.

    `users` counts, for each object, the items that still need it.
    """
    while len(waiting) < depth:
        try:
            item = next(source)
        except StopIteration:
            return
        wanted = wanted_of(item)
        waiting.append((item, wanted))
        for request in wanted:
            users[request] = users.get(request, 0) + 1
            if request not in _futures:
                _futures[request] = pool.submit(_fetch, request)


def _fetch(wanted: Request) -> _Beginning:
    if isinstance(wanted, ByteRange):
        return client.read_range(*wanted[:3]), None
    return client.read_beginning(wanted, BEGINNING_BYTES)


def _depth(sizes: "deque[int]") -> int:
    """The number of items to request ahead: fewer if recent objects, whose `sizes` are in bytes, were long."""
    if len(sizes) < 4:
        return _FIRST_AT_ONCE
    mean = sum(sizes) / len(sizes)
    return max(2, min(AT_ONCE, int(MAX_BYTES / max(mean, 1))))


def _release(wanted: Request, users: dict[Request, int]) -> None:
    """Reduce the number of items that need a wanted object by one; if no waiting item needs it, forget the object."""
    users[wanted] -= 1
    if not users[wanted]:
        del users[wanted]
        future = _futures.pop(wanted, None)
        if future is not None:
            future.cancel()
