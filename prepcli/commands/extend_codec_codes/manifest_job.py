"""extend-codec-codes for plain manifests: a file of codes for each segment, and a manifest that names them."""

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prepcli.commands.extend_codec_codes.codec_job import CodecJob
from prepcli.commands.extend_codec_codes.content import check_audio
from prepcli.commands.extend_codec_codes.file_segments import FileDecoder, FileSegment, find_segments
from prepcli.commands.extend_codec_codes.manifest_encoding import (
    LINES_NAME,
    LOST_NAME,
    RELIED_NAME,
    NamedSegments,
    RecordEncoder,
)
from prepcli.commands.extend_codec_codes.options import CodesOptions
from prepcli.commands.extend_codec_codes.statistics import statistics
from prepcli.commands.extend_codec_codes.uses import RecordGroup, SegmentTable, group_records, read_uses
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.state.plan import Plan
from prepcli.engine.state.work_folder import MAX_NAME_BYTES
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import PrepcliError, RecordRejected, UsageError
from prepcli.formats.names import absolute_folder
from prepcli.formats.plain_codes import FRAME_SHIFT, MANIFEST_NAME
from prepcli.jobs.model_job import Begin, Tick
from prepcli.jobs.prefetch import DecodingPool
from prepcli.jobs.records import AUDIO_BASE_DIRS, Records, base_directories
from prepcli.models.codecs import notes_on_codec_model
from prepcli.processes.workers import wait_for

MANY_FILES = 1_000_000
_PROBED_AT_ONCE = 256
_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ManifestContents:
    """The records, and the segments that they use."""

    records: Records
    table: SegmentTable
    folder: str
    """OUT as an absolute path."""


ManifestPlan = Plan[RecordGroup, ManifestContents]


