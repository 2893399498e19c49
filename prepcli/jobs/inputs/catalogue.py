"""Makes the lines of catalogues; the readers of all kinds of containers use it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from prepcli.errors import RecordRejected, RejectReason
from prepcli.formats.audio_names import AUDIO_SUFFIXES
from prepcli.formats.tables import LANG, SPEAKER, TEXT
from prepcli.gate import MAX_SECONDS, checked_fields, is_missing
from prepcli.interface.printing import encodable
from prepcli.storage.containers import BEGINNING, UNUSABLE

DURATION_NAMES = ("duration", "audio_duration")
EVERY = "*"
"""The value of `SetInput.split` with which all tars or zip archives of a folder are read, to look at them."""
ID_NAMES = ("id", "_id", "segment_id", "utt_id", "key", "__key__")
_DIGITS = re.compile(r"(\d+)")
_OWN = frozenset({"audio_filepath", "duration", "offset", "_skipme", UNUSABLE, BEGINNING})
_encode = msgspec.json.Encoder(enc_hook=str).encode


@dataclass(frozen=True, slots=True)
class FieldNames:
    """The names of fields or columns that the user has given; None: the field is found by its usual names.

    `split`: the split of the members to read, of an archive whose folders are called after splits.
    """

    audio: str | None = None
    text: str | None = None
    speaker: str | None = None
    id: str | None = None
    lang: str | None = None
    split: str | None = None

    def __str__(self) -> str:
        """The names as a part of a run's settings, as earlier versions wrote them, which knew the first four."""
        later = {"lang": self.lang, "split": self.split}
        more = "".join(f", {name}={value!r}" for name, value in later.items() if value is not None)
        return f"FieldNames(audio={self.audio!r}, text={self.text!r}, speaker={self.speaker!r}, id={self.id!r}{more})"

    def rename(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a record under their names in a NeMo manifest, as the gate lets them pass.

        These are left out: fields without a value; fields that a catalogue writes itself, such as `duration`; and a
        field whose name another field gets, or would get if it had a value.

        Raises:
            RecordRejected: MISSING_FIELD if a field that the user has named is not there, BAD_FIELD if a field may not
                hold its value.
        """
        wanted = (
            ("text", self.text, TEXT),
            ("speaker", self.speaker, SPEAKER),
            ("lang", self.lang, LANG),
            ("id", self.id, ID_NAMES),
        )
        present = {name: value for name, value in fields.items() if not is_missing(value)}
        renamed: dict[str, Any] = {}
        taken = set(_OWN)
        for name, given, usual in wanted:
            if given is not None and given not in fields:
                raise RecordRejected(RejectReason.MISSING_FIELD, f"there is no {given}")
            source = given or next((name for name in usual if name in present), None)
            if source is not None:
                taken |= {source, name}
                renamed[name] = present.get(source)
        return checked_fields(renamed | {name: value for name, value in present.items() if name not in taken})


def line(
    name: str,
    duration: float | None,
    fields: Mapping[str, Any],
    offset: float | None = None,
    crc32: int | None = None,
) -> bytes:
    """A line of a catalogue: `name` is `FILE::MEMBER` or empty, `duration` and `offset` are in seconds.

    `crc32`: the CRC-32 of the audio, as `prepcli.formats.archives.checksum` computes it; None: unknown.
    """
    place: dict[str, Any] = {"audio_filepath": encodable(name)} if name else {}
    if crc32 is not None:
        place[BEGINNING] = crc32
    if offset is not None:
        place["offset"] = offset
    return _encode(place | ({} if duration is None else {"duration": duration}) | dict(fields)) + b"\n"


def unusable(name: str, rejected: RecordRejected, fields: Mapping[str, Any] | None = None) -> bytes:
    """A line of a catalogue whose record will be rejected, with the reason."""
    return line(name, None, {**(fields or {}), UNUSABLE: f"{rejected.reason.value}: {encodable(rejected.detail)}"})


def stated_duration(fields: Mapping[str, Any]) -> float | None:
    """The duration in seconds that a record states; None if it states none, or an unusable one.

    It is the value of the first field of `DURATION_NAMES` that is not null.
    """
    duration: object = next((fields[name] for name in DURATION_NAMES if fields.get(name) is not None), None)
    if isinstance(duration, (int, float)) and not isinstance(duration, bool) and 0 < duration <= MAX_SECONDS:
        return float(duration)
    return None


def is_audio_suffix(extension: str) -> bool:
    """Whether an extension is that of audio: `flac`, `48k.flac`, or `original`, which lhotse writes for any format."""
    return f".{extension.rpartition('.')[2].lower()}" in AUDIO_SUFFIXES or extension.endswith("original")


def by_number(name: str) -> list[str | int]:
    """The key that sorts names by the numbers in them: `a_2.tar` before `a_10.tar`."""
    return [int(part) if part.isdecimal() else part for part in _DIGITS.split(name)]
