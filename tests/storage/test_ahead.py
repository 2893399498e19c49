"""Objects that are requested ahead: each once, few at a time, and forgotten when no item needs them any more."""

import random
from collections import Counter
from collections.abc import Generator, Sequence
from itertools import islice
from typing import Any

import pytest

from prepcli.storage import ahead, client, ranges
from prepcli.storage.addresses import ByteRange, ObjectInfo
from prepcli.storage.ahead import Request, beginning_of, files_ahead, piece_of, reading_ahead
from prepcli.storage.ranges import FIRST_BYTES, MAX_BYTES, RangeFile


class Store:
    """Objects of `length` bytes; it counts requests. An address that ends in `gone` is that of no object."""

    def __init__(self, length: int = 10) -> None:
        self.length = length
        self.requests: Counter[Request] = Counter()

    def read_beginning(self, address: str, length: int) -> tuple[bytes, ObjectInfo]:
        self.requests[address] += 1
        if address.endswith("gone"):
            raise FileNotFoundError(address)
        return address.encode().ljust(self.length), ObjectInfo(address, self.length, 0, "")

    def read_range(self, address: str, start: int, length: int, etag: str = "") -> bytes:
        self.requests[ByteRange(address, start, length)] += 1
        return f"{address}:{start}".encode()


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store()
    for name in ("read_beginning", "read_range"):
        monkeypatch.setattr(client, name, getattr(made, name))
    monkeypatch.setattr(ahead, "call", lambda function, *arguments: function(*arguments))
    return made


@pytest.fixture(params=[True, False], ids=["worker", "main process"])
def in_worker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(ahead, "is_worker", lambda: request.param)
    is_one: bool = request.param
    return is_one


def held() -> int:
    return len(ahead._futures)


def wanted(item: int) -> Sequence[Request]:
    """Neighbours share an object, and each item has a piece of its own."""
    return [f"s3://b/{item // 3}", ByteRange("s3://b/tar", item, 5)]


def test_each_object_is_requested_once(store: Store, in_worker: bool) -> None:
    most = 0
    for item in reading_ahead(range(300), wanted):
        assert beginning_of(f"s3://b/{item // 3}")[0].strip() == b"s3://b/%d" % (item // 3)
        assert piece_of(ByteRange("s3://b/tar", item, 5)) == b"s3://b/tar:%d" % item
        most = max(most, held())
    assert held() == 0
    assert set(store.requests.values()) == ({1} if in_worker else {1, 2})  # a batch may end between two neighbours
    assert len(store.requests) == 400
    assert most <= 2 * (ahead.AT_ONCE if in_worker else ahead.BATCH)


def test_only_what_is_in_a_store_is_requested(store: Store, in_worker: bool) -> None:
    local: list[Request] = ["a.wav", ByteRange("a.tar", 512, 5)]
    stored: list[Request] = ["s3://b/a.wav", *(ByteRange("s3://b/a.tar", start, 5) for start in range(3))]
    seen = []
    for item in files_ahead([*local, *stored], lambda one: one):
        seen.append(item)
        assert held() > 0
        if item in stored and isinstance(item, ByteRange):
            assert piece_of(item) == b"s3://b/a.tar:%d" % item.start
    assert seen == [*local, *stored]
    assert store.requests == Counter(stored)
    assert [held() for _ in files_ahead(local, lambda one: one)] == [0, 0]


def test_an_object_that_is_not_there_fails_only_where_it_is_used(store: Store, in_worker: bool) -> None:
    names = [f"s3://b/{number}{'gone' * (number in (0, 7))}" for number in range(20)]
    lost = []
    for name in reading_ahead(names, lambda name: [name]):
        try:
            assert beginning_of(name)[1].address == name
        except FileNotFoundError:
            lost.append(name)
    assert lost == ["s3://b/0gone", "s3://b/7gone"]
    assert held() == 0


def test_what_was_requested_is_forgotten_where_the_use_ends_early(store: Store, in_worker: bool) -> None:
    items = reading_ahead(range(300), wanted)
    assert list(islice(items, 5)) == [0, 1, 2, 3, 4]
    assert held() > 0
    assert isinstance(items, Generator)
    items.close()
    assert held() == 0


def test_fewer_of_long_objects_are_held(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "is_worker", lambda: True)
    monkeypatch.setattr(ahead, "MAX_BYTES", 5000)
    store.length = 1000
    numbers = [
        held() for item in reading_ahead(range(100), lambda item: [f"s3://b/{item}"]) if beginning_of(f"s3://b/{item}")
    ]
    assert max(numbers[:5]) <= ahead._FIRST_AT_ONCE
    assert set(numbers[20:90]) == {5}


def test_requests_double_while_a_file_is_read_from_start_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 40 * (1 << 20)
    lengths: list[int] = []

    def read(function: Any, address: str, start: int, length: int, etag: str) -> bytes:
        lengths.append(length)
        return bytes(length)

    monkeypatch.setattr(ranges, "call", read)
    file = RangeFile(ObjectInfo("s3://b/x", size, 0, "e"), bytes(FIRST_BYTES))
    while file.read(1 << 16):
        pass
    doubled = [FIRST_BYTES << power for power in range(1, 6)]
    assert lengths[: len(doubled) + 2] == [*doubled, MAX_BYTES, MAX_BYTES]
    assert sum(lengths) == size - FIRST_BYTES
    file.seek(random.Random(0).randrange(1 << 20))
    file.read(10)
    assert lengths[-1] == FIRST_BYTES
