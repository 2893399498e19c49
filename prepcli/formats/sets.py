"""Data sets on disk: the sets in a folder, their files by shard, and their entries in an `input_cfg`.

Recognizing a set lists its folder once and opens no file. The files of a shard are searched for when they are needed.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

from prepcli.engine.state.work_folder import is_changing
from prepcli.errors import UsageError, option
from prepcli.formats import omnivoice
from prepcli.formats.codes import CODES_FILE, CODES_OF
from prepcli.formats.folders import Listing, listing, numbered, two_of_a_shard
from prepcli.formats.mels import LIST_FILE
from prepcli.formats.names import absolute_folder, brace_text
from prepcli.formats.omnilingual import CORPUS
from prepcli.formats.parquet import DATA_FILE
from prepcli.formats.qwen3_tts import LINES_FILE
from prepcli.formats.shar import AUDIO_FILE, AUDIO_NAME, CUTS_FILE, CUTS_NAME, TARGET, shard_text
from prepcli.formats.tarred import (
    BUCKET,
    SHARD_MANIFEST_FILE,
    SHARD_MANIFEST_FOLDER,
    TAR_FILE,
    manifest_name,
    metadata_name,
    newest_version,
    read_metadata,
)
from prepcli.formats.training_config import parquet_entry, shar_entry, tarred_entry
from prepcli.formats.wenet import LIST_NAME, RAW_LIST_NAME, read_shard_list
from prepcli.storage.paths import AnyPath, StorePath, path_of

Shards = dict[int, AnyPath]
"""One file of each shard, by the number of the shard."""

WHOLE_MANIFEST = re.compile(r"tarred_audio_manifest(_version_\d+)?\.json$")
_FLAT_FIELD = re.compile(r"(?P<field>.+)\.(?P<number>\d+)\.tar(\.gz)?$")
_LISTS = "filelists"


class StoredSet(ABC):
    """A data set in a folder.

    Attributes:
        kind: tarred, shar, codes, wenet, mels, parquet, omnilingual, omnivoice or qwen3-tts.
        folder: the folder.
        listed: the names in the folder when the set was found, or only those that belong to the set.
    """

    kind: ClassVar[str]

    def __init__(self, folder: AnyPath, listed: Listing | None = None) -> None:
        """`listed`: the names in the folder, or only those that belong to the set; None lists the folder."""
        self.folder = folder
        self.listed = listing(folder) if listed is None else listed

    @classmethod
    @abstractmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "StoredSet | None":
        """The set of this kind in a folder, or None if there is none.

        Args:
            folder: the folder.
            listed: the names in the folder.
            published: names of files below the folder that should exist. A set is found by these names even if the
                files are missing.
        """

    @property
    def shards(self) -> Shards:
        """One file of each shard: its tar, its cuts, or a Parquet file. Empty for a kind without numbered shards."""
        return {}

    def files(self) -> Iterator[AnyPath]:
        """The files that a training run reads, without audio outside of the set."""
        yield from self.shards.values()

    def record_files(self) -> tuple[str, ...]:
        """The paths of manifests, cuts or Parquet files with the records, in NeMo's order; empty for other kinds."""
        return ()

    def is_checked(self, published: Collection[str]) -> bool:
        """Whether `verify` checks the set; `published`: names of files below the folder that runs have published."""
        return True


class TarredSet(StoredSet):
    """NeMo's tarred set at its newest version. With static buckets, each bucket is a tarred set too: one of `parts`."""

    kind = "tarred"

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "TarredSet | None":
        """The set with tars or manifests in the folder itself, or in its buckets; None if there are none."""
        one = cls(folder, listed)
        return one if one.sets else None

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
        found = {number for number, part in self.parts.items() if not part.is_empty}
        if missing := sorted(set(range(1, max(found, default=0) + 1)) - found):
            names = ", ".join(f"bucket{number}" for number in missing)
            raise UsageError(f"{self.folder} holds bucket{max(found)}, but not {names}; bring back what is missing")

    @property
    def has_tars(self) -> bool:
        """Whether the folder itself holds tars."""
        return any(map(TAR_FILE.match, self.listed.files))

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

    def _of_newest(self, found: Shards) -> Shards:
        """The files in `found`, without those of shards whose addition or removal has begun but has not ended.

        For a set in an object store, all files in `found`.
        """
        if not found or isinstance(self.folder, StorePath) or not is_changing(self.folder):
            return found
        try:
            config = read_metadata(self.folder / metadata_name(self.version)).get("dataset_config") or {}
        except (UsageError, OSError):
            return found
        num_shards = config.get("num_shards") or len(found)
        return {number: path for number, path in found.items() if number < num_shards}

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


