"""The records of a job: an index over its manifests, the folders of their audio, and the records left out."""

import contextlib
import heapq
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prepcli.audio.opening import in_store
from prepcli.engine.publishing.rejects import Origin, reject_line
from prepcli.engine.state.plan import AUDIO_BASE_DIRS, Contents, InputFile, Plan, UnitT
from prepcli.engine.state.work_folder import MAX_NAME_BYTES
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected, RejectReason, UsageError
from prepcli.formats.names import absolute_folder, path_in
from prepcli.gate import note_on_moved
from prepcli.interface.options import PathText, settings_of
from prepcli.jobs.inputs.kinds import are_conversations
from prepcli.jobs.inputs.named import NUMBERED_LANGUAGES, describe, names_note
from prepcli.manifest.fields import AUDIO_FIELDS
from prepcli.manifest.index import ManifestIndex, content_digest
from prepcli.manifest.missing import explain_missing, spread_over
from prepcli.manifest.parts import KeyFunction
from prepcli.manifest.reader import MAX_LINES, LineReader
from prepcli.manifest.record import Record, Value
from prepcli.manifest.seconds import notes_on_seconds, typical_seconds
from prepcli.manifest.shared_index import shared_index
from prepcli.planning.arrays import Scratch, Values, plan_once
from prepcli.planning.hashing import GOLDEN, Hashes, chunks, mix64
from prepcli.planning.split import Indices
from prepcli.storage.addresses import ByteRange, is_absolute, is_address
from prepcli.storage.ahead import reading_ahead
from prepcli.storage.containers import Catalogue
from prepcli.storage.paths import AnyPath
from prepcli.version import __version__

_CONTEXT = "context_audio_filepath"

LeftOut = Sequence[tuple[RejectReason, Indices]]
"""The records that a plan leaves out: pairs of a reason and the numbers of the records to which it applies."""

OWN_AUDIO = "audio in OUT"
"""The name of a setting. It is true if the run writes audio to OUT, and its manifest has paths relative to OUT."""

_DETAILS = {
    RejectReason.SPEAKER_HAS_ONE_UTTERANCE: "its group has no other usable record",
    RejectReason.REMAINDER_DROPPED: "it was left over when the shards were made equally large",
}

# Position (source, line), origin, the line itself, the reject.
_PlannedReject = tuple[tuple[int, int], Origin, bytes, RecordRejected]


