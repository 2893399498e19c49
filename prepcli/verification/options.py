"""The options of `verify`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from prepcli.options import Json, NumWorkers, Option, Progress


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Check a data set: every shard readable and decodable, manifests and tars aligned, bytes as published.

    Reads and decodes everything. If there are problems, they are listed and the exit code is 1.

    Example: prepcli verify tarred/
    """

    out: Annotated[Path, Option("Directory of a tarred or Shar data set.", metavar="OUT", is_argument=True)]
    as_json: Json = False
    num_workers: NumWorkers = None
    progress: Progress = False
