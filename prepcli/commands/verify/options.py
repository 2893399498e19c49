"""The options of `verify`."""

from dataclasses import dataclass
from typing import Annotated

from prepcli.interface.options import Option
from prepcli.interface.shared_options import Json, NumWorkers, Progress, WorkDir
from prepcli.storage.paths import AnyPath


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Check a data set: every shard readable and decodable, manifests and tars aligned, bytes as published.

    Reads and decodes everything. In manifests, also those of extend-context-audio, every line is checked: its audio and
    its context must exist and be long enough, and the context must be of the same voice; there only the headers of
    audio are read. Problems are listed, and the exit code is 1. A set without a record is a problem as well.

    Example: prepcli verify tarred/
    """

    out: Annotated[
        AnyPath,
        Option(
            "Directory of a tarred or Shar data set, of an export or of manifests; or a manifest.",
            metavar="OUT",
            is_argument=True,
        ),
    ]
    audio_base_dir: Annotated[
        AnyPath | None,
        Option(
            "Base folder of relative audio paths in manifests.",
            shown_default="that of the run, else the manifest's folder",
            must_exist="folder",
        ),
    ] = None
    quick: Annotated[
        bool, Option("Compare only names, sizes and ETags (object stores) with what was published; no file is read.")
    ] = False
    work_dir: WorkDir = None
    as_json: Json = False
    num_workers: NumWorkers = None
    progress: Progress = False
