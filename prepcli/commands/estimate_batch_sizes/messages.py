"""What the command and its child process tell each other: one JSON object per line."""

from typing import Literal

import msgspec

from prepcli.commands.estimate_batch_sizes.probes import Outcome
from prepcli.errors import PrepcliError


class Setup(msgspec.Struct, frozen=True):
    """The first line: the model, and how it is trained; the fields are those of the options."""

    model: str | None
    model_class: str | None
    config: str | None
    optimizer: str
    dtype: str
    ddp: bool
    device: str
    memory_fraction: float
    gpu_memory: int | None
    ratio: float


class Hello(msgspec.Struct, frozen=True, tag_field="is", tag="hello"):
    """The child's first line, when the model is loaded.

    `limit` is the bytes that a step may use, `static` those in use without a batch; `memory` is that of the device.
    """

    device: str
    memory: int
    limit: int
    static: int
    model: str


class Request(msgspec.Struct, frozen=True):
    """Make a step with `size` examples of `duration` seconds and `tokens`; or count the lines of its memory."""

    what: Literal["step", "lines"]
    duration: float
    tokens: int | None
    size: int = 1


class Step(msgspec.Struct, frozen=True, tag_field="is", tag="step"):
    """The result of a step; see `Probe` in `probes`. After a `cuda_error` the child ends."""

    outcome: Outcome
    peak: int = 0
    reserved: int = 0
    seconds: float = 0.0
    detail: str = ""


class Counted(msgspec.Struct, frozen=True, tag_field="is", tag="lines"):
    """The timelines of small steps; see `prepcli.commands.estimate_batch_sizes.lines`."""

    timelines: list[tuple[int, list[int]]]


class Failed(msgspec.Struct, frozen=True, tag_field="is", tag="failed"):
    """The model cannot be loaded, or cannot make a step at all; `exit_code` is that of the error."""

    message: str
    exit_code: int = PrepcliError.exit_code


Answer = Hello | Step | Counted | Failed
