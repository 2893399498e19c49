"""find-duplicates: finds records with (nearly) the same audio or text, and speakers that occur in several inputs."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import Unpack

from prepcli.engine.run.options import RecordArguments
from prepcli.errors import TooManyRejectsError, UsageError, option
from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths, PathText, folder_of, listed

if TYPE_CHECKING:
    from prepcli.commands.find_duplicates.report import DuplicatesReport
    from prepcli.engine.publishing.publish import Marker, UnitWriter
    from prepcli.engine.state.plan import Plan
    from prepcli.engine.state.workspace import Workspace
    from prepcli.jobs.record_job import RecordContents, RecordUnit

_KINDS = ("audio", "near-audio", "text", "speaker")
_DEFAULT, _WITH_PRINTS = ("audio", "text"), ("audio", "near-audio", "text")
_UNIT_SIZE = 500


@command("find-duplicates")
def find_duplicates(
    inputs: Annotated[
        Paths,
        Option(
            "The inputs; each is one or more manifests or files of conversations, or a data set.",
            metavar="INPUT...",
            is_argument=True,
            shapes_output=False,
            takes_address=True,
            may_be_path=True,
        ),
    ],
    out: Annotated[
        PathText | None,
        Option(
            "File to write; not needed with --against (groups are then only counted) or --write-prints.",
            metavar="OUT.jsonl",
            is_argument=True,
            shapes_output=False,
            names_file=True,
        ),
    ] = None,
    *,
    by: Annotated[
        str | Sequence[str] | None,
        Option(
            "What is compared, between commas: audio, near-audio, text, speaker.",
            between_commas=True,
            shown_default="audio,text; with --against also near-audio; --write-prints writes all that records have",
        ),
    ] = None,
    between: Annotated[
        bool, Option("Report only groups with records of two inputs or more; exit code 1 if there are any.")
    ] = False,
    write_prints: Annotated[
        PathText | None,
        Option(
            "Write what the inputs are compared by, without audio, texts and names, for --against of others; into the "
            "folder of OUT.jsonl.",
            metavar="FILE",
            shapes_output=False,
            names_file=True,
            disables=("speaker_model",),
        ),
    ] = None,
    against: Annotated[
        Paths | None,
        Option(
            "Report only groups of the inputs and these prints, which others have written; exit code 1 if there are "
            "any.",
            metavar="FILE",
            several_paths=True,
            shapes_output=False,
            disables=("between", "speaker_model"),
        ),
    ] = None,
    certificate: Annotated[
        PathText | None,
        Option(
            "Write what was compared with --against, how, and the result: FILE.json, and FILE.html to read; into the "
            "folder of OUT.jsonl.",
            metavar="FILE.json",
            shapes_output=False,
            names_file=True,
            needs="against",
        ),
    ] = None,
    speaker_model: Annotated[
        PathText | None,
        Option(
            "With --by speaker: names with the same voice are one speaker. titanet_large or another pretrained model "
            "of NeMo, a .nemo file, or resemblyzer.",
            may_be_path=True,
            added_later=True,
        ),
    ] = None,
    min_voice_similarity: Annotated[
        float,
        Option(
            "Minimum cosine similarity of two voices, from -1 to 1.",
            minimum=-1,
            maximum=1,
            needs="speaker_model",
            added_later=True,
        ),
    ] = 0.93,
    devices: Annotated[
        str, Option("auto (all GPUs, else CPU), cpu, or a number of GPUs.", shapes_output=False, needs="speaker_model")
    ] = "auto",
    **more: Unpack[RecordArguments],
) -> "DuplicatesReport":
    """Find records with the same audio or text, within or between inputs, and speakers that are in several inputs.

    Writes OUT.jsonl with a line per record of a group: the record, with absolute paths, duplicate_by, duplicate_group
    and duplicate_place (0 for the first in the order of the inputs; by near-audio, the longest of the first input).
    prepcli filter --drop-listed takes this file.

    audio: the same samples, rate and channels after decoding, in any lossless format. near-audio: the same recording
    after lossy encoding, with another rate, loudness or length, or as a part of a longer one. text: equal after NFKC,
    in folded case, without punctuation and invisible characters. speaker: the same name in two inputs; with
    --speaker-model also the same voice under two names. --between reports only groups over two inputs, such as leaks of
    a test set into training, and then exits with 1 if there are any. An input is refused if most of its records lack
    the text or the speaker to compare.

    --write-prints: fingerprints and hashes of a set; --against: the comparison with them, without the audio of the set.

    A conversation is a record. By audio and near-audio, each of its turns is compared, and one that another record has
    is enough; duplicate_turns has the numbers of these turns. By text, the roles and texts of all turns are equal.

    Run the same command again to continue after an interruption.

    Example: prepcli find-duplicates test.json train.json leaks.jsonl --by audio,text,speaker --between

    Returns:
        The report; `details["found"]` counts groups, `outputs["duplicates"]` is the file with their records;
        `outputs` also has `prints`, `certificate` and `page`.

    Raises:
        UsageError: options that do not go together, or inputs that cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.find_duplicates(["manifest.json", "segments.json"], "duplicates.jsonl", by="text,speaker")
        >>> [(row["by"], row["groups"]) for row in report.details["found"]]
        [('text', 6), ('speaker', 1)]
    """
    import msgspec
    import numpy as np

    from prepcli.commands.find_duplicates.fields import field_keys, notes_on_fields
    from prepcli.commands.find_duplicates.groups import GroupWriter
    from prepcli.commands.find_duplicates.keys import KeyWriter, write_groups
    from prepcli.commands.find_duplicates.outputs import Outputs
    from prepcli.commands.find_duplicates.prints import kinds_in, notes_on_prints, read_all_prints
    from prepcli.commands.find_duplicates.report import DuplicatesReport
    from prepcli.commands.find_duplicates.rows import AUDIO, NEAR_AUDIO, Rows
    from prepcli.commands.find_duplicates.twins import by_duration
    from prepcli.engine.run.function import run
    from prepcli.engine.state.plan import CONVERSATIONS
    from prepcli.interface.calls import current_call
    from prepcli.jobs.inputs.conversations import conversations_among
    from prepcli.jobs.inputs.kinds import are_conversations
    from prepcli.jobs.record_job import RecordContents, RecordUnit, even_bounds, units_of
    from prepcli.jobs.source import RecordSource, items
    from prepcli.planning.split import seconds_of

    if against is not None and (out, write_prints, certificate) == (None, None, None):
        return _only_counted(current_call().options)
    files = Outputs(folder_of(out), folder_of(write_prints), folder_of(certificate))
    output = files.output
    first, *others = listed(inputs)
    prints = [] if against is None else read_all_prints("--against", str(against))
    default = ",".join(_DEFAULT if write_prints is None and not prints else _WITH_PRINTS)
    asked = _kinds(default if by is None else str(by), speaker_model is not None)
    compared = [] if out is None and not prints else asked
    if prints:
        compared = kinds_in(prints, asked, is_default=by is None)
    else:
        _check_inputs(compared, 1 + len(others), between, has_model=speaker_model is not None)
    kinds = compared if write_prints is None else list(_KINDS) if by is None else asked
    # A voice is that of a record: conversations have several.
    dialogues = conversations_among(more["audio_base_dir"]) if speaker_model is None else None
    source = RecordSource(first, output, *others, others=dialogues)
    if speaker_model is not None:
        from prepcli.commands.find_duplicates.same_voice import find_same_voices
        from prepcli.models.speakers import check_speaker_model

        check_speaker_model(str(speaker_model))
        report = find_same_voices(
            source, output, devices, str(speaker_model), listed(inputs), least=min_voice_similarity, between=between
        )
        return msgspec.convert(report, DuplicatesReport, from_attributes=True)
    reads_audio = not {AUDIO, NEAR_AUDIO}.isdisjoint(kinds)

    def plan(workspace: "Workspace") -> "Plan[RecordUnit, RecordContents]":
        records = source.read(workspace, field_keys(kinds, source.manifests))
        # Two inputs are compared to know that they have nothing in common; then a note is not enough.
        refuses = between or len(kinds) == 1 or (by is not None and bool(prints))
        notes = notes_on_fields(records, listed(inputs), source.input_of, kinds, refuses=refuses)
        notes += notes_on_prints(prints, asked)
        bounds = even_bounds(len(records), _UNIT_SIZE)
        order = None
        if reads_audio:  # then records of equal duration come one after the other
            order = source.layout(records, lambda scratch: {"order": by_duration(records, scratch)})["order"]
        seconds = seconds_of(records.index.duration, np.arange(len(records)) if order is None else order, bounds)
        name = "records" if order is None else "audio"
        units = units_of(name, bounds.tolist(), seconds.tolist(), make=RecordUnit)
        made = records.plan(units, RecordContents(records, order=order), notes=notes)
        made.inputs += [one.input_file for one in prints]
        return made

    def write(contents: "RecordContents", unit: "RecordUnit", writer: "UnitWriter") -> None:
        keys = KeyWriter(contents.records, writer, kinds)
        for item in items(contents, unit, writer):
            with item:
                keys.add(item.number, item.record)
        keys.close()

    def join(
        made: "Plan[RecordUnit, RecordContents]", markers: "Sequence[Marker]", writer: "UnitWriter"
    ) -> dict[str, Any]:
        rows = Rows(made.contents, kinds, markers, writer)
        groups = GroupWriter(files.open_groups(writer), made.contents.records, source.input_of, prints)
        write_groups(groups, rows, compared, between, prints)
        paths = files.write_others(made, markers, writer, rows, prints, groups.rows, asked)
        return {**paths, "between": between or bool(prints), "found": groups.rows}

    settings = source.settings | {"--by": default if by is None else str(by), "inputs": source.input_of}
    settings |= files.settings | ({"--against": [os.path.basename(one.path) for one in prints]} if prints else {})
    settings |= {CONVERSATIONS: True} if any(map(are_conversations, source.manifests)) else {}
    report = run(output, plan, write, join, settings=settings, reads_audio_files=reads_audio, telemetry=("between",))
    return msgspec.convert(report, DuplicatesReport, from_attributes=True)


def _only_counted(asked: Any) -> "DuplicatesReport":
    """Compare with prints, and keep nothing but the counts; each rank does all.

    Raises:
        TooManyRejectsError: as a run does; the records are not listed.
    """
    import msgspec

    from prepcli.interface.command import call_within

    def without_files(report: Any) -> Any:
        details = {name: value for name, value in report.details.items() if name != "duplicates"}
        kept = {"details": details, "outputs": {}, "rejects_filepath": "", "retry_with": None, "repair_with": None}
        return msgspec.structs.replace(report, out="no file is written", num_bytes=0, **kept)

    with tempfile.TemporaryDirectory(prefix="prepcli-") as place:
        values = vars(asked) | {"out": Path(place, "duplicates.jsonl"), "rank": 0, "world_size": 1}
        try:
            report: DuplicatesReport = without_files(call_within(find_duplicates, **values))
        except TooManyRejectsError as error:
            counts = ", ".join(f"{count:,} {reason}" for reason, count in error.report.rejects_by_reason.items())
            raise TooManyRejectsError(
                f"too many records were rejected ({counts}): name OUT.jsonl to have them listed",
                without_files(error.report),
            ) from None
    report.notes.append("without OUT.jsonl the groups are only counted, and a run that is interrupted begins again")
    return report


def _kinds(by: str, has_model: bool) -> list[str]:
    """The kinds of duplicates to find.

    Raises:
        UsageError: a kind does not exist, or is not for `--speaker-model`.
    """
    kinds = list(dict.fromkeys(name.strip() for name in by.split(",") if name.strip()))
    if not kinds or (unknown := next((name for name in kinds if name not in _KINDS), None)):
        wrong = f", not {unknown}" if kinds else ""
        raise UsageError(f"{option('--by')} takes {', '.join(_KINDS)}{wrong}")
    if has_model and kinds != ["speaker"]:
        raise UsageError(
            f"{option('--speaker-model')} compares voices in a run of its own: give {option('--by', 'speaker')}"
        )
    return kinds


def _check_inputs(kinds: Sequence[str], num_inputs: int, between: bool, has_model: bool) -> None:
    """Raise `UsageError` if one input is not enough."""
    if num_inputs < 2:
        if between:
            raise UsageError(f"{option('--between')} needs two inputs or more")
        if "speaker" in kinds and not has_model:
            raise UsageError(
                f"{option('--by', 'speaker')} needs two inputs or more: it finds names that are in both; "
                f"or {option('--speaker-model')}, to find the same voice under two names"
            )
