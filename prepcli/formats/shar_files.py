"""The files of a Lhotse Shar set, and what must be read of their lines, without lhotse."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec

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
    return any(CUTS_FILE.match(path.name) for path in folder.glob("cuts/cuts.*"))


def numbered(folder: Path, pattern: "re.Pattern[str]") -> dict[int, Path]:
    """The files in a folder whose names match, by the number in them."""
    matches = ((pattern.match(path.name), path) for path in folder.glob("*"))
    return {int(match[1]): path for match, path in matches if match}


def decode_json(text: bytes, type: Any) -> Any:
    """`text` as a msgspec `type`; NaN is taken, which a manifest may hold and lhotse reads.

    Raises:
        msgspec.DecodeError, ValueError: it is no JSON, or not of that type.
    """
    try:
        try:
            return msgspec.json.decode(text, type=type)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            return msgspec.convert(json.loads(text), type)
    except RecursionError as error:
        raise ValueError("JSON in which too many lists or objects lie in each other") from error
