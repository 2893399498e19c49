"""The files of a Lhotse Shar set, and what must be read of their lines, without lhotse."""

import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec

from prepcli.errors import UsageError

CUTS_FILE = re.compile(r"cuts\.(\d+)\.jsonl(\.gz)?$")
AUDIO_FILE = re.compile(r"recording\.(\d+)\.tar$")


class RecordingLine(msgspec.Struct):
    """The manifest of a recording in a tar."""

    id: str
    sources: list[Any]
    sampling_rate: int
    num_samples: int
    duration: float


class CutLine(msgspec.Struct):
    """A line of the cuts."""

    id: str
    duration: float
    recording: RecordingLine | None = None
    supervisions: list[Any] = []


def is_shar(folder: Path) -> bool:
    """Whether a folder looks like a Shar data set: it holds `cuts/cuts.*.jsonl.gz`."""
    return any(CUTS_FILE.match(path.name) for path in regular_files(folder / "cuts"))


def numbered(folder: Path, pattern: "re.Pattern[str]") -> dict[int, Path]:
    """The files in a folder whose names match, by the number in them; pipes and devices are not files.

    Raises:
        UsageError: two files have the same number.
    """
    found: dict[int, Path] = {}
    for path in regular_files(folder):
        if match := pattern.match(path.name):
            other = found.setdefault(int(match[1]), path)
            if other is not path:
                raise two_of_a_shard(other, path)
    return found


def regular_files(folder: Path) -> list[Path]:
    """The regular files in a folder and links to such files, by name; none where there is no folder.

    To open a pipe would wait for its other end, to open a device can do anything.
    """
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return [folder / name for name in sorted(entry.name for entry in entries if entry.is_file())]


def two_of_a_shard(one: Path, other: Path) -> UsageError:
    """What is raised where a shard would be read twice, or the older of two files instead of the newer."""
    first, second = sorted((one.name, other.name))
    return UsageError(f"{one.parent} holds {first} and {second}, two files of the same shard; remove one of them")


def decode_json(text: bytes, type: Any) -> Any:
    """`text` as a msgspec `type`; NaN and numbers like 1e5000 are taken, which a manifest may hold and lhotse reads.

    Raises:
        msgspec.DecodeError, ValueError: it is no JSON, or not of that type.
    """
    try:
        try:
            return msgspec.json.decode(text, type=type)
        except msgspec.DecodeError:  # also where all is well but for a number that no double holds
            return msgspec.convert(json.loads(text), type)
    except RecursionError as error:
        raise ValueError("JSON in which too many lists or objects lie in each other") from error
