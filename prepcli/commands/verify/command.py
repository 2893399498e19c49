"""verify: checks that a data set is complete, readable and aligned, and that its bytes are as published."""

from typing import TYPE_CHECKING, Annotated

from prepcli.interface.command import command
from prepcli.interface.options import Option, PathText, folder_of
from prepcli.interface.shared_options import Json, NumWorkers, Progress, WorkDir

if TYPE_CHECKING:
    from prepcli.commands.verify.report import VerifyReport


@command("verify")
def verify(
    out: Annotated[
        PathText,
        Option(
            "Directory of a tarred or Shar data set, of an export or of manifests; or a manifest.",
            metavar="OUT",
            is_argument=True,
            takes_address=True,
        ),
    ],
    *,
    audio_base_dir: Annotated[
        PathText | None,
        Option(
            "Base folder of relative audio paths in manifests.",
            shown_default="that of the run, else the manifest's folder",
            must_exist="folder",
            takes_address=True,
        ),
    ] = None,
    quick: Annotated[
        bool, Option("Compare only names, sizes and ETags (object stores) with what was published; no file is read.")
    ] = False,
    work_dir: WorkDir = None,
    as_json: Json = False,
    num_workers: NumWorkers = None,
    progress: Progress = False,
) -> "VerifyReport":
    """Check a data set: every shard readable and decodable, manifests and tars aligned, bytes as published.

    Reads and decodes everything. In manifests, also those of extend-context-audio, every line is checked: its audio and
    its context must exist and be long enough, and the context must be of the same voice; there only the headers of
    audio are read. Problems are listed, and the exit code is 1. A set without a record is a problem as well.

    Example: prepcli verify tarred/

    Returns:
        The counts of the checked data. If nothing is wrong, `problems` is empty and `status` is `ok`.

    Raises:
        UsageError: the directory holds no data set.
        IncompleteError: a worker process was killed.

    Examples:
        >>> import prepcli
        >>> report = prepcli.manifest_to_tarred("manifest.json", "verified", num_shards=2)
        >>> prepcli.verify("verified").problems
        []
    """
    from prepcli.commands.verify.checking import check_set, verify_quickly
    from prepcli.engine.state.work_folder import note_unused
    from prepcli.processes.workers import available_processors
    from prepcli.storage.paths import path_of

    path = path_of(str(out))
    base = None if audio_base_dir is None else path_of(str(audio_base_dir))
    state = folder_of(work_dir)
    note_unused(state, path)
    if quick:
        return verify_quickly(path, state)
    return check_set(path, num_workers or available_processors(), base, state)
