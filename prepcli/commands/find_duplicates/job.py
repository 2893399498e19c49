"""find-duplicates: finds records with (nearly) the same audio or the same text, and speakers of several inputs."""

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.audio.encode import to_int16
from prepcli.audio.fingerprint import fingerprint
from prepcli.audio.segments import DUPLICATES, Probes, decode, locate
from prepcli.commands.find_duplicates.near import Fingerprints
from prepcli.commands.find_duplicates.options import AUDIO, NEAR_AUDIO, FindDuplicates
from prepcli.commands.find_duplicates.report import DuplicatesReport
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.run import run_job
from prepcli.engine.run.starting import revisions_of
from prepcli.engine.state.file_output import FileWorkspace, real_file
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.jobs.inputs.named import manifests_of
from prepcli.jobs.record_job import RecordContents, RecordJob, RecordUnit, RecordWriter, even_bounds, units_of
from prepcli.jobs.selection import PATHS
from prepcli.manifest.normal_text import normal_text
from prepcli.manifest.output_name import check_manifest_name
from prepcli.manifest.record import Record, Value
from prepcli.planning.split import seconds_of

_KEYS_NAME = "parts/{}.keys"
_WORDS_NAME, _COUNTS_NAME = "parts/{}.words", "parts/{}.counts"
_KEY_BYTES = 16
_NO_KEY = bytes(_KEY_BYTES)
_UNIT_SIZE = 500
_LINES_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class DuplicatesContents(RecordContents):
    """The records, and for each manifest the number of its input."""

    input_of: list[int]


DuplicatesPlan = Plan[RecordUnit, DuplicatesContents]


