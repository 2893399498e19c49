"""The keys of records: records with equal keys have (nearly) the same audio or text, or the same speaker."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from prepcli.audio.encode import to_int16
from prepcli.audio.fingerprint import fingerprint
from prepcli.audio.probe import Probes
from prepcli.audio.segments import DUPLICATES, decode, locate
from prepcli.commands.find_duplicates.groups import GroupWriter, Turns, by_records, equal_keys, with_several
from prepcli.commands.find_duplicates.prints import Prints
from prepcli.commands.find_duplicates.rows import (
    AUDIO,
    COUNTS_NAME,
    KEYS_NAME,
    NEAR_AUDIO,
    ROWS_NAME,
    TWINS_NAME,
    WORDS_NAME,
    Rows,
)
from prepcli.commands.find_duplicates.twins import Twins
from prepcli.engine.publishing.publish import UnitWriter
from prepcli.errors import RecordRejected
from prepcli.jobs.records import Records
from prepcli.manifest.conversations import Turn, of_turn, text_of, turns_of
from prepcli.manifest.normal_text import normal_text
from prepcli.manifest.record import Record

_OF_AUDIO = frozenset({AUDIO, NEAR_AUDIO})
_KEY_BYTES, _WORD_BYTES = 16, 4
_NO_KEY = bytes(_KEY_BYTES)


class _Place(NamedTuple):
    """The audio of a record, or of a turn of a conversation: its turn (0 for a record), path, span and channel."""

    turn: int
    path: str
    offset: float
    duration: float | None
    channel: object


class _Heard(NamedTuple):
    """The results for the audio of a record or turn.

    Attributes:
        turn: the number of the turn; 0 for a record.
        key: the key for `audio`.
        words: the words of the fingerprint.
        earlier: the row in this unit with the same audio, whose words count; None if it has words of its own.
        number: a number that no other audio of the unit has.
    """

    turn: int = 0
    key: bytes = _NO_KEY
    words: bytes = b""
    earlier: int | None = None
    number: int = -1


_WITHOUT_AUDIO = (_Heard(),)


class KeyWriter:
    """Computes and writes the keys of a unit's records.

    A record has one row of keys, a conversation a row for each turn with audio; the first row has the keys of the whole
    conversation. A key is zero if its value is missing. Rejected records have no rows.

    The words of a fingerprint are written as soon as the record is read, to a separate file, because a unit may have
    hundreds of long recordings.
    """

    def __init__(self, records: Records, writer: UnitWriter, kinds: Sequence[str]) -> None:
        self._records, self._writer, self._kinds = records, writer, kinds
        self._reads_audio = not _OF_AUDIO.isdisjoint(kinds)
        self._rows: list[tuple[int, int]] = []
        self._keys: list[bytes] = []
        self._probes, self._twins = Probes(1), Twins()
        self._num_heard = 0
        self._decoded: dict[int, tuple[int, bytes]] = {}  # the row and the key of audio, by its number
        self._words = writer.open_part(WORDS_NAME.format(writer.unit.id)) if NEAR_AUDIO in kinds else None
        self._counts: list[int] = []
        self._earlier: list[int] = []

    def add(self, number: int, record: Record) -> None:
        """Compute the keys of a record.

        Raises:
            RecordRejected: its audio cannot be read; of a conversation, the detail names the turn.
        """
        turns = self._turns(number, record)
        heard = [self._hear(place) for place in self._places(number, record, turns)] if self._reads_audio else []
        text = record.get("text") if turns is None else text_of(turns)
        values = (text if kind == "text" else record.get(kind) for kind in self._kinds)
        keys = [
            _NO_KEY if kind in _OF_AUDIO else _key(kind, value) for kind, value in zip(self._kinds, values, strict=True)
        ]
        for row, audio in enumerate(heard or _WITHOUT_AUDIO, len(self._rows)):
            self._rows.append((number, audio.turn))
            if heard:
                self._decoded[audio.number] = row, audio.key
                keys = [audio.key if kind == AUDIO else key for kind, key in zip(self._kinds, keys, strict=True)]
            self._keys += keys
            keys = [_NO_KEY] * len(keys)
            if self._words is not None:
                self._words.write(audio.words)
                self._counts.append(len(audio.words) // _WORD_BYTES)
                self._earlier.append(row if audio.earlier is None else audio.earlier)

    def _turns(self, number: int, record: Record) -> list[Turn] | None:
        """The turns of a conversation; None of another record."""
        if "conversations" not in record.fields or not self._records.is_conversation(number):
            return None
        return turns_of({"conversations": record.get("conversations")})

    def _places(self, number: int, record: Record, turns: Sequence[Turn] | None) -> list[_Place]:
        if turns is None:
            path = self._records.audio_path(number, record.audio_filepath)
            return [_Place(0, path, record.offset, record.duration, record.get("channel"))]
        return [
            _Place(
                place,
                self._records.audio_path(number, turn.audio),
                turn.offset,
                turn.duration,
                turn.more.get("channel"),
            )
            for place, turn in enumerate(turns, 1)
            if turn.text is None
        ]

    def _hear(self, place: _Place) -> _Heard:
        """Decode audio, and compute its key for `audio` and its fingerprint words for `near-audio`.

        If the file of an earlier record has the same bytes, the audio is not decoded: it shares the key and the words
        of the earlier record.
        """
        try:
            return self._decode(place)
        except RecordRejected as rejected:
            if not place.turn:
                raise
            raise of_turn(place.turn, rejected) from None

    def _decode(self, place: _Place) -> _Heard:
        path = place.path
        info = self._probes(path)
        segment = locate(path, info, place.offset, place.duration, place.channel, DUPLICATES, path)
        self._num_heard += 1
        is_cheap = self._words is None and info.data_offset is not None  # comparing would take more time than decoding
        earlier = None if is_cheap else self._twins.earlier(self._num_heard, path, segment)
        if earlier in self._decoded:
            row, key = self._decoded[earlier]
            return _Heard(place.turn, key, earlier=row, number=self._num_heard)
        samples = to_int16(decode(segment))
        words = b"" if self._words is None else fingerprint(samples, info.sampling_rate).astype("<u4").tobytes()
        key = _NO_KEY
        if AUDIO in self._kinds:
            shape = f"{info.sampling_rate} {samples.shape[1]} ".encode()
            hashed = blake2b(shape + np.ascontiguousarray(samples, "<i2").tobytes(), digest_size=_KEY_BYTES)
            key = hashed.digest()
        return _Heard(place.turn, key, words, number=self._num_heard)

    def close(self) -> None:
        """Write the keys of the records."""
        parts = {KEYS_NAME: b"".join(self._keys), ROWS_NAME: np.array(self._rows, "<i8").tobytes()}
        if self._words is not None:
            parts |= {COUNTS_NAME: np.array(self._counts, "<i8").tobytes()}
            parts |= {TWINS_NAME: np.array(self._earlier, "<i8").tobytes()}
        for name, data in parts.items():
            self._writer.open_part(name.format(self._writer.unit.id)).write(data)


def write_groups(
    groups: GroupWriter, rows: Rows, kinds: Sequence[str], between: bool, against: Sequence[Prints] = ()
) -> None:
    """Find records with equal keys of each kind, and write them in groups.

    Args:
        groups: writes them.
        rows: the keys of the records.
        kinds: the kinds to compare.
        between: whether only groups over two inputs are written.
        against: prints, whose records are compared as well; only groups over them and the inputs are written.
    """
    firsts = np.cumsum([0, *(len(prints.durations) for prints in against)])
    all_rows = [*((prints.record, prints.turn) for prints in against), (rows.record, rows.turn)]
    record = np.concatenate([some + first for (some, _), first in zip(all_rows, firsts, strict=True)])
    turn = np.concatenate([some for _, some in all_rows])
    side_of = groups.input_of
    if against:  # only groups of both sides
        side_of = (side_of >= len(against)).astype(np.int64)
    for kind in kinds:
        more: dict[str, object] = {}
        if kind == NEAR_AUDIO:
            of_kind, more["not_compared"] = rows.near_audio(against)
            more |= {"has_turns": True} if rows.turn.any() else {}
        else:
            of_kind = np.concatenate([*(prints.keys(kind, rows.keys[kind]) for prints in against), rows.keys[kind]])
        found, group_of = equal_keys(of_kind)
        turns: Turns | None = None
        if turn.any() and kind in _OF_AUDIO:  # a conversation may have the same audio twice
            found, group_of = with_several(found, group_of, record)
            numbers, group_of, turns = by_records(record[found], group_of, turn[found])
        else:
            numbers = record[found]
        if against or between or kind == "speaker":
            kept, group_of = with_several(np.arange(len(numbers)), group_of, side_of[numbers])
            numbers, turns = numbers[kept], turns and turns.of(kept)
        if kind == NEAR_AUDIO:  # within an input, the longest record comes first
            longest = np.lexsort((numbers, -groups.durations[numbers], groups.input_of[numbers], group_of))
            numbers, turns = numbers[longest], turns and turns.of(longest)
        groups.write(kind, numbers, group_of, turns, **more)


def _key(kind: str, value: object) -> bytes:
    """The key of a record for the value of its field `kind`; zero if the value is missing or empty."""
    if kind == "text":
        text = normal_text(value) if isinstance(value, str) else ""
    else:
        text = "" if value is None else str(value)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest() if text else _NO_KEY
