"""split: divides the records of manifests into parts; the records of a speaker, or of another group, stay together."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import Unpack

from prepcli.engine.run.options import JobArguments
from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText
from prepcli.interface.shared_options import AudioFolder, ManifestsOnly

if TYPE_CHECKING:
    from prepcli.commands.split.report import SplitReport
    from prepcli.jobs.selection import SelectionContents, Treatment


@command("split")
def split(
    manifest: ManifestsOnly,
    out: Annotated[
        PathText, Option("Directory of the parts.", metavar="OUT_DIR", is_argument=True, shapes_output=False)
    ],
    *,
    part: Annotated[
        str | Sequence[str] | Mapping[str, object],
        Option(
            "A part and its amount: a share of the hours, 1h, 30m, 90s, a number of records, or rest.",
            metavar="NAME=AMOUNT",
            one_each=True,
            order=-1,
        ),
    ] = (),
    by: Annotated[
        str | None,
        Option(
            "Field whose records with the same value stay together; none: each record for itself.",
            shown_default="speaker, if there are speakers",
            metavar="FIELD",
        ),
    ] = None,
    balance: Annotated[
        str | None,
        Option("Give each part the same shares of the values of these fields as the whole.", metavar="FIELD,..."),
    ] = None,
    seed: Annotated[int, Option("Seed of the draw; the order of the records has no effect on it.")] = 0,
    keep_parts: Annotated[
        PathText | None,
        Option("Directory of an earlier split: what was in a part stays in it.", metavar="DIR", must_exist="folder"),
    ] = None,
    disjoint: Annotated[
        Literal["text"] | None,
        Option("text: leave out records whose text, without case and punctuation, is in a smaller part."),
    ] = None,
    disjoint_listed: Annotated[
        PathText | None,
        Option(
            "Leave out records that find-duplicates lists in this file in a group with a record of a smaller part.",
            metavar="FILE",
            must_exist="file",
            added_later=True,
        ),
    ] = None,
    audio_base_dir: AudioFolder = None,
    **more: Unpack[JobArguments],
) -> "SplitReport":
    """Divide the records of manifests into parts, such as train, dev and test, with no speaker in two of them.

    Writes OUT_DIR/NAME.json for each --part NAME=AMOUNT. An amount is a share of all hours (0.9), a time (1h, 30m,
    90s), a number of records (500), or the rest (rest). Whole groups are drawn by a seeded hash, so the parts are as
    near to the amounts as they allow; the summary shows both. A part that is off by more than half is refused.

    Records in no part are listed as rejects that were asked for. Lines stay as they are; paths become absolute.

    Run the same command again to continue after an interruption.

    Example: prepcli split all.json parts/ --part train=rest --part dev=1h --part test=500 --balance lang

    Returns:
        The report; `details["parts"]` has the size of each part, `outputs[NAME]` its manifest.

    Raises:
        UsageError: a part cannot get its size, a field does not exist, or a manifest cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.split("manifest.json", "parts", part={"train": 0.8, "test": 0.2})
        >>> [(part["part"], part["records"], part["groups"]) for part in report.details["parts"]]
        [('train', 36, 6), ('test', 12, 2)]
    """
    import glob
    from pathlib import Path

    import msgspec

    from prepcli.commands.split.parts import parts_of
    from prepcli.commands.split.planning import LEFT_OUT, SplitPlanning, SplitSettings
    from prepcli.commands.split.report import SplitReport
    from prepcli.engine.run.function import Output
    from prepcli.interface.calls import current_call
    from prepcli.jobs.inputs.conversations import record_files
    from prepcli.jobs.records import settings_over
    from prepcli.jobs.selection import Treatment, left_out, select
    from prepcli.storage.input_files import refuse_swapped

    output = Output(out)
    refuse_swapped(str(manifest), output.path)
    manifests = record_files(str(manifest), audio_base_dir)
    wanted = SplitSettings(
        parts=parts_of(tuple(part)),
        by=by,
        balance=balance,
        seed=seed,
        keep_parts=None if keep_parts is None else Path(keep_parts),
        is_disjoint=disjoint is not None,
        listed=None if disjoint_listed is None else Path(disjoint_listed),
    )
    names = wanted.names
    output.patterns = [glob.escape(name) for name in names]
    planning = SplitPlanning(manifests, wanted, audio_base_dir, output.path, output.engine.num_workers)

    def outcome(contents: "SelectionContents", verdict: int) -> "Treatment":
        return Treatment(verdict) if verdict < len(names) else left_out(LEFT_OUT[verdict - len(names)])

    def details(contents: "SelectionContents") -> dict[str, Any]:
        paths = {part.name: output.path / name for part, name in zip(wanted.parts, names, strict=True)}
        return {**paths, "parts": contents.facts["parts"]}

    settings = settings_over(manifests, audio_base_dir, current_call().options)
    report = select(output, names, planning.plan, outcome, details, settings)
    return msgspec.convert(report, SplitReport, from_attributes=True)
