"""Codecs of other packages: an entry point of the group `prepcli.codecs`, loaded only if `--codec-model` names it.

`--codec-model NAME:ARGUMENT` calls the entry point NAME with ARGUMENT, a text. The entry point returns an object with:

    sampling_rate       Hz
    samples_per_frame   audio is zero-padded to a multiple of this number
    num_codebooks       codes of each frame
    codebook_size       codes are smaller than this number
    encode(samples, lengths)   codes (B, C, F) of audio (B, T), float32; `lengths` (B,) are samples before padding
    to(device)          optional: move the model to `cpu` or `cuda:N`
    takes_batches       optional: True if rows of equal length in a batch get the same codes as each row alone;
                        otherwise `encode` gets one row at a time
"""

import contextlib
import hashlib
import os
import re
import threading
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from prepcli.engine.publishing.hashes import sha256_of
from prepcli.errors import PrepcliError, UsageError, option
from prepcli.interface.printing import first_line
from prepcli.models.devices import use_full_float32, use_tf32
from prepcli.models.faults import fault_of
from prepcli.models.protocols import Precision

if TYPE_CHECKING:
    from torch import Tensor

GROUP = "prepcli.codecs"
_VALUE = re.compile(r"([A-Za-z][\w.-]*):(.*)", re.DOTALL)
_FRAMES_TRIED = 4
_MAX_CODEBOOK_SIZE = 1 << 31
"""Codes are stored as int16 or int32."""
_NUMBERS = ("sampling_rate", "samples_per_frame", "num_codebooks", "codebook_size")
_VALUES_PER_SAMPLE = 64.0
"""The assumed `values_per_sample`: the layers of codecs of other packages are not measured."""


def is_plugin(name: str) -> bool:
    """Return whether the value of `--codec-model` names a codec of another package: `NAME:ARGUMENT`."""
    return _VALUE.fullmatch(name) is not None and not os.path.exists(name)


def parts_of(name: str) -> tuple[str, str]:
    """Return the name of the entry point and its argument: the two parts of `NAME:ARGUMENT`."""
    match = _VALUE.fullmatch(name)
    assert match is not None
    return match[1], match[2]


def check_plugin(name: str, flag: str) -> EntryPoint:
    """Find the entry point of a codec, without loading it.

    Raises:
        UsageError: no installed package, or several packages, have an entry point of this name.
    """
    wanted, _ = parts_of(name)
    plugins = [entry for entry in entry_points(group=GROUP) if entry.name == wanted]
    if len(plugins) == 1:
        return plugins[0]
    if plugins:
        packages = ", ".join(sorted(_package(plugin) for plugin in plugins))
        raise UsageError(f"{option(flag, name)}: several packages have the codec {wanted}: {packages}; remove one")
    others = ", ".join(sorted(entry_points(group=GROUP).names)) or "none"
    raise UsageError(
        f"{option(flag, name)}: no installed package has the codec {wanted} (an entry point of the group {GROUP}); "
        f"there are: {others}"
    )


def plugin_identity(name: str, flag: str) -> str:
    """Return the identity of a codec in the settings of a run: its entry point, its package, and its argument.

    If the argument is a file or folder, the identity has the SHA-256 of the content instead of the argument.
    """
    wanted, argument = parts_of(name)
    path = Path(argument)
    content = argument
    if os.path.isfile(path):
        content = f"sha256:{sha256_of(path)}"
    elif argument and os.path.isdir(path):
        digest = hashlib.sha256()
        for file in sorted(file for file in path.rglob("*") if file.is_file()):
            digest.update(f"{file.relative_to(path)}\0{sha256_of(file)}\0".encode())
        content = f"sha256:{digest.hexdigest()}"
    return f"{wanted} of {_package(check_plugin(name, flag))}: {content}"


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value


_running = threading.local()
"""Its attribute `process` is the id of the process in which this thread runs code of a codec."""
_end_process = os._exit


def _exit(status: int) -> NoReturn:
    """`os._exit`; raises `SystemExit` in code of a codec, which would end the whole command.

    With the status 0, scripts would take it for done. Children of a codec end as usual.
    """
    if getattr(_running, "process", None) == os.getpid():
        raise SystemExit(f"os._exit({status})")
    _end_process(status)


