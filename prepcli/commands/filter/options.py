"""The options of `filter`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from prepcli.engine.run.options import JobOptions
from prepcli.interface.options import Option
from prepcli.interface.shared_options import AudioBaseDir, ManifestOnly

PresetName = Literal["curator-filter", "curator-tts", "emilia", "granary-text", "hifitts", "magpie", "mcv-pt", "mls-pt"]


@dataclass(frozen=True, kw_only=True)
class Filter(JobOptions):
    """Keep the records of manifests that fulfil rules, and merge manifests.

    Before anything is written, a table shows the records and hours that each rule drops: alone, last (what all others
    keep), and together; --dry-run prints only that. A dropped line is listed with its rule, and does not count for
    --max-rejects. Lines stay as they are; only paths change if they start from another folder than that of OUT.json.

    Rules are expressions over the fields of a record: == != < <= > >= in, not in, and, or, not; missing(x), len(x),
    lower(x), matches(x, "regex"), quantile(x, 0.99), chars_per_second, words_per_second. A comparison with a missing
    value is neither true nor false: such a record is not kept by --keep, and not dropped by --drop.

    Run the same command again to continue after an interruption.

    Example: prepcli filter train.json kept.json --keep '1 <= duration <= 20' --drop 'chars_per_second > 25'
    """

    manifest: ManifestOnly
    out: Annotated[
        Path | None,
        Option(
            "Manifest to write; without it, --skipme marks records in the manifests of a tarred set.",
            metavar="OUT.json",
            is_argument=True,
            shapes_output=False,
            names_file=True,
        ),
    ] = None
    keep: Annotated[
        tuple[str, ...], Option("Keep only records for which this is true.", metavar="EXPR", one_each=True, order=-1)
    ] = ()
    drop: Annotated[
        tuple[str, ...], Option("Drop the records for which this is true.", metavar="EXPR", one_each=True, order=-1)
    ] = ()
    preset: Annotated[
        tuple[PresetName, ...],
        Option("Apply the thresholds of a published pipeline; all fields that it needs must be there.", one_each=True),
    ] = ()
    unique: Annotated[
        str | None,
        Option("Keep the first of the records that are equal in these fields.", metavar="FIELD,..."),
    ] = None
    sample: Annotated[
        float | None,
        Option("Keep a random share (below 1) or number of the records that the other rules keep.", metavar="N|SHARE"),
    ] = None
    seed: Annotated[int, Option("Seed of --sample; a record's place in the input has no effect on it.")] = 0
    drop_listed: Annotated[
        Path | None,
        Option(
            "Drop the records that find-duplicates lists in this file, except the first of each group.",
            metavar="FILE",
            must_exist="file",
        ),
    ] = None
    skipme: Annotated[
        bool,
        Option(
            "Write all records, and set _skipme to the rule in those that a rule would drop; without OUT.json, in the "
            "manifests of the finished tarred set that is given."
        ),
    ] = False
    html: Annotated[
        Path | None,
        Option(
            "Write the table as a page; open it in a browser.", metavar="FILE", names_file=True, shapes_output=False
        ),
    ] = None
    audio_base_dir: AudioBaseDir = None
