"""Matches the records of two sets, and finds in what they differ."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice, zip_longest
from operator import add
from typing import Any, NamedTuple

import msgspec
import numpy as np

from prepcli.audio.probe import Probes
from prepcli.audio.segments import DUPLICATES, decode, locate
from prepcli.commands.compare.report import (
    NUM_EXAMPLES,
    AudioChange,
    Comparison,
    FieldChange,
    SetFacts,
)
from prepcli.commands.compare.report import Records as SomeRecords
from prepcli.engine.run.crashes import map_refusing_crashes
from prepcli.errors import RecordRejected
from prepcli.formats.names import normal_path, segment_suffix, tagged
from prepcli.formats.shar import recording_id, segment_id
from prepcli.interface.bars import with_bar
from prepcli.interface.shared_options import SetInput
from prepcli.jobs.ids import GIVEN_ID, ID_KEYS, file_id, path_id
from prepcli.jobs.inputs.conversations import conversations_among
from prepcli.jobs.inputs.named import manifests_of
from prepcli.jobs.records import Records
from prepcli.jobs.same_audio import real_file
from prepcli.manifest.columns import key_bytes
from prepcli.manifest.conversations import Turn, turns_of
from prepcli.manifest.fields import AUDIO_FIELDS, decode_value
from prepcli.manifest.parts import FieldKey
from prepcli.manifest.record import Record
from prepcli.planning.hashing import Hashes, mix64, num_distinct, occurrences
from prepcli.planning.split import Indices
from prepcli.storage.containers import own_name

_PLACE = {"audio_filepath", "offset", "shard_id", "source_audio_offset", "manifest_filepath", "manifest_line"}
"""The fields that say where the audio is."""
_TURNS = "conversations"
_SAME_AUDIO = ("same_place", "same_samples")
_OTHER_AUDIO = ("other_rate", "other", "unreadable")
_OF_TURNS_AUDIO = ("channel", "sampling_rate")
"""Fields of a turn that writers change with its audio."""
_KINDS_OF_TURNS = ("same_samples", *_OTHER_AUDIO)
"""The last that applies to a turn is that of its conversation."""
_SAME = 1e-6
"""Numbers that differ by less are equal."""
_ENOUGH = 0.9
"""If this share of the smaller set is matched, the names that writers make are not computed."""
_PAIRS_AT_ONCE = 5000
_ID = FieldKey(GIVEN_ID.field, str, is_optional=True)
"""The ids as they are, also those that could not be in names of files."""
_WAYS = {
    "id": "their ids",
    "path": "the paths of their audio",
    "path_id": "the paths of their audio without suffix",
    "file_id": "the names of their audio files",
}


class _Span(NamedTuple):
    """Audio of a record or of a turn: absolute path, offset and duration in seconds, and the value of `channel`."""

    path: str
    offset: float
    duration: float | None
    channel: object


_Both = tuple[tuple[_Span, ...], tuple[_Span, ...]]


def compare_sets(before: str, after: str, num_workers: int, *, reads_audio: bool) -> Comparison:
    """Compare two sets of records; `reads_audio`: whether audio at different places is decoded.

    Raises:
        UsageError: a set cannot be read.
        IncompleteError: a worker process died.
    """
    sides = _read(before, num_workers), _read(after, num_workers)
    way, of_first, of_second, num_repeated = _matched(*sides)
    found = Comparison(
        before=_facts(before, sides[0]),
        after=_facts(after, sides[1]),
        matched_by=way,
        matched=len(of_first),
        by_order=num_repeated,
        changed=0,
        added=_others(sides[1], of_second),
        gone=_others(sides[0], of_first),
        fields=[],
        audio=AudioChange(),
    )
    fields: dict[str, FieldChange] = {}
    pairs = iter(with_bar(zip(of_first.tolist(), of_second.tolist(), strict=True), len(of_first), "compare", "records"))
    while some := list(islice(pairs, _PAIRS_AT_ONCE)):
        spans = [(_spans(sides[0], one), _spans(sides[1], other)) for one, other in some]
        named = [_named_audio(sides, pair) for pair in some]
        all_audio = ((its_own, *more.values()) for its_own, more in zip(spans, named, strict=True))
        moved = [both for audio in all_audio for both in audio if not _is_same_place(*both) and reads_audio]
        verdicts = map_refusing_crashes(_compare_audio, moved, num_workers) if moved else iter(())
        for (first, second), its_own, more in zip(some, spans, named, strict=True):
            kind, *others = (
                "same_place" if _is_same_place(*both) else next(verdicts) if reads_audio else "not_compared"
                for both in (its_own, *more.values())
            )
            setattr(found.audio, kind, getattr(found.audio, kind) + 1)
            name = _name_of(sides[1], second)
            if kind in _OTHER_AUDIO and len(found.audio.examples) < NUM_EXAMPLES:
                found.audio.examples.append(name)
            differs = _compare_fields(sides, (first, second), name, fields, dict(zip(more, others, strict=True)))
            found.changed += differs or kind in _OTHER_AUDIO
    found.fields = sorted(fields.values(), key=lambda one: (-one.records, one.field))
    return found


def _read(spec: str, num_workers: int) -> Records:
    manifests = manifests_of(spec, SetInput(), others=conversations_among(None))
    return Records(manifests, keys={**ID_KEYS, "id": _ID}, num_workers=num_workers)


def _facts(spec: str, records: Records) -> SetFacts:
    hours = float(records.index.duration.sum()) / 3600
    index = records.index
    return SetFacts(spec, len(records), round(hours, 4), len(index.problems), index.num_skipped)


def _others(records: Records, matched: Indices) -> SomeRecords:
    """The records that are not matched."""
    rest = np.setdiff1d(np.arange(len(records)), matched)
    names = [_name_of(records, number) for number in rest[:NUM_EXAMPLES].tolist()]
    return SomeRecords(len(rest), round(float(records.index.duration[rest].sum()) / 3600, 4), names)


def _name_of(records: Records, number: int) -> str:
    """The name of a record for people, as `prepcli explain` takes it; of audio in a container, that of the member."""
    record = records.record(number)
    if records.is_conversation(number):
        return str(record.get("id"))
    return f"{own_name(record.audio_filepath)}" + (f"@{record.offset:.3f}" if record.offset else "")


def _matched(first: Records, second: Records) -> tuple[str, Indices, Indices, int]:
    """How most records are matched, and the numbers of the matched records in each set, in the order of the first.

    The last value is the number of records with the key of an earlier one of their set: their order alone matches them.
    """
    best: tuple[str, Indices, Indices] = ("nothing", np.empty(0, np.int64), np.empty(0, np.int64))
    least = 0
    for way, keys, others in _ways(first, second):
        if way.startswith("names") and len(best[1]) >= _ENOUGH * min(len(first), len(second)):
            break
        _, of_first, of_second = np.intersect1d(_numbered(keys), _numbered(others), True, True)
        num_repeated = sum(len(side) - num_distinct(side) for side in (keys, others))
        if (len(of_first), -num_repeated) > (len(best[1]), -least):
            order, least = np.argsort(of_first), num_repeated
            best = way, of_first[order], of_second[order]
    return *best, least


def _ways(first: Records, second: Records) -> Iterator[tuple[str, Hashes, Hashes]]:
    for name, way in _WAYS.items():
        keys, others = (records.index.keys[name] for records in (first, second))
        if not keys.all() or not others.all():  # some have no id
            continue
        if name == "id":
            yield way, keys, others
        else:
            yield f"{way} and offsets", _with_offset(keys, first), _with_offset(others, second)
    for made, source in ((second, first), (first, second)):
        made_keys = [hashes for key in ("file_id", "id") if (hashes := made.index.keys[key]).all()]
        for plain, marked in _names_of_writers(source):
            for hashes in made_keys:
                # Writers mark only the names that several files would have.
                names = np.where(np.isin(marked, hashes), marked, plain)
                yield "names that writers make", *((names, hashes) if source is first else (hashes, names))


def _names_of_writers(records: Records) -> Iterator[tuple[Hashes, Hashes]]:
    """The hashes of the names that writers give the records: of relative and absolute paths, also of segments.

    The second of each pair are those of records whose names several files would have.
    """
    folders = {folder: records.base_dirs.index(folder) for folder in records.base_dirs}
    parts = []
    for number in range(len(records)):
        record = records.record(number)
        paths = (record.audio_filepath, records.audio_path(number, record.audio_filepath))
        segment = segment_suffix(record.offset, record.duration)
        identity = folders[records.base_dir(number)], normal_path(record.audio_filepath)
        parts.append((paths, record.offset, record.duration, segment, identity))
    for which in (0, 1):
        names = [path_id(paths[which]) for paths, *_ in parts]
        marked = [tagged(name, *identity) for name, (*_, identity) in zip(names, parts, strict=True)]
        segments = [segment for *_, segment, _ in parts]
        files = _hashes(file_id(paths[which]) for paths, *_ in parts)
        cuts = _hashes(
            segment_id("cut", recording_id(paths[which]), offset, duration) for paths, offset, duration, *_ in parts
        )
        yield files, files
        yield _hashes(names), _hashes(marked)
        yield _hashes(map(add, names, segments)), _hashes(map(add, marked, segments))
        yield cuts, cuts


def _hashes(names: Iterable[str]) -> Hashes:
    return np.frombuffer(b"".join(map(key_bytes, names)), "<u8")


def _with_offset(keys: Hashes, records: Records) -> Hashes:
    return mix64(keys ^ mix64(np.rint(records.index.offset * 1000).astype(np.uint64)))


def _numbered(keys: Hashes) -> Hashes:
    """Keys in which the second, third ... record of a key has another one."""
    return mix64(keys + occurrences(keys).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def _is_same_place(before: tuple[_Span, ...], after: tuple[_Span, ...]) -> bool:
    """Whether audio begins at the same places of the same files; another duration is a change of a field."""
    return [span._replace(duration=None) for span in before] == [span._replace(duration=None) for span in after]


def _spans(records: Records, number: int) -> tuple[_Span, ...]:
    """The audio of a record, or of the turns of a conversation."""
    record, folder = records.record(number), records.base_dir(number)
    if not records.is_conversation(number):
        path = real_file(folder, record.audio_filepath)
        return (_Span(path, record.offset, record.duration, record.get("channel")),)
    return tuple(
        _Span(real_file(folder, turn.audio), turn.offset, turn.duration or 0.0, turn.more.get("channel"))
        for turn in turns_of({_TURNS: record.get(_TURNS)})
        if turn.text is None
    )


def _named_audio(sides: tuple[Records, Records], pair: tuple[int, int]) -> dict[str, _Both]:
    """The other audio that fields of two records name, such as that of the context, by the fields that both have."""
    records = [side.record(number) for side, number in zip(sides, pair, strict=True)]
    folders = [side.base_dir(number) for side, number in zip(sides, pair, strict=True)]
    found = dict[str, _Both]()
    for field in AUDIO_FIELDS[1:]:
        paths = [record.get(field) for record in records]
        if not all(isinstance(path, str) and path and "\0" not in path for path in paths):
            continue
        before, after = (
            (_Span(real_file(folder, path), *_place(record, field.removesuffix("_filepath"))),)
            for folder, path, record in zip(folders, paths, records, strict=True)
        )
        found[field] = before, after
    return found


def _place(record: Record, name: str) -> tuple[float, float | None, object]:
    """The offset, the duration and the channel of the audio that a field names, in fields next to it."""
    offset, duration = (
        float(value) if isinstance(value := record.get(f"{name}_{what}"), int | float) and value >= 0 else None
        for what in ("offset", "duration")
    )
    return offset or 0.0, duration or None, record.get(f"{name}_channel")


@lru_cache(maxsize=1)
def _probes() -> Probes:
    return Probes(2)


def _compare_audio(pair: _Both) -> str:
    """The name of the field of `AudioChange` for the audio of two records that is not at one place."""
    before, after = pair
    if len(before) != len(after):
        return "other"
    kinds = [_compare_spans(*both) for both in zip(before, after, strict=True) if both[0] != both[1]]
    return max(kinds, key=_KINDS_OF_TURNS.index)


def _compare_spans(*both: _Span) -> str:
    decoded = []
    for span in both:
        try:
            info = _probes()(span.path)
            segment = locate(span.path, info, span.offset, span.duration, span.channel, DUPLICATES, span.path)
            decoded.append((info.sampling_rate, decode(segment)))
        except (RecordRejected, OSError):
            return "unreadable"
    (rate, samples), (other_rate, others) = decoded
    if (rate, samples.shape[1]) != (other_rate, others.shape[1]):
        return "other_rate"
    return "same_samples" if np.array_equal(samples, others) else "other"


def _compare_fields(
    sides: tuple[Records, Records],
    pair: tuple[int, int],
    name: str,
    fields: dict[str, FieldChange],
    audio: Mapping[str, str],
) -> bool:
    """Add the differences of two records to `fields`; returns whether there are any.

    `audio`: for each field that names other audio, the field of `AudioChange` for it: the audio counts, not its path.
    """
    before, after = (_fields(records, number) for records, number in zip(sides, pair, strict=True))
    differs = False
    if all(records.is_conversation(number) for records, number in zip(sides, pair, strict=True)):
        before[_TURNS], after[_TURNS] = _first_other_turn(before[_TURNS], after[_TURNS])
    for field in (before.keys() | after.keys()) - _PLACE:
        old, new = (_present(fields.get(field)) for fields in (before, after))
        is_equal = old is new is None or (old is not None and new is not None and _are_equal(old, new))
        kind_of_audio = audio.get(field, "not_compared")
        if kind_of_audio in _SAME_AUDIO or (is_equal and kind_of_audio not in _OTHER_AUDIO):
            continue
        differs = True
        change = fields.setdefault(field, FieldChange(field))
        if not change.records:
            change.record = name
            change.before, change.after = _text(old), _text(new)
        kind = "added" if old is None else "removed" if new is None else "changed"
        setattr(change, kind, getattr(change, kind) + 1)
    return differs


def _fields(records: Records, number: int) -> dict[str, msgspec.Raw]:
    """The fields of a record; the turns of a conversation without the places of their audio."""
    fields = dict(records.record(number).fields)
    if records.is_conversation(number):
        turns = turns_of({_TURNS: decode_value(fields[_TURNS])})
        fields[_TURNS] = msgspec.Raw(msgspec.json.encode(list(map(_said, turns))))
    return fields


def _said(turn: Turn) -> dict[str, Any]:
    content: dict[str, Any] = {"value": turn.text}
    if turn.text is None:
        content = {"type": "audio", "duration": turn.duration}
    return {"from": turn.role} | content | {name: turn.more[name] for name in turn.more if name not in _OF_TURNS_AUDIO}


def _first_other_turn(before: msgspec.Raw, after: msgspec.Raw) -> tuple[msgspec.Raw, msgspec.Raw]:
    """The first turn of two conversations that differs; null for one that has no more turns, or if none differs."""
    turns = zip_longest(decode_value(before), decode_value(after))
    one, other = next((both for both in turns if not _are_same(*both)), (None, None))
    return msgspec.Raw(msgspec.json.encode(one)), msgspec.Raw(msgspec.json.encode(other))


def _present(value: msgspec.Raw | None) -> msgspec.Raw | None:
    """A value that is there: null, and NaN, which readers take for null, do not count."""
    return None if value is None or bytes(value) == b"null" else value


def _are_equal(old: msgspec.Raw, new: msgspec.Raw) -> bool:
    return bytes(old) == bytes(new) or _are_same(decode_value(old), decode_value(new))


def _are_same(old: Any, new: Any) -> bool:
    """Whether two values of fields are equal: numbers but for their rounding; true differs from 1."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_are_same(old[key], new[key]) for key in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_are_same, old, new))
    if isinstance(old, bool) or isinstance(new, bool):
        return old is new
    if isinstance(old, (int, float)) and isinstance(new, (int, float)):
        if isinstance(old, int) and isinstance(new, int):
            return old == new
        with contextlib.suppress(OverflowError):
            return old == new or abs(old - new) < _SAME or (old != old and new != new)
        return False
    return bool(old == new)


def _text(value: msgspec.Raw | None) -> str | None:
    return None if value is None else bytes(value).decode("utf-8", "replace")
