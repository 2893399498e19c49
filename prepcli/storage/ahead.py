"""Many small objects are requested at once and used in order, so that the time of a request is not waited for."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from prepcli.processes import is_worker
from prepcli.storage import client
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

_Beginning = tuple[bytes, ObjectInfo]


class _Ahead:
    """What has been requested ahead in this process, by address."""

    futures: "dict[str, Future[_Beginning]]" = {}  # noqa: RUF012 - one table per process


def beginning_of(address: str) -> _Beginning:
    """The first `BEGINNING_BYTES` of an object and its properties; requested now unless that was done ahead.

    Raises:
        FileNotFoundError: there is no such object.
    """
    future = _Ahead.futures.get(address)
    if future is not None:
        return future.result()
    from prepcli.storage.access import call

    return call(client.read_beginning, address, BEGINNING_BYTES)


def reading_ahead(items: Iterable[Item], addresses_of: Callable[[Item], Sequence[str]]) -> Iterator[Item]:
    """The items in order; while one is in use, `beginning_of` is on the way for the objects of those that follow.

    `addresses_of` gives the addresses of an item's objects. Outside of workers nothing is requested ahead.
    """
    if not is_worker():
        yield from items
        return
    from concurrent.futures import ThreadPoolExecutor

    source = iter(items)
    waiting: deque[tuple[Item, Sequence[str]]] = deque()
    users: dict[str, int] = {}
    sizes: deque[int] = deque(maxlen=_RECENT)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="store") as pool:
        try:
            while True:
                _request(source, waiting, users, _depth(sizes), addresses_of, pool)
                if not waiting:
                    return
                item, addresses = waiting.popleft()
                yield item
                for address in addresses:
                    _note_size(sizes, _Ahead.futures.get(address))
                    _release(address, users)
        finally:
            for address in list(users):
                users[address] = 1
                _release(address, users)


def _request(
    source: Iterator[Item],
    waiting: "deque[tuple[Item, Sequence[str]]]",
    users: dict[str, int],
    depth: int,
    addresses_of: Callable[[Item], Sequence[str]],
    pool: "ThreadPoolExecutor",
) -> None:
    """Take items from the source, and request their objects, until `depth` items wait."""
    while len(waiting) < depth:
        try:
            item = next(source)
        except StopIteration:
            return
        addresses = addresses_of(item)
        waiting.append((item, addresses))
        for address in addresses:
            users[address] = users.get(address, 0) + 1
            if address not in _Ahead.futures:
                _Ahead.futures[address] = pool.submit(client.read_beginning, address, BEGINNING_BYTES)


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


def _release(address: str, users: dict[str, int]) -> None:
    """Forget an object that no waiting item needs."""
    users[address] -= 1
    if not users[address]:
        del users[address]
        future = _Ahead.futures.pop(address, None)
        if future is not None:
            future.cancel()
