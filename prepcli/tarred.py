"""manifest-to-tarred: NeMo manifests become numbered tar shards with their manifests."""

import heapq
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

from prepcli.audio.convert import Stored, Wanted, convert, read_file
from prepcli.audio.probe import AudioInfo, probe_bytes, probe_file
from prepcli.audio.read import segment_samples
from prepcli.errors import RecordRejected, UsageError
from prepcli.manifest.index import LineReader, ManifestIndex, index_manifests
from prepcli.manifest.record import Record
from prepcli.run.job import Advance, Job
from prepcli.run.plan import InputFile, Plan, Unit
from prepcli.run.publish import Marker, UnitWriter
from prepcli.run.rejects import Origin, reject_line
from prepcli.shards.names import member_stem, normal_path, segment_suffix, tagged, unloadable_folder
from prepcli.shards.nemo_tarred import OUTPUT_PATTERNS, SHARD_MANIFEST_NAME, TAR_NAME, ExistingSet
from prepcli.shards.tar import TarWriter
from prepcli.tarred_merge import merge_set
from prepcli.tarred_plan import TarredOptions, TarredPlan, TarSet, plan_sets

SAME_LENGTH_SECONDS = 0.02
"""A duration that differs from the file's by less is taken for the file's, rounded."""


# Place (source, line), origin, the line itself, why.
_PlannedReject = tuple[tuple[int, int], Origin, bytes, RecordRejected]


@dataclass(frozen=True, slots=True)
class _Shard:
    tar_set: TarSet
    number: int
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class _Member:
    """A tar member that is there already, for the next record that uses the same audio."""

    name: str
    info: AudioInfo
    sampling_rate: int


