"""Whether an output in a store can be written."""

from typing import Any

import pytest

from prepcli.engine.state import store_output
from prepcli.errors import UsageError
from prepcli.storage.paths import StorePath


def test_a_check_that_failed_is_made_again_and_one_that_passed_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Exception | None] = [UsageError("denied"), UsageError("denied"), None, None]

    def call(*_: Any) -> None:
        if error := answers.pop(0):
            raise error

    monkeypatch.setattr(store_output, "call", call)
    monkeypatch.setattr(store_output, "_checked", set())
    for _ in range(2):
        with pytest.raises(UsageError, match="denied"):
            store_output.check_writing(StorePath("s3://bucket/out"))
    for _ in range(2):
        store_output.check_writing(StorePath("s3://bucket/out"))
    assert answers == []
