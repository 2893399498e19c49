"""filter: drops records by rules, and writes the others from all manifests to one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import Unpack

from prepcli.engine.run.options import JobArguments, run_options
from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText
from prepcli.interface.shared_options import AudioFolder, ManifestsOnly

if TYPE_CHECKING:
    from prepcli.commands.filter.report import FilterReport
    from prepcli.engine.state.workspace import Workspace
    from prepcli.jobs.selection import SelectionContents, SelectionPlan, Treatment

PresetName = Literal["curator-filter", "curator-tts", "emilia", "granary-text", "hifitts", "magpie", "mcv-pt", "mls-pt"]


@command("filter")
def filter(
    manifest: ManifestsOnly,
    out: Annotated[
        PathText | None,
        Option(
            "Manifest to write; without it, --skipme marks records in the manifests of a tarred set.",
            metavar="OUT.json",
            is_argument=True,
            shapes_output=False,
            names_file=True,
        ),
    ] = None,
    *,
    keep: Annotated[
        str | Sequence[str],
        Option("Keep only records for which this is true.", metavar="EXPR", one_each=True, order=-1),
    ] = (),
    drop: Annotated[
        str | Sequence[str],
        Option("Drop the records for which this is true.", metavar="EXPR", one_each=True, order=-1),
    ] = (),
    preset: Annotated[
        PresetName | Sequence[PresetName],
        Option(
            "Apply the thresholds of a published pipeline; all fields that it needs must be there. curator-filter, "
            "curator-tts, emilia and magpie need some that no command of prepcli measures.",
            one_each=True,
        ),
    ] = (),
    unique: Annotated[
        str | None,
        Option("Keep the first of the records that are equal in these fields.", metavar="FIELD,..."),
    ] = None,
    sample: Annotated[
        float | None,
        Option("Keep a random share (below 1) or number of the records that the other rules keep.", metavar="N|SHARE"),
    ] = None,
    seed: Annotated[int, Option("Seed of --sample; a record's place in the input has no effect on it.")] = 0,
    drop_listed: Annotated[
        PathText | None,
        Option(
            "Drop the records that find-duplicates lists in this file, except the first of each group.",
            metavar="FILE",
            must_exist="file",
        ),
    ] = None,
    skipme: Annotated[
        bool,
        Option(
            "Write all records, and set _skipme to the rule in those that a rule would drop; without OUT.json, in the "
            "manifests of the finished tarred set that is given."
        ),
    ] = False,
    html: Annotated[
        PathText | None,
        Option(
            "Write the table as a page; open it in a browser.", metavar="FILE", names_file=True, shapes_output=False
        ),
    ] = None,
    audio_base_dir: AudioFolder = None,
    **more: Unpack[JobArguments],
) -> "FilterReport":
    """Keep the records of manifests that fulfil rules, and merge manifests.

    Before anything is written, a table shows the records and hours that each rule drops: alone, last (what all others
    keep), and together; --dry-run prints only that. A dropped line is listed with its rule, and does not count for
    --max-rejects. Lines stay as they are; only paths change if they start from another folder than that of OUT.json.

    Rules are expressions over the fields of a record: == != < <= > >= in, not in, and, or, not; missing(x), len(x),
    lower(x), number(x), matches(x, "regex"), quantile(x, 0.99), chars_per_second, words_per_second. A comparison with
    a missing value is neither true nor false: such a record is not kept by --keep, and not dropped by --drop.

    Run the same command again to continue after an interruption.

    Example: prepcli filter train.json kept.json --keep '1 <= duration <= 20' --drop 'chars_per_second > 25'

    Returns:
        The report; `details["rules"]` has what each rule drops, `outputs["manifest"]` the manifest.

    Raises:
        UsageError: an expression is wrong, a field does not exist, no record is left, or a manifest cannot be read.

    Examples:
        >>> import prepcli
        >>> report = prepcli.filter("manifest.json", "kept.json", keep=["1 <= duration <= 4"], sample=20)
        >>> report.records_out, report.details["rules"][0]["alone"]["records"]
        (20, 7)
    """
    from pathlib import Path

    import msgspec

    from prepcli.commands.filter.marking import mark_records, treatment_of
    from prepcli.commands.filter.planning import FilterSettings, plan_of
    from prepcli.commands.filter.report import FilterReport
    from prepcli.commands.filter.rules import rules_of, unique_fields
    from prepcli.engine.run.function import OutputFile
    from prepcli.interface.calls import current_call
    from prepcli.jobs.inputs.conversations import record_files
    from prepcli.jobs.records import settings_over
    from prepcli.jobs.selection import select
    from prepcli.manifest.output_name import check_manifest_name

    engine = run_options(current_call().options)
    presets = tuple(dict.fromkeys(preset))
    wanted = FilterSettings(
        rules=rules_of(presets, tuple(keep), tuple(drop)),
        presets=presets,
        unique=unique_fields(unique),
        sample=sample,
        seed=seed,
        listed=None if drop_listed is None else Path(drop_listed),
        audio_base_dir=audio_base_dir,
        marks=skipme,
        page=None if html is None else Path(html),
    )
    if out is None:
        report = mark_records(str(manifest), wanted, engine)
        return msgspec.convert(report, FilterReport, from_attributes=True)
    output = OutputFile(out)
    check_manifest_name(output.path, "filter")
    manifests = record_files(str(manifest), audio_base_dir)

    def plan(workspace: "Workspace") -> "SelectionPlan":
        return plan_of(manifests, wanted, output.path, workspace, engine)

    def settings(made: "SelectionPlan") -> dict[str, Any]:
        paths = {"paths": "absolute"} if any(made.contents.base_dirs) else {}
        return settings_over(manifests, audio_base_dir, current_call().options) | paths

    def outcome(contents: "SelectionContents", verdict: int) -> "Treatment":
        return treatment_of(contents, verdict, skipme)

    def details(contents: "SelectionContents") -> dict[str, Any]:
        return {"manifest": output.path, **contents.facts}

    report = select(output, [output.name], plan, outcome, details, settings, keeps_skipped=skipme)
    return msgspec.convert(report, FilterReport, from_attributes=True)
