"""find-duplicates: finds records with (nearly) the same audio or text, and speakers that occur in several inputs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typing_extensions import Unpack

from prepcli.engine.run.options import RecordArguments
from prepcli.errors import UsageError, option
from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths, PathText, listed

if TYPE_CHECKING:
    from prepcli.commands.find_duplicates.report import DuplicatesReport
    from prepcli.engine.publishing.publish import Marker, UnitWriter
    from prepcli.engine.state.plan import Plan
    from prepcli.engine.state.workspace import Workspace
    from prepcli.jobs.record_job import RecordContents, RecordUnit

_KINDS = ("audio", "near-audio", "text", "speaker")
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
        PathText,
        Option("File to write.", metavar="OUT.jsonl", is_argument=True, shapes_output=False, names_file=True),
    ],
    *,
    by: Annotated[
        str | Sequence[str],
        Option("What is compared, between commas: audio, near-audio, text, speaker.", between_commas=True),
    ] = "audio,text",
    between: Annotated[
        bool, Option("Report only groups with records of two inputs or more; exit code 1 if there are any.")
    ] = False,
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
    in folded case, without punctuation. speaker: the same name in two inputs; with --speaker-model also the same voice
    under two names. --between reports only groups over two inputs, such as leaks of a test set into training, and then
    exits with 1 if there are any. An input is refused if most of its records lack the text or the speaker to compare.

    A conversation is a record. By audio and near-audio, each of its turns is compared, and one that another record has
    is enough; duplicate_turns has the numbers of these turns. By text, the roles and texts of all turns are equal.

    Run the same command again to continue after an interruption.

    Example: prepcli find-duplicates test.json train.json leaks.jsonl --by audio,text,speaker --between

    Returns:
        The report; `details["found"]` counts groups, `outputs["duplicates"]` is the file with their records.

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
    from prepcli.commands.find_duplicates.keys import AUDIO, NEAR_AUDIO, KeyWriter, write_groups
    from prepcli.commands.find_duplicates.report import DuplicatesReport
    from prepcli.commands.find_duplicates.twins import by_duration
    from prepcli.engine.run.function import OutputFile, run
    from prepcli.jobs.inputs.conversations import conversations_among
    from prepcli.jobs.record_job import RecordContents, RecordUnit, even_bounds, units_of
    from prepcli.jobs.source import RecordSource, items
    from prepcli.manifest.output_name import check_manifest_name
    from prepcli.planning.split import seconds_of

    output = OutputFile(out)
    first, *others = listed(inputs)
    kinds = _kinds(str(by), 1 + len(others), between, has_model=speaker_model is not None)
    # A voice is that of a record: conversations have several.
    dialogues = conversations_among(more["audio_base_dir"]) if speaker_model is None else None
    source = RecordSource(first, output, *others, others=dialogues)
    check_manifest_name(output.path, "find-duplicates", "duplicates.jsonl")
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
        refuses = between or len(kinds) == 1
        notes = notes_on_fields(records, listed(inputs), source.input_of, kinds, refuses=refuses)
        bounds = even_bounds(len(records), _UNIT_SIZE)
        order = None
        if reads_audio:  # then records of equal duration come one after the other
            order = source.layout(records, lambda scratch: {"order": by_duration(records, scratch)})["order"]
        seconds = seconds_of(records.index.duration, np.arange(len(records)) if order is None else order, bounds)
        name = "records" if order is None else "audio"
        units = units_of(name, bounds.tolist(), seconds.tolist(), make=RecordUnit)
        return records.plan(units, RecordContents(records, order=order), notes=notes)

    def write(contents: "RecordContents", unit: "RecordUnit", writer: "UnitWriter") -> None:
        keys = KeyWriter(contents.records, writer, kinds)
        for item in items(contents, unit, writer):
            with item:
                keys.add(item.number, item.record)
        keys.close()

    def join(
        made: "Plan[RecordUnit, RecordContents]", markers: "Sequence[Marker]", writer: "UnitWriter"
    ) -> dict[str, Any]:
        groups = GroupWriter(writer.open(output.name), made.contents.records, source.input_of)
        write_groups(groups, kinds, markers, writer, between)
        return {"duplicates": output.path, "between": between, "found": groups.rows}

    settings = source.settings | {"inputs": source.input_of}
    report = run(output, plan, write, join, settings=settings, reads_audio_files=reads_audio, telemetry=("between",))
    return msgspec.convert(report, DuplicatesReport, from_attributes=True)


def _kinds(by: str, num_inputs: int, between: bool, has_model: bool) -> list[str]:
    """The kinds of duplicates to find.

    Raises:
        UsageError: a kind does not exist; or `--by`, `--between`, `--speaker-model` and the number of inputs do not fit
            together.
    """
    kinds = list(dict.fromkeys(name.strip() for name in by.split(",") if name.strip()))
    if not kinds or (unknown := next((name for name in kinds if name not in _KINDS), None)):
        wrong = f", not {unknown}" if kinds else ""
        raise UsageError(f"{option('--by')} takes {', '.join(_KINDS)}{wrong}")
    if has_model and kinds != ["speaker"]:
        raise UsageError(
            f"{option('--speaker-model')} compares voices in a run of its own: give {option('--by', 'speaker')}"
        )
    if num_inputs < 2:
        if between:
            raise UsageError(f"{option('--between')} needs two inputs or more")
        if "speaker" in kinds and not has_model:
            raise UsageError(
                f"{option('--by', 'speaker')} needs two inputs or more: it finds names that are in both; "
                f"or {option('--speaker-model')}, to find the same voice under two names"
            )
    return kinds
