"""The options of `index`."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from prepcli.errors import UsageError, option
from prepcli.interface.options import Option
from prepcli.interface.shared_options import Json, NumWorkers, Progress
from prepcli.storage.paths import AnyPath


@dataclass(frozen=True, kw_only=True)
class Index:
    """Write indexes (.idx) for data sets that exist, with which lhotse 2 and NeMo after 3.0 resume in mid-epoch.

    Indexes of tars and manifests are written beside them; those of a Lhotse Shar set into the folder index/ of the
    set, because beside the shards lhotse 1.33 and NeMo 3.0 would read them as data. Only line ends and tar headers
    are read. Indexes that fit their data are kept, so a run that was stopped continues; several ranks share the files.

    Readers do not notice an index of an older version of its data, and read wrong bytes: --check compares all of them.

    Example: prepcli index tarred/ shar/
    """

    paths: Annotated[
        tuple[str, ...],
        Option(
            "Tarred sets, Shar sets, JSONL files, tars, or an input_cfg (YAML).",
            metavar="PATH...",
            is_argument=True,
            takes_address=True,
        ),
    ]
    check: Annotated[
        bool,
        Option(
            "Compare the indexes with their data, and write nothing. Problems: exit code 1.",
            disables=("rebase", "overwrite", "pack", "dry_run"),
        ),
    ] = False
    rebase: Annotated[
        bool,
        Option(
            "Rename the indexes of a Shar set that was moved or copied. Reads no data.",
            disables=("overwrite", "pack", "indexes_root", "index_beside"),
        ),
    ] = False
    indexes_root: Annotated[
        AnyPath | None,
        Option(
            "Write all indexes below this folder, each under the absolute path of its data.",
            metavar="DIR",
        ),
    ] = None
    index_beside: Annotated[bool, Option("Write the indexes of Shar sets beside the data too.")] = False
    pack: Annotated[
        Path | None,
        Option(
            "Also write one file with all indexes, and beside it the YAML it belongs to. Needs lhotse 2.",
            metavar="FILE.idxpack",
        ),
    ] = None
    dry_run: Annotated[bool, Option("List what would be written, and write nothing.")] = False
    overwrite: Annotated[bool, Option("Write all indexes again.")] = False
    as_json: Json = False
    num_workers: NumWorkers = None
    rank: Annotated[int | None, Option("Rank of this process, from 0.", shown_default="from the launcher")] = None
    world_size: Annotated[int | None, Option("Number of ranks.", shown_default="from the launcher")] = None
    progress: Progress = False

    def check_options(self) -> None:
        """Check that the options agree.

        Raises:
            UsageError: the message names the options of the command line and says what to do.
        """
        if not self.paths:
            raise UsageError("PATH is missing: give data sets, JSONL files, tars or an input_cfg")
        if self.indexes_root is not None and self.index_beside:
            raise UsageError(
                f"{option('--indexes-root')} and {option('--index-beside')} name two places: leave one of them out"
            )
        if self.indexes_root is not None and os.path.isfile(str(self.indexes_root)):
            raise UsageError(f"{option('--indexes-root', self.indexes_root)} is a file; give a folder")
        if self.pack is not None and self.pack.suffix != ".idxpack":
            raise UsageError(f"{option('--pack', self.pack)} must end in .idxpack")
