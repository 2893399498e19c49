"""Bars are drawn on a terminal and in a notebook, and nowhere else."""

import io
import sys

import pytest

from prepcli.interface.bars import can_draw


@pytest.mark.parametrize(("module", "draws"), [("ipykernel.iostream", True), ("_io", False)])
def test_where_a_bar_is_drawn(module: str, draws: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = type("OutStream", (io.StringIO,), {"__module__": module})()
    monkeypatch.setattr(sys, "stderr", stream)
    assert can_draw() is draws
