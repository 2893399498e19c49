"""The data files of a set that can have an index, where each index goes, and how a training config names the set."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prepcli.commands.index.tar_kind import tar_kind
from prepcli.errors import UsageError
from prepcli.formats.codes import CODES_FILE, CODES_OF
from prepcli.formats.folders import advice_on_audio, numbered, regular_files
from prepcli.formats.indexes import MIRROR, IndexKind, beside, mirrored
from prepcli.formats.names import absolute_folder, brace_text
from prepcli.formats.shar import AUDIO_FILE, CUTS_FILE
from prepcli.formats.tarred import (
    buckets_in,
    check_buckets,
    manifest_name,
    newest_version,
    shard_manifests,
    shard_tars,
)
from prepcli.manifest.foreign import check_is_json_lines
from prepcli.storage.paths import path_of

_FLAT_FIELD = re.compile(r"(?P<field>.+)\.(?P<number>\d+)\.tar$")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that can have an index, and the place of it."""

    path: Path
    kind: IndexKind
    index: Path


@dataclass(frozen=True, slots=True)
class Places:
    """Where indexes go: below `root` if there is one, else beside the data, or for a Shar set into its mirror."""

    root: Path | None = None
    beside: bool = False

    def of(self, path: Path, mirror: Path | None) -> Path:
        """The index of a data file, which belongs to a set with this mirror, if it has one."""
        root = self.root or (None if self.beside else mirror)
        return beside(path) if root is None else root / mirrored(path)


@dataclass(slots=True)
class IndexedSet:
    """A set to be indexed. `entry` is that of an `input_cfg`, None for loose files; `mirror` as in `Places.of`."""

    name: str
    files: list[DataFile] = field(default_factory=list)
    entry: dict[str, Any] | None = None
    mirror: Path | None = None

    def add(self, paths: Sequence[Path], kind: IndexKind, places: Places) -> None:
        """Add files of one kind."""
        self.files += [DataFile(path, kind, places.of(path, self.mirror)) for path in paths]


def sets_in_folder(folder: Path, places: Places) -> Iterator[IndexedSet]:
    """The sets of a folder: a tarred set, or one in each bucket; a Shar set; or the files that lie there.

    Raises:
        UsageError: there is nothing to index.
    """
    buckets = {number: one for number, one in buckets_in(folder).items() if shard_tars(one)}
    if shard_tars(folder) or shard_manifests(folder):
        yield _tarred(folder, places)
    elif buckets:
        check_buckets(folder, buckets)
        yield from (_tarred(bucket, places) for bucket in buckets.values())
    elif any(_is_cuts(path) for path in regular_files(folder / "cuts")):
        yield shar_set(folder, _nested_fields(folder), folder / MIRROR, places)
    elif any(_is_cuts(path) for path in regular_files(folder)):
        yield shar_set(folder, _flat_fields(folder), _mirror_beside(folder), places)
    elif codes := _codes_in(folder):
        yield shar_set(folder, codes, folder / MIRROR, places)
    else:
        loose = [path for path in regular_files(folder) if path.suffix in (".tar", ".jsonl")]
        if not loose:
            raise UsageError(
                f"{folder} holds nothing to index: no tarred set (audio_0.tar, ...), no Shar set "
                f"(cuts/cuts.000000.jsonl, ...), no .jsonl and no .tar{advice_on_audio(folder)}"
            )
        yield set_of_files(str(folder), loose, places)


def _mirror_beside(folder: Path) -> Path:
    """`set.index` for `set`; `.` and `..`, which have no name, are resolved."""
    named = folder if folder.name not in ("", "..") else folder.resolve()
    return named.with_name(f"{named.name}.{MIRROR}")


def set_of_files(name: str, paths: Sequence[Path], places: Places) -> IndexedSet:
    """Loose files: tars, and JSONL under the names .jsonl and .json.

    Raises:
        UsageError: a file is of another kind, or compressed.
    """
    found = IndexedSet(name)
    for path in paths:
        if path.suffix == ".gz":
            raise UsageError(compressed(path))
        if path.suffix == ".tar":
            found.add([path], tar_kind(path), places)
        elif path.suffix in (".jsonl", ".json"):
            check_is_json_lines(str(path), cuts=True)
            found.add([path], "jsonl", places)
        else:
            raise UsageError(f"{path} cannot be indexed: it is neither a .tar nor JSON lines (.jsonl, .json)")
    return found


