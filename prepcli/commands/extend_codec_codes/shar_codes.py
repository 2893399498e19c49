"""extend-codec-codes: encodes the audio of Lhotse Shar shards to codec codes, in additional fields."""

import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prepcli.commands.extend_codec_codes.content import check_audio, check_complete
from prepcli.commands.extend_codec_codes.encoding import UnitEncoder
from prepcli.commands.extend_codec_codes.file_segments import UsedSegment
from prepcli.commands.extend_codec_codes.on_device import TELEMETRY, CodecOnDevice, codec_settings, statistics
from prepcli.commands.extend_codec_codes.plan import InputShard, ShardGroup, audio_bytes, find_input, group_shards
from prepcli.commands.extend_codec_codes.settings import CodecSettings
from prepcli.commands.extend_codec_codes.shard_index import index_shard
from prepcli.engine.publishing.publish import Marker, UnitWriter
from prepcli.engine.run.function import Output
from prepcli.engine.run.report import Report
from prepcli.engine.state.plan import AnyPlan, InputFile, Plan
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import option
from prepcli.formats.codes import CODES_NAME, CODES_OF
from prepcli.formats.indexes import MIRROR, IndexKind, index_name, indexes_of, make_index, mirrored
from prepcli.formats.names import absolute_folder
from prepcli.formats.shar import AUDIO_NAME, shard_range, shard_text
from prepcli.formats.train_ds import write_shar_train_ds
from prepcli.formats.training_config import INDEXED_CONFIG, indexed_shar_config
from prepcli.interface.printing import number_of
from prepcli.jobs.model_job import Begin, run_with_model
from prepcli.jobs.prefetch import DecodingPool
from prepcli.manifest.shar_cuts import cuts_digest, measure_cuts
from prepcli.models.codecs import notes_on_codec_model
from prepcli.processes.workers import wait_for
from prepcli.storage.paths import NUMBER, AnyPath, path_of


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
COMMAND = "extend-codec-codes"


def add_to_shar(
    folder: AnyPath,
    output: Output,
    codec: CodecSettings,
    shaping: Mapping[str, Any],
    devices: str,
    *,
    partial: bool = False,
    work_dir: Path | None = None,
) -> Report:
    """Add codes to the Shar set in `folder`. A unit is a few consecutive shards.

    Args:
        folder: the folder of the set.
        output: where the codes are written; its state is `OUT.prepcli/codes_<name>`, inside the state of the run that
            made the set, which is not changed.
        codec: how audio becomes codes.
        shaping: the options that shape the output, as settings of the plan.
        devices: the option `--devices`.
        partial: accept an incomplete set.
        work_dir: the folder with the state of the run that makes the set, if the set is in a store.

    Raises:
        UsageError: the set or the codec cannot be used.
    """
    num_workers = output.engine.num_workers
    output.patterns = [CODES_NAME.format(glob.escape(codec.codec_name), field, NUMBER) for field in CODES_OF.values()]

    def plan(workspace: Workspace) -> CodesPlan:
        return _plan(folder, codec, num_workers, check_complete(Workspace(folder, work_dir=work_dir), partial))

    def settings(made: CodesPlan) -> dict[str, Any]:
        part = made.contents.part
        of_codec = codec_settings(codec, shaping) | {"bytes of audio": audio_bytes(folder, made.contents.shards)}
        # The setting is the same for a complete set with and without the option `--partial`.
        return of_codec | ({"--partial": part} if part else {})

    def tars(made: AnyPlan) -> Iterator[AnyPath]:
        return (tar for shard in made.contents.shards for tar in shard.tars.values())

    def start(
        on_device: CodecOnDevice[ShardGroup, CodesContents],
        contents: CodesContents,
        unit: ShardGroup,
        workers: DecodingPool[UsedSegment],
    ) -> Begin:
        indices = [workers.submit(index_shard, shard) for shard in unit.shards]
        return lambda tick: UnitEncoder(unit.shards, [wait_for(future, tick) for future in indices], on_device, folder)

    def finish(made: CodesPlan, markers: Sequence[Marker], writer: UnitWriter) -> dict[str, Any]:
        return _train_ds(folder, codec.codec_name, made, writer) | statistics(markers)

    return run_with_model(
        output,
        devices,
        lambda device: CodecOnDevice(device, codec, start),
        plan,
        finish,
        settings=settings,
        reads_audio_files=False,  # the audio is in tars
        input_files=[codec.codec_model],
        files_of_records=tars,
        check_done=lambda done, workspace: check_audio(workspace, done, folder, num_workers),
        made_of=indexes_of,
        telemetry=TELEMETRY,
    )


