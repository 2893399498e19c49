"""The keys of records: records with equal keys have (nearly) the same audio or text, or the same speaker."""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b

import numpy as np

from prepcli.audio.encode import to_int16
from prepcli.audio.fingerprint import Words, fingerprint
from prepcli.audio.probe import Probes
from prepcli.audio.segments import DUPLICATES, decode, locate
from prepcli.commands.find_duplicates.groups import GroupWriter, equal_keys, with_several
from prepcli.commands.find_duplicates.near import Fingerprints
from prepcli.commands.find_duplicates.prints import Keys, Prints
from prepcli.commands.find_duplicates.twins import Twins
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.jobs.record_job import RecordContents
from prepcli.jobs.records import Records
from prepcli.manifest.normal_text import normal_text
from prepcli.manifest.record import Record
from prepcli.planning.split import Indices

AUDIO, NEAR_AUDIO = "audio", "near-audio"
"""The kinds of keys that are computed from the audio."""
_KEYS_NAME = "parts/{}.keys"
_WORDS_NAME, _COUNTS_NAME, _TWINS_NAME = "parts/{}.words", "parts/{}.counts", "parts/{}.twins"
_KEY_BYTES = 16
_NO_KEY = bytes(_KEY_BYTES)


class KeyWriter:
    """Computes and writes the keys of a unit's records.

    A key is zero if its value is missing, or the record is rejected.

    The words of a fingerprint are written as soon as they are computed, to a separate file, because a unit may have
    hundreds of long recordings.
    """

    def __init__(self, records: Records, writer: UnitWriter, kinds: Sequence[str]) -> None:
        self._records, self._writer, self._kinds = records, writer, kinds
        self._keys: dict[int, bytes] = {}
        self._probes, self._twins = Probes(1), Twins()
        self._decoded: dict[int, bytes] = {}
        self._earlier: dict[int, int] = {}
        self._words = writer.open_part(_WORDS_NAME.format(writer.unit.id)) if NEAR_AUDIO in kinds else None
        self._counts: dict[int, int] = {}

    def add(self, number: int, record: Record) -> None:
        """Compute the keys of a record.

        Raises:
            RecordRejected: its audio cannot be read.
        """
        of_audio = self._of_audio(number, record) if not {AUDIO, NEAR_AUDIO}.isdisjoint(self._kinds) else {}
        keys = (of_audio[kind] if kind in of_audio else _key(kind, record.get(kind)) for kind in self._kinds)
        self._keys[number] = b"".join(keys)

    def _of_audio(self, number: int, record: Record) -> dict[str, bytes]:
        """Decode a record, and compute its key for `audio` and its fingerprint words for `near-audio`.

        If the file of an earlier record has the same bytes, the record is not decoded: it shares the key and the words
        of the earlier record.

        Returns:
            The key of each kind. The key for `near-audio` is zero here; `write_groups` computes it from the words.
        """
        path = self._records.audio_path(number, record.audio_filepath)
        info = self._probes(path)
        segment = locate(path, info, record.offset, record.duration, record.get("channel"), DUPLICATES, path)
        is_cheap = self._words is None and info.data_offset is not None  # comparing would take more time than decoding
        earlier = None if is_cheap else self._twins.earlier(number, path, segment)
        if earlier in self._decoded:
            self._earlier[number] = earlier
            return {AUDIO: self._decoded[earlier], NEAR_AUDIO: _NO_KEY}
        samples = to_int16(decode(segment))
        if self._words is not None:
            words = fingerprint(samples, info.sampling_rate)
            self._words.write(words.astype("<u4").tobytes())
            self._counts[number] = len(words)
        key = _NO_KEY
        if AUDIO in self._kinds:
            shape = f"{info.sampling_rate} {samples.shape[1]} ".encode()
            hashed = blake2b(shape + np.ascontiguousarray(samples, "<i2").tobytes(), digest_size=_KEY_BYTES)
            key = hashed.digest()
        self._decoded[number] = key
        return {AUDIO: key, NEAR_AUDIO: _NO_KEY}

    def close(self, numbers: Sequence[int]) -> None:
        """Write the keys of the records `numbers`, in this order."""
        none = _NO_KEY * len(self._kinds)
        keys = (self._keys.get(number, none) for number in numbers)
        self._writer.open_part(_KEYS_NAME.format(self._writer.unit.id)).write(b"".join(keys))
        if self._words is not None:
            counts = [self._counts.get(number, 0) for number in numbers]
            earlier = [self._earlier.get(number, number) for number in numbers]
            for name, values in ((_COUNTS_NAME, counts), (_TWINS_NAME, earlier)):
                self._writer.open_part(name.format(self._writer.unit.id)).write(np.array(values, "<i8").tobytes())


def keys_of_records(
    contents: RecordContents, kinds: Sequence[str], markers: Sequence[Marker], writer: UnitWriter
) -> dict[str, Keys]:
    """The keys that units have written, in the order of the records; those of `near-audio` are zero."""
    parts = [np.fromfile(writer.part(_KEYS_NAME.format(marker.unit)), "<u8") for marker in markers]
    in_units = np.concatenate([np.empty(0, np.uint64), *parts]).reshape(-1, len(kinds), 2)
    keys = np.empty_like(in_units)
    keys[_order(contents)] = in_units
    return {kind: keys[:, column] for column, kind in enumerate(kinds)}


