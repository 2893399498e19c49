"""NeMo's tarred data set on disk: names, `metadata.yaml`, and reading an existing set."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import msgspec

from prepcli.errors import UsageError
from prepcli.formats.folders import listing, numbered
from prepcli.formats.names import INDEX_SUFFIX, brace_text
from prepcli.formats.yaml_text import read_yaml
from prepcli.interface.printing import first_line
from prepcli.storage.paths import NUMBER, AnyPath

# Plain decimals, so that `audio__OP_0..N_CL_.tar` expands to the names.
TAR_NAME = "audio_{}.tar"
SHARD_MANIFEST_FOLDER = "sharded_manifests"
SHARD_MANIFEST_NAME = f"{SHARD_MANIFEST_FOLDER}/manifest_{{}}.json"
SHARD_MANIFEST_FILE = re.compile(r"manifest_(\d+)\.json$")
_MANIFESTS = ("tarred_audio_manifest.json", f"tarred_audio_manifest_version_{NUMBER}.json")
_DATA = (TAR_NAME.format(NUMBER), SHARD_MANIFEST_NAME.format(NUMBER), *_MANIFESTS)
OUTPUT_PATTERNS = (
    *_DATA,
    *(f"{name}.idx" for name in _DATA),
    "metadata.yaml",
    f"metadata_version_{NUMBER}.yaml",
)
TAR_FILE = re.compile(r"audio_(\d+)\.tar$")
BUCKET = re.compile(r"bucket(\d+)")
"""The name of the folder of a static bucket; the group is its number."""
MARKS_FILE = "skipme.json"
"""The file in OUT.prepcli that exists while records in the manifests of the set are marked by `filter`.

Trainers skip marked records, but the set's reports count them."""
OWN_CONFIG = "prepcli"
"""The key in `metadata.yaml` whose value holds prepcli's own options (see `own_config`)."""
METADATA_FILE = re.compile(r"metadata(_version_\d+)?\.yaml")
_SEGMENT = re.compile(r"(.+)-sub\d+(\.\w+)?$")
_VERSIONED = re.compile(r"metadata_version_(\d+)\.yaml$")


def member_of_line(audio_filepath: str) -> str:
    """The member of the tar that holds the audio of a line.

    `x-sub1.wav`, `x-sub2.wav` and so on are segments of the member `x.wav` (nemo_adapters.py, LazyNeMoTarredIterator).
    """
    match = _SEGMENT.match(audio_filepath)
    return f"{match[1]}{match[2] or ''}" if match else audio_filepath


def manifest_name(version: int) -> str:
    """The name of the manifest of the whole set; each version of the set has its own."""
    return f"tarred_audio_manifest_version_{version}.json" if version else "tarred_audio_manifest.json"


def metadata_name(version: int) -> str:
    """The name of the metadata file of a version of the set."""
    return f"metadata_version_{version}.yaml" if version else "metadata.yaml"


def names_of_version(version: int, first: int, num_shards: int) -> list[str]:
    """The names, relative to the set's folder, of files that an addition may write.

    The metadata comes first, then the manifest of the whole set, as readers open them. The shards follow in descending
    order. The index of a file comes before the file.

    Args:
        version: the version that the addition makes.
        first: the number of the first new shard.
        num_shards: number of new shards.
    """
    shards = range(first + num_shards - 1, first - 1, -1)
    names = [manifest_name(version)]
    names += [name.format(number) for number in shards for name in (SHARD_MANIFEST_NAME, TAR_NAME)]
    return [metadata_name(version), *(one for name in names for one in (name + INDEX_SUFFIX, name))]


def names_in_config(version: int, num_shards: int, shard_manifests: bool) -> tuple[str, str]:
    """The patterns of the tars and of the manifests of a version, for a training config, relative to the set's folder.

    Without `shard_manifests` the second is the name of the manifest of the whole set.
    """
    shards = brace_text("0", str(num_shards - 1))
    manifests = SHARD_MANIFEST_NAME.format(shards) if shard_manifests else manifest_name(version)
    return TAR_NAME.format(shards), manifests


