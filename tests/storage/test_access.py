"""The helper of a main process: answers belong to their questions, also where nobody has waited for them."""

import time
from collections.abc import Iterator

import pytest

from prepcli.errors import IncompleteError
from prepcli.storage import access


@pytest.fixture(autouse=True)
def helper(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One of its own, which ends."""
    monkeypatch.setattr(access._State, "helper", None)
    yield
    if access._State.helper is not None:
        access._State.helper.close()


def test_an_answer_that_was_begun_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    access.begin(time.monotonic_ns)
    access.begin(divmod, 17, 5)
    assert access.call(divmod, 23, 5) == (4, 3)
    now = time.monotonic_ns()
    assert access.call(divmod, 17, 5) == (3, 2)
    assert access.call(time.monotonic_ns) < now
    assert access.call(time.monotonic_ns) > now
    access.begin(time.monotonic_ns)
    monkeypatch.setattr(access, "MAX_AGE", 0.0)
    time.sleep(0.001)
    now = time.monotonic_ns()
    assert access.call(time.monotonic_ns) > now, "it was asked again"


def test_large_answers_that_nobody_takes_block_nothing() -> None:
    access.begin(bytes, 1 << 20)
    access.begin(bytes, 1 << 21)
    assert access.call(len, bytes(1 << 20)) == 1 << 20
    assert access.call(bytes, 1 << 20) == bytes(1 << 20)


def test_an_error_of_what_was_begun_is_raised_where_it_is_wanted() -> None:
    access.begin(int, "no number")
    assert access.call(int, "5") == 5
    with pytest.raises(ValueError, match="no number"):
        access.call(int, "no number")


def test_an_error_of_what_nobody_waits_for_is_raised_next() -> None:
    access.later(int, "no number")
    access.later(int, "5")
    with pytest.raises(ValueError, match="no number"):
        access.call(int, "6")
    assert access.call(int, "6") == 6


def test_a_helper_that_was_killed_is_an_error_and_has_a_successor() -> None:
    access.call(int, "1")
    assert access._State.helper is not None
    access._State.helper._process.kill()
    access._State.helper._process.join()
    with pytest.raises(IncompleteError, match="was killed"):
        access.call(int, "2")
    assert access.call(int, "3") == 3
