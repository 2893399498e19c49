"""The options of `manifest-to-wenet`."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from prepcli.commands.exports.options import ShardOptions
from prepcli.engine.run.options import JobOptions
from prepcli.errors import UsageError, option
from prepcli.interface.options import Option
from prepcli.interface.shared_options import Manifest, WorkDir
from prepcli.storage.paths import AnyPath

_PREFIX = re.compile(r"[\w.+-]+")


@dataclass(frozen=True)
class WenetOptions(ShardOptions):
    """The options that shape shards or data lists for WeNet."""

    raw: Annotated[
        bool,
        Option(
            "Write only OUT/data.list, which names the audio files where they are.",
            disables=("shard_size", "prefix", "target_sample_rate", "force_codec", "check_audio", "channel"),
        ),
    ] = False
    prefix: Annotated[str, Option("First part of the names of the shards.")] = "shards"
    force_codec: Annotated[
        Literal["flac", "wav"] | None, Option("Encode audio to this format.", shown_default="unchanged")
    ] = None
    relative_to: Annotated[
        Path | None,
        Option("Folder that paths in the list start from.", shown_default="none, paths are absolute", metavar="DIR"),
    ] = None

    @property
    def unit_size(self) -> int:
        """Maximum number of records per unit: the value of `--shard-size`; with `--raw` 50,000."""
        return 50_000 if self.raw else self.shard_size

    def check(self) -> None:
        """Check the options that exports share, and `--prefix`; raises `UsageError`."""
        super().check()
        if not _PREFIX.fullmatch(self.prefix):
            raise UsageError(f"{option('--prefix')} {self.prefix!r} must be of letters, digits, '.', '_', '+' and '-'")


@dataclass(frozen=True, kw_only=True)
class ManifestToWenet(WenetOptions, JobOptions):
    """Turn NeMo manifests into shards for WeNet, or with --raw into a data list.

    Writes OUT/shards_{000000000}.tar and OUT/shards.list, which is what data_type: shard reads; with --raw
    OUT/data.list, for data_type: raw. Keys are made from the names of the files and are unique. Files that need no
    change are copied byte for byte; segments are cut exactly. A record needs audio, but its text may be empty.

    Run the same command again to continue after an interruption.

    Example: prepcli manifest-to-wenet train.json wenet/ --shard-size 1000 --target-sample-rate 16000
    """

    manifest: Manifest
    out: Annotated[
        AnyPath,
        Option(
            "Directory for the shards and lists.",
            metavar="OUT",
            is_argument=True,
            shapes_output=False,
        ),
    ]
    work_dir: WorkDir = None
