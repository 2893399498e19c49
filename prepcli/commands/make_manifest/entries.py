"""The entry of a record in a source, and the catalog: all entries in order, on disk."""

import os
import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from prepcli.errors import RecordRejected, RejectReason, naming
from prepcli.gate import FirstPlaces, repeated_hashes, text_hash
from prepcli.manifest.line_slices import LineSlice, LineSlices, slice_catalog

if TYPE_CHECKING:  # the import takes a tenth of the time of 100,000 files
    import numpy as np
    from numpy.typing import NDArray

MAX_SLOW_BYTES, MIN_SLOW_UNITS = 64 << 10, 64
"""Limits for sources with audio that takes time to measure: the maximum size of a unit's entries in bytes, and the
minimum number of units (a small source has fewer). So several ranks have work, and a run that stops loses little."""
MAX_QUICK_BYTES, MIN_QUICK_UNITS = 1 << 20, 16
"""The same limits as `MAX_SLOW_BYTES` and `MIN_SLOW_UNITS`, for sources of almost only WAV and FLAC. Their headers hold
the durations, so that a small unit would take longer to flush to disk than to measure."""
_QUICK_SUFFIXES = (".wav", ".WAV", ".flac", ".FLAC")
_MAX_SLOW_SHARE = 1 / 16
_BATCH = 4096


class SourceEntry(msgspec.Struct, array_like=True, gc=False):
    """The entry of a record in a source. An entry with a `reason` is rejected.

    `path`: the audio file as the source names it. `line`: the line of the entry in the source, from 1; 0 if unknown
    (rejects then have its number in the catalog). `key`: the name of the record in tables of transcripts and speakers.
    `offset` and `duration`, in seconds, describe a segment of the file; if the duration is 0, the segment extends to
    the end of the file.

    If there is a duration but no offset, the source says that the file has this duration. If the file is longer, the
    record is a segment from its start; if the file is shorter, the record is rejected.
    """

    path: str
    line: int = 0
    key: str = ""
    fields: dict[str, Any] | None = None
    offset: float | None = None
    duration: float = 0.0
    reason: str = ""
    detail: str = ""


def rejected_entry(reason: RejectReason, detail: str, line: int = 0, text: str = "") -> SourceEntry:
    """An entry that is rejected; `text` is its line in the source."""
    return SourceEntry(
        "", line, fields={"source_text": encodable(text)} if text else None, reason=reason.value, detail=detail
    )


def encodable(text: str) -> str:
    r"""Make `text` encodable as UTF-8: `\xNN` replaces each surrogate, which stands for a byte that is not UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@dataclass
class Catalog:
    """The entries of a source, one per line of a temporary file without a name, which worker processes inherit.

    Attributes:
        slices: the lines of the file, divided into units. The division depends on the entries alone.
        keys: for each entry, the hash of its key; None if keys are not used.
        ambiguous: for each entry, whether its file is to be matched by a name that another entry has as well; None if
            files are not matched.
        repeated: why an entry is a reject whose explicit id an earlier entry has, by the number of the entry.
    """

    slices: LineSlices
    keys: "NDArray[np.int64] | None" = None
    ambiguous: "NDArray[np.bool_] | None" = None
    repeated: dict[int, str] = field(default_factory=dict)

    def read(self, unit: LineSlice) -> Iterator[tuple[int, SourceEntry]]:
        """The entries of a unit, each with its number in the whole catalog, from 0."""
        return enumerate(_decoder.decode_lines(self.slices.block(unit)), unit.first_line - 1)

    def sample(self) -> list[SourceEntry]:
        """A few entries, spread evenly over all entries."""
        return [_decoder.decode(line) for _, line in self.slices.sample()]


_decoder = msgspec.json.Decoder(SourceEntry)


MatchBy = Literal["key", "path"]


def write_catalog(
    entries: Iterator[SourceEntry],
    folder: Path,
    with_keys: bool = False,
    *,
    match_by: MatchBy | None = None,
    ids_of: str | None = None,
) -> Catalog:
    """Write the entries to a temporary file in `folder`.

    Args:
        entries: the entries.
        folder: made if it does not exist.
        with_keys: whether the catalog also gets the hashes of the keys.
        match_by: the name by which a file is matched to its transcript, and which must be the only one of its kind: the
            key of its entry, or its path without the suffix.
        ids_of: the name of the file that the entries come from, if their keys are explicit ids, which occur once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    encoder = msgspec.json.Encoder()
    hashes, names = array("q"), array("q")
    count = num_slow = 0
    file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - worker processes read it
    while batch := list(islice(entries, _BATCH)):
        if with_keys:
            hashes.extend([text_hash(entry.key) for entry in batch])
        if match_by == "path":
            names.extend([text_hash(os.path.splitext(entry.path)[0]) for entry in batch])
        count += len(batch)
        num_slow += sum([not entry.path.endswith(_QUICK_SUFFIXES) for entry in batch])
        with naming(folder):
            file.write(_lines_of(batch, encoder))
    is_quick = num_slow <= count * _MAX_SLOW_SHARE
    limits = (MAX_QUICK_BYTES, MIN_QUICK_UNITS) if is_quick else (MAX_SLOW_BYTES, MIN_SLOW_UNITS)
    with naming(folder):
        catalog = Catalog(slice_catalog(file, *limits))
    if with_keys:
        import numpy as np

        catalog.keys = np.array(hashes, np.int64)
    if match_by is not None:
        catalog.ambiguous = _repeated(names if match_by == "path" else hashes)
    if ids_of is not None:
        catalog.repeated = _repeated_ids(catalog, repeated_hashes(hashes) - {text_hash("")}, ids_of)
    return catalog


def _repeated_ids(catalog: Catalog, repeated: frozenset[int], name: str) -> dict[int, str]:
    """Why an entry is a reject whose explicit id an earlier usable entry has, by the number of the entry."""
    if not repeated:
        return {}
    places, reasons = FirstPlaces(repeated), {}
    for number, entry in chain.from_iterable(map(catalog.read, catalog.slices.units)):
        try:
            if entry.key:
                places.check(entry.key, f"{name}:{entry.line}")
        except RecordRejected as rejected:
            reasons[number] = rejected.detail
    return reasons


def _lines_of(entries: list[SourceEntry], encoder: msgspec.json.Encoder) -> bytes:
    try:
        return encoder.encode_lines(entries)
    except UnicodeEncodeError:
        if len(entries) == 1:
            why = (
                "the path or a text is not UTF-8, and a manifest cannot hold it; convert the source, or rename the file"
            )
            rejected = rejected_entry(RejectReason.NOT_UTF8, why, entries[0].line, entries[0].path)
            return encoder.encode_lines([rejected])
        middle = len(entries) // 2
        return _lines_of(entries[:middle], encoder) + _lines_of(entries[middle:], encoder)


def _repeated(hashes: "array[int]") -> "NDArray[np.bool_]":
    """For each hash, whether it occurs more than once."""
    import numpy as np

    keys = np.array(hashes, np.int64)
    order = np.argsort(keys, kind="stable")
    equal = keys[order[1:]] == keys[order[:-1]]
    mask = np.zeros(len(keys), np.bool_)
    mask[order[1:][equal]] = True
    mask[order[:-1][equal]] = True
    return mask