@dataclass(frozen=True, slots=True)
class ExistingSet:
    """An existing tarred set (made by prepcli or by NeMo's script), at one of its versions.

    `manifest` is the manifest of the whole set. `has_shard_manifests`: the set has a manifest per shard.
    `has_indexes`: the set has indexes of its tars.
    """

    version: int
    num_shards: int
    num_samples_per_shard: int | None
    manifest: AnyPath
    metadata: dict[str, Any] = field(default_factory=dict)
    has_shard_manifests: bool = True
    has_indexes: bool = True

    @property
    def dataset_config(self) -> dict[str, Any]:
        """The section `dataset_config` of the metadata: the options that NeMo's script has too, and duration bins."""
        return dict(self.metadata.get("dataset_config") or {})

    @property
    def own_config(self) -> dict[str, Any]:
        """The options that only prepcli has; empty for a set of another program."""
        return dict(self.metadata.get(OWN_CONFIG) or {})


def read_existing(folder: AnyPath, version: int | None = None) -> ExistingSet:
    """Read the set in `folder`: its newest version, or `version`.

    Raises:
        UsageError: `folder` does not exist; the metadata or the manifest of the whole set is missing or damaged; a tar
            is missing; or some shards have a manifest and others have none.
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
    shards = set(range(num_shards))
    if not shards <= set(numbers):
        raise UsageError(f"{folder} should hold audio_0.tar to audio_{num_shards - 1}.tar, but some are missing")
    without = shards - set(numbered(folder / SHARD_MANIFEST_FOLDER, SHARD_MANIFEST_FILE))
    if without and without != shards:
        raise UsageError(
            f"{folder} has manifests of some shards only: {SHARD_MANIFEST_NAME.format(min(without))} is missing; bring "
            f"it back, or remove the folder {SHARD_MANIFEST_FOLDER} ({manifest.name} has all lines)"
        )
    return ExistingSet(
        version,
        num_shards,
        metadata.get("num_samples_per_shard"),
        manifest,
        metadata,
        has_shard_manifests=not without,
        has_indexes=(folder / (TAR_NAME.format(0) + INDEX_SUFFIX)).is_file(),
    )


def newest_version(folder: AnyPath, names: Iterable[str] | None = None) -> int:
    """The newest version of the set in `folder`: 0, plus 1 for each addition of shards (NeMo: concatenation).

    `names` are the names of the folder's files; None lists the folder.
    """
    files = listing(folder).files if names is None else names
    return max([0, *(int(match[1]) for name in files if (match := _VERSIONED.match(name)))])


def tar_numbers(folder: AnyPath) -> list[int]:
    """The numbers of the tar files in `folder`, sorted."""
    return sorted(int(match[1]) for name in listing(folder).files if (match := TAR_FILE.match(name)))


class _DatasetConfig(msgspec.Struct):
    num_shards: int | None = None


class _Metadata(msgspec.Struct):
    """The keys of `metadata.yaml` whose values prepcli uses, with the types that these must have."""

    dataset_config: _DatasetConfig | None = None
    prepcli: dict[str, Any] | None = None
    num_samples_per_shard: int | None = None
    history: list[Any] | None = None


def read_metadata(path: AnyPath) -> dict[str, Any]:
    """The content of a `metadata.yaml`.

    Raises:
        UsageError: the file is not a YAML mapping with values of the types that `metadata_yaml` writes.
    """
    import yaml

    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a regular file")
    try:
        content = read_yaml(path)
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not valid YAML: {first_line(error)}") from None
    try:
        msgspec.convert(content, _Metadata)
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
    own_config: dict[str, Any],
    history: Sequence[dict[str, Any]] = (),
) -> bytes:
    """`metadata.yaml` as NeMo's `ASRTarredDatasetMetadata` writes it.

    `created` is the time of the newest change of the inputs, in seconds since the epoch. It is not the time of the run,
    so a run that was killed and continued gives the same bytes as a run without a break. NeMo refuses unknown keys in
    `dataset_config`, but ignores unknown keys at the top level. So `own_config`, the options that NeMo's script does
    not have, is at the top level.
    """
    import yaml

    content = {
        "created_datetime": datetime.fromtimestamp(created, tz=timezone.utc).strftime("%m-%d-%Y %H-%M-%S"),
        "version": version,
        "num_samples_per_shard": num_samples_per_shard,
        "is_concatenated_manifest": is_concatenated,
        "dataset_config": dataset_config,
        OWN_CONFIG: own_config,
        "history": list(history),
    }
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True).encode("utf-8")
