"""The versions of an output: each run that adds to an output has a folder `version_<n>` in OUT.prepcli."""

import re
from pathlib import Path

from prepcli.engine.state.plan import FINISH_UNIT
from prepcli.engine.state.work_folder import work_folder
from prepcli.errors import UsageError
from prepcli.storage.paths import AnyPath

_UNDONE = "undone_"


def version_roots(root: Path) -> list[Path]:
    """The folders `version_1` and so on in OUT.prepcli, of runs that added shards; others are left out."""
    return _numbered(root, "")


def undone_roots(root: Path) -> list[Path]:
    """The folders `undone_version_1` and so on in OUT.prepcli, of additions whose removal is not complete."""
    return _numbered(root, _UNDONE)


def undone_root(version_root: Path) -> Path:
    """The name of a version's folder while the files of the version are removed."""
    return version_root.with_name(f"{_UNDONE}{version_root.name}")


def version_of(root: Path) -> int:
    """The number of the version that a folder of `version_roots` or `undone_roots` belongs to."""
    return int(root.name.rpartition("_")[2])


def undone_versions(out: AnyPath) -> list[int]:
    """The versions of `out` whose removal has begun and is not complete."""
    root = _root(out)
    return [version_of(one) for one in undone_roots(root)] if root else []


def is_changing(out: Path) -> bool:
    """Whether an addition to `out`, or a removal, is not complete; some files then belong to no version."""
    root = _root(out)
    return bool(undone_versions(out)) or any(
        (one / "plan.json").exists() and not (one / "done" / f"{FINISH_UNIT.id}.json").exists()
        for one in (version_roots(root) if root else ())
    )


def _root(out: AnyPath) -> Path | None:
    """The folder OUT.prepcli; None if no run can have written to `out`."""
    try:
        return work_folder(out)
    except UsageError:
        return None


def _numbered(root: Path, prefix: str) -> list[Path]:
    pattern = rf"{prefix}version_[0-9]{{1,9}}"
    found = [path for path in root.glob(f"{prefix}version_*") if re.fullmatch(pattern, path.name)]
    return sorted(found, key=version_of)
