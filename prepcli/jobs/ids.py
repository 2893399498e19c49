"""The ids of records: their own, or made from the names of their files; unique over all manifests."""

import posixpath
import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from prepcli.formats.names import digest, member_stem, normal_path, segment_suffix
from prepcli.jobs.records import Records, file_identity, segment_identity
from prepcli.manifest.index import ManifestIndex
from prepcli.manifest.parts import FieldKey, Ints, KeyFunction
from prepcli.manifest.record import Record
from prepcli.planning.arrays import Scratch
from prepcli.planning.hashing import have_several, num_distinct, occurrences
from prepcli.storage.containers import own_name
from prepcli.storage.paths import AnyPath

# Blanks separate an id from the rest in lists such as Kaldi's. `@` precedes each part that makes an id unique, and
# occurs nowhere else: so such an id cannot equal that of another file.
_UNSAFE = re.compile(r"[\s@]")
_UNSAFE_IN_ID = re.compile(r"[\s/]")


@lru_cache(maxsize=64)
def file_id(audio_filepath: str) -> str:
    """The id that the name of an audio file gives: `train/spk1/utt 3.wav` -> `utt_3`."""
    return path_id(
        posixpath.basename(normal_path(own_name(audio_filepath))) or "_"
    )  # `/` has no name, and is rejected later


@lru_cache(maxsize=64)
def path_id(audio_filepath: str) -> str:
    """The id that the whole path of an audio file gives: `train/spk1/utt 3.wav` -> `train_spk1_utt_3`."""
    return _UNSAFE.sub("_", member_stem(audio_filepath))


ID_KEYS: dict[str, KeyFunction] = {"path": normal_path, "file_id": file_id, "path_id": path_id}
"""The keys that an index must have for `plan_ids`."""
MAX_ID_LENGTH = 200


def given_id(text: str) -> str:
    """The id `text` of a record, or an empty text if the id cannot be used in lists and file names."""
    return text if len(text) <= MAX_ID_LENGTH and text.isprintable() and not _UNSAFE_IN_ID.search(text) else ""


GIVEN_ID = FieldKey("id", given_id, is_optional=True)
"""The key of the records' own ids. An index has it in addition to `ID_KEYS` if `plan_ids` may use these ids."""


@dataclass(frozen=True, slots=True)
class RecordIds:
    """The parts from which the id of each record is made.

    Attributes:
        given: whether the records' own ids are used: every record has one, and all are different.
        by_file: whether ids are made from the names of files, because these are unique; else from whole paths.
        ambiguous: for each record, whether another file would get the same id.
        shared: for each record, whether other records are different segments of its file.
        occurrences: for each record, the number of earlier records that are the same segment.
    """

    given: bool
    by_file: bool
    ambiguous: NDArray[np.bool_]
    shared: NDArray[np.bool_]
    occurrences: Ints

    def id_of(self, records: Records, number: int, record: Record) -> str:
        """The id of a record: its own id, or else one made from the name or the path of its audio file.

        If other records would have the same id, parts are added to it, each after `@`.

        Examples: `utt`; `utt@0_5_2_25`, a segment at 0.5 s of 2.25 s; `utt@n2`, the second record of one segment.
        """
        if self.given:
            return str(record.get(GIVEN_ID.field))
        path = record.audio_filepath
        parts = [file_id(path) if self.by_file else path_id(path)]
        if self.ambiguous[number]:
            parts.append(digest(records.base_dirs.index(records.base_dir(number)), normal_path(path)))
        if self.shared[number]:
            parts.append(segment_suffix(record.offset, record.duration)[1:])
        if self.occurrences[number]:
            parts.append(f"n{self.occurrences[number] + 1}")
        return "@".join(parts)


def plan_ids(index: ManifestIndex, audio_base_dir: AnyPath | None, scratch: Scratch | None = None) -> RecordIds:
    """Choose the parts of the ids; `index.keys` must hold `ID_KEYS`, and may hold `id` (`GIVEN_ID`).

    Names, files and segments are compared by 64-bit hashes: if two different ones have the same hash, ids get a part
    that they do not need.
    """
    scratch = scratch or Scratch()
    given = index.keys.get("id", np.empty(0, np.uint64))
    is_given = len(given) > 0 and bool(given.all()) and num_distinct(given) == len(given)
    files = file_identity(index, audio_base_dir, scratch)
    num_files = num_distinct(files)
    names = index.keys["file_id"]
    by_file = num_distinct(names) == num_files
    if not by_file:
        names = index.keys["path_id"]
    segments = segment_identity(index, files, scratch)
    ambiguous, shared = scratch.zeros(len(index), bool), scratch.zeros(len(index), bool)
    if num_distinct(names) != num_files:
        have_several(names, files, ambiguous)
    if num_files != len(files):
        have_several(files, segments, shared)
    return RecordIds(is_given, by_file, ambiguous, shared, occurrences(segments, scratch.empty(len(index), np.int64)))
