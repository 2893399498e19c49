"""One identity of the audio of a record, by which lists and earlier splits find it: real file, span and channel.

Two records are the same audio although one names its file through a link, from another folder or with `..`, or has a
measured duration in place of a rounded one.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prepcli.formats.names import path_in
from prepcli.jobs.records import hash_segments
from prepcli.manifest.columns import key_bytes
from prepcli.manifest.parts import Collector, Columns, Part
from prepcli.planning.hashing import Hashes, mix64
from prepcli.storage.addresses import is_address
from prepcli.storage.containers import SEPARATOR, name_in, place_of

START_STEP, LENGTH_STEP = 0.02, 0.05
"""Two spans are the same if their starts differ by less than the first, and their lengths by less than the second (in
seconds); they may be the same up to twice that."""
NUM_FORMS = 9
_APART = ("channel", "conversations")


class Audio(NamedTuple):
    """The audio of a record: its absolute path, offset and duration in seconds, and its part (`part_of`)."""

    path: str
    offset: float
    duration: float
    part: str = ""


def real_file(base_dir: str, path: str, looks_up: bool = True) -> str:
    """The path of an audio file, which starts from `base_dir` if it is relative, without links and `..`.

    For a record in a container, only the container is looked up. An address in a store is returned as it is. Without
    `looks_up`, only its folder is looked up, once for all of its files: the file itself may be a link.
    """
    whole = path_in(base_dir, path)
    if SEPARATOR in whole and (place := place_of(whole)) is not None:
        return name_in(_real_container(place.path), place.member)
    if is_address(whole):
        return whole
    folder, name = os.path.split(whole)
    whole = f"{_real_folder(folder).removesuffix('/')}/{name}"
    return os.path.realpath(whole) if looks_up and os.path.islink(whole) else whole


_real_folder = lru_cache(1 << 12)(os.path.realpath)


@lru_cache(1 << 12)
def _real_container(path: str) -> str:
    return real_file("", path)


def channel_of(value: object) -> str:
    """The channel that a record names, as text; empty if it names none."""
    return str(value) if type(value) in (int, str) else ""


def part_of(channel: object, turns: object) -> str:
    """The channel of a record, or the turns of a conversation: records of the same span of a file may differ in it.

    `channel` and `turns`: the fields `channel` and `conversations`; turns are as in NeMo's form.
    """
    if not isinstance(turns, list):
        return channel_of(channel)
    return repr([_real_turn(turn) if isinstance(turn, dict) else turn for turn in turns])


def _real_turn(turn: dict[str, Any]) -> dict[str, Any]:
    return turn | {"value": real_file("", str(turn.get("value")))} if turn.get("type") == "audio" else turn


class AudioKeys:
    """Makes the key of each record's audio while manifests are read."""

    def __init__(self, base_dirs: Sequence[str], *, looks_up: bool = True) -> None:
        """`base_dirs`: for each manifest, the folder from which its relative paths start. `looks_up`: see `real_file`.

        A look at each file takes 2 us on a local disk, and may take 100 times as long on a file system of a cluster.
        """
        numbers = {base: number for number, base in enumerate(dict.fromkeys(base_dirs))}
        self._of_source = [f"file{numbers[base]}" for base in base_dirs]
        self._keys = tuple(
            (f"file{number}", partial(real_file, base, looks_up=looks_up)) for base, number in numbers.items()
        )

    def added_to(self, columns: Columns) -> Columns:
        """The columns to read, with those that `taken_from` needs; there must be a collector."""
        assert columns.collector is not None
        collector = partial(_PartCollector, columns.collector)
        return columns._replace(keys=(*columns.keys, *self._keys), collector=collector)

    def taken_from(self, source: int, part: Part) -> tuple[Part, Hashes, Hashes]:
        """Take a part of the manifest number `source`, which was read with the columns of `added_to`.

        Returns:
            The part as it is without these columns; for each record, a hash of its real file, and the key of its
            audio, which is one of the `forms` of the same audio.
        """
        collected, parts = part.collected
        files = part.keys[self._of_source[source]]
        starts, lengths = _steps(part.offset, START_STEP), _steps(part.duration, LENGTH_STEP)
        return replace(part, collected=collected), files, hash_segments(files ^ mix64(parts), starts, lengths)


class _PartCollector:
    """Collects hashes of the parts of records (`part_of`), and lets another collector collect the rest."""

    def __init__(self, make: Callable[[], Collector]) -> None:
        self._inner = make()
        names = tuple(self._inner.fields)
        self.fields: Sequence[str] = (*names, *(name for name in _APART if name not in names))
        self._num_inner = len(names)
        self._places = [self.fields.index(name) for name in _APART]
        self._parts: list[bytes] = []

    def add(self, values: Sequence[list[Any]]) -> None:
        """Add consecutive records (`Collector.add`)."""
        self._inner.add(values[: self._num_inner])
        self._parts += map(key_bytes, map(part_of, *(values[place] for place in self._places)))

    def result(self) -> tuple[Any, Hashes]:
        """The result of the other collector, and for each record a hash of its part."""
        return self._inner.result(), np.frombuffer(b"".join(self._parts), "<u8")


def forms(audio: Iterable[Audio]) -> Hashes:
    """The keys that the same audio may have in a manifest: shape (N, `NUM_FORMS`)."""
    rows = list(audio)
    files, parts = (
        np.frombuffer(b"".join(map(key_bytes, texts)), "<u8")[:, None]
        for texts in ([real_file("", row.path) for row in rows], [row.part for row in rows])
    )
    starts = _steps(np.array([row.offset for row in rows], np.float64), START_STEP)
    lengths = _steps(np.array([row.duration for row in rows], np.float64), LENGTH_STEP)
    near = np.array([-1.0, 0.0, 1.0])
    around = starts[:, None] + near.repeat(3), lengths[:, None] + np.tile(near, 3)
    return hash_segments(files ^ mix64(parts), *around)


def _steps(seconds: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    return np.floor(seconds / step + 0.5)
