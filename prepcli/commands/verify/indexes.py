"""Checks that indexes fit their data. Readers do not check: with a stale index, they read wrong bytes."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from prepcli.formats.indexes import (
    INDEX_SUFFIX,
    MIRROR,
    DamagedError,
    IndexKind,
    index_beside,
    index_problem,
    mirrored,
)
from prepcli.storage.paths import AnyPath, relative


def index_problems(path: AnyPath, kind: IndexKind, where: str, mirror: AnyPath | None = None) -> Iterator[str]:
    """Yield the problems of the existing indexes of a data file, next to it and in a mirror.

    Called for data without problems. `where` names the file in messages.
    """
    for index in [index_beside(path), *([] if mirror is None else [mirror / mirrored(path)])]:
        try:
            problem = index_problem(path, kind, index.read_bytes())
        except FileNotFoundError:
            continue
        except DamagedError as error:
            problem = str(error)
        except OSError as error:
            problem = f"it cannot be read: {error.strerror or error}"
        if problem is not None:
            yield (
                f"{where}{INDEX_SUFFIX}: {problem}; readers do not notice and read wrong bytes: run prepcli index "
                "--overwrite"
            )


def moved_from(folder: AnyPath, cuts: AnyPath) -> str | None:
    """A note if the mirror of the Shar set with these `cuts` has only indexes of a set in another place."""
    mirror = folder / MIRROR
    if not mirror.is_dir() or (mirror / mirrored(cuts)).exists():
        return None
    others = sorted(relative(path, mirror) for path in mirror.glob(f"**/{cuts.name}{INDEX_SUFFIX}"))
    if not others:
        return None
    place = PurePosixPath(others[0]).parent.parent
    return f"the indexes in {mirror} are those of /{place}; after a move: prepcli index --rebase {folder}"
