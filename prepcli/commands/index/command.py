"""index: writes, checks or renames the indexes of data sets that exist."""

import os
from typing import TYPE_CHECKING, Annotated

from prepcli.errors import UsageError, option
from prepcli.interface.command import command
from prepcli.interface.options import Option, Paths, PathText, texts_of
from prepcli.interface.shared_options import Json, NumWorkers, Progress

if TYPE_CHECKING:
    from prepcli.commands.index.report import IndexReport


@command("index")
def index(
    paths: Annotated[
        Paths,
        Option(
            "Tarred sets, Shar sets, JSONL files, tars, or an input_cfg (YAML).",
            metavar="PATH...",
            is_argument=True,
            may_be_path=True,
            takes_address=True,
        ),
    ],
    *,
    check: Annotated[
        bool,
        Option(
            "Compare the indexes with their data, and write nothing. Problems: exit code 1.",
            disables=("rebase", "overwrite", "dry_run"),
        ),
    ] = False,
    rebase: Annotated[
        bool,
        Option(
            "Rename the indexes of a Shar set that was moved or copied. Reads no data.",
            disables=("overwrite", "indexes_root", "index_beside"),
        ),
    ] = False,
    indexes_root: Annotated[
        PathText | None,
        Option(
            "Write all indexes below this folder, each under the absolute path of its data.",
            metavar="DIR",
            takes_address=True,
        ),
    ] = None,
    index_beside: Annotated[bool, Option("Write the indexes of Shar sets beside the data too.")] = False,
    dry_run: Annotated[bool, Option("List what would be written, and write nothing.")] = False,
    overwrite: Annotated[bool, Option("Write all indexes again.")] = False,
    as_json: Json = False,
    num_workers: NumWorkers = None,
    rank: Annotated[int | None, Option("Rank of this process, from 0.", shown_default="from the launcher")] = None,
    world_size: Annotated[int | None, Option("Number of ranks.", shown_default="from the launcher")] = None,
    progress: Progress = False,
) -> "IndexReport":
    """Write indexes (.idx) for data sets that exist, with which lhotse 2 and NeMo after 3.0 resume in mid-epoch.

    Indexes of tars and manifests are written beside them; those of a Lhotse Shar set into the folder index/ of the
    set, because beside the shards lhotse 1.33 and NeMo 3.0 would read them as data. Only line ends and tar headers
    are read. Indexes that fit their data are kept, so a run that was stopped continues; several ranks share the files.

    Readers do not notice an index of an older version of its data, and read wrong bytes: --check compares all of them.

    Example: prepcli index tarred/ shar/

    Returns:
        The written indexes and the problems; `configs` has the YAML for each set.

    Raises:
        UsageError: a path cannot be indexed.
        IncompleteError: a worker process was killed; the same call continues.

    Examples:
        >>> import prepcli
        >>> report = prepcli.manifest_to_tarred("manifest.json", "unindexed", num_shards=2, index=False)
        >>> prepcli.index("unindexed").written
        4
        >>> prepcli.index("unindexed", check=True).status
        'ok'
    """
    specs = texts_of(paths)
    if not specs:
        raise UsageError("PATH is missing: give data sets, JSONL files, tars or an input_cfg")
    if indexes_root is not None and index_beside:
        raise UsageError(
            f"{option('--indexes-root')} and {option('--index-beside')} name two places: leave one of them out"
        )
    if indexes_root is not None and os.path.isfile(str(indexes_root)):
        raise UsageError(f"{option('--indexes-root', indexes_root)} is a file; give a folder")

    from prepcli.commands.index.indexing import check_sets, find_sets, index_sets, rebase_sets
    from prepcli.commands.index.sets import Places
    from prepcli.processes.ranks import detect_rank
    from prepcli.processes.workers import available_processors
    from prepcli.storage.paths import path_of

    places = Places(None if indexes_root is None else path_of(str(indexes_root)), index_beside)
    sets = [indexed for spec in specs for indexed in find_sets(spec, places)]
    if rebase:
        return rebase_sets(sets, dry_run)
    this_rank = detect_rank(os.environ, rank, world_size)
    workers = num_workers or available_processors()
    if check:
        return check_sets(sets, this_rank, workers)
    return index_sets(sets, places, this_rank, workers, dry_run=dry_run, overwrite=overwrite)