class SharSet(StoredSet):
    """A Lhotse Shar set: a folder for each field, or (`is_flat`) the files of all fields in one folder."""

    kind = "shar"

    def __init__(self, folder: AnyPath, listed: Listing | None = None, *, is_flat: bool = False) -> None:
        super().__init__(folder, listed)
        self.is_flat = is_flat

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "SharSet | None":
        """The set in a folder with files of cuts, or in which a run has `published` some; else None."""
        below = listing(folder / "cuts").files if "cuts" in listed.folders else []
        if any(map(CUTS_FILE.match, below)) or any(name.startswith("cuts/") for name in published):
            return cls(folder, listed)
        return cls(folder, listed, is_flat=True) if any(map(CUTS_FILE.match, listed.files)) else None

    def is_checked(self, published: Collection[str]) -> bool:
        """Only a set with folders: flat ones are parts of others, such as the cuts of text contexts."""
        return not self.is_flat

    @cached_property
    def shards(self) -> Shards:
        """The file of cuts of each shard."""
        return numbered(self._of_cuts, CUTS_FILE)

    def cuts(self) -> Shards:
        """The file of cuts of each shard; raises `UsageError` if there are no cuts."""
        if not self.shards:
            raise UsageError(f"{self.folder} is not a Lhotse Shar set: it has no cuts/cuts.<number>.jsonl.gz")
        return self.shards

    @property
    def _of_cuts(self) -> AnyPath:
        return self.folder if self.is_flat else self.folder / "cuts"

    @cached_property
    def audio(self) -> dict[str, Shards]:
        """The tars of each field of audio, such as `target_audio`."""
        if self.is_flat:
            return {name: tars for name, tars in self._flat.items() if not name.endswith("_codes")}
        others = ((name, self.folder / name) for name in self.listed.folders if name != "cuts")
        return {name: tars for name, place in others if (tars := numbered(place, AUDIO_FILE))}

    @cached_property
    def codes(self) -> dict[str, Shards]:
        """The tars of each field of codes, such as `codes_21fps/target_codes`."""
        if self.is_flat:
            return {name: tars for name, tars in self._flat.items() if name.endswith("_codes")}
        return codes_below(self.folder, self.listed)

    def gaps(self) -> list[str]:
        """The problems with numbers of shards: every field must have the shards 0 to N - 1."""
        fields = {"cuts": self.shards, **self.audio}
        count = 1 + max(max(found, default=-1) for found in fields.values())
        problems = []
        for name, found in fields.items():
            file = CUTS_NAME if name == "cuts" else AUDIO_NAME.format(name, "{}")
            if missing := [file.format(shard_text(number)) for number in range(count) if number not in found]:
                problems.append(
                    f"{', '.join(missing)}: missing; the shards of every field must be numbered 0 to {count - 1}"
                )
        return problems + gaps_of_codes(self.codes, self.shards)

    @cached_property
    def _flat(self) -> dict[str, Shards]:
        fields: dict[str, Shards] = {}
        for name in self.listed.files:
            if match := _FLAT_FIELD.match(name):
                path = self.folder / name
                other = fields.setdefault(match["field"], {}).setdefault(int(match["number"]), path)
                if other is not path:
                    raise two_of_a_shard(other, path)
        return {name: dict(sorted(tars.items())) for name, tars in fields.items()}

    def files(self) -> Iterator[AnyPath]:
        """The cuts, and the tars of all fields."""
        for one in (self.shards, *self.audio.values(), *self.codes.values()):
            yield from one.values()

    def record_files(self) -> tuple[str, ...]:
        """The paths of the files of cuts, sorted by name as in lhotse.

        A file may have no number in its name: lhotse writes a single shard as `cuts.jsonl.gz`.

        Raises:
            UsageError: a shard has both compressed and plain cuts.
        """
        found: dict[str, str] = {}
        for name in self.listed.files if self.is_flat else listing(self._of_cuts).files:
            if name.startswith("cuts.") and name.endswith((".jsonl", ".jsonl.gz")):
                other = found.setdefault(name.removesuffix(".gz"), name)
                if other is not name:
                    raise two_of_a_shard(self._of_cuts / other, self._of_cuts / name)
        return tuple(str(self._of_cuts / name) for name in found.values())

    def entry(self) -> dict[str, Any]:
        """The entry in an `input_cfg` for the set; its paths are absolute.

        All codecs use the same field names for codes. If the set has codes of several codecs, the entry has those of
        the last one by name.
        """
        audio = sorted(self.audio, key=lambda name: (name != TARGET, name))
        fields = {"cuts": self.shards} | {name: self.audio[name] for name in audio}
        fields |= {name.rpartition("/")[2]: tars for name, tars in self.codes.items()}
        return shar_entry({name: pattern(files) for name, files in fields.items()})