def _plan(folder: AnyPath, codec: CodecSettings, num_workers: int, part: str | None) -> CodesPlan:
    """Read the cuts and group consecutive shards."""
    shards = find_input(folder)
    sizes = measure_cuts([shard.cuts_file for shard in shards], num_workers)
    notes = [f"{number_of(len(shards), 'shard')}, {number_of(len(shards[0].tars), 'audio field')}"]
    notes += notes_on_codec_model(codec.codec_model)
    if part:
        notes.append(
            f"{option('--partial')}: {part}; when the rest is there, {option('--overwrite')} encodes all of it "
            f"again, another {option('--codec-name')} encodes all of it beside this"
        )
    return Plan(
        units=list(group_shards(shards, sizes, codec.pool_duration)),
        records_in=sum(size.num_cuts for size in sizes),
        contents=CodesContents(shards, part),
        inputs=[
            InputFile(str(shard.cuts), size.sha256, shard.state, cuts_digest)
            for shard, size in zip(shards, sizes, strict=True)
        ],
        notes=notes,
    )


def _train_ds(folder: AnyPath, name: str, plan: CodesPlan, writer: UnitWriter) -> dict[str, Any]:
    """Write `train_ds.yaml` and, if needed, indexes.

    Returns:
        The paths of the codes, and texts to paste into a training config.
    """
    first = plan.contents.shards[0]
    shards = shard_range([shard.number for shard in plan.contents.shards])
    details: dict[str, Any] = {
        CODES_OF[field]: writer.workspace.out / CODES_NAME.format(name, CODES_OF[field], shards) for field in first.tars
    }
    if shards != "*":
        fields = _fields(folder, first, details, shards)
        details |= _indexed(folder, plan, fields, writer)
        details["train_ds"] = write_shar_train_ds(writer, COMMAND, fields, shards)
    return details


def _fields(folder: AnyPath, first: InputShard, codes: Mapping[str, AnyPath], shards: str) -> dict[str, AnyPath]:
    """The path of each field by its name: the cuts, the tars of each audio field, and the tars of each codes field.

    Each path has the range `shards`, such as `_OP_000000..000002_CL_`, in the place of a shard's number.
    """
    root = path_of(absolute_folder(str(folder)))
    cuts = root / "cuts" / first.cuts.name.replace(shard_text(first.number), shards)
    names = [tar.parent.name for tar in first.tars.values()]
    audio = {name: root / AUDIO_NAME.format(name, shards) for name in names}
    own = {field: path_of(absolute_folder(str(path.parent))) / path.name for field, path in codes.items()}
    return {"cuts": cuts, **audio, **own}


def _indexed(folder: AnyPath, plan: CodesPlan, fields: Mapping[str, AnyPath], writer: UnitWriter) -> dict[str, Any]:
    """Return a dictionary with one text to paste into a training config; empty if `MIRROR` is not used for indexes.

    `MIRROR` is a folder in the Shar set with the indexes of all files of the set. If the codes are in another
    folder than the set, the indexes of the set's files are also written to `MIRROR` in the folder of the codes.
    """
    first, out = plan.contents.shards[0], writer.workspace.out
    name = index_name(folder, first.cuts, out, "")
    if name is None or not name.startswith(MIRROR):
        return {}
    if absolute_folder(str(out)) != absolute_folder(str(folder)):
        # A training run has one `indexes_root`, so the mirror gets the indexes of the set's own files too.
        for shard in plan.contents.shards:
            files: list[tuple[AnyPath, IndexKind]] = [(shard.cuts, "jsonl")]
            for path, kind in files + [(tar, "shar_tar") for tar in shard.tars.values()]:
                index = f"{MIRROR}/{mirrored(path)}"
                known = folder / index
                writer.add(index, known.read_bytes() if known.is_file() else make_index(path, kind))
    elif not (out / MIRROR / mirrored(first.cuts)).exists():
        return {}  # a set of another program, whose mirror `prepcli index` completes
    return {INDEXED_CONFIG: indexed_shar_config(fields, out)}