class Records:
    """The usable records of some manifests, numbered from 0 in input order.

    Attributes:
        index: durations, offsets and places of all records, in NumPy arrays.
        base_dirs: for each manifest, the absolute folder that its relative audio paths start from.
    """

    def __init__(
        self,
        manifests: Sequence[str],
        audio_base_dir: AnyPath | None = None,
        *,
        keys: Mapping[str, KeyFunction] | None = None,
        looks_for: Callable[[bytes], bool] | None = None,
        workspace: Workspace | None = None,
        num_workers: int = 1,
    ) -> None:
        """Read the manifests once, together with the other ranks of `workspace`.

        A compressed manifest is unpacked in the workspace. Without a workspace, it is unpacked when its first line is
        read. `keys` and `looks_for`: as in `prepcli.manifest.index.index_manifests`.

        Raises:
            UsageError: a manifest is missing or damaged, or all lines of all manifests are blank or skipped.
        """
        self.base_dirs = base_directories(manifests, audio_base_dir)
        self._one_base = len(set(self.base_dirs)) == 1
        self.index: ManifestIndex = shared_index(
            manifests, workspace, num_workers=num_workers, keys=keys, looks_for=looks_for
        )
        for source, path in zip(self.index.sources, manifests, strict=True):
            source.path = path  # a stored index does not know which of its files are containers
        self._workspace = workspace
        self._lines = LineReader(self.index)
        self.in_store = self._has_audio_in_store()
        if len(self) + len(self.index.problems) == 0:
            skipped = f" (all {self.index.num_skipped} have a true _skipme)" if self.index.num_skipped else ""
            raise UsageError(f"no records in {', '.join(manifests)}{skipped or ': it has no lines'}")

    def __len__(self) -> int:
        return len(self.index)

    @property
    def described(self) -> list[str]:
        """Sentences for the report on the containers that are read; empty if all inputs are manifests."""
        notes = describe([source.path for source in self.index.sources], len(self) + len(self.index.problems))
        languages = (record.get("lang") for _, record in self.sample()) if notes else ()
        number = next((language for language in languages if isinstance(language, (int, float))), None)
        notes += [note_on_moved(self.index.num_moved, "their cuts")] if self.index.num_moved else []
        return notes if number is None else [*notes, NUMBERED_LANGUAGES.format(number)]

    def line(self, record: int) -> bytes:
        """The manifest line of a record, without its line end."""
        return self._lines.line(record)

    def record(self, number: int) -> Record:
        """A record; the index has found its line usable."""
        return Record.of_checked(self.line(number))

    def origin(self, record: int) -> Origin:
        """Manifest and line of a record."""
        return Origin(str(self.index.sources[self.index.source_of(record)].path), self.index.line_number(record))

    def is_conversation(self, record: int) -> bool:
        """Whether a record is a conversation."""
        return are_conversations(self.index.sources[self.index.source_of(record)].path)

    def base_dir(self, record: int) -> str:
        """The base folder of the record's relative audio paths."""
        return self.base_dirs[self.index.source_of(record)]

    def audio_path(self, record: int, audio_filepath: str) -> str:
        """Absolute path of an audio file of the record."""
        return path_in(self.base_dir(record), audio_filepath)

    def reading_ahead(self, numbers: Sequence[int]) -> Iterator[int]:
        """Yield `numbers` in their order; the lines, or audio in an object store, are read for several records at once.

        The loop may read other records as well, but then many lines are read twice.
        """
        return reading_ahead(numbers, self._addresses) if self.in_store else self._taking(numbers)

    def _taking(self, numbers: Sequence[int]) -> Iterator[int]:
        at = 0
        while at < len(numbers):
            count = self._lines.take(numbers[at : at + MAX_LINES])
            yield from numbers[at : at + count]
            at += count

    def _addresses(self, record: int) -> list[str | ByteRange]:
        """The addresses of a record's audio and context in an object store, or their ranges in containers there."""
        try:
            entry = self.record(record)
        except RecordRejected:
            return []
        if not entry.duration:  # a conversation of texts
            return []
        named = [entry.audio_filepath, entry.get(_CONTEXT) if _CONTEXT in entry.fields else None]
        paths = [self.audio_path(record, path) for path in named if isinstance(path, str) and path]
        return [catalogue for path in paths for catalogue in in_store(path)]

    def _has_audio_in_store(self) -> bool:
        """Whether audio is in an object store, judged by a sample of the records."""
        if any(map(is_address, self.base_dirs)):
            return True
        return any(self._addresses(number) for number in spread_over(len(self)))

    def missing_sample(self) -> str | None:
        """A message (`explain_missing`) if all of a few audio files, spread evenly, are missing; None if one exists."""
        sample = [(self.base_dir(number), record.audio_filepath) for number, record in self.sample() if record.duration]
        return explain_missing(sample, file=str(self.index.sources[0].path))

    def sample(self) -> Iterator[tuple[int, Record]]:
        """A few records with their numbers, spread evenly over all records."""
        for number in spread_over(len(self)):
            with contextlib.suppress(RecordRejected):
                yield number, self.record(number)

    @property
    def audio_base_dir(self) -> str | None:
        """The common base folder of the relative paths of all records; None if there are several."""
        return self.base_dirs[0] if self._one_base else None

    def merged_path(self, record: int, path: str) -> str:
        """The path of an audio file of the record in a merged manifest, which has the records of all manifests.

        `path` becomes absolute if it is relative and the manifests have different base folders; else it is unchanged.
        """
        return path if self._one_base or is_absolute(path) else self.audio_path(record, path)

    def merged_changes(self, record: int, entry: Record) -> dict[str, Value]:
        """The fields of a record that must change in a merged manifest: relative paths, each with the absolute path.

        Empty if all manifests have the same base folder.
        """
        return {} if self._one_base else self.absolute_paths(record, entry)

    def absolute_paths(self, record: int, entry: Record) -> dict[str, Value]:
        """The fields of a record that hold a relative path of audio, each with the absolute path."""
        paths = {name: entry.get(name) for name in AUDIO_FIELDS if name in entry.fields}
        return {
            name: self.audio_path(record, path)
            for name, path in paths.items()
            if isinstance(path, str) and path and not is_absolute(path)
        }

    def other_audio(self, record: int, entry: Record) -> dict[str, Value]:
        """As `absolute_paths`, without the audio of the record itself, which a data set has in a file of its own."""
        paths = self.absolute_paths(record, entry) if entry.fields.keys() & AUDIO_FIELDS[1:] else {}
        return {name: path for name, path in paths.items() if name != "audio_filepath"}

    def reject_source(self, record: int) -> bytes:
        """The record's line for `rejects.jsonl`, with absolute paths if the manifests have different base folders."""
        line = self.line(record)
        if self._one_base:
            return line
        try:
            entry = Record.parse(line)
        except RecordRejected:
            return line
        changes = self.merged_changes(record, entry)
        return entry.to_json(changes) if changes else line

    def original(self, record: int) -> tuple[bytes, Origin]:
        """The record's line for `rejects.jsonl` (`reject_source`), and its origin."""
        return self.reject_source(record), self.origin(record)

    def merged_details(self, out: AnyPath) -> dict[str, str]:
        """Details for the summary of a job that writes a merged manifest in the folder `out`.

        They explain the names of records in containers, and say that all paths are absolute if the manifests have
        several base folders. If neither applies, they name the base folder of paths, unless this is `out`.
        """
        paths = [source.path for source in self.index.sources]
        named = names_note(paths)
        base = self.audio_base_dir
        if base is None:
            return named | {"audio_base_dir": "none: the manifests are in several folders, so all paths are absolute"}
        paths_stay = base == absolute_folder(str(out)) or any(isinstance(path, Catalogue) for path in paths)
        return named if paths_stay else {"audio_base_dir": base}

    def layout(self, what: object, make: Callable[[Scratch], Values]) -> Values:
        """Return the values of a job's plan over these records.

        One rank calls `make` for all ranks (see `prepcli.planning.arrays.plan_once`). `what` must name the job,
        its settings, and all else that shapes the plan, except the records.
        """
        if self._workspace is None:
            return make(Scratch())
        return plan_once(self._workspace, self.index.folder, [__version__, self.base_dirs, what], make)

    def plan(
        self,
        units: Sequence[UnitT],
        contents: Contents,
        left_out: LeftOut = (),
        notes: Sequence[str] = (),
        *,
        may_be_long: bool = False,
    ) -> Plan[UnitT, Contents]:
        """Make the job's plan. It also has the numbers of input records and of rejects, which a complete run must have.

        `left_out`: the records that are in no unit; each is a reject. `may_be_long`: whether durations of hours are
        usual, which else may be milliseconds.
        """
        rejects = Counter(problem.reason.value for problem in self.index.problems)
        for reason, records in left_out:
            rejects[reason.value] += len(records)
        units_of_time = [] if may_be_long else notes_on_seconds(typical_seconds(self.index.duration))
        return Plan(
            units=list(units),
            records_in=len(self) + len(self.index.problems),
            contents=contents,
            inputs=[
                InputFile(source.path, source.sha256, source.state, content_digest) for source in self.index.sources
            ],
            planned_rejects={reason: count for reason, count in rejects.items() if count},
            num_skipped=self.index.num_skipped,
            notes=[*self.described, *notes, *units_of_time],
            reject_lines=partial(self.planned_rejects, left_out),
            missing_sample=self.missing_sample,
        )

    def planned_rejects(self, left_out: LeftOut = ()) -> Iterator[bytes]:
        """The reject lines of unusable lines and of the records left out, in input order."""
        for _, origin, line, rejected in heapq.merge(self._unusable(), self._left_out(left_out), key=itemgetter(0)):
            yield reject_line(line, rejected, origin)

    def _unusable(self) -> Iterator[_PlannedReject]:
        for problem in self.index.problems:
            origin = Origin(str(self.index.sources[problem.source].path), problem.line)
            rejected = RecordRejected(problem.reason, problem.detail)
            yield (problem.source, problem.line), origin, self._lines.problem_line(problem), rejected

    def _left_out(self, left_out: LeftOut) -> Iterator[_PlannedReject]:
        if not left_out:
            return
        records = np.concatenate([indices for _, indices in left_out])
        reasons = np.concatenate([np.full(len(indices), n) for n, (_, indices) in enumerate(left_out)])
        for position in np.argsort(records, kind="stable").tolist():
            record = int(records[position])
            origin = self.origin(record)
            reason = left_out[reasons[position]][0]
            detail = _DETAILS.get(reason) or f"its duration is {self.index.duration[record]:g} s"
            rejected = RecordRejected(reason, detail)
            yield (self.index.source_of(record), origin.line), origin, self.reject_source(record), rejected