class ManifestCodesJob(CodecJob[RecordGroup, ManifestContents]):
    """Encodes the targets and contexts of manifests. A unit is a few consecutive records."""

    def __init__(
        self,
        manifests: Sequence[str],
        audio_base_dir: Path | None,
        out: Path,
        options: CodesOptions,
        *,
        device: str = "cpu",
        num_workers: int = 1,
    ) -> None:
        """`audio_base_dir`: where relative paths start (None: from the folder of each manifest). `out`: OUT."""
        super().__init__(options, device, num_workers)
        self.manifests = manifests
        self._audio_base_dir = audio_base_dir
        self._folder = absolute_folder(str(out))
        if len(os.fsencode(self.manifest_name)) > MAX_NAME_BYTES:
            raise UsageError(
                f"the name of the extended manifest is too long for a file system: {self.manifest_name}; rename "
                f"{manifests[0]}, or link to it"
            )

    @property
    def manifest_name(self) -> str:
        """Name of the extended manifest."""
        stem = os.path.splitext(os.path.basename(self.manifests[0]).removesuffix(".gz"))[0]
        if len(self.manifests) > 1:
            stem += f"_and_{len(self.manifests) - 1}_more"
        return MANIFEST_NAME.format(stem, self.name)

    def output_patterns(self, plan: ManifestPlan) -> Sequence[str]:
        """The manifest, which names the codes."""
        return (glob.escape(self.manifest_name),)

    def settings(self, plan: ManifestPlan) -> dict[str, Any]:
        """The options, the model, where the audio lies, and where the codes do: the lines have their whole paths."""
        bases = base_directories(self.manifests, self._audio_base_dir)
        return self.codec_settings() | {AUDIO_BASE_DIRS: list(dict.fromkeys(bases)), "folder of codes": self._folder}

    def plan(self, workspace: Workspace) -> ManifestPlan:
        """Index the manifests, find out which segments their records use, and group consecutive records."""
        records = Records(self.manifests, self._audio_base_dir, workspace=workspace, num_workers=self.num_workers)
        table = read_uses(records)
        notes = [f"{table.num_segments:,} segments", *notes_on_codec_model(self.options.codec_model)]
        if table.num_segments > MANY_FILES:
            notes.append(
                f"{table.num_segments:,} files of codes: many file systems are slow with so many. Make a Shar of the "
                "manifest first (prepcli manifest-to-shar), whose codes are a file per shard"
            )
        units = list(group_records(records, table, self.options.pool_duration))
        return records.plan(units, ManifestContents(records, table, self._folder), notes=notes)

    def input_files(self, plan: ManifestPlan) -> list[str | Path]:
        """The manifests, and the codec where it is a file."""
        return [*self.manifests, self.options.codec_model]

    def missing_sample(self, plan: ManifestPlan) -> str | None:
        """Looks for a few audio files of the manifests."""
        return plan.contents.records.missing_sample()

    def planned_rejects(self, plan: ManifestPlan) -> Iterator[bytes]:
        """The lines that cannot be read."""
        return plan.contents.records.planned_rejects()

    def check_done(self, done: Sequence[RecordGroup], workspace: Workspace) -> None:
        """Refuse to continue if audio was replaced under the same manifest."""
        check_audio(workspace, done, Path(), self.num_workers)

    def decoder(self, contents: ManifestContents) -> FileDecoder:
        """Reads segments of files."""
        return FileDecoder(None if self.is_on_gpu else self.model.sampling_rate)

    def read_ahead(self, contents: ManifestContents, unit: RecordGroup, workers: DecodingPool[FileSegment]) -> Begin:
        """Workers probe the unit's files."""
        probed = _Probed(NamedSegments(contents.records, unit), workers)

        def begin(tick: Tick) -> RecordEncoder:
            seconds = contents.records.index.duration[unit.lo : unit.hi].tolist()
            return RecordEncoder(
                unit,
                probed.named.index(seconds, probed.found(tick)),
                contents.records,
                contents.table,
                contents.folder,
                self.model,
                self.options,
                on_gpu=self.is_on_gpu,
                mixes_lengths=self.mixes_lengths,
            )

        return begin

    def finish(self, plan: ManifestPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Join the lines of the units, in the order of the input; returns the path of the manifest, and statistics."""
        root, out = writer.workspace.root, writer.workspace.out
        self._check_relied(root, markers)
        manifest = writer.open(self.manifest_name)
        for marker in markers:
            with (root / LINES_NAME.format(marker.unit)).open("rb") as lines:
                while block := lines.read(_COPY_BYTES):
                    manifest.write(block)
        num_files = sum(len(marker.files) for marker in markers)
        details: dict[str, Any] = {"manifest": out / self.manifest_name, "files_of_codes": f"{num_files:,}"}
        details |= _frame_shift(markers)
        return details | plan.contents.records.merged_details(out) | statistics(markers)

    def _check_relied(self, root: Path, markers: Sequence[Marker]) -> None:
        """Check that other units have written what records name.

        A segment that can be decoded, and for which the codec has too little memory, is found out by the unit that
        encodes it, and not by others that name it as their context.

        Raises:
            PrepcliError: there is such a segment.
        """
        lost = [np.load(root / LOST_NAME.format(marker.unit)) for marker in markers]
        relied = [np.load(root / RELIED_NAME.format(marker.unit)) for marker in markers]
        if any(map(len, lost)) and (both := np.intersect1d(np.concatenate(lost), np.concatenate(relied))).size:
            raise PrepcliError(
                f"{len(both):,} segments that records have as their context could not be encoded, see the rejects in "
                f"{root}/rejects; take a device with more memory, and give --retry-rejects, or leave these records out"
            )


def _frame_shift(markers: Sequence[Marker]) -> dict[str, float]:
    """Seconds of a frame, as the units say; the codec is not loaded where another rank has encoded everything."""
    found = [marker.extra[FRAME_SHIFT] for marker in markers if FRAME_SHIFT in marker.extra]
    return {FRAME_SHIFT: found[0]} if found else {}


class _Probed:
    """The segments of a unit, and their files, which workers are looking at."""

    def __init__(self, named: NamedSegments, workers: DecodingPool[FileSegment]) -> None:
        self.named = named
        distinct = named.distinct
        self._keys = list(distinct)
        uses = list(distinct.values())
        self._futures: list[Future[list[FileSegment | RecordRejected]]] = [
            workers.submit(find_segments, uses[at : at + _PROBED_AT_ONCE])
            for at in range(0, len(uses), _PROBED_AT_ONCE)
        ]

    def found(self, tick: Callable[[], None]) -> dict[int, FileSegment | RecordRejected]:
        """What was found, by the keys of the segments."""
        found = [one for future in self._futures for one in wait_for(future, tick)]
        return dict(zip(self._keys, found, strict=True))