class CodesSet(StoredSet):
    """Tars with codec codes in a folder without cuts.

    The tars are in folders such as `codes_21fps/target_codes`, or directly in `target_codes`.
    """

    kind = "codes"

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "CodesSet | None":
        """The set in a folder with tars of codes, or in which a run has `published` some; else None."""
        one = cls(folder, listed)
        should_be = (name.startswith("codes_") and name.endswith(".tar") for name in published)
        return one if one.fields or any(should_be) else None

    @cached_property
    def fields(self) -> dict[str, Shards]:
        """The tars of each field of codes, by the path of the field's folder below the set."""
        own = {name: numbered(self.folder / name, CODES_FILE) for name in self.listed.folders if _is_codes_field(name)}
        return {name: tars for name, tars in own.items() if tars} | codes_below(self.folder, self.listed)

    def gaps(self, cuts: Shards) -> list[str]:
        """A problem for each number of a shard that only a field, or only the `cuts` of the Shar set, have."""
        return gaps_of_codes(self.fields, cuts)

    def files(self) -> Iterator[AnyPath]:
        """The tars of all fields."""
        for tars in self.fields.values():
            yield from tars.values()


def gaps_of_codes(fields: Mapping[str, Shards], cuts: Shards) -> list[str]:
    """A problem for each number of a shard that only a field of codes, or only the cuts, have."""
    problems = []
    for name, tars in fields.items():
        for number in sorted(set(cuts) ^ set(tars)):
            which = "missing" if number in cuts else "there are no such cuts"
            problems.append(f"{name}/codes.{shard_text(number)}.tar: {which}")
    return problems


def codes_below(folder: AnyPath, listed: Listing) -> dict[str, Shards]:
    """The tars of each field of codes, by the path of its folder below `folder`, such as `codes_21fps/target_codes`."""
    places = [
        f"{name}/{field}"
        for name in listed.folders
        if name.startswith("codes_")
        for field in listing(folder / name).folders
        if _is_codes_field(field)
    ]
    return {place: tars for place in places if (tars := numbered(folder / place, CODES_FILE))}


def _is_codes_field(name: str) -> bool:
    return name in CODES_OF.values()


