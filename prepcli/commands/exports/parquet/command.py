"""manifest-to-parquet: turns NeMo manifests into Parquet files that contain the audio."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import Unpack

from prepcli.commands.exports.options import ShardArguments, ShardSize
from prepcli.errors import UsageError, option
from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText
from prepcli.interface.shared_options import Manifests, TargetRate, WorkDir

if TYPE_CHECKING:
    from prepcli.commands.exports.parquet.columns import FieldColumns
    from prepcli.commands.exports.records import ExportContents, ExportPlan
    from prepcli.engine.publishing.publish import Marker, UnitWriter
    from prepcli.engine.run.report import Report
    from prepcli.engine.state.workspace import Workspace
    from prepcli.jobs.record_job import RecordUnit


@command("manifest-to-parquet")
def manifest_to_parquet(
    manifest: Manifests,
    out: Annotated[
        PathText,
        Option(
            "Directory for the Parquet files.",
            metavar="OUT",
            is_argument=True,
            shapes_output=False,
            takes_address=True,
        ),
    ],
    *,
    form: Annotated[
        Literal["hf", "omnilingual"],
        Option(
            "hf: for Hugging Face datasets and NeMo; omnilingual: for omnilingual-asr, mono FLAC at 16 kHz in folders "
            "by corpus, split and language.",
            disables=("shard_size", "row_group_size", "target_sample_rate"),
            added_later=True,
        ),
    ] = "hf",
    corpus: Annotated[
        str | None,
        Option(
            "With --form omnilingual: the corpus of records without the field corpus.", needs="form", added_later=True
        ),
    ] = None,
    set_split: Annotated[
        str | None,
        Option(
            "With --form omnilingual: the split of records without the field split, such as train.",
            needs="form",
            added_later=True,
        ),
    ] = None,
    set_lang: Annotated[
        str | None,
        Option(
            "With --form omnilingual: the language of records without the field lang, such as de.",
            needs="form",
            added_later=True,
        ),
    ] = None,
    row_group_size: Annotated[
        int, Option("Maximum number of records per row group; a reader holds a whole row group.", minimum=1)
    ] = 200,
    force_codec: Annotated[
        Literal["flac", "wav", "opus", "mp3", "ogg"] | None,
        Option("Encode audio to this format; ogg is Vorbis.", shown_default="unchanged; omnilingual: flac"),
    ] = None,
    shard_size: ShardSize = 1000,
    target_sample_rate: TargetRate = None,
    work_dir: WorkDir = None,
    **more: Unpack[ShardArguments],
) -> "Report":
    """Turn NeMo manifests into Parquet files, as NeMo (type: parquet) and Hugging Face datasets read them.

    Writes OUT/data-{000000}.parquet, one file per shard, with the columns id, audio {bytes, path}, duration, text, and
    one for each further field of the manifests. Lists and objects, and fields of several types, become JSON text. Files
    that need no change are stored byte for byte; segments are cut exactly. Needs pyarrow (the extra parquet).

    With --form omnilingual, as omnilingual-asr reads them: OUT/corpus=C/split=S/language=L/data-{000000}.parquet with
    the columns text, audio_bytes and audio_size, and OUT/_language_distribution.tsv with the hours of each language.

    Run the same command again to continue after an interruption.

    Example: prepcli manifest-to-parquet train.json parquet/ --shard-size 1000

    Returns:
        The report of the run; `outputs["manifest_filepath"]` lists the files for `type: parquet` in an input_cfg.

    Raises:
        UsageError: options that do not go together, inputs that cannot be read, or pyarrow is not installed.

    Examples:
        >>> import prepcli
        >>> report = prepcli.manifest_to_parquet("manifest.json", "parquet", shard_size=16)
        >>> report.records_out
        48
        >>> report.outputs["manifest_filepath"]
        ['/.../parquet/data-000000.parquet', '/.../parquet/data-000001.parquet', '/.../parquet/data-000002.parquet']
    """
    from prepcli.audio.segments import OMNILINGUAL, PARQUET
    from prepcli.commands.exports.parquet.columns import columns_of
    from prepcli.commands.exports.parquet.files import files_for_training, write_file
    from prepcli.commands.exports.parquet.omnilingual import Fields, import_pyarrow, run_omnilingual
    from prepcli.commands.exports.records import conversion, plan_export, seed_of
    from prepcli.engine.run.function import Output, run
    from prepcli.formats.names import check_braces
    from prepcli.formats.omnilingual import RATE
    from prepcli.formats.parquet import OUTPUT_PATTERNS, check_installed
    from prepcli.jobs.source import RecordSource
    from prepcli.storage.paths import path_of

    check_installed()
    if form == "hf":
        check_braces(path_of(str(out)))
    output = Output(out, *OUTPUT_PATTERNS)
    source = RecordSource(manifest, output)
    if form == "omnilingual":
        audio = conversion(OMNILINGUAL, force_codec or "flac", RATE, more)
        _check_omnilingual(force_codec, corpus, set_split, set_lang)
        return run_omnilingual(output, source, audio, Fields(corpus, set_split, set_lang), seed_of(more))
    audio = conversion(PARQUET, force_codec, target_sample_rate, more)

    @cache
    def columns() -> "FieldColumns":
        return columns_of(source.manifests, output.engine.num_workers)

    def plan(workspace: "Workspace") -> "ExportPlan":
        made = plan_export(source, workspace, shard_size, seed_of(more))
        made.notes.extend(columns().notes())
        return made

    def write(contents: "ExportContents", unit: "RecordUnit", writer: "UnitWriter") -> None:
        write_file(contents, unit, writer, columns(), row_group_size, audio)

    def finish(made: "ExportPlan", markers: "Sequence[Marker]", writer: "UnitWriter") -> Mapping[str, Any]:
        return files_for_training(made.units, markers, writer)

    return run(
        output,
        plan,
        write,
        finish,
        settings=lambda _: source.settings | {"columns": dict(columns().types)},
        prepare=import_pyarrow,
    )


def _check_omnilingual(codec: str | None, corpus: str | None, split: str | None, lang: str | None) -> None:
    from prepcli.formats.omnilingual import NAME_OF_CORPUS, NAME_OF_SPLIT, language_of

    if codec not in (None, "flac", "ogg"):
        raise UsageError(f"{option('--force-codec', codec)}: omnilingual-asr has flac or ogg")
    for name, value, pattern in (("--corpus", corpus, NAME_OF_CORPUS), ("--set-split", split, NAME_OF_SPLIT)):
        if value is not None and not pattern.fullmatch(value):
            raise UsageError(f"{option(name, value)} must begin with a letter, and have letters, digits, '.' and '-'")
    if lang is not None and language_of(lang) is None:
        raise UsageError(f"{option('--set-lang', lang)} is not known; write it as deu_Latn")
