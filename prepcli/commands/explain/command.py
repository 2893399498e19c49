"""explain: says from which source a record comes, and by which rule it was kept or dropped."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText, folder_of
from prepcli.interface.shared_options import Json, WorkDir

if TYPE_CHECKING:
    from prepcli.commands.explain.report import Explanation


@command("explain")
def explain(
    record: Annotated[
        str,
        Option(
            "Its audio file as a manifest of the chain names it, the name of the file, or its id; NAME@SECONDS or "
            "NAME@1:23:20 is what lies at this time of the file.",
            metavar="RECORD",
            is_argument=True,
        ),
    ],
    *,
    in_set: Annotated[
        PathText,
        Option(
            "The output of a command of prepcli, or a manifest in it.",
            names=("--in",),
            metavar="SET",
            takes_address=True,
        ),
    ],
    work_dir: WorkDir = None,
    as_json: Json = False,
) -> "Explanation":
    """Say from which source a record comes, through which runs it went, and by which rule it was kept or dropped.

    Follows SET back through the runs that made it, as long as their folders OUT.prepcli and their manifests are there.
    A record that is not in SET is looked for in the rejects of all runs, then in their inputs.

    Example: prepcli explain talks/lecture.flac@13.5 --in tarred

    Returns:
        The explanation; `traces` has one item per record that has this name.

    Raises:
        UsageError: no run has made SET, or no record of its runs has this name.

    Examples:
        >>> import prepcli
        >>> report = prepcli.filter("manifest.json", "longer.json", keep="duration > 1.5")
        >>> prepcli.explain("s01_u1.flac", in_set="longer.json").traces[0].verdict
        'dropped'
    """
    from prepcli.commands.explain.tracing import explain_record
    from prepcli.engine.state.work_folder import note_unused
    from prepcli.storage.paths import path_of

    out, state = path_of(str(in_set)), folder_of(work_dir)
    note_unused(state, out)
    if isinstance(out, Path) and out.name.endswith(".prepcli"):
        out = out.with_name(out.name.removesuffix(".prepcli"))
    return explain_record(record, out, state)