def stem_of(path: str) -> str:
    """The name of a manifest without its extension, and without `.gz`."""
    return os.path.splitext(os.path.basename(path).removesuffix(".gz"))[0]


def extended_name(manifests: Sequence[str], suffix: str) -> str:
    """The file name of one manifest with the records of all `manifests` and further fields.

    It is the stem of the first of `manifests` and `suffix`; if there are N more, `_and_N_more` is between them.

    Raises:
        UsageError: the name is too long for a file system.
    """
    more = f"_and_{len(manifests) - 1}_more" if len(manifests) > 1 else ""
    name = f"{stem_of(manifests[0])}{more}{suffix}"
    if len(os.fsencode(name)) > MAX_NAME_BYTES:
        raise UsageError(
            f"the name of the extended manifest is too long for a file system: {name}; rename {manifests[0]}, or link "
            "to it"
        )
    return name


def base_directories(manifests: Sequence[str], audio_base_dir: PathText | AnyPath | None) -> list[str]:
    """For each manifest, the absolute base folder of its relative audio paths: `audio_base_dir`, or its own folder."""
    folders = [str(audio_base_dir or os.path.dirname(manifest) or ".") for manifest in manifests]
    known = {folder: absolute_folder(folder) for folder in dict.fromkeys(folders)}
    return [known[folder] for folder in folders]


