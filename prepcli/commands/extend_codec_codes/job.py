"""extend-codec-codes: encodes the audio of Lhotse Shar shards to codec codes, in additional fields."""

import glob
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from prepcli.commands.extend_codec_codes.codec_job import CodecJob, RecordCodesJob
from prepcli.commands.extend_codec_codes.content import check_audio, check_complete
from prepcli.commands.extend_codec_codes.encoding import UnitEncoder
from prepcli.commands.extend_codec_codes.file_segments import UsedSegment
from prepcli.commands.extend_codec_codes.manifest_job import ManifestCodesJob
from prepcli.commands.extend_codec_codes.plan import InputShard, ShardGroup, audio_bytes, find_input, group_shards
from prepcli.commands.extend_codec_codes.settings import CodecSettings
from prepcli.commands.extend_codec_codes.shard_index import index_shard
from prepcli.commands.extend_codec_codes.trainer_job import OmnivoiceJob, QwenJob
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.state.plan import InputFile, Plan
from prepcli.engine.state.store_output import OutputFiles
from prepcli.engine.state.work_folder import work_folder
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import option
from prepcli.formats.codes import CODES_FOLDER, CODES_NAME, CODES_OF
from prepcli.formats.indexes import MIRROR, IndexKind, index_name, indexes_of, make_index, mirrored
from prepcli.formats.names import absolute_folder
from prepcli.formats.shar import AUDIO_NAME, shard_range, shard_text
from prepcli.formats.train_ds import write_shar_train_ds
from prepcli.formats.training_config import INDEXED_CONFIG, indexed_shar_config
from prepcli.jobs.model_job import Begin, Tick
from prepcli.jobs.prefetch import DecodingPool
from prepcli.manifest.shar_cuts import cuts_digest, measure_cuts
from prepcli.models.codecs import notes_on_codec_model
from prepcli.processes.workers import wait_for
from prepcli.storage.paths import NUMBER, AnyPath, path_of


def codes_workspace(out: AnyPath, codec_name: str, work_dir: Path | None = None) -> Workspace:
    """The workspace of one codec's codes in `out`: `OUT.prepcli/codes_<name>`.

    It is inside the workspace of the run that made OUT. The state of that run and the workspaces of other codecs are
    not changed. `prepcli.engine.run.status.workspaces_of` finds all workspaces. `work_dir`: as in `Workspace`.
    """
    return Workspace(out, work_folder(out, work_dir) / CODES_FOLDER.format(codec_name), work_dir=work_dir)


@dataclass(frozen=True, slots=True)
class CodesContents:
    """The shards of the Shar set.

    Attributes:
        shards: the shards, by number.
        part: the result of `check_complete`: a text such as `3 of 5 units of the Shar`, or None if the set is complete.
    """

    shards: Sequence[InputShard]
    part: str | None


CodesPlan = Plan[ShardGroup, CodesContents]


