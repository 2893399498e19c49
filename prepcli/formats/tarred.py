"""NeMo's tarred data set on disk: names, `metadata.yaml`, and reading an existing set."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from prepcli.display.printing import first_line
from prepcli.errors import UsageError
from prepcli.formats.folders import regular_files
from prepcli.formats.yaml_text import parse_yaml

# Plain decimals, so that `audio__OP_0..N_CL_.tar` expands to the names.
TAR_NAME = "audio_{}.tar"
SHARD_MANIFEST_NAME = "sharded_manifests/manifest_{}.json"
SHARD_MANIFEST_FILE = re.compile(r"manifest_(\d+)\.json$")
OUTPUT_PATTERNS = (
    "audio_*.tar",
    "audio_*.tar.idx",
    "sharded_manifests/manifest_*.json",
    "sharded_manifests/manifest_*.json.idx",
    "tarred_audio_manifest*.json",
    "tarred_audio_manifest*.json.idx",
    "metadata*.yaml",
)
TAR_FILE = re.compile(r"audio_(\d+)\.tar$")
_VERSIONED = re.compile(r"metadata_version_(\d+)\.yaml$")


def manifest_name(version: int) -> str:
    """The manifest of the whole set; concatenation writes a new version beside the old one."""
    return f"tarred_audio_manifest_version_{version}.json" if version else "tarred_audio_manifest.json"


def metadata_name(version: int) -> str:
    """The metadata file of a version of the set."""
    return f"metadata_version_{version}.yaml" if version else "metadata.yaml"


@dataclass(frozen=True, slots=True)
class ExistingSet:
    """An existing tarred set (made by prepcli or by NeMo's script)."""

    version: int
    num_shards: int
    num_samples_per_shard: int | None
    manifest: Path
    metadata: dict[str, Any] = field(default_factory=dict)


def read_existing(folder: Path, version: int | None = None) -> ExistingSet:
    """Read the set in `folder`: its newest version, or `version`.

    Raises:
        UsageError: `folder` holds no set, its shards are not numbered 0..N-1, or metadata and manifest are missing.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a directory with a tarred data set")
    version = newest_version(folder) if version is None else version
    metadata_file, manifest = folder / metadata_name(version), folder / manifest_name(version)
    for file in (metadata_file, manifest):
        if not file.is_file():
            raise UsageError(f"{folder} is not a complete tarred data set: {file.name} is missing")
    metadata = read_metadata(metadata_file)
    numbers = tar_numbers(folder)
    num_shards = (metadata.get("dataset_config") or {}).get("num_shards") or len(numbers)
    if not set(range(num_shards)) <= set(numbers):
        raise UsageError(f"{folder} should hold audio_0.tar to audio_{num_shards - 1}.tar, but some are missing")
    return ExistingSet(version, num_shards, metadata.get("num_samples_per_shard"), manifest, metadata)


def newest_version(folder: Path) -> int:
    """The newest version of the set in `folder`: 0, or the number of its last concatenation."""
    return max([0, *(int(match[1]) for path in folder.iterdir() if (match := _VERSIONED.match(path.name)))])


def tar_numbers(folder: Path) -> list[int]:
    """Numbers of the tar files in `folder`, sorted."""
    return sorted(int(match[1]) for path in regular_files(folder) if (match := TAR_FILE.match(path.name)))


def refusal_of_tarred(folder: Path) -> str | None:
    """Why what lies in a folder is not an input, if this is a tarred set or the folder of its shards' manifests."""
    root = folder.parent if folder.name == SHARD_MANIFEST_NAME.partition("/")[0] else folder
    buckets = list(root.glob("bucket*"))
    if not any(path.is_dir() and tar_numbers(path) for path in (root, *buckets)):
        return None
    return f"{root} is a tarred set already, and its tars cannot be taken apart; give the manifest that it was made of"


class _DatasetConfig(msgspec.Struct):
    num_shards: int | None = None


class _Metadata(msgspec.Struct):
    """The keys of `metadata.yaml` that are used in computations."""

    dataset_config: _DatasetConfig | None = None
    num_samples_per_shard: int | None = None
    history: list[Any] | None = None

    @staticmethod
    def check(content: Any) -> None:
        """Raises `msgspec.ValidationError` for values of other types."""
        msgspec.convert(content, _Metadata)


def read_metadata(path: Path) -> dict[str, Any]:
    """The content of a `metadata.yaml`.

    Raises:
        UsageError: it is not a YAML mapping with values of the types that `metadata_yaml` writes.
    """
    import yaml

    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a regular file")
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid YAML: {first_line(error)}") from None
    try:
        _Metadata.check(content)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{path} does not hold the metadata of a tarred data set: {'it is empty' if content is None else error}"
        ) from None
    return dict(content)


def metadata_yaml(
    *,
    created: float,
    version: int,
    num_samples_per_shard: int,
    is_concatenated: bool,
    dataset_config: dict[str, Any],
    history: Sequence[dict[str, Any]] = (),
) -> bytes:
    """`metadata.yaml` as NeMo's `ASRTarredDatasetMetadata` writes it.

    `created` is seconds since the epoch: the newest change of the inputs, not the time of the run, so that a run that
    was killed and continued gives the same bytes as an undisturbed one. NeMo refuses unknown keys in `dataset_config`.
    """
    import yaml

    content = {
        "created_datetime": datetime.fromtimestamp(created, tz=timezone.utc).strftime("%m-%d-%Y %H-%M-%S"),
        "version": version,
        "num_samples_per_shard": num_samples_per_shard,
        "is_concatenated_manifest": is_concatenated,
        "dataset_config": dataset_config,
        "history": list(history),
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True).encode("utf-8")