class WenetSet(StoredSet):
    """Shards for WeNet, or (`is_raw`) a data list; `list` is the file that WeNet's reader opens."""

    kind = "wenet"

    def __init__(self, list: AnyPath, *, is_raw: bool) -> None:
        super().__init__(list.parent, Listing([list.name], []))
        self.list = list
        self.is_raw = is_raw

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "WenetSet | None":
        """The set in a folder with `shards.list` or `data.list`, or that should have it (`published`); else None."""
        names = (name for name in (LIST_NAME, RAW_LIST_NAME) if name in listed.files or name in published)
        return next((cls(folder / name, is_raw=name == RAW_LIST_NAME) for name in names), None)

    @cached_property
    def tars(self) -> list[AnyPath]:
        """The paths of the shards in the list, which start from the working folder, as for WeNet, or from the list's.

        A shard that is at neither place is expected next to the list.
        """
        named = [] if self.is_raw else [path for path in read_shard_list(self.list) if path.name]
        places = ((path_of(path), self.folder / str(path), self.folder / path.name) for path in named)
        return [next((place for place in those if place.is_file()), those[-1]) for those in places]

    def files(self) -> Iterator[AnyPath]:
        """The list and the shards."""
        yield from (self.list, *self.tars)


class MelSet(StoredSet):
    """File lists for Tacotron 2 and WaveGlow, with or without mels."""

    kind = "mels"

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "MelSet | None":
        """The set in a folder with file lists, or in which a run has `published` some; else None."""
        one = cls(folder, listed)
        return one if one.lists or any(name.startswith(f"{_LISTS}/") for name in published) else None

    @cached_property
    def lists(self) -> list[AnyPath]:
        """The paths of the file lists, in the folder itself and in `filelists/`."""
        below = listing(self.folder / _LISTS).files if _LISTS in self.listed.folders else []
        names = (*self.listed.files, *(f"{_LISTS}/{name}" for name in below))
        return [self.folder / name for name in names if LIST_FILE.match(name.rpartition("/")[2])]

    @property
    def has_mels(self) -> bool:
        """Whether the set has a folder of mels, and not only file lists."""
        return "mels" in self.listed.folders

    def files(self) -> Iterator[AnyPath]:
        """The lists alone. The mels, which the lists name, are not among them."""
        yield from self.lists


class ParquetSet(StoredSet):
    """Parquet files with audio; `shards` are the files that prepcli wrote."""

    kind = "parquet"

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "ParquetSet | None":
        """The set in a folder with Parquet files, or in which a run has `published` some; else None."""
        there = [name for name in listed.files if name.endswith(".parquet")]
        return cls(folder, Listing(there, [])) if there or any(map(DATA_FILE.match, published)) else None

    def is_checked(self, published: Collection[str]) -> bool:
        """Only files that prepcli wrote; those of others are read as containers."""
        return bool(self.shards or published)

    @cached_property
    def shards(self) -> Shards:
        """The files with the names that `manifest-to-parquet` gives them, by number."""
        return numbered(self.folder, DATA_FILE, self.listed.files)

    def files(self) -> Iterator[AnyPath]:
        """All Parquet files, sorted by name."""
        yield from map(path_of, self.record_files())

    def record_files(self) -> tuple[str, ...]:
        """The paths of the Parquet files, which hold the records."""
        return tuple(str(self.folder / name) for name in self.listed.files)

    def entry(self) -> dict[str, Any]:
        """The entry in an `input_cfg` for the set; its paths are absolute."""
        return parquet_entry(self.files())


class OmnilingualSet(StoredSet):
    """Parquet files for omnilingual-asr, in folders by corpus, split and language."""

    kind = "omnilingual"

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "OmnilingualSet | None":
        """The set in a folder with folders `corpus=...`, or in which a run has `published` some; else None."""
        found = any(name.startswith(CORPUS) for name in (*listed.folders, *published))
        return cls(folder, listed) if found else None

    @cached_property
    def shards(self) -> Shards:
        """All Parquet files, numbered from 0 in the order of their paths."""
        folders = [self.folder / name for name in self.listed.folders if name.startswith(CORPUS)]
        for _ in range(2):  # splits and languages
            folders = [folder / name for folder in folders for name in listing(folder).folders]
        files = [folder / name for folder in folders for name in listing(folder).files]
        return dict(enumerate(path for path in files if path.name.endswith(".parquet")))


