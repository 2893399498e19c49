"""Who gets an output in a store, and who waits or is refused, by the objects that are there and their times."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prepcli.engine.state import store_claim
from prepcli.engine.state.store_claim import Claim, StoreClaim
from prepcli.errors import UsageError
from prepcli.processes.owner import REPEAT_SECONDS
from prepcli.storage import client
from prepcli.storage.addresses import ObjectInfo
from prepcli.storage.paths import StorePath

FOLDER = "s3://bucket/out.prepcli/claims"
OWN, SMALLER, LARGER = "5" * 32, "1" * 32, "9" * 32


class Store:
    """The objects of claims; `seconds` is the clock of the store."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.asked: list[Callable[..., Any]] = []
        self.seconds = 1000.0

    def put(self, address: str, data: bytes) -> None:
        self.objects[address] = data, int(self.seconds * 1e9)

    def call(self, function: Callable[..., Any], address: Any, *data: bytes) -> Any:
        self.asked.append(function)
        if function is client.delete_objects:
            return [self.objects.pop(one, None) for one in address]
        if function is client.put_object:
            return self.put(address, *data)
        if function is client.read_object:
            if address not in self.objects:
                raise FileNotFoundError(address)
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
    """Another state folder announces itself, or holds the output, since `age` seconds."""
    store.seconds -= age
    address = f"{FOLDER}/{other}.{kind}"
    store.put(address, msgspec.json.encode(Claim(other, "/other/out.prepcli", "there")))
    store.seconds += age
    return address


def take(is_new: bool = False) -> None:
    StoreClaim(StorePath("s3://bucket/out"), Claim(OWN, str(Path("/own")), "here")).take(is_new)


def test_what_a_new_claim_asks_the_store(store: Store) -> None:
    """As few requests as possible: each takes a part of a run's start."""
    take(is_new=True)
    put, listed, removed = client.put_object, client.list_objects, client.delete_objects
    assert store.asked == [put, listed, put, listed, removed]
    assert store.names() == [f"{OWN}.held"]


def test_a_folder_that_has_lost_its_claim_is_told_how_to_continue(store: Store) -> None:
    """To continue "there" would be what it has just tried, and starting again would lose the work."""
    address = f"{FOLDER}/{LARGER}.held"
    store.put(address, msgspec.json.encode(Claim(LARGER, str(Path("/own")), "here")))
    with pytest.raises(UsageError, match=rf"records are in /own on here, as .* lost, .* remove the object {address}"):
        take(is_new=True)
    assert store.names() == [f"{LARGER}.held"]
    del store.objects[address]
    take(is_new=True)
    assert store.names() == [f"{OWN}.held"]


def test_a_claim_that_is_held_already_is_checked_for_writing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new one shows by itself that objects can be written."""
    checked: list[StorePath] = []
    monkeypatch.setattr(store_claim, "check_writing", checked.append)
    take(is_new=True)
    assert not checked
    take()
    assert checked == [StorePath("s3://bucket/out")]


def test_one_that_goes_from_candidate_to_holder_between_two_listings(store: Store) -> None:
    """Each listing shows one of its two objects, so it is never overlooked."""
    announce(store, SMALLER, "candidate")
    listed = store.call

    def then_held(function: Callable[..., Any], address: Any, *data: bytes) -> Any:
        found = listed(function, address, *data)
        if function is client.list_objects and f"{FOLDER}/{SMALLER}.candidate" in store.objects:
            announce(store, SMALLER, "held")
            del store.objects[f"{FOLDER}/{SMALLER}.candidate"]
        return found

    with pytest.MonkeyPatch.context() as patch, pytest.raises(UsageError, match="belongs to a run"):
        patch.setattr(store_claim, "call", then_held)
        take(is_new=True)
    assert store.names() == [f"{SMALLER}.held"]


@pytest.mark.parametrize(("other", "stays"), [(SMALLER, False), (LARGER, True)])
def test_of_two_that_hold_the_output_the_smaller_stays(
    other: str, stays: bool, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither has seen the other's candidate; the larger one withdraws, and until then it is waited for."""
    put = store.put

    def both(address: str, data: bytes) -> None:
        put(address, data)
        if address == f"{FOLDER}/{OWN}.held":
            put(f"{FOLDER}/{other}.held", msgspec.json.encode(Claim(other, "/other/out.prepcli", "there")))

    def withdraw(_: float) -> None:
        assert stays, "nobody withdraws"
        del store.objects[f"{FOLDER}/{other}.held"]

    monkeypatch.setattr(store, "put", both)
    monkeypatch.setattr("prepcli.engine.state.store_claim.time.sleep", withdraw)
    if stays:
        take(is_new=True)
    else:
        with pytest.raises(UsageError, match="belongs to a run"):
            take(is_new=True)
    assert store.names() == [f"{OWN if stays else other}.held"]


@pytest.mark.parametrize("other", [SMALLER, LARGER])
def test_a_candidate_that_was_killed_long_ago_does_not_count(other: str, store: Store) -> None:
    announce(store, other, "candidate", age=REPEAT_SECONDS + 1)
    take()
    assert store.names() == sorted([f"{OWN}.held", f"{other}.candidate"])


@pytest.mark.parametrize(
    ("other", "kind", "age"),
    [
        (SMALLER, "candidate", 0),
        (SMALLER, "candidate", REPEAT_SECONDS - 1),
        (SMALLER, "held", 1e6),
        (LARGER, "held", 1e6),
    ],
)
def test_another_was_there_first(other: str, kind: str, age: float, store: Store) -> None:
    announce(store, other, kind, age)
    with pytest.raises(UsageError, match=r"belongs to a run whose records are in /other/out\.prepcli on there"):
        take()
    assert store.names() == [f"{other}.{kind}"], "it has withdrawn"


@pytest.mark.parametrize(("kind", "stays"), [("candidate", True), ("held", False)])
def test_nobody_is_waited_for_without_end(
    kind: str, stays: bool, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A candidate that was killed just now, which no time in the store shows; and one that does not withdraw."""
    put, now = store.put, 0.0

    def announced(address: str, data: bytes) -> None:
        put(address, data)
        if address == f"{FOLDER}/{OWN}.held":
            announce(store, LARGER, kind)

    def wait(_: float) -> None:
        nonlocal now
        now += 10

    monkeypatch.setattr(store, "put", announced)
    monkeypatch.setattr("prepcli.engine.state.store_claim.time.sleep", wait)
    monkeypatch.setattr("prepcli.engine.state.store_claim.time.monotonic", lambda: now)
    if stays:
        take()
    else:
        with pytest.raises(UsageError, match="belongs to a run"):
            take()
    assert (f"{OWN}.held" in store.names()) == stays


def test_a_larger_candidate_is_waited_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    address = announce(store, LARGER, "candidate")
    waited = []

    def wait(seconds: float) -> None:
        waited.append(store.names())
        if len(waited) == 2:
            del store.objects[address]

    monkeypatch.setattr("prepcli.engine.state.store_claim.time.sleep", wait)
    take()
    assert waited == [[f"{OWN}.candidate", f"{OWN}.held", f"{LARGER}.candidate"]] * 2
    assert store.names() == [f"{OWN}.held"]
