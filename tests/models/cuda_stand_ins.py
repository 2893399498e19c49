"""Stand-ins for CUDA's streams and events, which note in what order they are used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from prepcli.models import running
from tests.support.lazy import lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

COMPUTING, TO_DEVICE, TO_HOST = "computing", "to device", "to host"


class Noted:
    """What happens, in order: who does what."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.current = [COMPUTING]
        self.num_events = 0

    def add(self, what: str) -> None:
        """Note what is done, and the stream in which it is done."""
        self.steps.append(f"{self.current[-1]}: {what}")


class OnDevice:
    """Stands for a tensor on the GPU."""

    is_cuda = True

    def __init__(self, noted: Noted, name: str, host: Any = None) -> None:
        self._noted, self._name, self.host = noted, name, host

    def record_stream(self, stream: Any) -> None:
        self._noted.steps.append(f"{stream.name}: keeps {self._name}")


def stand_in_for_cuda(monkeypatch: pytest.MonkeyPatch) -> Noted:
    """Replace streams, events and copies to the host; `cuda:0` can then be a runner's device."""
    noted = Noted()
    names = iter((TO_DEVICE, TO_HOST))

    class Stream:
        def __init__(self, device: str | None = None) -> None:
            self.name = COMPUTING if device is None else next(names)

        def wait_stream(self, other: Stream) -> None:
            noted.steps.append(f"{self.name}: waits for {other.name}")

    class Event:
        def __init__(self) -> None:
            self.number, noted.num_events = noted.num_events, noted.num_events + 1

        def record(self, stream: Stream) -> None:
            noted.steps.append(f"{stream.name}: event {self.number}")

        def synchronize(self) -> None:
            noted.steps.append(f"CPU: waits for event {self.number}")

    @contextlib.contextmanager
    def within(stream: Stream) -> Iterator[None]:
        noted.current.append(stream.name)
        yield
        noted.current.pop()

    def copy_to_host(tensor: Any) -> Any:
        if isinstance(tensor, OnDevice):
            noted.add("copy")
            return tensor.host
        return tensor

    for name, stand_in in (("Stream", Stream), ("Event", Event), ("stream", within), ("current_stream", Stream)):
        monkeypatch.setattr(torch.cuda, name, stand_in)
    monkeypatch.setattr(running, "_copy_to_host", copy_to_host)
    made = running.Streams("cuda:0")
    monkeypatch.setattr("prepcli.models.running.streams_of", lambda device: made)
    return noted
