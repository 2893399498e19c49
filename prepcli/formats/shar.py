"""Lhotse Shar on disk, as Magpie-TTS reads it: file names, ids, and the JSON of cuts and recordings.

The JSON is written directly, because making a lhotse object takes a hundred times as long; the tests read it with
lhotse. Layout and ids are those of NeMo's script (create_lhotse_shar_from_nemo_manifest.py); the rules of the reader
are in lhotse/shar/readers/lazy.py and tar.py.
"""

import posixpath
import re
import zlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from prepcli.formats.indexes import IndexedLines, PairTarWriter
from prepcli.formats.names import brace_text
from prepcli.formats.tar import Sink
from prepcli.storage.containers import own_name
from prepcli.storage.paths import NUMBER

CUTS_NAME = "cuts/cuts.{}.jsonl.gz"
PLAIN_CUTS_NAME = "cuts/cuts.{}.jsonl"
"""The path of a shard's cuts below a set with indexes. They are not compressed, so that readers can seek in them."""
TEXT_CONTEXT_CUTS = "cuts_textContext"
"""The folder of the cuts whose context is a text instead of audio."""
AUDIO_NAME = "{}/recording.{}.tar"
CUTS_FILE = re.compile(r"cuts\.(\d+)\.jsonl(\.gz)?$")
AUDIO_FILE = re.compile(r"recording\.(\d+)\.tar$")
RECORDING = "recording"
"""The field of the audio of cuts that every loader of lhotse reads, with `cut.load_audio()`."""
TARGET = "target_audio"
"""The field of the audio of cuts that only Magpie-TTS reads."""
CONTEXT = "context_audio"
OUTPUT_PATTERNS = (
    CUTS_NAME.format(NUMBER),
    PLAIN_CUTS_NAME.format(NUMBER),
    AUDIO_NAME.format(RECORDING, NUMBER),
    AUDIO_NAME.format(TARGET, NUMBER),
    AUDIO_NAME.format(CONTEXT, NUMBER),
)

# Measured with 20,000 cuts of 0.9 kB on one core: zlib level 3 takes 5.5 us per cut at a ratio of 8.2, level 6 11.2 us
# at 9.5, isal level 2 1.3 us at 7.8. isal saves too little per record for a dependency whose bytes depend on the
# processor.
GZIP_LEVEL = 3
_GZIP_FORMAT = 31  # zlib's number for a gzip header, without time stamp and name
_GZIP_BLOCK = 1 << 16


def is_for_magpie(fields: object) -> bool:
    """Whether the fields of a Shar (a mapping, as `shar_path` of an entry) have audio of cuts only for Magpie-TTS."""
    return isinstance(fields, Mapping) and TARGET in fields and RECORDING not in fields


def shard_text(number: int) -> str:
    """`7` -> `000007`, as in the names of a shard's files."""
    return f"{number:06d}"


def shard_range(numbers: Sequence[int]) -> str:
    """The text for shards in a training config, such as `_OP_000000..000007_CL_`; `*` if the numbers have gaps.

    `numbers` ascend.
    """
    first, last = numbers[0], numbers[-1]
    return brace_text(shard_text(first), shard_text(last)) if last - first + 1 == len(numbers) else "*"


@lru_cache(maxsize=64)
def recording_id(audio_filepath: str) -> str:
    """`spk1/utt.3.wav` -> `rec-spk1-utt.3`, NeMo's id of the recording in a file.

    Unlike in NeMo, a dot in a folder's name does not end the id. Bytes of a path that are not UTF-8 become question
    marks, because ids must be UTF-8.
    """
    stem = posixpath.splitext(own_name(audio_filepath))[0].replace("/", "-")
    return "rec-" + stem.encode("utf-8", "replace").decode("utf-8")


def segment_id(prefix: str, recording: str, offset: float, duration: float) -> str:
    """NeMo's id of a segment: `cut-rec-a-1.50-2.00` for `cut`, `rec-a`, an offset of 1.5 s and a duration of 2 s."""
    return f"{prefix}-{recording}-{offset:.2f}-{duration:.2f}"


class _Source(msgspec.Struct, frozen=True):
    """A placeholder that lhotse's reader replaces by the bytes from the tar."""

    type: str = "shar"
    channels: tuple[int, ...] = (0,)
    source: str = ""


_SOURCES = (_Source(),)


class Recording(msgspec.Struct, frozen=True):
    """A lhotse Recording of one channel, whose bytes are in the tar: `num_samples` at `sampling_rate` (Hz)."""

    id: str
    sampling_rate: int
    num_samples: int
    duration: float
    sources: tuple[_Source, ...] = _SOURCES
    channel_ids: tuple[int, ...] = (0,)

    @classmethod
    def of(cls, id: str, sampling_rate: int, num_samples: int) -> "Recording":
        """Make a recording; its duration in seconds is computed from the number of samples."""
        return cls(id, sampling_rate, num_samples, num_samples / sampling_rate)


class Supervision(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A lhotse SupervisionSegment over a whole cut: `start` is relative to the start of the cut, so it is 0."""

    id: str
    recording_id: str
    start: float
    duration: float
    channel: int
    text: str
    language: str | None = None
    speaker: str | None = None
    custom: dict[str, str | msgspec.Raw]


class Cut(msgspec.Struct, frozen=True, tag_field="type", tag="MonoCut"):
    """A lhotse MonoCut. `recording` is a placeholder: NeMo's loader resamples each cut and needs a recording."""

    id: str
    start: float
    duration: float
    channel: int
    supervisions: tuple[Supervision, ...]
    recording: Recording
    custom: dict[str, str | float | bool]


encode_json = msgspec.json.Encoder().encode


class FieldWriter(PairTarWriter):
    """Appends recordings to the tar of one field: the data, then its manifest, both named by the cut's id."""

    def add_recording(self, cut_id: str, format: str, data: bytes, recording: Recording) -> None:
        """Append one cut's recording; `data` is an encoded file whose extension is `format`."""
        self.add(f"{cut_id}.{format}", data)
        self.add(f"{cut_id}.json", encode_json(recording) + b"\n")


class PlainCutWriter(IndexedLines):
    """Appends cuts to a `cuts.*.jsonl`, which is seekable."""

    def add_cut(self, line: bytes) -> None:
        """Append one cut, as JSON without a line end."""
        self.add(line + b"\n")

    def close(self) -> None:
        """Do nothing: all lines are written already."""


class CutWriter:
    """Appends cuts to a `cuts.*.jsonl.gz`; equal cuts give equal bytes."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._deflate = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_FORMAT)
        self._pending = bytearray()

    def add_cut(self, line: bytes) -> None:
        """Append one cut, as JSON without a line end."""
        self._pending += line
        self._pending += b"\n"
        if len(self._pending) >= _GZIP_BLOCK:
            self._flush()

    def close(self) -> None:
        """Write the end of the gzip stream."""
        self._flush()
        self._sink.write(self._deflate.flush())

    def _flush(self) -> None:
        self._sink.write(self._deflate.compress(self._pending))
        self._pending.clear()


class RecordingLine(msgspec.Struct):
    """The fields that prepcli reads from the manifest of a recording in a tar; the duration is in seconds."""

    id: str
    sources: list[Any]
    sampling_rate: int
    num_samples: int
    duration: float