class DuplicatesJob(RecordJob[RecordUnit, DuplicatesContents]):
    """Writes one file. A unit computes the keys of its records; equal keys are found at the end."""

    command: ClassVar[str] = "find-duplicates"
    telemetry = ("between",)

    def __init__(self, inputs: Sequence[Sequence[str]], options: FindDuplicates, num_workers: int) -> None:
        """`inputs`: the manifests of each input."""
        check_manifest_name(options.out, self.command, "duplicates.jsonl")
        self.kinds = options.kinds()
        self.manifests = [path for paths in inputs for path in paths]
        self._input_of = [number for number, paths in enumerate(inputs) for _ in paths]
        self.options, self.num_workers = options, num_workers
        self.reads_audio_files = not {AUDIO, NEAR_AUDIO}.isdisjoint(self.kinds)

    def plan(self, workspace: Workspace) -> DuplicatesPlan:
        """Index the manifests, and cut the records into units in their order."""
        records = self.read(workspace)
        bounds = even_bounds(len(records), _UNIT_SIZE)
        order = np.arange(len(records))
        seconds = seconds_of(records.index.duration, order, bounds)
        units = units_of("records", bounds.tolist(), seconds.tolist(), make=RecordUnit)
        return records.plan(units, DuplicatesContents(records, input_of=self._input_of))

    def settings(self, plan: DuplicatesPlan) -> dict[str, Any]:
        """The options, and which manifests belong to one input."""
        return self.own_settings() | {"inputs": self._input_of}

    def missing_sample(self, plan: DuplicatesPlan) -> str | None:
        """Look for a few audio files, if audio is compared."""
        return super().missing_sample(plan) if self.reads_audio_files else None

    def output_patterns(self, plan: DuplicatesPlan) -> Sequence[str]:
        """The file of groups."""
        return (glob.escape(self.options.out.name),)

    def open_unit(self, contents: DuplicatesContents, unit: RecordUnit, writer: UnitWriter) -> "_Keys":
        """Compute the keys of a unit."""
        return _Keys(contents, unit, writer, self.kinds)

    def finish(self, plan: DuplicatesPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Find equal keys, and write their records."""
        contents, root = plan.contents, writer.workspace.root
        durations = contents.records.index.duration
        parts = [np.fromfile(root / _KEYS_NAME.format(marker.unit), "<u8") for marker in markers]
        keys = np.concatenate([np.empty(0, np.uint64), *parts]).reshape(-1, len(self.kinds), 2)
        source_of = np.searchsorted(contents.records.index.first, np.arange(len(keys)), side="right") - 1
        input_of = np.array(self._input_of)[source_of] if len(keys) else np.empty(0, np.int64)
        file = writer.open(self.options.out.name)
        rows, number = [], 0
        for column, kind in enumerate(self.kinds):
            of_kind = keys[:, column]
            more = {}
            if kind == NEAR_AUDIO:
                of_kind[:, 0], is_compared = _near(markers, root, writer.folder)
                more["not_compared"] = int(np.count_nonzero(~is_compared))
            records, group_of = equal_keys(of_kind)
            if self.options.between or kind == "speaker":
                records, group_of = _over_two_inputs(records, group_of, input_of)
            if kind == NEAR_AUDIO:
                records = records[np.lexsort((records, -durations[records], input_of[records], group_of))]
            place = _places(group_of)
            lines = self._lines(contents, kind, records, group_of + number, place)
            while block := b"".join(line for line, _ in zip(lines, range(_LINES_AT_ONCE), strict=False)):
                file.write(block)
            count = int(group_of[-1]) + 1 if len(group_of) else 0
            beyond = float(durations[records[place > 0]].sum()) / 3600
            found = {"by": kind, "groups": count, "records": len(records), "hours_beyond_first": round(beyond, 4)}
            rows.append(found | more)
            number += count
        return {"duplicates": self.options.out, "between": self.options.between, "found": rows}

    def _lines(
        self,
        contents: DuplicatesContents,
        kind: str,
        numbers: NDArray[np.int64],
        group_of: NDArray[np.int64],
        place: NDArray[np.int64],
    ) -> Iterator[bytes]:
        """The lines of the records of groups."""
        records = contents.records
        for number, group, at in zip(numbers.tolist(), group_of.tolist(), place.tolist(), strict=True):
            record = records.record(number)
            named = {name: record.get(name) for name in PATHS if name in record.fields}
            changes: dict[str, Value] = {
                name: records.audio_path(number, path) for name, path in named.items() if isinstance(path, str) and path
            }
            origin = records.origin(number)
            changes |= {"duplicate_by": kind, "duplicate_group": group, "duplicate_place": at}
            changes |= {"manifest_filepath": origin.manifest, "manifest_line": origin.line}
            yield record.to_json(changes) + b"\n"


class _Keys(RecordWriter):
    """Computes the keys of a unit's records; zeros for what is missing, and for rejected records.

    The words of fingerprints are in a file of their own, because a unit may have hundreds of long recordings.
    """

    def __init__(
        self, contents: DuplicatesContents, unit: RecordUnit, writer: UnitWriter, kinds: Sequence[str]
    ) -> None:
        self._records, self._unit, self._writer, self._kinds = contents.records, unit, writer, kinds
        self._keys: dict[int, bytes] = {}
        self._probes = Probes(1)
        self._words = writer.open_part(_WORDS_NAME.format(unit.id)) if NEAR_AUDIO in kinds else None
        self._counts = np.zeros(unit.num_records, "<i8")

    def add(self, number: int, record: Record) -> float:
        """Compute the keys of a record."""
        of_audio = self._of_audio(number, record) if not {AUDIO, NEAR_AUDIO}.isdisjoint(self._kinds) else {}
        keys = (of_audio[kind] if kind in of_audio else _key(kind, record.get(kind)) for kind in self._kinds)
        self._keys[number] = b"".join(keys)
        return record.duration

    def _of_audio(self, number: int, record: Record) -> dict[str, bytes]:
        """Decode a record, once for both kinds; returns their keys, of which that of fingerprints is found later."""
        path = self._records.audio_path(number, record.audio_filepath)
        info = self._probes(path)
        segment = locate(path, info, record.offset, record.duration, record.get("channel"), DUPLICATES, path)
        samples = to_int16(decode(segment))
        if self._words is not None:
            words = fingerprint(samples, info.sampling_rate)
            self._words.write(words.astype("<u4").tobytes())
            self._counts[number - self._unit.lo] = len(words)
        key = _NO_KEY
        if AUDIO in self._kinds:
            shape = f"{info.sampling_rate} {samples.shape[1]} ".encode()
            hashed = blake2b(shape + np.ascontiguousarray(samples, "<i2").tobytes(), digest_size=_KEY_BYTES)
            key = hashed.digest()
        return {AUDIO: key, NEAR_AUDIO: _NO_KEY}

    def close(self) -> None:
        """Write the keys, in the order of the records."""
        none = _NO_KEY * len(self._kinds)
        keys = (self._keys.get(number, none) for number in range(self._unit.lo, self._unit.hi))
        self._writer.open_part(_KEYS_NAME.format(self._unit.id)).write(b"".join(keys))
        if self._words is not None:
            self._writer.open_part(_COUNTS_NAME.format(self._unit.id)).write(self._counts.tobytes())


def _key(kind: str, value: object) -> bytes:
    """The key of the value of a field."""
    if kind == "text":
        text = normal_text(value) if isinstance(value, str) else ""
    else:
        text = "" if value is None else str(value)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest() if text else _NO_KEY


def _near(markers: Sequence[Marker], root: Path, folder: Path) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """A key for each record, equal for those with nearly the same audio, and whether it could be compared."""
    fingerprints = Fingerprints(folder)
    for marker in markers:
        words, counts = (root / name.format(marker.unit) for name in (_WORDS_NAME, _COUNTS_NAME))
        fingerprints.add(np.fromfile(words, "<u4"), np.fromfile(counts, "<i8"))
    labels, is_compared = fingerprints.labels()
    return labels.astype(np.uint64) + np.uint64(1), is_compared


def equal_keys(keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The positions with a key that occurs more than once, group by group, and the number of the group of each.

    Groups come in the order of their first positions, positions ascend in a group; a key of zeros is none. `keys` has
    the shape (n, 2).
    """
    there = np.flatnonzero(keys.any(axis=1))
    order = there[np.lexsort((there, keys[there, 1], keys[there, 0]))]
    ordered = keys[order]
    same = (ordered[1:] == ordered[:-1]).all(axis=1)
    begins = np.concatenate(([True], ~same)) if len(order) else np.empty(0, bool)
    group = np.cumsum(begins) - 1
    repeated = np.bincount(group)[group] > 1 if len(order) else begins
    order, group = order[repeated], group[repeated]
    first = order[np.concatenate(([True], group[1:] != group[:-1]))] if len(order) else order
    sizes = np.bincount(np.unique(group, return_inverse=True)[1]) if len(order) else np.empty(0, np.int64)
    by_first = np.lexsort((order, np.repeat(first, sizes)))
    order = order[by_first]
    return order, np.repeat(np.arange(len(sizes)), sizes[np.argsort(first)])


def _over_two_inputs(
    records: NDArray[np.int64], group_of: NDArray[np.int64], input_of: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The groups whose records are of two inputs or more, numbered again."""
    if not len(records):
        return records, group_of
    count = int(group_of[-1]) + 1
    least, most = np.full(count, len(input_of)), np.full(count, -1)
    np.minimum.at(least, group_of, input_of[records])
    np.maximum.at(most, group_of, input_of[records])
    kept = (most > least)[group_of]
    return records[kept], np.unique(group_of[kept], return_inverse=True)[1]


def _places(group_of: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each record in its group, from 0; records of a group follow each other."""
    first = np.searchsorted(group_of, group_of)
    return np.arange(len(group_of)) - first


def find_duplicates(options: FindDuplicates) -> DuplicatesReport:
    """Find records with the same audio, the same text, or the same speaker in several inputs.

    Returns:
        The report; `details["found"]` counts groups, `outputs["duplicates"]` is the file with their records.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Example:
        >>> import prepcli
        >>> report = prepcli.find_duplicates(["manifest.json", "segments.json"], "duplicates.jsonl", by="text,speaker")
        >>> [(one["by"], one["groups"]) for one in report.details["found"]]
        [('text', 6), ('speaker', 1)]
    """
    engine = options.engine()
    options = replace(options, out=real_file(options.out))
    options.kinds()
    workspace = FileWorkspace(options.out)
    inputs = [manifests_of(one, options, partial(revisions_of, workspace, engine)) for one in options.inputs]
    job = DuplicatesJob(inputs, options, engine.num_workers)
    return msgspec.convert(run_job(job, workspace, engine), DuplicatesReport, from_attributes=True)
