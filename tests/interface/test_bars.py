"""Bars are drawn on a terminal and in a notebook, and nowhere else."""

import fcntl
import io
import os
import pty
import struct
import sys
import termios

import pytest

from prepcli.interface.bars import can_draw, progress_bar


@pytest.mark.parametrize(("module", "draws"), [("ipykernel.iostream", True), ("_io", False)])
def test_where_a_bar_is_drawn(module: str, draws: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = type("OutStream", (io.StringIO,), {"__module__": module})()
    monkeypatch.setattr(sys, "stderr", stream)
    assert can_draw() is draws


@pytest.mark.parametrize("columns", [0, 60])
def test_a_terminal_without_a_size_gets_a_bar(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in some containers; the bar was as wide as its 0 columns, or below its 0 lines."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 0, columns, 0, 0))
    with os.fdopen(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        bar = progress_bar(total=2, desc="work")
        bar.update(1)
        bar.close()
        stream.flush()
        shown = os.read(controller, 4096)
    os.close(controller)
    assert b"work:" in shown
