"""What a source says about one record, and the catalog: the entries of all records, on the disk, in order."""

import hashlib
import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from prepcli.engine.state.plan import Unit
from prepcli.errors import RecordRejected, RejectReason, naming
from prepcli.storage.input_files import read_at

if TYPE_CHECKING:  # importing it takes a tenth of the time of 100,000 files
    import numpy as np
    from numpy.typing import NDArray

STEP = 32
"""The catalog keeps the place of one entry in this many: units begin there."""
MAX_UNIT_ENTRIES, MIN_UNITS = 2048, 64
"""Units of a source that is neither small nor large: enough for a few ranks, and little is lost when a run stops."""
MAX_QUICK_ENTRIES, MIN_QUICK_UNITS = 16384, 16
"""The same where headers tell the durations: a unit is then done so soon that its flush to the disk takes longer."""
_QUICK_SUFFIXES = (".wav", ".WAV", ".flac", ".FLAC")
_MAX_SLOW_SHARE = 1 / 16
_BLOCK_BYTES = 1 << 20
_BATCH = 128 * STEP


class SourceEntry(msgspec.Struct, array_like=True, gc=False):
    """What a source says about a record.

    `path` is the audio file as the source names it, `line` the number in the source (0: counted by the catalog), `key`
    what tables of transcripts and speakers know it by. `offset` and `duration` are seconds and describe a segment of
    the file; a duration of 0 reaches to its end. With a `reason` the record is rejected.
    """

    path: str
    line: int = 0
    key: str = ""
    fields: dict[str, Any] | None = None
    offset: float | None = None
    duration: float = 0.0
    reason: str = ""
    detail: str = ""

    def rejected(self) -> RecordRejected:
        """Why the record is rejected; only where there is a `reason`."""
        return RecordRejected(RejectReason(self.reason), self.detail)


def rejected_entry(reason: RejectReason, detail: str, line: int = 0, text: str = "") -> SourceEntry:
    """An entry that is only a reject; `text` is its line in the source."""
    return SourceEntry(
        "", line, fields={"source_text": encodable(text)} if text else None, reason=reason.value, detail=detail
    )


def _not_utf8(entry: SourceEntry) -> SourceEntry:
    detail = "the path or a text is not UTF-8, and a manifest cannot hold it; convert the source, or rename the file"
    return rejected_entry(RejectReason.NOT_UTF8, detail, entry.line, entry.path)


def encodable(text: str) -> str:
    r"""`text` as UTF-8 can encode it: bytes that are not UTF-8 (surrogates, in Python) become `\xNN`."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class Slice(Unit):
    """Entries of the catalog: the first one's byte and number (from 0), and the end of the last one."""

    offset: int
    first: int
    end: int


@dataclass
class Catalog:
    """The entries of a source in a temporary file without a name, which worker processes inherit.

    In memory there is a number for every 32 entries, and where transcripts are matched, a number for each entry.

    Attributes:
        num_slow: entries whose audio must probably be read as a whole.
        sha256: the digest of all entries.
        keys: for each entry the hash of its key; None where keys do not matter.
        ambiguous: for each entry whether another one has the same key; None where keys do not matter.
    """

    file: IO[bytes]
    starts: "array[int]" = field(default_factory=lambda: array("q"))
    count: int = 0
    num_slow: int = 0
    num_bytes: int = 0
    sha256: str = ""
    keys: "NDArray[np.int64] | None" = None
    ambiguous: "NDArray[np.bool_] | None" = None

    def units(self) -> list[Slice]:
        """The units of work. They follow from the entries alone."""
        is_quick = self.num_slow <= self.count * _MAX_SLOW_SHARE
        most, units = (MAX_QUICK_ENTRIES, MIN_QUICK_UNITS) if is_quick else (MAX_UNIT_ENTRIES, MIN_UNITS)
        per_unit = min(most, -(-self.count // (units * STEP)) * STEP)
        found = []
        for number, first in enumerate(range(0, self.count, per_unit)):
            size = min(per_unit, self.count - first)
            begin, end = (self._byte_of(entry) for entry in (first, first + size))
            found.append(Slice(f"slice_{number:06d}", float(size), size, begin, first, end))
        return found

    def _byte_of(self, entry: int) -> int:
        return self.starts[entry // STEP] if entry < self.count else self.num_bytes

    def read(self, unit: Slice) -> Iterator[SourceEntry]:
        """The entries of a unit."""
        decoder = msgspec.json.Decoder(SourceEntry)
        offset, rest = unit.offset, b""
        while offset < unit.end:
            block = read_at(self.file.fileno(), min(_BLOCK_BYTES, unit.end - offset), offset)
            assert block, "the catalog is cut short"
            offset += len(block)
            lines, end, begun = block.rpartition(b"\n")
            if end:
                yield from decoder.decode_lines(rest + lines)
            rest = begun if end else rest + begun

    def entry(self, number: int) -> SourceEntry:
        """The entry with this number, from 0."""
        first = number - number % STEP
        end = self._byte_of(first + STEP)
        near = self.read(Slice("", 0.0, STEP, self._byte_of(first), first, end))
        return next(islice(near, number - first, None))


def write_catalog(entries: Iterator[SourceEntry], folder: Path, with_keys: bool) -> Catalog:
    """Write the entries to a temporary file in `folder`; with `with_keys`, find those whose key is not unique."""
    folder.mkdir(parents=True, exist_ok=True)
    catalog = Catalog(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115 - worker processes read it
    encoder, digest = msgspec.json.Encoder(), hashlib.sha256()
    hashes = array("q")
    while batch := list(islice(entries, _BATCH)):
        if with_keys:
            # Python's hash: it is the same in this process and its forks, and is never stored.
            hashes.extend([hash(entry.key) for entry in batch])
        blocks = [_lines_of(batch[at : at + STEP], encoder) for at in range(0, len(batch), STEP)]
        *starts, catalog.num_bytes = accumulate(map(len, blocks), initial=catalog.num_bytes)
        catalog.starts.extend(starts)
        catalog.count += len(batch)
        catalog.num_slow += sum([not entry.path.endswith(_QUICK_SUFFIXES) for entry in batch])
        written = b"".join(blocks)
        digest.update(written)
        with naming(folder):
            catalog.file.write(written)
    with naming(folder):
        catalog.file.flush()
    catalog.sha256 = digest.hexdigest()
    if with_keys:
        catalog.keys, catalog.ambiguous = _repeated(hashes)
    return catalog


def _lines_of(entries: list[SourceEntry], encoder: msgspec.json.Encoder) -> bytes:
    try:
        return encoder.encode_lines(entries)
    except UnicodeEncodeError:
        if len(entries) == 1:
            return encoder.encode_lines([_not_utf8(entries[0])])
        return b"".join(_lines_of([entry], encoder) for entry in entries)


def _repeated(hashes: "array[int]") -> "tuple[NDArray[np.int64], NDArray[np.bool_]]":
    """The hashes as an array, and for each whether it stands there more than once."""
    import numpy as np

    keys = np.array(hashes, np.int64)
    order = np.argsort(keys, kind="stable")
    equal = keys[order[1:]] == keys[order[:-1]]
    found = np.zeros(len(keys), np.bool_)
    found[order[1:][equal]] = True
    found[order[:-1][equal]] = True
    return keys, found