def write_groups(
    groups: GroupWriter,
    keys: Mapping[str, Keys],
    contents: RecordContents,
    markers: Sequence[Marker],
    writer: UnitWriter,
    between: bool,
    against: Sequence[Prints] = (),
) -> None:
    """Find records with equal keys of each kind, and write them in groups.

    Args:
        groups: writes them.
        keys: the keys of the records, of each kind to compare (`keys_of_records`).
        contents: the records.
        markers: the documents of the units.
        writer: reads the files of the units.
        between: whether only groups over two inputs are written.
        against: prints, whose records are compared as well; only groups over them and the inputs are written.
    """
    for kind, of_records in keys.items():
        more = {}
        if kind == NEAR_AUDIO:
            of_kind, more["not_compared"] = _near_audio_keys(markers, _order(contents), writer, against)
        else:
            of_kind = np.concatenate([*(prints.keys(kind, of_records) for prints in against), of_records])
        numbers, group_of = equal_keys(of_kind)
        if against:
            of_inputs = (np.arange(len(of_kind)) >= groups.num_prints).astype(np.int64)
            numbers, group_of = with_several(numbers, group_of, of_inputs)
        elif between or kind == "speaker":
            numbers, group_of = with_several(numbers, group_of, groups.input_of)
        if kind == NEAR_AUDIO:  # within an input, the longest record comes first
            durations = groups.durations[numbers]
            numbers = numbers[np.lexsort((numbers, -durations, groups.input_of[numbers], group_of))]
        groups.write(kind, numbers, group_of, **more)


class RecordWords:
    """The fingerprint words of all records, in their order; they stay in the files of the units.

    A record whose file has the bytes of another one's has its words.

    Attributes:
        counts: the number of words of each record.
    """

    def __init__(self, contents: RecordContents, markers: Sequence[Marker], writer: UnitWriter) -> None:
        order = _order(contents)
        names = (_WORDS_NAME, _COUNTS_NAME, _TWINS_NAME)
        paths = [[writer.part(name.format(marker.unit)) for marker in markers] for name in names]
        counts = [np.fromfile(path, "<i8") for path in paths[1]]
        self._parts = [np.memmap(path, "<u4", "r") if path.stat().st_size else None for path in paths[0]]
        none = [np.empty(0, np.int64)]
        starts = np.concatenate([*none, *(np.cumsum(some) - some for some in counts)])
        units = np.repeat(np.arange(len(counts)), [len(some) for some in counts])
        position, twins = np.empty_like(order), np.empty_like(order)
        position[order] = np.arange(len(order))
        twins[order] = np.concatenate([*none, *(np.fromfile(path, "<i8") for path in paths[2])])
        at = position[twins]
        self.counts: Indices = np.concatenate([*none, *counts])[at]
        self._starts, self._units = starts[at], units[at]

    def __iter__(self) -> Iterator[Words]:
        """Yield the words of each record."""
        for unit, start, count in zip(self._units.tolist(), self._starts.tolist(), self.counts.tolist(), strict=True):
            part = self._parts[unit]
            yield np.empty(0, np.uint32) if part is None else part[start : start + count]


def _order(contents: RecordContents) -> Indices:
    return np.arange(len(contents.records)) if contents.order is None else contents.order


def _key(kind: str, value: object) -> bytes:
    """The key of a record for the value of its field `kind`; zero if the value is missing or empty."""
    if kind == "text":
        text = normal_text(value) if isinstance(value, str) else ""
    else:
        text = "" if value is None else str(value)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest() if text else _NO_KEY


def _near_audio_keys(
    markers: Sequence[Marker], order: Indices, writer: UnitWriter, against: Sequence[Prints]
) -> tuple[Keys, int]:
    """Compute the `near-audio` keys of all records; returns the keys, and how many records have too little sound.

    The records of prints come first, and are not in the count; nor are rejected ones. Records with nearly the same
    audio have equal keys. The key of a record that is not compared is zero.
    """
    fingerprints = Fingerprints(writer.folder)
    ahead = 0
    for prints in against:
        for words_of_some, counts_of_some in prints.words():
            fingerprints.add(words_of_some, counts_of_some)
            ahead += len(counts_of_some)
    twins = np.empty_like(order)
    done = 0
    for marker in markers:
        names = (name.format(marker.unit) for name in (_WORDS_NAME, _COUNTS_NAME, _TWINS_NAME))
        words, counts, earlier = map(writer.part, names)
        fingerprints.add(np.fromfile(words, "<u4"), of_records := np.fromfile(counts, "<i8"))
        twins[order[done : done + len(of_records)]] = np.fromfile(earlier, "<i8")
        done += len(of_records)
    labels, is_compared = fingerprints.labels()
    of_record = np.empty_like(order)
    of_record[order] = np.arange(ahead, ahead + len(order))
    at = np.concatenate([np.arange(ahead), of_record[twins]])
    keys = np.zeros((len(at), 2), np.uint64)
    keys[:, 0] = np.where(is_compared[at], labels[at] + 1, 0)
    rejected = sum(sum(marker.rejects.values()) for marker in markers)
    return keys, int(np.count_nonzero(~is_compared[at[ahead:]])) - rejected
