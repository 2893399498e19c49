"""Segments that crash a model: the notes of a process that has died name the suspects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from prepcli.engine.run.crashes import InFlight
from tests.support.lazy import lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")


pytestmark = pytest.mark.usefixtures("one_thread")


def test_which_segments_are_suspects() -> None:
    notes = InFlight(None, [["a", "b"], ["b", "c"], ["d"], ["d"], ["c"]])
    assert notes.refused == {"d", "c"}
    assert notes.is_suspect(["x", "b"])
    assert not notes.is_suspect(["d", "x"])
    rejected: dict[int, Any] = {}
    assert notes.reject(["x", "c", "a"], rejected) == [1]
    assert list(rejected) == [1]