def _tarred(folder: Path, places: Places) -> IndexedSet:
    tars, manifests = shard_tars(folder), shard_manifests(folder)
    whole = folder / manifest_name(newest_version(folder))
    if not manifests and not whole.is_file():
        raise UsageError(f"{folder} holds tars without their manifests; bring these back, or name the tars")
    if not tars:
        raise UsageError(f"{folder} holds manifests without their tars; bring back audio_0.tar, ...")
    found = IndexedSet(str(folder))
    found.add(list(tars.values()), "nemo_tar", places)
    found.add(list(manifests.values()) or [whole], "jsonl", places)
    root = absolute_folder(str(folder))
    found.entry = {
        "type": "nemo_tarred",
        "manifest_filepath": _pattern(manifests) if manifests else f"{root}/{whole.name}",
        "tarred_audio_filepaths": _pattern(tars),
    }
    return found


def shar_set(folder: Path, fields: dict[str, dict[int, Path]], mirror: Path, places: Places) -> IndexedSet:
    """A Shar set whose fields have these files.

    Raises:
        UsageError: the cuts are compressed.
    """
    found = IndexedSet(str(folder), mirror=None if places.root or places.beside else mirror)
    for name, files in fields.items():
        if name == "cuts" and (packed := next((path for path in files.values() if path.suffix == ".gz"), None)):
            raise UsageError(compressed(packed))
        found.add(list(files.values()), "jsonl" if name == "cuts" else "shar_tar", places)
    # Codes of several codecs have the same field names: a config can name one of them.
    named = {name.rpartition("/")[2]: name for name in fields}
    if "cuts" in fields:
        found.entry = {
            "type": "lhotse_shar",
            "shar_path": {short: _pattern(fields[name]) for short, name in named.items()},
        }
    return found


def compressed(path: Path) -> str:
    """Why a file has no index, and what to do."""
    return (
        f"{path} is compressed, and nothing can seek in it: make the set again with manifest-to-shar --indexed in "
        "another directory, or unpack a copy of it (gunzip)"
    )


def _nested_fields(folder: Path) -> dict[str, dict[int, Path]]:
    fields = {"cuts": _numbered(folder / "cuts", CUTS_FILE)}
    for path in sorted(folder.iterdir()):
        if path.is_dir() and (tars := _numbered(path, AUDIO_FILE)):
            fields[path.name] = tars
    return fields | _codes_in(folder)


def _codes_in(folder: Path) -> dict[str, dict[int, Path]]:
    found = {
        str(path.relative_to(folder)): _numbered(path, CODES_FILE)
        for path in sorted(folder.glob("codes_*/*"))
        if path.name in CODES_OF.values()
    }
    return {name: tars for name, tars in found.items() if tars}


def _flat_fields(folder: Path) -> dict[str, dict[int, Path]]:
    fields = {"cuts": _numbered(folder, CUTS_FILE)}
    for path in regular_files(folder):
        if match := _FLAT_FIELD.match(path.name):
            fields.setdefault(match["field"], {})[int(match["number"])] = path
    return fields


def _numbered(folder: Path, pattern: "re.Pattern[str]") -> dict[int, Path]:
    return dict(sorted(numbered(folder, pattern).items()))


def _is_cuts(path: Path) -> bool:
    return CUTS_FILE.match(path.name) is not None


def _pattern(files: dict[int, Path]) -> str | list[str]:
    """All files of a field in one name; a list if their numbers have gaps."""
    first, *_, last = [*files, *files]
    paths = [path_of(absolute_folder(str(path.parent))) / path.name for path in files.values()]
    texts = [re.findall(r"\d+", path.name)[-1] for path in (paths[0], paths[-1])]
    if last - first + 1 != len(files):
        return [str(path) for path in paths]
    head, _, tail = paths[0].name.rpartition(texts[0])
    return str(paths[0].with_name(f"{head}{brace_text(*texts)}{tail}"))
