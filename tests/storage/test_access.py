"""The helper of a main process: answers belong to their questions."""

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


def test_errors_and_large_answers_belong_to_their_questions() -> None:
    with pytest.raises(ValueError, match="no number"):
        access.call(int, "no number")
    assert access.call(bytes, 1 << 20) == bytes(1 << 20)
    assert access.call(divmod, 17, 5) == (3, 2)


def test_a_helper_that_was_killed_is_an_error_and_has_a_successor() -> None:
    access.call(int, "1")
    assert access._State.helper is not None
    access._State.helper._process.kill()
    access._State.helper._process.join()
    with pytest.raises(IncompleteError, match="was killed"):
        access.call(int, "2")
    assert access.call(int, "3") == 3
