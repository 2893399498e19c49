"""manifest-to-mels: NeMo manifests become mel-spectrograms and file lists for Tacotron 2 and WaveGlow."""

import glob
import os
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from prepcli.audio.rates import rate_counts, rates_note
from prepcli.commands.exports.job import ExportContents, ExportJob, ExportPlan, ExportShard, ShardWriter
from prepcli.commands.exports.mels.clips import NORMALIZED_TEXT, TEXT, Clip, find_clip, read_clip
from prepcli.commands.exports.mels.options import MelsOptions
from prepcli.commands.exports.mels.spectrogram import MelSpectrogram
from prepcli.engine.publishing.output_files import OutputFile
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError
from prepcli.formats.mels import AUDIO, LIST_NAME, MEL, MEL_NAME
from prepcli.formats.tensors import tensor_bytes
from prepcli.manifest.record import Record

if TYPE_CHECKING:
    from torch import Tensor

SEGMENTS, OTHER_AUDIO = "segments", "other_audio"
"""What the units count for the summary: clips that the list of audio cannot name, and files trainers cannot read.

Without `--text-field` they also count the clips by the field of their text.
"""
_CLIPS_PER_UNIT = 256
_PART_NAME = "parts/{}.{}.{}"
_MANY_FILES = 1_000_000


class MelsJob(ExportJob):
    """Turns manifests into mels on the CPU, or into file lists alone. A unit is a group of clips."""

    command: ClassVar[str] = "manifest-to-mels"

    def __init__(self, manifests: Sequence[str], options: MelsOptions, num_workers: int = 1) -> None:
        options.check()
        super().__init__(manifests, options, num_workers)
        self.mels = options
        self.stems = [_stem(path) for path in manifests]
        repeated = [stem for stem, count in Counter(self.stems).items() if count > 1]
        if repeated:
            raise UsageError(
                f"two manifests have the name {repeated[0]}, and so would their file lists; rename one of them, or "
                "link to it by another name"
            )

    @property
    def shard_size(self) -> int:
        """Clips per unit."""
        return _CLIPS_PER_UNIT

    @cached_property
    def spectrogram(self) -> MelSpectrogram:
        """What computes mels."""
        return MelSpectrogram(self.mels)

    def plan(self, workspace: Workspace) -> ExportPlan:
        """Index the manifests and divide their records into groups."""
        plan = super().plan(workspace)
        if len(plan.contents.records) > _MANY_FILES and not self.mels.lists_only:
            plan.notes.append(
                f"{len(plan.contents.records):,} files in one folder: make sure that the file system has room for them"
            )
        return plan

    def output_patterns(self, plan: ExportPlan) -> Sequence[str]:
        """The file lists, which name the mels."""
        return [LIST_NAME.format(glob.escape(stem), kind) for stem in self.stems for kind in (AUDIO, MEL)]

    def prepare(self) -> None:
        """Import PyTorch and make the filters once, before the worker processes are forked."""
        if not self.mels.lists_only:
            _ = self.spectrogram

    def open_shard(self, contents: ExportContents, unit: ExportShard, writer: UnitWriter) -> ShardWriter:
        """A group of clips."""
        spectrogram = None
        if not self.mels.lists_only:
            import torch

            torch.set_num_threads(1)  # as many workers as processors compute at the same time
            spectrogram = self.spectrogram
        return _Group(contents, unit, writer, self.mels, spectrogram)

    def finish(self, plan: ExportPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Join the lists of each manifest; returns their paths, and what trainers cannot read."""
        out = writer.workspace.out
        details: dict[str, Any] = {}
        for source, stem in enumerate(self.stems):
            for kind in (MEL, AUDIO):
                name = LIST_NAME.format(stem, kind)
                parts = ((marker, _PART_NAME.format(marker.unit, source, kind)) for marker in markers)
                writer.join(name, (part for marker, part in parts if part in marker.work_files))
                details[f"{stem}_{kind}_text_filelist"] = out / name
        details |= rates_note((marker.extra for marker in markers), "mels", "the {} Hz that --mel-fmax needs")
        counts: Counter[str] = Counter()
        for marker in markers:
            counts.update(marker.extra)
        if counts[NORMALIZED_TEXT]:
            details["text_field"] = NORMALIZED_TEXT
            if counts[TEXT]:
                details["text_field"] += f"; {counts[TEXT]:,.0f} records do not have it, and their {TEXT} is listed"
        if counts[SEGMENTS]:
            details["segments"] = f"{counts[SEGMENTS]:,.0f} records are parts of files and are not in the list of audio"
        if counts[OTHER_AUDIO]:
            details["audio_list"] = (
                f"{counts[OTHER_AUDIO]:,.0f} files of the list of audio are not 16-bit mono WAV at "
                f"{self.mels.sampling_rate} Hz, which is all that WaveGlow reads"
            )
        return details


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path).removesuffix(".gz"))[0]


class ClipWriter:
    """Writes the mels of a unit and its parts of the file lists."""

    def __init__(self, contents: ExportContents, unit: ExportShard, writer: UnitWriter, options: MelsOptions) -> None:
        self._records = contents.records
        self._unit = unit
        self._writer = writer
        self._options = options
        self._parts: dict[tuple[int, str], OutputFile] = {}

    def write(self, number: int, clip: Clip, mel: "Tensor | None") -> float:
        """Write a clip; returns its seconds."""
        if mel is not None:
            self._writer.add(MEL_NAME.format(clip.id), tensor_bytes(mel))
            self._writer.extra.update(rate_counts(clip.piece.info.sampling_rate, 2 * self._options.mel_fmax))
        if self._options.text_field is None:
            self._writer.extra[clip.text_field] += 1
        self._list(number, MEL, clip.mel_line)
        if clip.audio_line is not None:
            self._list(number, AUDIO, clip.audio_line)
            self._writer.extra[OTHER_AUDIO] += not clip.is_readable_as_audio(self._options)
        else:
            self._writer.extra[SEGMENTS] += 1
        return clip.piece.duration

    def _list(self, number: int, kind: str, line: bytes) -> None:
        key = (self._records.index.source_of(number), kind)
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = self._writer.open_part(_PART_NAME.format(self._unit.id, *key))
        part.write(line)


class _Group:
    """A unit that is computed record by record, in a worker process."""

    def __init__(
        self,
        contents: ExportContents,
        unit: ExportShard,
        writer: UnitWriter,
        options: MelsOptions,
        spectrogram: MelSpectrogram | None,
    ) -> None:
        self._contents = contents
        self._options = options
        self._spectrogram = spectrogram
        self._clips = ClipWriter(contents, unit, writer, options)

    def add(self, number: int, record: Record) -> float:
        clip = find_clip(self._contents, number, record, self._options)
        mel = None
        if self._spectrogram is not None:
            import torch

            mel = self._spectrogram(torch.from_numpy(read_clip(clip, self._options)))
        return self._clips.write(number, clip, mel)

    def close(self) -> None:
        pass
