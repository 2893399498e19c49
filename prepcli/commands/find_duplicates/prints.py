"""Prints of a set: what its records are compared by, in one file, without audio, texts, names and paths.

A file has a line of JSON (`Header`), padded with blanks to a multiple of 64 bytes, and then its arrays, little-endian,
one after the other, in the order of the records. A record has a row, a conversation one of each turn with audio.
`docs/curation.md` describes the format.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b, sha256
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.audio.fingerprint import PARAMETERS, Words
from prepcli.commands.find_duplicates.near import MIN_WORDS
from prepcli.engine.publishing.output_files import OutputFile
from prepcli.engine.publishing.publish import Marker
from prepcli.engine.state.plan import AnyPlan, InputFile
from prepcli.errors import UsageError, option
from prepcli.manifest.braces import expand_braces, split_as_written
from prepcli.manifest.sources import check_file
from prepcli.planning.split import Indices
from prepcli.storage.input_files import state_of
from prepcli.version import __version__

Keys = NDArray[np.uint64]
"""Keys of shape (rows, 2): 128 bits each, zero without a value."""

FORMAT = 1
KINDS = ("audio", "near-audio", "text", "speaker")
_NEAR, _SPEAKER = "near-audio", "speaker"
_TURN, _NUM_ROWS, _NUM_WORDS = "turn", "rows_per_record", "words_per_row"
_MAGIC = b'{"prepcli_prints":'
_TYPES = {
    "duration": "<f8",
    _NUM_ROWS: "<u4",
    _TURN: "<u4",
    "audio": "<u8",
    _NUM_WORDS: "<u4",
    "words": "<u4",
    "text": "<u8",
    "speaker": "<u8",
}
"""The arrays of a file in their order, with their types. `audio`, `text` and `speaker` have two numbers per row."""
_ALIGNMENT, _MAX_HEADER = 64, 1 << 16
_KEY_BYTES = 16
_BLOCK = 1 << 24
_RECORDS_AT_ONCE = 4096


class Header(msgspec.Struct, kw_only=True):
    """The first line of a file of prints, and the description of a set in a certificate.

    Attributes:
        prepcli_prints: the version of the format.
        prepcli: the version of prepcli.
        records: the number of records in the arrays.
        rejected: how many of them have no keys, because their audio could not be read.
        unusable: the number of lines that are in no array, because they are not usable records.
        skipped: the number of lines with a true `_skipme`, which are in no array either.
        hours: the hours of audio of the records that are not rejected.
        kinds: the kinds of keys that at least one record has.
        without: for each of `kinds`, the number of records without such a key, besides those rejected: without text, or
            with less than 0.6 s of sound, in all or in a turn.
        fingerprint: the parameters of the fingerprints.
        digest: a hash (hex) of `records` and of the digests of `kinds`, and of turns.
        digests: a hash (hex) of the arrays of each kind, of the durations, and of turns, if there are any.
        salt: the key (hex) of the hashes of speakers.
        arrays: name, type and length of each array.
    """

    prepcli_prints: int
    prepcli: str
    records: int
    rejected: int
    unusable: int
    skipped: int
    hours: float
    kinds: list[str]
    without: dict[str, int]
    fingerprint: dict[str, float]
    digest: str
    digests: dict[str, str]
    salt: str
    arrays: list[tuple[str, str, int]]

    @property
    def has_turns(self) -> bool:
        """Whether there are conversations, of which turns with audio have rows."""
        return _TURN in self.digests


class _Version(msgspec.Struct):
    prepcli_prints: int
    prepcli: str = "another version"


class Content(NamedTuple):
    """The arrays of a set.

    Attributes:
        durations: seconds, of shape (records,).
        record: the number of the record of each row, ascending.
        turn: the number of the turn of each row; 0 of a record.
        keys: those of `audio`, `text` and `speaker`, as far as there are any. Those of speakers are salted in a file.
        counts: the number of fingerprint words of each row.
        words: the fingerprint words of each row.
    """

    durations: NDArray[np.float64]
    record: Indices
    turn: Indices
    keys: Mapping[str, Keys]
    counts: Indices
    words: Iterable[Words]


def describe(content: Content, plan: AnyPlan, markers: Sequence[Marker]) -> Header:
    """Describe a set that a run has read: its counts, and the digests of all arrays; reads the words once."""
    rejected = sum(sum(marker.rejects.values()) for marker in markers)
    keys = {kind: of_kind for kind, of_kind in content.keys.items() if of_kind.any()}
    digests = {kind: _digest([of_kind]) for kind, of_kind in keys.items() if kind != _SPEAKER}
    is_first = np.diff(content.record, prepend=-1) > 0
    without = {kind: int(np.count_nonzero(~of_kind[is_first].any(axis=1))) - rejected for kind, of_kind in keys.items()}
    if content.counts.any():
        hashed = blake2b(content.counts.astype("<u4").tobytes(), digest_size=_KEY_BYTES)
        is_short = np.zeros(len(content.durations), bool)
        for record, words in zip(content.record.tolist(), content.words, strict=True):
            hashed.update(words.astype("<u4").tobytes())
            is_short[record] |= int(np.count_nonzero(words)) < MIN_WORDS
        digests[_NEAR] = hashed.hexdigest()
        without[_NEAR] = int(np.count_nonzero(is_short)) - rejected
    count, num_rows = len(content.durations), len(content.record)
    salt = _salt_of(count, digests)
    if _SPEAKER in keys:
        digests[_SPEAKER] = _digest([_salted(keys[_SPEAKER], salt)])
    kinds = [kind for kind in KINDS if kind in digests]
    digests["duration"] = _digest([content.durations.astype("<f8")])
    lengths = {"duration": count} | dict.fromkeys(keys, 2 * num_rows)
    if content.turn.any():
        digests[_TURN] = _digest([_rows_per_record(content).astype("<u4"), content.turn.astype("<u4")])
        lengths |= {_NUM_ROWS: count, _TURN: num_rows}
    if _NEAR in kinds:
        lengths |= {_NUM_WORDS: num_rows, "words": int(content.counts.sum())}
    return Header(
        prepcli_prints=FORMAT,
        prepcli=__version__,
        records=count,
        rejected=rejected,
        unusable=sum(plan.planned_rejects.values()),
        skipped=plan.num_skipped,
        hours=round(sum(marker.seconds for marker in markers) / 3600, 4),
        kinds=kinds,
        without={kind: without[kind] for kind in kinds},
        fingerprint=dict(PARAMETERS) if _NEAR in kinds else {},
        digest=_digest_of_all(count, kinds, digests),
        digests=digests,
        salt=salt.hex(),
        arrays=[(name, dtype, lengths[name]) for name, dtype in _TYPES.items() if name in lengths],
    )


def write_prints(file: OutputFile, header: Header, content: Content) -> None:
    """Write a file of prints; `header`: the result of `describe`."""
    line = msgspec.json.encode(header)
    file.write(line + b" " * (-(len(line) + 1) % _ALIGNMENT) + b"\n")
    for name, dtype, _ in header.arrays:
        if name == "words":
            for words in content.words:
                file.write(words.astype(dtype).tobytes())
            continue
        if name == _SPEAKER:
            values: NDArray[np.generic] = _salted(content.keys[name], bytes.fromhex(header.salt))
        else:
            of_all = {"duration": content.durations, _TURN: content.turn, _NUM_WORDS: content.counts}
            of_all |= {_NUM_ROWS: _rows_per_record(content)} if name == _NUM_ROWS else {}
            values = of_all[name] if name in of_all else content.keys[name]
        file.write(values.astype(dtype).tobytes())


def _rows_per_record(content: Content) -> Indices:
    return np.bincount(content.record, minlength=len(content.durations))


class Prints:
    """A file of prints.

    Attributes:
        path: its path.
        header: its first line.
        durations: the seconds of each record.
        record: the number of the record of each row, from 0.
        turn: the number of the turn of each row; 0 of a record.
    """

    def __init__(self, path: str, header: Header, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self.path, self.header, self._arrays = path, header, arrays
        self.durations: NDArray[np.float64] = arrays["duration"].astype(np.float64)
        records = np.arange(header.records)
        self.record: Indices = records
        self.turn: Indices = np.zeros_like(records)
        if header.has_turns:
            self.record = np.repeat(records, arrays[_NUM_ROWS].astype(np.int64))
            self.turn = arrays[_TURN].astype(np.int64)

    def keys(self, kind: str, of_others: Keys) -> Keys:
        """The keys of a kind; zeros if the file does not have them.

        A speaker whose name one of `of_others` has gets the key there, which is not salted.
        """
        if kind not in self.header.kinds:
            return np.zeros((len(self.record), 2), np.uint64)
        keys: Keys = self._arrays[kind].astype(np.uint64).reshape(-1, 2)
        if kind == _SPEAKER:
            known, salt = np.unique(of_others, axis=0), bytes.fromhex(self.header.salt)
            key_of = {salted.tobytes(): key for salted, key in zip(_salted(known, salt), known, strict=True)}
            keys = np.array([key_of.get(key.tobytes(), key) for key in keys], np.uint64).reshape(-1, 2)
        return keys

    def words(self) -> Iterator[tuple[Words, Indices]]:
        """Yield the fingerprint words of some rows at a time, and how many each of these has."""
        if _NEAR not in self.header.kinds:
            yield np.empty(0, np.uint32), np.zeros(len(self.record), np.int64)
            return
        counts, begin = self._arrays[_NUM_WORDS].astype(np.int64), 0
        for first in range(0, len(counts), _RECORDS_AT_ONCE):
            some = counts[first : first + _RECORDS_AT_ONCE]
            end = begin + int(some.sum())
            yield self._arrays["words"][begin:end].astype(np.uint32), some
            begin = end

    @property
    def input_file(self) -> InputFile:
        """The file as an input of a run. Its header has the digests of all else."""
        return InputFile(self.path, _sha256_of_header(self.path), state_of(self.path), _sha256_of_header)


def read_all_prints(flag: str, paths: str) -> list[Prints]:
    """Read the files that an option names, between commas or by braces.

    Raises:
        UsageError: a file is missing, is not one of prints, is damaged, or is of a later version.
    """
    # An existing path is used literally. `Path.is_file` raises `OSError` if a list is longer than a path may be.
    parts = [paths] if os.path.isfile(paths) else split_as_written(paths)
    try:
        names = [name for part in parts for name in ([part] if os.path.isfile(part) else expand_braces(part))]
    except ValueError as error:
        raise UsageError(f"{option(flag, paths)}: {error}") from None
    return [read_prints(flag, name) for name in dict.fromkeys(names)]


def kinds_in(all_prints: Sequence[Prints], asked: Sequence[str], *, is_default: bool) -> list[str]:
    """The kinds of those `asked` for that at least one file of prints has; `is_default`: none of them was named.

    Raises:
        UsageError: no file has any of them, or one that was named.
    """
    kinds = [kind for kind in asked if any(kind in prints.header.kinds for prints in all_prints)]
    if not kinds or (len(kinds) < len(asked) and not is_default):
        lacking = ", ".join(kind for kind in asked if kind not in kinds)
        there = ", ".join(dict.fromkeys(kind for prints in all_prints for kind in prints.header.kinds))
        if not there:
            raise UsageError(
                f"{option('--against')}: the prints have nothing to compare, because none of their records could be "
                "read: get others"
            )
        raise UsageError(
            f"{option('--against')}: the prints have no {lacking}, only {there}: name that in {option('--by')}"
        )
    return kinds


def notes_on_prints(all_prints: Sequence[Prints], asked: Sequence[str]) -> list[str]:
    """Notes on the kinds that files of prints do not have."""
    return [
        f"{prints.path} has no {kind}, and is not compared by it"
        for prints in all_prints
        for kind in asked
        if kind not in prints.header.kinds
    ]


def read_prints(flag: str, path: str) -> Prints:
    """Read a file of prints, and check it; its arrays are mapped into memory.

    Raises:
        UsageError: the file is missing, is not one of prints, is damaged, or is of a later version.
    """
    check_file(path, option(flag))
    name = option(flag, path)
    with Path(path).open("rb") as file:
        line = file.readline(_MAX_HEADER)
    if not line.startswith(_MAGIC):
        raise UsageError(f"{name}: it is not a file of prints; `find-duplicates --write-prints` makes one")
    damaged = f"{name} is damaged or not complete: get it again ({{}})"
    try:
        version = msgspec.json.decode(line, type=_Version)
        if version.prepcli_prints > FORMAT:
            raise UsageError(
                f"{name}: prepcli {version.prepcli} has written it in format {version.prepcli_prints}, and this one "
                f"reads format {FORMAT}: update prepcli"
            )
        header = msgspec.json.decode(line, type=Header)
    except msgspec.DecodeError as error:
        raise UsageError(damaged.format(error)) from None
    problem, arrays = _arrays_in(path, header, len(line))
    if problem := problem or _problem_in(header, arrays):
        raise UsageError(damaged.format(problem))
    if _NEAR in header.kinds and header.fingerprint != PARAMETERS:
        raise UsageError(f"{name}: its fingerprints have other parameters than those of this version of prepcli")
    return Prints(path, header, arrays)


def _arrays_in(path: str, header: Header, start: int) -> tuple[str, dict[str, NDArray[np.generic]]]:
    """A problem with the sizes, or an empty text; and the arrays, which begin at byte `start`."""
    lengths = {name: length for name, _, length in header.arrays}
    num_rows = lengths.get(_TURN, header.records)
    wanted = {"duration": header.records} | {kind: 2 * num_rows for kind in header.kinds if kind != _NEAR}
    if header.has_turns or not {_TURN, _NUM_ROWS}.isdisjoint(lengths):
        wanted |= {_NUM_ROWS: header.records, _TURN: num_rows}
    if _NEAR in header.kinds:
        wanted[_NUM_WORDS] = num_rows
    is_known = all(_TYPES.get(name) == dtype and length >= 0 for name, dtype, length in header.arrays)
    if not is_known or any(lengths.get(name) != length for name, length in wanted.items()):
        return "its first line contradicts itself", {}
    ends = np.cumsum([start, *(np.dtype(dtype).itemsize * length for _, dtype, length in header.arrays)]).tolist()
    if (size := Path(path).stat().st_size) != ends[-1]:
        return f"{size:,} bytes, not {ends[-1]:,}", {}
    data = np.memmap(path, np.uint8, "r")  # one for all arrays: each holds an open file
    return "", {
        name: data[begin:end].view(dtype)
        for (begin, end), (name, dtype, _) in zip(pairwise(ends), header.arrays, strict=True)
    }


def _problem_in(header: Header, arrays: Mapping[str, NDArray[np.generic]]) -> str:
    """A problem with the content of a file; empty if there is none."""
    for name, values in ((_NUM_WORDS, "words"), (_NUM_ROWS, _TURN)):
        if name in arrays and int(arrays[name].sum(dtype=np.int64)) != len(arrays.get(values, ())):
            return f"its {name} do not add up"
    if header.digest != _digest_of_all(header.records, header.kinds, header.digests):
        return "its digests contradict each other"
    if header.has_turns != (_TURN in arrays):
        return "its turns have no digest"
    without = header.without.values()
    counts = (header.rejected, header.unusable, header.skipped, header.hours, *without)
    if (
        set(header.without) != set(header.kinds)
        or min(counts) < 0
        or header.rejected + max(without, default=0) > header.records
    ):
        return "its first line contradicts itself"
    if header.salt != _salt_of(header.records, header.digests).hex():
        return "its speakers have another salt"
    for kind in ("duration", *header.kinds, *([_TURN] if header.has_turns else [])):
        names = {_NEAR: (_NUM_WORDS, "words"), _TURN: (_NUM_ROWS, _TURN)}.get(kind, (kind,))
        if _digest([arrays[name] for name in names]) != header.digests.get(kind):
            return f"its {kind} has another digest"
    return ""


def _digest(arrays: Iterable[NDArray[np.generic]]) -> str:
    hashed = blake2b(digest_size=_KEY_BYTES)
    for array in arrays:
        data = np.ascontiguousarray(array).reshape(-1)
        for start in range(0, len(data), _BLOCK):
            hashed.update(data[start : start + _BLOCK].tobytes())
    return hashed.hexdigest()


def _digest_of_all(records: int, kinds: Iterable[str], digests: Mapping[str, str]) -> str:
    names = [*kinds, *([_TURN] if _TURN in digests else [])]
    named = "".join(f" {name} {digests.get(name)}" for name in names)
    return blake2b(f"{records}{named}".encode(), digest_size=_KEY_BYTES).hexdigest()


def _salt_of(records: int, digests: Mapping[str, str]) -> bytes:
    """The salt for the names of speakers, from the digests of the other kinds."""
    kinds = sorted(kind for kind in digests if kind in KINDS and kind != _SPEAKER)
    return bytes.fromhex(_digest_of_all(records, kinds, {kind: digests[kind] for kind in kinds}))


def _salted(keys: Keys, salt: bytes) -> Keys:
    """Hash the keys of speakers with a salt; zeros stay."""
    unique, place = np.unique(keys, axis=0, return_inverse=True)
    hashes = [
        blake2b(key.tobytes(), key=salt, digest_size=_KEY_BYTES).digest() if key.any() else bytes(_KEY_BYTES)
        for key in unique.astype("<u8")
    ]
    return np.frombuffer(b"".join(hashes), "<u8").reshape(-1, 2)[place.reshape(-1)].astype(np.uint64)


def _sha256_of_header(path: str) -> str:
    with Path(path).open("rb") as file:
        return sha256(file.readline(_MAX_HEADER)).hexdigest()
