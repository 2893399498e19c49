"""find-duplicates: finds records with (nearly) the same audio or text, and speakers that occur in several inputs."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from prepcli.audio.encode import to_int16
from prepcli.audio.fingerprint import fingerprint
from prepcli.audio.probe import Probes
from prepcli.audio.segments import DUPLICATES, decode, locate
from prepcli.commands.find_duplicates.groups import GroupWriter, equal_keys, with_several
from prepcli.commands.find_duplicates.near import Fingerprints
from prepcli.commands.find_duplicates.options import AUDIO, NEAR_AUDIO, FindDuplicates
from prepcli.commands.find_duplicates.report import DuplicatesReport
from prepcli.commands.find_duplicates.twins import Twins, by_duration
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.run import run_job
from prepcli.engine.run.starting import revisions_of
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.workspace import FileWorkspace, Workspace, real_file
from prepcli.jobs.inputs.named import manifests_of
from prepcli.jobs.record_job import RecordContents, RecordJob, RecordUnit, RecordWriter, even_bounds, units_of
from prepcli.manifest.normal_text import normal_text
from prepcli.manifest.output_name import check_manifest_name
from prepcli.manifest.record import Record
from prepcli.planning.split import Indices, seconds_of

_KEYS_NAME = "parts/{}.keys"
_WORDS_NAME, _COUNTS_NAME, _TWINS_NAME = "parts/{}.words", "parts/{}.counts", "parts/{}.twins"
_KEY_BYTES = 16
_NO_KEY = bytes(_KEY_BYTES)
_UNIT_SIZE = 500


DuplicatesPlan = Plan[RecordUnit, RecordContents]


class DuplicatesJob(RecordJob[RecordUnit, RecordContents]):
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
        """Index the manifests, and cut the records into units.

        The records stay in the order of the manifests; only if audio is decoded, `by_duration` orders them.
        """
        records = self.read(workspace)
        bounds = even_bounds(len(records), _UNIT_SIZE)
        order = None
        if self.reads_audio_files:
            order = self.layout(records, lambda scratch: {"order": by_duration(records, scratch)})["order"]
        seconds = seconds_of(records.index.duration, np.arange(len(records)) if order is None else order, bounds)
        name = "records" if order is None else "audio"
        units = units_of(name, bounds.tolist(), seconds.tolist(), make=RecordUnit)
        return records.plan(units, RecordContents(records, order=order))

    def settings(self, plan: DuplicatesPlan) -> dict[str, Any]:
        """The options, and for each manifest the number of its input."""
        return self.own_settings() | {"inputs": self._input_of}

    def open_unit(self, contents: RecordContents, unit: RecordUnit, writer: UnitWriter) -> "_Keys":
        """Return the object that computes the keys of a unit's records."""
        return _Keys(contents, contents.numbers(unit), writer, self.kinds)

    def finish(self, plan: DuplicatesPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Find records with equal keys, and write them in groups; `found` in the result has the counts of each kind."""
        records = plan.contents.records
        parts = [np.fromfile(writer.part(_KEYS_NAME.format(marker.unit)), "<u8") for marker in markers]
        in_units = np.concatenate([np.empty(0, np.uint64), *parts]).reshape(-1, len(self.kinds), 2)
        order = np.arange(len(records)) if plan.contents.order is None else plan.contents.order
        keys = np.empty_like(in_units)
        keys[order] = in_units
        groups = GroupWriter(writer.open(self.options.out.name), records, self._input_of)
        for column, kind in enumerate(self.kinds):
            of_kind, more = keys[:, column], {}
            if kind == NEAR_AUDIO:
                of_kind[:, 0], num_short = _near_audio_keys(markers, order, writer)
                more["not_compared"] = num_short
            numbers, group_of = equal_keys(of_kind)
            if self.options.between or kind == "speaker":
                numbers, group_of = with_several(numbers, group_of, groups.input_of)
            if kind == NEAR_AUDIO:  # within an input, the longest record comes first
                durations = records.index.duration[numbers]
                numbers = numbers[np.lexsort((numbers, -durations, groups.input_of[numbers], group_of))]
            groups.write(kind, numbers, group_of, **more)
        return {"duplicates": self.options.out, "between": self.options.between, "found": groups.rows}


class _Keys(RecordWriter):
    """Computes the keys of a unit's records. A key is zero if its value is missing, or the record is rejected.

    The words of a fingerprint are written as soon as they are computed, to a separate file, because a unit may have
    hundreds of long recordings.
    """

    def __init__(
        self, contents: RecordContents, numbers: Sequence[int], writer: UnitWriter, kinds: Sequence[str]
    ) -> None:
        self._records, self._numbers, self._writer, self._kinds = contents.records, numbers, writer, kinds
        self._keys: dict[int, bytes] = {}
        self._probes, self._twins = Probes(1), Twins()
        self._decoded: dict[int, bytes] = {}
        self._earlier: dict[int, int] = {}
        self._words = writer.open_part(_WORDS_NAME.format(writer.unit.id)) if NEAR_AUDIO in kinds else None
        self._counts: dict[int, int] = {}

    def add(self, number: int, record: Record) -> float:
        """Compute the keys of a record; returns its seconds of audio."""
        of_audio = self._of_audio(number, record) if not {AUDIO, NEAR_AUDIO}.isdisjoint(self._kinds) else {}
        keys = (of_audio[kind] if kind in of_audio else _key(kind, record.get(kind)) for kind in self._kinds)
        self._keys[number] = b"".join(keys)
        return record.duration

    def _of_audio(self, number: int, record: Record) -> dict[str, bytes]:
        """Decode a record, and compute its key for `audio` and its fingerprint words for `near-audio`.

        If the file of an earlier record has the same bytes, the record is not decoded: it shares the key and the words
        of the earlier record.

        Returns:
            The key of each kind. The key for `near-audio` is zero here; `finish` computes it from the words.
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

    def close(self) -> None:
        """Write the keys, in the order of the records."""
        none = _NO_KEY * len(self._kinds)
        keys = (self._keys.get(number, none) for number in self._numbers)
        self._writer.open_part(_KEYS_NAME.format(self._writer.unit.id)).write(b"".join(keys))
        if self._words is not None:
            counts = [self._counts.get(number, 0) for number in self._numbers]
            earlier = [self._earlier.get(number, number) for number in self._numbers]
            for name, values in ((_COUNTS_NAME, counts), (_TWINS_NAME, earlier)):
                self._writer.open_part(name.format(self._writer.unit.id)).write(np.array(values, "<i8").tobytes())


def _key(kind: str, value: object) -> bytes:
    """The key of a record for the value of its field `kind`; zero if the value is missing or empty."""
    if kind == "text":
        text = normal_text(value) if isinstance(value, str) else ""
    else:
        text = "" if value is None else str(value)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest() if text else _NO_KEY


def _near_audio_keys(markers: Sequence[Marker], order: Indices, writer: UnitWriter) -> tuple[NDArray[np.uint64], int]:
    """Compute the `near-audio` keys of all records; returns the keys, and how many records have too little sound.

    Records with nearly the same audio have equal keys. Rejected records are not in the count.
    """
    fingerprints = Fingerprints(writer.folder)
    twins = np.empty_like(order)
    done = 0
    for marker in markers:
        names = (name.format(marker.unit) for name in (_WORDS_NAME, _COUNTS_NAME, _TWINS_NAME))
        words, counts, earlier = map(writer.part, names)
        fingerprints.add(np.fromfile(words, "<u4"), of_records := np.fromfile(counts, "<i8"))
        twins[order[done : done + len(of_records)]] = np.fromfile(earlier, "<i8")
        done += len(of_records)
    labels, is_compared = np.empty_like(order), np.empty(len(order), bool)
    labels[order], is_compared[order] = fingerprints.labels()
    rejected = sum(sum(marker.rejects.values()) for marker in markers)
    return labels[twins].astype(np.uint64) + np.uint64(1), int(np.count_nonzero(~is_compared[twins])) - rejected


def find_duplicates(options: FindDuplicates) -> DuplicatesReport:
    """Find records with the same audio, the same text, or the same speaker in several inputs.

    Returns:
        The report; `details["found"]` counts groups, `outputs["duplicates"]` is the file with their records.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
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
    if options.speaker_model is None:
        report = run_job(DuplicatesJob(inputs, options, engine.num_workers), workspace, engine)
    else:
        from prepcli.commands.find_duplicates.same_voice import SameVoiceJob
        from prepcli.models.ranks import run_on_devices

        make_job = partial(SameVoiceJob, inputs, options, num_workers=engine.num_workers)
        report = run_on_devices(make_job, options.devices, workspace, engine)
    return msgspec.convert(report, DuplicatesReport, from_attributes=True)
