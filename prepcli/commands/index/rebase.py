"""Renames the indexes in the mirror of a Shar set that was moved, without reading any data."""

import contextlib
import os
from pathlib import Path, PurePath

import msgspec

from prepcli.commands.index.sets import IndexedSet
from prepcli.engine.publishing.publish import Marker
from prepcli.engine.run.status import workspaces_of
from prepcli.engine.state.workspace import read_document, write_json
from prepcli.errors import UsageError, option
from prepcli.formats.codes import CODES_FOLDER, CODES_OF
from prepcli.formats.indexes import INDEX_SUFFIX, MIRROR
from prepcli.formats.names import absolute_folder
from prepcli.storage.addresses import without_scheme
from prepcli.storage.paths import AnyPath, relative

_MOVING = ".moving"


def old_places(mirror: AnyPath, folder: AnyPath) -> list[str]:
    """The other folders for whose data `mirror` has indexes, such as the folder of the set before it was moved.

    `folder`: the folder of the set now; it is left out. The result has absolute paths without the first `/`, sorted.
    """
    own = without_scheme(absolute_folder(str(folder))).lstrip("/")
    indexes = (Path(relative(path, mirror)) for path in mirror.glob(f"**/*{INDEX_SUFFIX}"))
    # In a flat set, all data are in the folder itself.
    places = {_place_of(index) if _is_inside(mirror, folder) else index.parent for index in indexes}
    return sorted(str(place) for place in places if str(place) != own)


def _is_inside(mirror: AnyPath, folder: AnyPath) -> bool:
    """Whether `mirror` is within `folder`, the folder of the set; the mirror of a flat set is next to the folder."""
    return mirror == folder / MIRROR


def _place_of(index: PurePath) -> PurePath:
    """The folder of the set, from the path of an index in its mirror.

    `data/set/codes_x/target_codes/codes.000000.tar.idx` gives `data/set`; the set may also be named `codes_...`.
    """
    above = index.parent.parent
    is_codes = above.name.startswith(CODES_FOLDER.format("")) and index.parent.name in CODES_OF.values()
    return above.parent if is_codes else above


def rebase(indexed: IndexedSet, folder: Path, *, dry_run: bool = False) -> tuple[int, list[str]]:
    """Rename the indexes of a set to match its current folder.

    With `dry_run`, nothing is renamed. If a run is killed at any moment, the next one continues it.

    Returns:
        The number of the data files of the set (0 if there is nothing to rename), and the earlier folders of the set.

    Raises:
        UsageError: there are no indexes in the mirror, they are of several folders, or they do not fit the data.
    """
    mirror = indexed.mirror
    if not isinstance(mirror, Path) or next(mirror.rglob(f"*{INDEX_SUFFIX}"), None) is None:
        is_inside = mirror is None or _is_inside(mirror, folder)
        where = f"{MIRROR}/" if is_inside else str(mirror)
        advice = "" if is_inside else "move that folder along with the set, or "
        advice += f"write them with: prepcli index {folder}"
        raise UsageError(f"{folder} has no indexes in {where} to rename; {advice}")
    own = absolute_folder(str(folder)).lstrip("/")
    moving = mirror / _MOVING
    if moving.is_dir() and not dry_run:
        _move_in(moving, mirror / own)
    old = old_places(mirror, folder)
    if len(old) > 1:
        raise UsageError(
            f"{mirror} holds indexes for {' and '.join('/' + place for place in old)}; remove those that are not of "
            f"this set, or write all of them again with {option('--overwrite')}"
        )
    if not dry_run:
        for place in old:
            _check_sizes(indexed, mirror / place, mirror / own)
            os.rename(mirror / place, moving)  # moved aside first: the new place may be below the old one
            _move_in(moving, mirror / own)
            _remove_empty((mirror / place).parent, mirror)
        _rename_in_records(folder, own)
    return (len(indexed.files) if old else 0), ["/" + place for place in old]


def _move_in(moving: Path, target: Path) -> None:
    """Rename the folder `moving` to `target`; if `target` exists already, move the indexes into it one by one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        os.rename(moving, target)
        return
    for path in sorted(moving.rglob(f"*{INDEX_SUFFIX}")):
        place = target / path.relative_to(moving)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, place)
    for folder in sorted((path for path in moving.rglob("*") if path.is_dir()), reverse=True):
        folder.rmdir()
    moving.rmdir()


def _remove_empty(folder: Path, mirror: Path) -> None:
    with contextlib.suppress(OSError):  # stops at the first folder that is not empty
        while folder != mirror:
            folder.rmdir()
            folder = folder.parent


def _check_sizes(indexed: IndexedSet, old: Path, new: Path) -> None:
    """Check that the last value of each index is the size of its data file; raises `UsageError` if it is not.

    `old`: the folder of the mirror that has the indexes now; `new`: the folder in which `indexed` expects them.
    """
    for file in indexed.files:
        index = old / relative(file.index, new)
        if not index.is_file():
            continue
        with index.open("rb") as opened:
            last = opened.read()[-8:]
        if int.from_bytes(last, "little") != file.path.stat().st_size:
            raise UsageError(
                f"{index} is not the index of {file.path}, which has another size; write the indexes again with: "
                "prepcli index --overwrite"
            )


def _rename_in_records(folder: Path, own: str) -> None:
    """Write the new names of the indexes into the markers of the runs that made the set."""
    for workspace in workspaces_of(folder):
        for path in workspace.marker_files():
            marker = read_document(path, Marker)
            if marker is None:
                continue
            files = {_renamed(name, own): file for name, file in marker.files.items()}
            if files != marker.files:
                write_json(path, msgspec.structs.replace(marker, files=files))


def _renamed(name: str, own: str) -> str:
    if not (name.startswith(f"{MIRROR}/") and name.endswith(INDEX_SUFFIX)):
        return name
    index = Path(name).relative_to(MIRROR)
    return str(Path(MIRROR, own, index.relative_to(_place_of(index))))