class CodesJob(CodecJob[ShardGroup, CodesContents]):
    """Adds codes to the Shar set in `folder`. A unit is a few consecutive shards."""

    reads_audio_files = False  # the audio is in tars

    def __init__(
        self,
        folder: AnyPath,
        codec: CodecSettings,
        *,
        shaping: Mapping[str, Any] = MappingProxyType({}),
        partial: bool = False,
        device: str = "cpu",
        num_workers: int = 1,
        work_dir: Path | None = None,
    ) -> None:
        """`partial`: accept an incomplete Shar set. `work_dir`: the folder with the state of the run that makes it."""
        super().__init__(codec, shaping, device, num_workers)
        self.folder = folder
        self._partial = partial
        self._work_dir = work_dir

    def output_patterns(self, plan: CodesPlan) -> Sequence[str]:
        """Patterns of the tars of this codec."""
        return [CODES_NAME.format(glob.escape(self.name), field, NUMBER) for field in CODES_OF.values()]

    def made_of(self, found: OutputFiles, name: str) -> Iterator[str]:
        """Yield the up-to-date index files of the tar `name`, which are next to it or in the folder of indexes.

        `found` has the files of the output folder.
        """
        return indexes_of(found, name)

    def settings(self, plan: CodesPlan) -> dict[str, Any]:
        """The options, the identity of the codec, and the total bytes of audio.

        For an incomplete Shar set, the setting `--partial` is a text such as `3 of 5 units of the Shar`.
        """
        settings = self.codec_settings() | {"bytes of audio": audio_bytes(self.folder, plan.contents.shards)}
        # The setting is the same for a complete set with and without the option `--partial`.
        return settings | ({"--partial": plan.contents.part} if plan.contents.part else {})

    def plan(self, workspace: Workspace) -> CodesPlan:
        """Read the cuts and group consecutive shards."""
        part = check_complete(Workspace(self.folder, work_dir=self._work_dir), self._partial)
        shards = find_input(self.folder)
        sizes = measure_cuts([shard.cuts_file for shard in shards], self.num_workers)
        notes = [f"{len(shards):,} shards, {len(shards[0].tars)} audio fields"]
        notes += notes_on_codec_model(self.codec.codec_model)
        if part:
            notes.append(
                f"{option('--partial')}: {part}; when the rest is there, {option('--overwrite')} encodes all of it "
                f"again, another {option('--codec-name')} encodes all of it beside this"
            )
        return Plan(
            units=list(group_shards(shards, sizes, self.codec.pool_duration)),
            records_in=sum(size.num_cuts for size in sizes),
            contents=CodesContents(shards, part),
            inputs=[
                InputFile(str(shard.cuts), size.sha256, shard.state, cuts_digest)
                for shard, size in zip(shards, sizes, strict=True)
            ],
            notes=notes,
        )

    def input_files(self, plan: CodesPlan) -> list[str | AnyPath]:
        """The codec's file or name, the cuts, and the tars of their audio."""
        shards = [path for shard in plan.contents.shards for path in (shard.cuts, *shard.tars.values())]
        return [self.codec.codec_model, *shards]

    def check_done(self, done: Sequence[ShardGroup], workspace: Workspace) -> None:
        """Raise `UsageError` if the audio of finished units has changed since its codes were made."""
        check_audio(workspace, done, self.folder, self.num_workers)

    def read_ahead(self, contents: CodesContents, unit: ShardGroup, workers: DecodingPool[UsedSegment]) -> Begin:
        """Let workers index the unit's shards; returns a function that waits for the workers and begins the unit."""
        indices = [workers.submit(index_shard, shard) for shard in unit.shards]

        def begin(tick: Tick) -> UnitEncoder:
            return UnitEncoder(unit.shards, [wait_for(index, tick) for index in indices], self, self.folder)

        return begin

    def finish(self, plan: CodesPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        """Write `train_ds.yaml` and, if needed, indexes.

        Returns:
            The paths of the codes, texts to paste into a training config, and statistics.
        """
        name = self.name
        shards = shard_range([shard.number for shard in plan.contents.shards])
        details: dict[str, Any] = {
            CODES_OF[field]: writer.workspace.out / CODES_NAME.format(name, CODES_OF[field], shards)
            for field in plan.contents.shards[0].tars
        }
        if shards != "*":
            fields = self._fields(plan.contents.shards[0], details, shards)
            details |= self._indexed(plan, fields, writer)
            details["train_ds"] = write_shar_train_ds(writer, self.command, fields, shards)
        return details | self.statistics(markers)

    def _fields(self, first: InputShard, codes: Mapping[str, AnyPath], shards: str) -> dict[str, AnyPath]:
        """The path of each field by its name: the cuts, the tars of each audio field, and the tars of each codes field.

        Each path has the range `shards`, such as `_OP_000000..000002_CL_`, in the place of a shard's number.
        """
        root = path_of(absolute_folder(str(self.folder)))
        cuts = root / "cuts" / first.cuts.name.replace(shard_text(first.number), shards)
        audio = {field: root / AUDIO_NAME.format(field, shards) for field in first.tars}
        own = {field: path_of(absolute_folder(str(path.parent))) / path.name for field, path in codes.items()}
        return {"cuts": cuts, **audio, **own}

    def _indexed(self, plan: CodesPlan, fields: Mapping[str, AnyPath], writer: UnitWriter) -> dict[str, Any]:
        """Return a dictionary with one text to paste into a training config; empty if `MIRROR` is not used for indexes.

        `MIRROR` is a folder in the Shar set with the indexes of all files of the set. If the codes are in another
        folder than the set, the indexes of the set's files are also written to `MIRROR` in the folder of the codes.
        """
        first, out = plan.contents.shards[0], writer.workspace.out
        name = index_name(self.folder, first.cuts, out, "")
        if name is None or not name.startswith(MIRROR):
            return {}
        if absolute_folder(str(out)) != absolute_folder(str(self.folder)):
            # A training run has one `indexes_root`, so the mirror gets the indexes of the set's own files too.
            for shard in plan.contents.shards:
                files: list[tuple[AnyPath, IndexKind]] = [(shard.cuts, "jsonl")]
                for path, kind in files + [(tar, "shar_tar") for tar in shard.tars.values()]:
                    index = f"{MIRROR}/{mirrored(path)}"
                    known = self.folder / index
                    writer.add(index, known.read_bytes() if known.is_file() else make_index(path, kind))
        elif not (out / MIRROR / mirrored(first.cuts)).exists():
            return {}  # a set of another program, whose mirror `prepcli index` completes
        return {INDEXED_CONFIG: indexed_shar_config(fields, out)}


JOBS_OF_RECORDS: dict[str, Callable[..., RecordCodesJob[Any]]] = {
    "files": ManifestCodesJob,
    "omnivoice": OmnivoiceJob,
    "qwen3-tts": QwenJob,
}
"""The jobs over records, by the value of `--output-form`."""
