"""The options of `manifest-to-parquet`."""

from dataclasses import dataclass
from typing import Annotated, Literal

from prepcli.commands.exports.options import ShardOptions
from prepcli.engine.run.options import JobOptions
from prepcli.interface.options import Option
from prepcli.interface.shared_options import Manifest, WorkDir
from prepcli.storage.paths import AnyPath


@dataclass(frozen=True)
class ParquetOptions(ShardOptions):
    """The options that shape Parquet files."""

    row_group_size: Annotated[
        int, Option("Maximum number of records per row group; a reader holds a whole row group.", minimum=1)
    ] = 200
    force_codec: Annotated[
        Literal["flac", "wav", "opus", "mp3"] | None,
        Option("Encode audio to this format.", shown_default="unchanged"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ManifestToParquet(ParquetOptions, JobOptions):
    """Turn NeMo manifests into Parquet files, as NeMo (type: parquet) and Hugging Face datasets read them.

    Writes OUT/data-{000000}.parquet, one file per shard, with the columns id, audio {bytes, path}, duration, text, and
    one for each further field of the manifests. Lists and objects, and fields of several types, become JSON text. Files
    that need no change are stored byte for byte; segments are cut exactly. Needs pyarrow (the extra parquet).

    Run the same command again to continue after an interruption.

    Example: prepcli manifest-to-parquet train.json parquet/ --shard-size 1000
    """

    manifest: Manifest
    out: Annotated[
        AnyPath,
        Option("Directory for the Parquet files.", metavar="OUT", is_argument=True, shapes_output=False),
    ]
    work_dir: WorkDir = None
