"""Finds new records that a tarred set already has, before they are added.

The records of the set are known by the names of their members, and by a hash of audio file, text, offset and duration.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from prepcli.commands.manifest_to_tarred.layout import TarredLayout
from prepcli.errors import UsageError, option
from prepcli.formats.names import SLICE_SUFFIX, decimal, loader_stem, source_stem
from prepcli.interface.printing import number_of
from prepcli.jobs.records import Records, hash_segments
from prepcli.manifest.columns import key_bytes
from prepcli.manifest.index import ManifestIndex, index_manifests
from prepcli.manifest.parts import FieldKey, Floats, KeyFunction
from prepcli.manifest.record import Record
from prepcli.planning.hashing import Hashes, chunks, in_sorted, mix64
from prepcli.storage.paths import AnyPath

TEXT_KEY = "text"
TEXT = FieldKey("text", str, is_optional=True)
"""The key for the text in an index of new records; with it, they can be compared with the records of a set."""


def source_of_member(name: str, sliced: bool) -> str:
    """The stem of the file from which a member was made (`source_stem`), if the member has another stem; else ""."""
    if not sliced and "-" not in name:
        return ""
    own = loader_stem(name)
    stem = source_stem(own)
    stem = SLICE_SUFFIX.sub("", stem) if sliced else stem
    return stem if stem != own else ""


def offset_of_member(name: str) -> str:
    """The offset in the name of a slice, as text; "" if there is none."""
    match = SLICE_SUFFIX.search(source_stem(loader_stem(name)))
    return match[1] if match else ""


@dataclass(frozen=True, slots=True)
class PresentRecords:
    """The records of a set, as two sorted arrays of hashes: the stems of their members, and the identities of records.

    A record is a segment of audio with a text; its identity is a hash of both. The stem of the member stands for the
    path of the audio file. A file with an equal relative path below another folder has the same stem, but rarely the
    same duration and text.
    """

    names: Hashes
    records: Hashes
    folder: AnyPath
    sliced: bool

    @classmethod
    def of_manifest(cls, manifest: AnyPath, sliced: bool, num_workers: int) -> "PresentRecords":
        """Read the records of a set from its manifest.

        `sliced`: whether each segment is a tar member of its own, whose name has the offset of the segment.
        """
        keys: dict[str, KeyFunction] = {"stem": loader_stem, "source": partial(source_of_member, sliced=sliced)}
        keys |= {"offset": offset_of_member} if sliced else {}
        index = index_manifests([str(manifest)], keys=keys | {TEXT_KEY: TEXT}, num_workers=num_workers)
        offset = index.keys["offset"] if sliced else index.offset
        sources = _first_nonzero(index.keys["source"], index.keys["stem"])
        records = _identities(sources, index.keys[TEXT_KEY], offset, index.duration)
        records.sort()
        return cls(np.sort(index.keys["stem"]), records, manifest.parent, sliced)

    def refuse(self, records: Records, layout: TarredLayout) -> None:
        """Refuse records that are already in the set.

        Raises:
            UsageError: some records are in the set; the message has their number and names the first of them.
        """
        chosen = np.concatenate([bucket.records for bucket in layout.sets])
        first, count = len(records), 0
        for chunk in chunks(len(chosen)):
            present = chosen[chunk][self._hold(records.index, chosen[chunk])]
            count += len(present)
            first = min(first, *present.tolist()) if len(present) else first
        if not count:
            return
        origin = records.origin(first)
        name = Record.parse(records.line(first)).audio_filepath
        raise UsageError(
            f"{count:,} of {number_of(len(chosen), 'record')} {'is' if count == 1 else 'are'} in {self.folder} "
            f"already, the first of them {name} ({origin.manifest}:{origin.line}); give a manifest without them, or "
            f"{option('--allow-duplicates')} to have them twice"
        )

    def _hold(self, index: ManifestIndex, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """For each record in `numbers`, whether the set has it already; shape (n,).

        `index`: the index of the new records; it must have the keys `stem`, `root` and `TEXT_KEY`.
        """
        sources = _first_nonzero(index.keys["root"][numbers], index.keys["stem"][numbers])
        offset: NDArray[np.float64] | Hashes = index.offset[numbers]
        if self.sliced:
            offset = np.frombuffer(b"".join(key_bytes(decimal(value)) for value in offset.tolist()), "<u8")
        return in_sorted(
            self.records, _identities(sources, index.keys[TEXT_KEY][numbers], offset, index.duration[numbers])
        )


def _first_nonzero(keys: Hashes, others: Hashes) -> Hashes:
    return np.where(keys != 0, keys, others)


def _identities(sources: Hashes, texts: Hashes, offset: Floats | Hashes, duration: Floats) -> Hashes:
    """A number for each record, made from the hashes of file and text, and from offset and duration.

    `offset`: seconds, or 64-bit hashes of offsets.
    """
    hashes: Hashes = np.empty(len(sources), np.uint64)
    for chunk in chunks(len(sources)):
        files = mix64(sources[chunk]) ^ texts[chunk]
        hashes[chunk] = hash_segments(files, offset[chunk].view(np.float64), duration[chunk])
    return hashes
