"""make-manifest: writes a manifest with the audio of a source."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import Unpack

from prepcli.engine.run.options import JobArguments
from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText
from prepcli.interface.shared_options import InputFormat, NamesEncoding, OutFile, SetSplit, TimesFormat

if TYPE_CHECKING:
    from prepcli.commands.make_manifest.planning import MakeContents, MakePlan
    from prepcli.engine.publishing.publish import Marker, UnitWriter
    from prepcli.engine.run.report import Report
    from prepcli.engine.state.workspace import Workspace
    from prepcli.manifest.line_slices import LineSlice

_Format = Literal["auto", "folder", "list", "kaldi", "csv", "audiofolder", "filelist", "jsonl", "lhotse", "set"]


@command("make-manifest")
def make_manifest(
    source: Annotated[
        PathText,
        Option(
            "Folder or file that names the audio.",
            metavar="SOURCE",
            is_argument=True,
            shapes_output=False,
            may_be_path=True,
        ),
    ],
    out: OutFile,
    *,
    format: Annotated[_Format, Option("Format of SOURCE; auto decides by its content, and the summary says why.")] = (
        "auto"
    ),
    audio_base_dir: Annotated[
        PathText | None,
        Option(
            "Base folder of relative paths in SOURCE.",
            shown_default="the folder of SOURCE; for Kaldi and lhotse the working directory",
            must_exist="folder",
        ),
    ] = None,
    text_suffix: Annotated[
        str | None, Option("Suffix of the files beside the audio that hold the transcripts, such as .txt.")
    ] = None,
    transcripts: Annotated[
        PathText | None,
        Option(
            "File of transcripts: `id text`, `id|text` or `id|text|normalized text` per line; the id is the audio "
            "file's name without suffix.",
            must_exist="file",
        ),
    ] = None,
    times: Annotated[
        PathText | None,
        Option(
            "Folder or file with texts with times, such as subtitles of the recordings in SOURCE, a folder or a list: "
            "a record for each line. A folder has a file for each recording, of the same name.",
            metavar="DIR|FILE",
            added_later=True,
        ),
    ] = None,
    times_format: TimesFormat = "auto",
    speaker_pattern: Annotated[
        str | None,
        Option(
            "Regular expression that finds the speaker in the path of the audio below the base folder; the groups are "
            "joined by _."
        ),
    ] = None,
    lang: Annotated[str | None, Option("Language of all records.")] = None,
    set: Annotated[
        str | Sequence[str],
        Option(
            "Give all records a field with this text. May be repeated.",
            names=("--set",),
            metavar="FIELD=VALUE",
            one_each=True,
        ),
    ] = (),
    audio_column: Annotated[
        str | None, Option("Column with the audio's path.", shown_default="by its name: audio_filepath, file_name, ...")
    ] = None,
    text_column: Annotated[
        str | None, Option("Column with the text.", shown_default="by its name: text, sentence, ...")
    ] = None,
    speaker_column: Annotated[
        str | None, Option("Column with the speaker.", shown_default="by its name: speaker, client_id, ...")
    ] = None,
    lang_column: Annotated[
        str | None,
        Option("Column with the language.", shown_default="by its name: lang, locale, ...", added_later=True),
    ] = None,
    columns: Annotated[
        str | None,
        Option(
            "Names of the columns of a table without a header, in their order, such as path,text,speaker; - for one "
            "to leave out. With --transcripts, of that file: id,text,speaker.",
            metavar="NAMES",
            added_later=True,
        ),
    ] = None,
    input_format: InputFormat = None,
    split: SetSplit = None,
    name_encoding: NamesEncoding = None,
    absolute_paths: Annotated[
        bool, Option("Write absolute audio paths instead of paths relative to OUT.json.")
    ] = False,
    run_commands: Annotated[
        bool,
        Option(
            "Run the commands in Kaldi's wav.scp (entries that end in |) or of lhotse's recordings, and write their "
            "audio to OUT_audio/. Only for files that you trust."
        ),
    ] = False,
    **more: Unpack[JobArguments],
) -> "Report":
    """Make a NeMo manifest of your own audio, with durations as measured.

    SOURCE is a folder of audio, a list of paths, a Kaldi data directory, a CSV or TSV, a Hugging Face audiofolder
    (metadata.csv, .jsonl or .parquet), a file list (path|text, path|text|speaker or path|speaker|text), JSON lines
    with the path of the audio ({"audio": ..., "text": ...}), lhotse cuts (.jsonl),
    recordings and supervisions of lhotse (their folder, one of both files, or RECORDINGS,SUPERVISIONS), or a data set
    (tarred, Shar, WeNet, webdataset, Parquet, zip; audio is then named FILE::MEMBER). Records are in the order of the
    source, those of a folder of audio sorted by path. Audio that cannot be read, and records whose transcript is
    missing or ambiguous, are listed as rejects in OUT.json.prepcli/.

    Run the same command again to continue after an interruption.

    Example: prepcli make-manifest recordings/ train.json --text-suffix .txt --speaker-pattern '([^/]+)/' --lang en

    Returns:
        The report of the run; `outputs["manifest"]` is the manifest.

    Raises:
        UsageError: options that do not go together, or a source that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.make_manifest("s01", "own.json", set=["speaker=s01"])
        >>> report.records_out, report.outputs["manifest"]
        (6, '/.../own.json')
    """
    from pathlib import Path

    from prepcli.commands.make_manifest.planning import (
        check_transcripts,
        details_of,
        files_of_records,
        plan_of,
        settings_for,
    )
    from prepcli.commands.make_manifest.recordings import EntryRecords
    from prepcli.commands.make_manifest.settings import MakeSettings, constants_of, pattern_of
    from prepcli.engine.run.function import OutputFile, run
    from prepcli.jobs.line_job import LINES_NAME, write_lines

    output = OutputFile(out)
    asked = MakeSettings(
        source=str(source),
        out=output.path,
        format=format,
        audio_base_dir=None if audio_base_dir is None else Path(audio_base_dir),
        text_suffix=text_suffix,
        transcripts=None if transcripts is None else Path(transcripts),
        times=None if times is None else str(times),
        times_format=times_format,
        constants=constants_of(lang, tuple(set)),
        pattern=pattern_of(speaker_pattern),
        audio_column=audio_column,
        text_column=text_column,
        speaker_column=speaker_column,
        lang_column=lang_column,
        columns=columns,
        input_format=input_format,
        split=split,
        name_encoding=name_encoding,
        absolute_paths=absolute_paths,
        run_commands=run_commands,
    )

    def plan(workspace: "Workspace") -> "MakePlan":
        return plan_of(asked, workspace.root)

    def write(contents: "MakeContents", unit: "LineSlice", writer: "UnitWriter") -> None:
        entries = EntryRecords(contents.source, contents.catalog, writer, asked)
        write_lines(writer, contents.catalog.read(unit), entries.make, entries.original)

    def join(made: "MakePlan", markers: "Sequence[Marker]", writer: "UnitWriter") -> dict[str, Any]:
        writer.join(output.name, (LINES_NAME.format(marker.unit) for marker in markers))
        return details_of(made.contents, markers, asked)

    def check_done(done: "Sequence[LineSlice]", workspace: "Workspace") -> None:
        check_transcripts(done, workspace, asked, output.engine.num_workers)

    return run(
        output,
        plan,
        write,
        join,
        settings=lambda made: settings_for(made.contents, asked),
        files_of_records=lambda made: files_of_records(made, asked),
        check_done=check_done,
    )
