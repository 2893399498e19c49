"""Raw data lists of WeNet and wespeaker as inputs.

Their lines are JSON with `key`, `wav`, `txt` or `spk` (the speaker), and, for a segment, `start` and `end`.
"""

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from prepcli.audio.probe import probe
from prepcli.errors import RecordRejected, RejectReason
from prepcli.jobs.inputs.catalogue import line, unusable
from prepcli.manifest.scan import Range, lines_of


class _Line(msgspec.Struct):
    key: str
    wav: str
    txt: str | None = None
    spk: str | None = None
    start: float | None = None
    end: float | None = None


_decode = msgspec.json.Decoder(_Line).decode


def raw_list_lines(path: str) -> Iterator[bytes]:
    """Yield the lines of a WeNet data list as lines of a manifest; durations of whole files are measured."""
    folder = os.path.dirname(path)
    for text in lines_of(Range(path, 0, None)):
        if not text.strip():
            continue
        try:
            item = _decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield text + b"\n"  # the reader of the line reports why it cannot be used
            continue
        audio = item.wav if os.path.exists(item.wav) else os.path.join(folder, item.wav)
        audio = os.path.abspath(audio)
        texts = {"text": item.txt, "speaker": item.spk}
        fields: dict[str, Any] = {"id": item.key} | {name: text for name, text in texts.items() if text is not None}
        try:
            if item.end is None:
                offset, seconds = None, probe(audio).duration
            else:
                offset, seconds = item.start or 0.0, item.end - (item.start or 0.0)
                if not seconds > 0:
                    raise RecordRejected(RejectReason.BAD_DURATION, f"end {item.end} is not after start {item.start}")
            yield line(audio, seconds, fields, offset)
        except RecordRejected as rejected:
            yield unusable(audio, rejected, fields)