def settings_over(manifests: Sequence[str], audio_base_dir: PathText | AnyPath | None, options: Any) -> dict[str, Any]:
    """The settings of a job: `options` (a dataclass), and the folders from which relative audio paths start."""
    return settings_of(options) | {AUDIO_BASE_DIRS: list(dict.fromkeys(base_directories(manifests, audio_base_dir)))}


def file_identity(index: ManifestIndex, audio_base_dir: AnyPath | None, scratch: Scratch | None = None) -> Hashes:
    """A 64-bit hash of each record's audio file, shape (n,); `index.keys["path"]` must hold hashes of `normal_path`.

    Without `audio_base_dir`, equal relative paths in manifests of different folders are different files.
    """
    paths = index.keys["path"]
    folders = base_directories([source.path for source in index.sources], audio_base_dir)
    number = {folder: n for n, folder in enumerate(dict.fromkeys(folders))}
    if len(number) <= 1:
        return paths
    files: Hashes = (scratch or Scratch()).empty(len(paths), np.uint64)
    for source, folder in enumerate(folders):
        for chunk in chunks(index.first[source + 1] - index.first[source]):
            here = slice(index.first[source] + chunk.start, index.first[source] + chunk.stop)
            files[here] = mix64(paths[here] ^ np.uint64(number[folder])) if number[folder] else paths[here]
    return files


def segment_identity(index: ManifestIndex, files: Hashes, scratch: Scratch | None = None) -> Hashes:
    """A 64-bit hash of each record's segment, shape (n,): of its file (see `file_identity`), offset and duration."""
    segments: Hashes = (scratch or Scratch()).empty(len(files), np.uint64)
    for chunk in chunks(len(files)):
        segments[chunk] = hash_segments(files[chunk], index.offset[chunk], index.duration[chunk])
    return segments


def hash_segments(files: Hashes, offset: NDArray[np.float64], duration: NDArray[np.float64]) -> Hashes:
    """A 64-bit hash of each segment, shape (n,), made from the hash of its file, its offset and its duration.

    Offset and duration may be in any unit, such as seconds or samples.
    """
    with np.errstate(over="ignore"):
        return mix64(files ^ mix64(offset.view(np.uint64)) ^ duration.view(np.uint64) * GOLDEN)