class TarredJob(Job):
    """Turns manifests into a tarred set in `out`; with `base`, adds shards to the set that is there.

    A unit is a shard. `work` is the job's OUT.prepcli: a compressed manifest is unpacked there.
    """

    command: ClassVar[str] = "manifest-to-tarred"

    def __init__(
        self,
        manifests: Sequence[str],
        out: Path,
        work: Path | None,
        options: TarredOptions,
        base: ExistingSet | None = None,
        num_workers: int = 1,
    ) -> None:
        options.check()
        reason = unloadable_folder(str(out.absolute()))
        if reason:
            raise UsageError(f"NeMo could not load a data set from {out}: {reason}. Choose another directory")
        self.manifests = manifests
        self.out = out
        self.options = options
        self.base = base
        self.wanted = Wanted(options.force_codec, options.target_sample_rate)
        self._bases = [_base_dir(manifest, options.audio_base_dir) for manifest in manifests]
        self._work = work
        self._num_workers = num_workers
        self._plan: Plan | None = None
        self.index: ManifestIndex
        self.sets: TarredPlan
        self._lines: LineReader
        self._shards: dict[str, _Shard] = {}

    @property
    def output_patterns(self) -> Sequence[str]:  # type: ignore[override]
        """What the job writes below OUT: of a concatenation only the new shards and the new version."""
        if self.base is not None:
            version = self.base.version + 1
            new = [shard.number for shard in self._shards.values()]
            names = [name.format(number) for number in new for name in (TAR_NAME, SHARD_MANIFEST_NAME)]
            return [*names, f"tarred_audio_manifest_version_{version}.json", f"metadata_version_{version}.yaml"]
        return [*OUTPUT_PATTERNS, *(f"bucket*/{pattern}" for pattern in OUTPUT_PATTERNS)]

    def settings(self) -> dict[str, Any]:
        """The options; where the audio lies; the version that a concatenation builds on."""
        settings = self.options.settings() | {"audio lies in": list(dict.fromkeys(self._bases))}
        if self.base is not None:
            settings["--concat-to version"] = self.base.version
        return settings

    def plan(self) -> Plan:
        """Index the manifests and divide their records into shards; a second call returns the same plan."""
        if self._plan is not None:
            return self._plan
        keys: Mapping[str, Callable[[str], str]] = {"path": normal_path, "stem": member_stem}
        if any(path.endswith(".gz") for path in self.manifests):
            spool = self._work / "spool" if self._work else Path(tempfile.mkdtemp(prefix="prepcli-"))
        else:
            spool = None
        index = index_manifests(self.manifests, num_workers=self._num_workers, keys=keys, spool_dir=spool)
        if spool is not None and self._work is None:
            shutil.rmtree(spool)
        self.index, self._lines = index, LineReader(index)
        records_in = len(index) + len(index.problems)
        if records_in == 0:
            skipped = f" (all {index.num_skipped} have a true _skipme)" if index.num_skipped else ""
            raise UsageError(f"no records in {', '.join(self.manifests)}{skipped}")
        self.sets = plan_sets(index, self.options) if len(index) else TarredPlan(sets=[])
        rejects: dict[str, int] = {}
        for reason in [problem.reason for problem in index.problems]:
            rejects[reason.value] = rejects.get(reason.value, 0) + 1
        for reason, records in self.sets.left_out:
            if len(records):
                rejects[reason.value] = rejects.get(reason.value, 0) + len(records)
        self._plan = Plan(
            units=list(self._units()),
            records_in=records_in,
            inputs=[InputFile(source.path, source.sha256) for source in index.sources],
            planned_rejects=rejects,
            num_skipped=index.num_skipped,
            notes=self._notes(),
        )
        return self._plan

    def _units(self) -> Iterator[Unit]:
        first = self.base.num_shards if self.base else 0
        for tar_set in self.sets.sets:
            durations = self.index.duration[tar_set.records]
            for k, (lo, hi) in enumerate(zip(tar_set.bounds[:-1], tar_set.bounds[1:], strict=True)):
                unit_id = f"{tar_set.folder.replace('/', '-')}shard_{first + k:06d}"
                self._shards[unit_id] = _Shard(tar_set, first + k, int(lo), int(hi))
                yield Unit(unit_id, float(durations[lo:hi].sum()), int(hi - lo))

    def _notes(self) -> list[str]:
        notes = []
        if self.sets.num_same_segment:
            notes.append(
                f"{self.sets.num_same_segment:,} records name the same segment as an earlier one; they are kept"
            )
        return notes

    def planned_rejects(self) -> Iterator[bytes]:
        """Lines that could not be read and records that the options leave out, in input order."""
        for _, origin, line, rejected in heapq.merge(self._unusable(), self._left_out(), key=itemgetter(0)):
            yield reject_line(line, rejected, origin)

    def _unusable(self) -> Iterator[_PlannedReject]:
        for problem in self.index.problems:
            origin = Origin(self.index.sources[problem.source].path, problem.line)
            rejected = RecordRejected(problem.reason, problem.detail)
            yield (problem.source, problem.line), origin, self._lines.problem_line(problem), rejected

    def _left_out(self) -> Iterator[_PlannedReject]:
        for record, reason in self.sets.left_out_in_order():
            origin = self._origin(record)
            rejected = RecordRejected(reason, f"its duration is {self.index.duration[record]:g} s")
            yield (self.index.source_of(record), origin.line), origin, self._lines.line(record), rejected

    def _origin(self, record: int) -> Origin:
        return Origin(self.index.sources[self.index.source_of(record)].path, self.index.line_number(record))

    def process(self, unit: Unit, writer: UnitWriter, advance: Advance) -> None:
        """Write one shard: its tar, and its manifest last."""
        shard = self._shards[unit.id]
        folder = shard.tar_set.folder
        tar = None
        if not self.options.only_manifests:
            tar = TarWriter(writer.open(folder + TAR_NAME.format(shard.number)))
        name = folder + SHARD_MANIFEST_NAME.format(shard.number)
        manifest = writer.open(name) if self.options.shard_manifests else writer.open_part(f"parts/{name}")
        members: dict[tuple[object, ...], _Member] = {}
        for record_number in shard.tar_set.records[shard.lo : shard.hi].tolist():
            line = self._lines.line(record_number)
            try:
                record = Record.parse(line)
                changes, remove = self._place(record_number, record, shard.number, members, tar)
            except RecordRejected as rejected:
                writer.reject(line, rejected, self._origin(record_number))
            else:
                manifest.write(record.to_json(changes, remove) + b"\n")
                writer.count(1, record.duration)
            advance(1, float(self.index.duration[record_number]))
        if tar is not None:
            tar.close()

    def _place(
        self,
        number: int,
        record: Record,
        shard: int,
        members: dict[tuple[object, ...], _Member],
        tar: TarWriter | None,
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Store the record's audio, unless the shard has it; return the changes to its manifest line."""
        base = self._bases[self.index.source_of(number)]
        path = os.path.join(base, normal_path(record.audio_filepath))
        sliced = self.options.slice_with_offset
        key = (path, record.offset, record.duration) if sliced else (path,)
        stem = self._stem(number, record, shard)
        changes: dict[str, Any] = {"shard_id": shard}
        if tar is None:
            extension = self.options.force_codec or os.path.splitext(path)[1][1:].lower() or "wav"
            changes |= {"audio_filepath": f"{stem}.{extension}", "abs_audio_filepath": path}
        else:
            member = members.get(key)
            if member is None:
                info, stored = self._load(path, record)
                member = _Member(f"{stem}.{stored.format}", info, stored.sampling_rate)
                tar.add(member.name, stored.data)
                members[key] = member
            else:
                segment_samples(member.info, record.offset, record.duration)  # reject what ends beyond the file
            changes["audio_filepath"] = member.name
            changes |= self._rate_changes(record, member)
            if not sliced and not record.has_offset and record.duration < member.info.duration - SAME_LENGTH_SECONDS:
                changes["offset"] = 0.0  # the beginning of a longer file: say so
        if sliced:
            changes["source_audio_offset"] = record.fields["offset"] if record.has_offset else 0.0
            return changes, ("offset",)
        return changes, () if record.has_offset or "offset" in changes else ("offset",)

    def _stem(self, number: int, record: Record, shard: int) -> str:
        stem = member_stem(record.audio_filepath)
        if self.sets.ambiguous[number]:
            base = self._bases[self.index.source_of(number)]
            stem = tagged(stem, self._bases.index(base), normal_path(record.audio_filepath))
        if self.options.slice_with_offset:
            stem += segment_suffix(record.offset, record.duration)
        if self.sets.repeated[number]:
            stem += f"-shard{shard}"
        return stem

    def _rate_changes(self, record: Record, member: _Member) -> Mapping[str, int]:
        if member.sampling_rate == member.info.sampling_rate:
            return {}
        return {name: member.sampling_rate for name in ("sampling_rate", "sample_rate") if name in record.fields}

    def _load(self, path: str, record: Record) -> tuple[AudioInfo, Stored]:
        """Read, check and, where asked for, cut and encode the record's audio."""
        if self.options.slice_with_offset:
            info = probe_file(path)
            start, num_samples = segment_samples(info, record.offset, record.duration)
            if (start, num_samples) == (0, info.num_samples) and self.wanted.is_met_by(info):
                return info, Stored(read_file(path), info.format, info.sampling_rate)
            return info, convert(path, info, self.wanted, start, num_samples, name=path)
        data = read_file(path)
        info = probe_bytes(data, path)
        segment_samples(info, record.offset, record.duration)
        if self.wanted.is_met_by(info):
            return info, Stored(data, info.format, info.sampling_rate)
        return info, convert(data, info, self.wanted, name=path)

    def finish(self, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Write the manifest and metadata of each set."""
        created = max(Path(path).stat().st_mtime for path in self.manifests)
        details: dict[str, Any] = {}
        parts = (self._work or self.out) / "parts"
        for tar_set in self.sets.sets:
            details |= merge_set(self.out, parts, writer, tar_set, self.options, self.base, created)
        return details


def _base_dir(manifest: str, audio_base_dir: Path | None) -> str:
    """Absolute path of the folder that the manifest's relative audio paths start from."""
    return os.path.abspath(audio_base_dir or os.path.dirname(manifest) or ".")
