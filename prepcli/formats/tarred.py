"""NeMo's tarred data set on disk: names, `metadata.yaml`, and reading an existing set."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

import msgspec

from prepcli.engine.state.work_folder import is_changing
from prepcli.errors import UsageError, option
from prepcli.formats.folders import Listing, listing, numbered
from prepcli.formats.names import INDEX_SUFFIX, brace_text
from prepcli.formats.stored_set import Shards, StoredSet, pattern
from prepcli.formats.training_config import tarred_entry
from prepcli.formats.yaml_text import read_yaml
from prepcli.interface.printing import first_line, number_of
from prepcli.storage.paths import NUMBER, AnyPath, StorePath, path_of

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
WHOLE_MANIFEST = re.compile(r"tarred_audio_manifest(_version_\d+)?\.json$")
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
    return [metadata_name(version), *(file for name in names for file in (name + INDEX_SUFFIX, name))]


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


class TarredSet(StoredSet):
    """NeMo's tarred set at its newest version. With static buckets, each bucket is a tarred set too: one of `parts`."""

    kind = "tarred"
    index_kind = "nemo_tar"
    is_for_nemo = True

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "TarredSet | None":
        """The set with tars or manifests in the folder itself, or in its buckets; None if there are none."""
        tarred = cls(folder, listed)
        return tarred if tarred.sets else None

    @cached_property
    def parts(self) -> "dict[int, TarredSet]":
        """The sets of static buckets (`bucket1` and so on) by number; a name such as `bucket1_backup` is left out."""
        named = ((match, name) for name in self.listed.folders if (match := BUCKET.fullmatch(name)))
        return dict(sorted((int(match[1]), TarredSet(self.folder / name)) for match, name in named))

    @property
    def sets(self) -> "list[TarredSet]":
        """The set itself; but if its folder holds neither tars nor manifests, the sets in buckets with such files."""
        return [part for part in self.parts.values() if not part.is_empty] if self.is_empty else [self]

    def check_parts(self) -> None:
        """Raise `UsageError` if a bucket is missing or empty, but a bucket with a higher number is there."""
        numbers = {number for number, part in self.parts.items() if not part.is_empty}
        if missing := sorted(set(range(1, max(numbers, default=0) + 1)) - numbers):
            names = ", ".join(f"bucket{number}" for number in missing)
            raise UsageError(f"{self.folder} holds bucket{max(numbers)}, but not {names}; bring back what is missing")

    @property
    def has_tars(self) -> bool:
        """Whether the folder itself holds tars."""
        return any(map(TAR_FILE.match, self.listed.files))

    def title(self, *, is_file: bool = False) -> str:
        """The number of buckets, if there are any with data besides tars of the set itself or in place of them."""
        sets = [part for part in (self, *self.parts.values()) if not part.is_empty]
        return "a tarred data set (NeMo)" + ("" if sets == [self] else f" in {number_of(len(sets), 'bucket')}")

    def check_indexable(self) -> None:
        """Raise `UsageError` if the set lacks its tars or its manifests."""
        if not self.record_files():
            raise UsageError(f"{self.folder} holds tars without their manifests; bring these back, or name the tars")
        self.check_tars()

    def check_loadable(self) -> None:
        """Raise `UsageError` if the set has no tars, or their numbers have gaps."""
        self.check_tars()
        if list(self.shards) != list(range(len(self.shards))):
            raise UsageError(
                f"{self.folder}: its tars are not numbered from audio_0.tar without gaps; prepcli verify {self.folder}"
            )

    def check_tars(self) -> None:
        """Raise `UsageError` if the set has no tars: they are gone, or it was made with `--only-manifests`."""
        if not self.shards:
            raise UsageError(
                f"{self.folder} holds manifests of a tarred set without its tars; bring them back, or make them: run "
                f"its command with {option('--overwrite')}, without {option('--only-manifests')}"
            )

    @cached_property
    def is_empty(self) -> bool:
        """Whether the folder itself holds neither tars nor manifests."""
        if self.has_tars or any(map(WHOLE_MANIFEST.match, self.listed.files)):
            return False
        return not any(map(SHARD_MANIFEST_FILE.match, listing(self.folder / SHARD_MANIFEST_FOLDER).files))

    @cached_property
    def version(self) -> int:
        """The newest version of the set: 0, plus 1 for each addition of shards (which NeMo calls a concatenation)."""
        return newest_version(self.folder, self.listed.files)

    @cached_property
    def shards(self) -> Shards:
        """The tars of the newest version."""
        return self._of_newest(numbered(self.folder, TAR_FILE, self.listed.files))

    @cached_property
    def manifests(self) -> Shards:
        """The manifests of the shards of the newest version; empty if the set has none."""
        return self._of_newest(numbered(self.folder / SHARD_MANIFEST_FOLDER, SHARD_MANIFEST_FILE))

    @property
    def whole(self) -> AnyPath:
        """The path of the manifest of all shards of the newest version; the file may not exist."""
        return self.folder / manifest_name(self.version)

    def _of_newest(self, shards: Shards) -> Shards:
        """The files in `shards`, without those of shards whose addition or removal has begun but has not ended.

        For a set in an object store, all files in `shards`.
        """
        if not shards or isinstance(self.folder, StorePath) or not is_changing(self.folder):
            return shards
        try:
            config = read_metadata(self.folder / metadata_name(self.version)).get("dataset_config") or {}
        except (UsageError, OSError):
            return shards
        num_shards = config.get("num_shards") or len(shards)
        return {number: path for number, path in shards.items() if number < num_shards}

    def files(self) -> Iterator[AnyPath]:
        """The tars and the manifests."""
        yield from self.shards.values()
        yield from map(path_of, self.record_files())

    def record_files(self) -> tuple[str, ...]:
        """The manifests of the shards, else the manifest of the whole set; manifests of buckets belong to `parts`."""
        manifests = self.manifests.values() or ([self.whole] if self.whole.is_file() else [])
        return tuple(map(str, manifests))

    def entry(self) -> dict[str, Any]:
        """The entry in an `input_cfg` for a set without buckets; its paths are absolute."""
        manifests = self.manifests if len(self.manifests) >= len(self.shards) else {0: self.whole}
        return tarred_entry(pattern(manifests), pattern(self.shards))


def refusal_of_tarred(folder: AnyPath, *, is_given: bool = False) -> str | None:
    """The message that the audio of `folder` is in tars, with advice; None if the set has no tars.

    `folder` may also be the folder `sharded_manifests` in the set. `is_given`: a command that takes only manifests got
    the folder, not a manifest in it.
    """
    tarred = TarredSet(folder.parent if folder.name == SHARD_MANIFEST_FOLDER else folder)
    if not any(part.has_tars for part in (tarred, *tarred.parts.values())):
        return None
    is_set = is_given and tarred.folder == folder
    otherwise = "" if is_set else "to write a data set, give the folder itself; for other commands "
    return (
        f"the audio of {tarred.folder} is in tars: {otherwise}make a manifest that names it there: prepcli "
        f"make-manifest {tarred.folder} OUT.json"
    )