@contextlib.contextmanager
def _without_exits() -> Iterator[None]:
    """Within the context this thread runs code of a codec, in which `os._exit` raises `SystemExit`."""
    os._exit = _exit
    _running.process = os.getpid()
    try:
        yield
    finally:
        _running.process = None


class PluginCodec:
    """A codec of another package; see `prepcli.models.protocols.Codec`. Its precision is always float32 or TF32."""

    rows_on_cpu: int | None = 1
    values_per_sample = _VALUES_PER_SAMPLE

    def __init__(self, name: str, flag: str) -> None:
        """Load a codec.

        Raises:
            UsageError: the codec cannot be loaded, or does not have the attributes that this module documents.
        """
        self._where = option(flag, name)
        entry = check_plugin(name, flag)
        try:
            with _without_exits():
                self._codec: Any = entry.load()(parts_of(name)[1])
        except (Exception, SystemExit) as error:
            raise UsageError(f"{self._where} cannot be loaded: {type(error).__name__}: {first_line(error)}") from error
        for attribute in _NUMBERS:
            value = getattr(self._codec, attribute, None)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise UsageError(f"{self._where}: {attribute} of {_package(entry)} is {value!r}, not a positive number")
        # The products of strides are often integers of NumPy.
        self.sampling_rate = int(self._codec.sampling_rate)
        self.samples_per_frame = int(self._codec.samples_per_frame)
        self.num_codebooks = int(self._codec.num_codebooks)
        self.codebook_size = int(self._codec.codebook_size)
        if self.codebook_size > _MAX_CODEBOOK_SIZE:
            raise UsageError(f"{self._where}: codebook_size of {_package(entry)} is {self.codebook_size}, above 2^31")
        self.min_frames: int = self._find_min_frames()

    def _find_min_frames(self) -> int:
        """Return the minimum number of frames that can be encoded, found by trial."""
        import torch

        fault: object = None
        for frames in range(1, _FRAMES_TRIED + 1):
            samples = frames * self.samples_per_frame
            try:
                self.encode(torch.zeros(1, samples), torch.tensor([samples]), "fp32")
            except (RuntimeError, PrepcliError) as error:
                fault = error
            else:
                return frames
        raise UsageError(f"{self._where} cannot encode {_FRAMES_TRIED} frames of silence: {fault}")

    def to(self, device: str) -> None:
        """Move the model, if the codec has the method `to`."""
        move = getattr(self._codec, "to", None)
        if move is None:
            return
        try:
            with _without_exits():
                move(device)
        except SystemExit as error:
            raise UsageError(f"{self._where} cannot be moved to {device}: SystemExit: {first_line(error)}") from error

    def encode(self, audio: "Tensor", lengths: "Tensor", precision: Precision) -> "tuple[Tensor, Tensor]":
        """Return the codes (B, C, F) of audio (B, T), and the number of frames (B,) of each row; see `Codec.encode`."""
        import torch

        use_tf32() if precision == "tf32" else use_full_float32()
        step = len(audio) if getattr(self._codec, "takes_batches", False) else 1
        with torch.inference_mode():
            parts = [self._encoded(audio[at : at + step], lengths[at : at + step]) for at in range(0, len(audio), step)]
            codes = torch.cat(parts)
        wanted = (len(audio), self.num_codebooks, audio.shape[1] // self.samples_per_frame)
        if codes.shape != wanted or codes.is_floating_point() or codes.dtype == torch.bool:
            raise PrepcliError(
                f"{self._where} gives {codes.dtype} of shape {tuple(codes.shape)}, not codes of {wanted}"
            )
        if codes.numel() and not 0 <= int(codes.min()) <= int(codes.max()) < self.codebook_size:
            raise PrepcliError(
                f"{self._where} gives codes from {codes.min()} to {codes.max()}, not below its codebook_size"
            )
        return codes, -(-lengths // self.samples_per_frame)

    def _encoded(self, audio: "Tensor", lengths: "Tensor") -> "Tensor":
        """Return the codes that the codec computes.

        An error in the code of the codec is raised as a `PrepcliError` that names the codec. An error of the device, or
        for too little memory, is raised unchanged.
        """
        import torch

        try:
            with _without_exits():
                return torch.as_tensor(self._codec.encode(audio, lengths))
        except (Exception, SystemExit) as error:
            if fault_of(error) is not None:
                raise
            raise PrepcliError(f"{self._where} has failed: {type(error).__name__}: {first_line(error)}") from error
