"""A stop signal interrupts at once, but never the work with processes."""

import os
import signal

import pytest

from prepcli.processes import no_interruption, stop_here
from prepcli.run.signals import InterruptedBySignal, stop_on_signals


def test_a_signal_interrupts_at_once() -> None:
    reached = []
    with pytest.raises(InterruptedBySignal, match="stopped by SIGUSR1"), stop_on_signals():
        os.kill(os.getpid(), signal.SIGUSR1)
        reached.append("after")
    assert not reached


def test_it_waits_for_the_end() -> None:
    reached = []
    with pytest.raises(InterruptedBySignal), stop_on_signals():
        with no_interruption():
            with no_interruption():
                os.kill(os.getpid(), signal.SIGTERM)
                reached.append("inner")
            reached.append("outer")
        reached.append("after")
    assert reached == ["inner", "outer"]


def test_or_for_a_place_that_is_safe() -> None:
    reached = []
    with pytest.raises(InterruptedBySignal), stop_on_signals(), no_interruption():
        stop_here()
        os.kill(os.getpid(), signal.SIGTERM)
        reached.append("before")
        stop_here()
        reached.append("after")
    assert reached == ["before"]
    stop_here()  # it was raised once, and is not raised again
