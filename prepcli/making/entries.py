"""What a source says about one record, and the catalog: the entries of all records, on the disk, in order."""

import hashlib
import os
import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.engine.plan import Unit
from prepcli.errors import RecordRejected, RejectReason

STEP = 32
"""The catalog keeps the place of every so manieth entry: units begin there."""
MAX_UNIT_ENTRIES = 2048
MIN_UNITS = 64
"""Units of a source that is neither small nor large: enough for a few ranks, and little is lost when a run stops."""
_BLOCK_BYTES = 1 << 20


class Entry(msgspec.Struct, array_like=True, gc=False):
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


def rejected_entry(reason: RejectReason, detail: str, line: int = 0, text: str = "") -> Entry:
    """An entry that is no more than a reject; `text` is its line in the source."""
    return Entry(
        "", line, fields={"source_text": encodable(text)} if text else None, reason=reason.value, detail=detail
    )


def _not_utf8(entry: Entry) -> Entry:
    detail = "the path or a text is not UTF-8, and a manifest cannot hold it; convert the source, or rename the file"
    return rejected_entry(RejectReason.NOT_UTF8, detail, entry.line, entry.path)


def encodable(text: str) -> str:
    r"""`text` as UTF-8 can encode it: bytes that are not UTF-8 (surrogates, in Python) become `\xNN`."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class Slice(Unit):
    """Entries of the catalog: the first one's byte and number (from 0)."""

    offset: int
    first: int


@dataclass
class Catalog:
    """The entries of a source in a temporary file without a name, which worker processes inherit.

    In memory there is a number for every 32 entries, and where transcripts are matched, a number for each entry.

    Attributes:
        sha256: the digest of all entries.
        ambiguous: for each entry whether another one has the same key; empty where keys do not matter.
    """

    file: IO[bytes]
    starts: "array[int]" = field(default_factory=lambda: array("q"))
    count: int = 0
    num_bytes: int = 0
    sha256: str = ""
    ambiguous: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    keys: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def units(self) -> list[Slice]:
        """The units of work. They follow from the number of entries alone."""
        per_unit = min(MAX_UNIT_ENTRIES, max(STEP, self.count // MIN_UNITS // STEP * STEP))
        found = []
        for number, first in enumerate(range(0, self.count, per_unit)):
            size = min(per_unit, self.count - first)
            found.append(Slice(f"slice_{number:06d}", float(size), size, self.starts[first // STEP], first))
        return found

    def read(self, unit: Slice) -> Iterator[Entry]:
        """The entries of a unit."""
        decoder = msgspec.json.Decoder(Entry)
        left, offset, rest = unit.num_records, unit.offset, b""
        while left:
            block = os.pread(self.file.fileno(), _BLOCK_BYTES, offset)
            assert block, "the catalog is cut short"
            offset += len(block)
            lines = (rest + block).split(b"\n")
            rest = lines.pop()
            for line in lines[:left]:
                yield decoder.decode(line)
            left -= min(left, len(lines))

    def entry(self, number: int) -> Entry:
        """The entry with this number, from 0."""
        size = number % STEP + 1
        *_, entry = self.read(Slice("", 0.0, size, self.starts[number // STEP], number - size + 1))
        return entry

    def is_ambiguous(self, number: int) -> bool:
        """Whether another entry has the same key."""
        return bool(len(self.ambiguous)) and bool(self.ambiguous[number])


def write_catalog(entries: Iterator[Entry], folder: Path, with_keys: bool) -> Catalog:
    """Write the entries to a temporary file in `folder`; with `with_keys`, find those whose key is not unique."""
    folder.mkdir(parents=True, exist_ok=True)
    catalog = Catalog(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115 - worker processes read it
    encode, digest = msgspec.json.Encoder().encode, hashlib.sha256()
    hashes = array("q")
    lines: list[bytes] = []
    pending = 0

    def flush() -> None:
        nonlocal pending
        block = b"".join(lines)
        digest.update(block)
        catalog.file.write(block)
        lines.clear()
        pending = 0

    for entry in entries:
        if not catalog.count % STEP:
            catalog.starts.append(catalog.num_bytes)
        if with_keys:
            # Python's hash: it is the same in this process and its forks, and is never stored.
            hashes.append(hash(entry.key))
        try:
            line = encode(entry) + b"\n"
        except UnicodeEncodeError:
            line = encode(_not_utf8(entry)) + b"\n"
        lines.append(line)
        pending += len(line)
        catalog.num_bytes += len(line)
        catalog.count += 1
        if pending > _BLOCK_BYTES:
            flush()
    flush()
    catalog.file.flush()
    catalog.sha256 = digest.hexdigest()
    if with_keys:
        catalog.keys = np.frombuffer(hashes, np.int64) if hashes else catalog.keys
        catalog.ambiguous = _repeated(catalog.keys)
    return catalog


def _repeated(keys: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each key whether it stands there more than once."""
    order = np.argsort(keys, kind="stable")
    equal = keys[order[1:]] == keys[order[:-1]]
    found = np.zeros(len(keys), np.bool_)
    found[order[1:][equal]] = True
    found[order[:-1][equal]] = True
    return found
