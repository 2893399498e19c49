"""Many small objects are requested at once and used in order, so that the time of a request is not waited for."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

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
_FIRST_AT_ONCE = 16
_RECENT = 32

_Beginning = tuple[bytes, ObjectInfo | None]


class Piece(NamedTuple):
    """Some bytes of an object, such as a member of a tar."""

    address: str
    start: int
    length: int


Wanted = str | Piece
"""An object by its address, of which the beginning is requested, or a piece of one."""


class _Ahead:
    """What has been requested ahead in this process."""

    futures: "dict[Wanted, Future[_Beginning]]" = {}  # noqa: RUF012 - one table per process


def files_ahead(items: Sequence[Item], path_of: Callable[[Item], str]) -> Iterator[Item]:
    """`reading_ahead` for items with a file each, which may be in an object store."""
    if not any(is_address(path_of(item)) for item in items):
        return iter(items)
    return reading_ahead(items, lambda item: list(filter(is_address, [path_of(item)])))


def piece_of(piece: Piece) -> bytes:
    """A piece of an object, requested now unless that was done ahead; raises `OSError` if it is not there."""
    future = _Ahead.futures.get(piece)
    return call(client.read_range, *piece) if future is None else future.result()[0]


def beginning_of(address: str) -> tuple[bytes, ObjectInfo]:
    """The first `BEGINNING_BYTES` of an object and its properties; requested now unless that was done ahead.

    Raises:
        FileNotFoundError: there is no such object.
    """
    future = _Ahead.futures.get(address)
    if future is not None:
        beginning, info = future.result()
        if info is not None:
            return beginning, info
    return call(client.read_beginning, address, BEGINNING_BYTES)


def reading_ahead(items: Iterable[Item], wanted_of: Callable[[Item], Sequence[Wanted]]) -> Iterator[Item]:
    """The items in order; while one is in use, what those that follow need is on the way.

    `wanted_of` gives the addresses of an item's objects, for `beginning_of`, or pieces, for `piece_of`. Outside of
    workers nothing is requested ahead.
    """
    if not is_worker():
        yield from items
        return
    from concurrent.futures import ThreadPoolExecutor

    source = iter(items)
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
    if isinstance(wanted, Piece):
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
