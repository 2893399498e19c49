"""Who gets an output in a store, and who waits or is refused, by the objects that are there and their times."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prepcli.engine import store_claim
from prepcli.engine.store_claim import Claim, StoreClaim
from prepcli.errors import UsageError
from prepcli.storage import client
from prepcli.storage.client import ObjectInfo
from prepcli.storage.paths import StorePath

FOLDER = "s3://bucket/out.prepcli/claims"
OWN, SMALLER, LARGER = "5" * 32, "1" * 32, "9" * 32


class Store:
    """The objects of claims; `seconds` is the clock of the store."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.seconds = 1000.0

    def put(self, address: str, data: bytes) -> None:
        self.objects[address] = data, int(self.seconds * 1e9)

    def call(self, function: Callable[..., Any], address: str, *data: bytes) -> Any:
        if function is client.put_object:
            return self.put(address, *data)
        if function is client.delete_object:
            return self.objects.pop(address, None)
        if function is client.read_object:
            return self.objects[address][0]
        assert function is client.list_objects
        return [ObjectInfo(name, len(data), time, "") for name, (data, time) in sorted(self.objects.items())]

    def names(self) -> list[str]:
        return [name.removeprefix(f"{FOLDER}/") for name in sorted(self.objects)]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    found = Store()
    monkeypatch.setattr(store_claim, "call", found.call)
    return found


def announce(store: Store, other: str, kind: str, age: float = 0.0) -> str:
    """Another folder of records announces itself, or holds the output, since `age` seconds."""
    store.seconds -= age
    address = f"{FOLDER}/{other}.{kind}"
    store.put(address, msgspec.json.encode(Claim(other, "/other/out.prepcli", "there")))
    store.seconds += age
    return address


def take(by_force: bool = False) -> None:
    StoreClaim(StorePath("s3://bucket/out"), Claim(OWN, str(Path("/own")), "here")).take(by_force)


@pytest.mark.parametrize("other", [SMALLER, LARGER])
def test_a_candidate_that_was_killed_long_ago_does_not_count(other: str, store: Store) -> None:
    announce(store, other, "candidate", age=61)
    take()
    assert store.names() == sorted([f"{OWN}.held", f"{other}.candidate"])


@pytest.mark.parametrize(
    ("other", "kind", "age"),
    [(SMALLER, "candidate", 0), (SMALLER, "candidate", 59), (SMALLER, "held", 1e6), (LARGER, "held", 1e6)],
)
def test_another_was_there_first(other: str, kind: str, age: float, store: Store) -> None:
    announce(store, other, kind, age)
    with pytest.raises(UsageError, match=r"belongs to a run whose records are in /other/out\.prepcli on there"):
        take()
    assert store.names() == [f"{other}.{kind}"], "it has withdrawn"
    take(by_force=True)
    assert store.names() == [f"{OWN}.held"]


def test_a_larger_candidate_is_waited_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    address = announce(store, LARGER, "candidate")
    waited = []

    def wait(seconds: float) -> None:
        waited.append(store.names())
        if len(waited) == 2:
            del store.objects[address]

    monkeypatch.setattr("prepcli.engine.store_claim.time.sleep", wait)
    take()
    assert waited == [[f"{OWN}.candidate", f"{OWN}.held", f"{LARGER}.candidate"]] * 2
    assert store.names() == [f"{OWN}.held"]
