"""inspect: shows what a file or a set holds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths, PathText
from prepcli.interface.shared_options import AudioFolder, Json, NumWorkers, Progress

if TYPE_CHECKING:
    from prepcli.commands.inspect.report import Inspection


@command("inspect")
def inspect(
    path: Annotated[
        Paths,
        Option(
            "One or more manifests (in any form that estimate-bins takes), a tarred set, a Shar or codes directory, "
            "cuts, tars, an export, OUT.prepcli, rejects.jsonl, or an audio file.",
            metavar="PATH",
            several_paths=True,
            is_argument=True,
            takes_address=True,
        ),
    ],
    *,
    audio_base_dir: AudioFolder = None,
    record: Annotated[
        int | None,
        Option(
            "Show only this record (from 0) and the header of its audio; of a conversation, all turns. In a set with "
            "indexes it is found without reading the rest.",
            metavar="N",
            minimum=0,
            disables=("html", "csv", "num_audio_files", "num_workers"),
        ),
    ] = None,
    html: Annotated[
        PathText | None,
        Option(
            "Write a page with plots, and some audio to listen to; open it in a browser.",
            metavar="FILE",
            names_file=True,
        ),
    ] = None,
    csv: Annotated[
        PathText | None,
        Option("Write the records and hours of each speaker in each language.", metavar="FILE.csv", names_file=True),
    ] = None,
    as_json: Json = False,
    progress: Progress = False,
    num_audio_files: Annotated[
        int, Option("Number of audio files whose headers are read, evenly spread over the records.", minimum=0)
    ] = 100,
    num_workers: NumWorkers = None,
) -> "Inspection":
    """Show what a file or directory is and what it contains: records, hours, rates, codecs, speakers, lengths.

    Reads every line once, and the headers of a sample of the audio files; in an archive, and in Parquet without
    durations, of all. Nothing is changed. Nothing is decoded, except a few records for the page of --html.

    Example: prepcli inspect train.json --html train.html

    Returns:
        The facts that were found; durations in seconds, rates in Hz.

    Raises:
        UsageError: the path does not exist, is of an unknown kind, or is damaged.
        IncompleteError: a worker process was killed.

    Examples:
        >>> import prepcli
        >>> report = prepcli.inspect("manifest.json")
        >>> report.kind, report.records, report.speakers
        ('manifest', 48, 8)
    """
    from prepcli.commands.inspect.looking import base_of_runs, look_at
    from prepcli.commands.inspect.outputs import CSV
    from prepcli.engine.publishing.side_files import check_side_file, write_side_file
    from prepcli.errors import UsageError, option
    from prepcli.processes.workers import available_processors
    from prepcli.storage.paths import path_of

    subject = str(path)
    base = None if audio_base_dir is None else path_of(str(audio_base_dir))
    if record is not None:
        from prepcli.commands.inspect.record import find_record
        from prepcli.commands.inspect.report import Inspection

        return Inspection(subject, "record", f"record {record:,}", record=find_record(subject, record, base))
    if html is not None:
        from prepcli.commands.inspect.page import check_page  # only here: a start should be quick

        check_page(Path(html))
    if csv is not None:
        check_side_file("--csv", Path(csv), CSV)
    facts = look_at(subject, num_audio_files, num_workers or available_processors(), base)
    if csv is not None and not facts.groups:
        raise UsageError(f"{option('--csv')}: {subject} has no records of manifests or cuts: it is {facts.title}")
    if html is not None:
        from prepcli.commands.inspect.clips import clips_of_turns, cut_clips
        from prepcli.commands.inspect.kinds import what_is
        from prepcli.commands.inspect.page import write_page

        examples = [*facts.outliers, *facts.sample] if num_audio_files else []
        turns = clips_of_turns(facts.dialogues) if num_audio_files else []
        clips = cut_clips(what_is(subject), examples, base or base_of_runs(facts))
        write_page(facts, [*clips, *turns], Path(html))
    if csv is not None:
        from prepcli.commands.inspect.groups import csv_of

        write_side_file(Path(csv), csv_of(facts.groups))
    return facts