class OmnivoiceSet(StoredSet):
    """Tars with codes and their labels for OmniVoice; `list` is the file that its reader opens."""

    kind = "omnivoice"

    def __init__(self, list: AnyPath) -> None:
        super().__init__(list.parent, Listing([list.name], []))
        self.list = list

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "OmnivoiceSet | None":
        """The set in a folder with `data.lst`, or in which a run has `published` it; else None."""
        return cls(folder / omnivoice.LIST_NAME) if omnivoice.LIST_NAME in (*listed.files, *published) else None

    @cached_property
    def shards(self) -> Shards:
        """The tars in the folder `audios`, by number."""
        return numbered(self.folder / "audios", omnivoice.CODES_FILE)

    def files(self) -> Iterator[AnyPath]:
        """The file `list`, the tars, and for each tar its file of labels."""
        yield from (self.list, *self.shards.values())
        yield from (self.folder / omnivoice.LABELS_NAME.format(number) for number in self.shards)


class QwenSet(StoredSet):
    """JSON lines with codes for Qwen3-TTS."""

    kind = "qwen3-tts"

    @classmethod
    def found_in(cls, folder: AnyPath, listed: Listing, published: Collection[str]) -> "QwenSet | None":
        """The set in a folder with files of JSON lines, or in which a run has `published` some; else None."""
        there = [name for name in listed.files if LINES_FILE.match(name)]
        return cls(folder, Listing(there, [])) if there or any(map(LINES_FILE.match, published)) else None

    def files(self) -> Iterator[AnyPath]:
        """The files of JSON lines."""
        yield from (self.folder / name for name in self.listed.files)


_KINDS: tuple[type[StoredSet], ...] = (
    *(SharSet, TarredSet, CodesSet, WenetSet),
    *(MelSet, ParquetSet, OmnilingualSet, OmnivoiceSet, QwenSet),
)


def sets_in(folder: AnyPath, published: Collection[str] = ()) -> Iterator[StoredSet]:
    """Yield the sets in a folder; the set that readers prefer comes first.

    Codes in the folder of a Shar set are part of that set: no set of codes is yielded for them.

    Args:
        folder: the folder; a missing folder has no sets.
        published: names of files below the folder that runs have published; a set is found by these names, too.
    """
    listed = listing(folder)
    has_cuts = False
    for kind in _KINDS:
        if has_cuts and kind is CodesSet:
            continue
        if (one := kind.found_in(folder, listed, published)) is not None:
            has_cuts = has_cuts or kind is SharSet
            yield one


def open_set(folder: AnyPath) -> StoredSet | None:
    """The set in a folder: the first of `sets_in`; None if there is none."""
    return next(sets_in(folder), None)


def refusal_of_tarred(folder: AnyPath) -> str | None:
    """The message that the audio of `folder` is in tars, with advice; None if the set has no tars.

    `folder` may also be the folder `sharded_manifests` in the set.
    """
    one = TarredSet(folder.parent if folder.name == SHARD_MANIFEST_FOLDER else folder)
    if not any(part.has_tars for part in (one, *one.parts.values())):
        return None
    return (
        f"the audio of {one.folder} is in tars: to write a data set, give the folder itself; for other commands make a "
        f"manifest that names it there: prepcli make-manifest {one.folder} OUT.json"
    )


def pattern(files: Mapping[int, AnyPath]) -> str | list[str]:
    """One absolute path for all files of a field, with the range of their numbers as in `brace_text`.

    If numbers between the first and the last are missing, the result is a list of absolute paths; if there are no
    files, an empty list. The keys of `files` are the numbers, in ascending order.
    """
    if not files:
        return []
    first, *_, last = [*files, *files]
    folder = path_of(absolute_folder(str(files[first].parent)))
    if last - first + 1 != len(files):
        return [str(folder / path.name) for path in files.values()]
    if first == last:
        return str(folder / files[first].name)
    texts = [re.findall(r"\d+", files[number].name)[-1] for number in (first, last)]
    head, _, tail = files[first].name.rpartition(texts[0])
    return str(folder / f"{head}{brace_text(*texts)}{tail}")
