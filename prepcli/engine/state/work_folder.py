"""The path of OUT.prepcli, the folder with the state of a run, and of the folders in it for runs that add shards.

Each run that adds shards to a tarred set has a folder `version_<n>`.
"""

import contextlib
import hashlib
import os
import re
from pathlib import Path

import msgspec

from prepcli.engine.ledger import is_pending, run_folders
from prepcli.engine.state.plan import FINISH_UNIT, StoredPlan
from prepcli.errors import UsageError, option
from prepcli.interface.calls import tell
from prepcli.storage.addresses import HUB, parse_address
from prepcli.storage.paths import AnyPath, StorePath

MAX_NAME_BYTES = 255
"""Maximum bytes of a file name on Linux, which limits the name of OUT.prepcli."""
_UNDONE = "undone_"
_SUFFIX = ".prepcli"
_IN_STATE = (
    *("plan.json", "report.json", "clearing.json", "claim.json", "claims", "launches", "owned", "owner.json"),
    *("*/plan.json", "sets/*/*.json*"),
)
"""Patterns by which a state folder is recognized; runs that add to a set, and corpora, have folders of their own."""


def work_folder(out: AnyPath, work_dir: Path | None = None) -> Path:
    """The folder OUT.prepcli, which is next to `out`.

    For an output in an object store, it is in `work_dir`, by default the current folder.

    Raises:
        UsageError: `out` cannot be an output.
    """
    return _of_store(out, work_dir) if isinstance(out, StorePath) else _beside(out)


def work_folder_or_none(out: AnyPath, work_dir: Path | None = None) -> Path | None:
    """As `work_folder`; None if `out` cannot be the output of a run."""
    try:
        return work_folder(out, work_dir)
    except UsageError:
        return None


def refuse_state(out: AnyPath) -> None:
    """Raise `UsageError` if `out`, the output of a command, is a folder with the state of a run, or is in one.

    Tab completion in a shell offers both OUT and OUT.prepcli, and `--overwrite` removes folders in the latter.
    """
    if isinstance(out, StorePath):
        return
    for path in (out.absolute(), Path(os.path.realpath(out))):
        for folder in (path, *path.parents):
            if _holds_state(folder):
                where = f"{out} holds" if folder == path else f"{out} is in {folder}, which holds"
                of_run = folder.name.removesuffix(_SUFFIX)
                raise UsageError(f"{where} the state of the run of {of_run}; choose another output")


def _holds_state(folder: Path) -> bool:
    return folder.name.endswith(_SUFFIX) and any(next(folder.glob(pattern), None) for pattern in _IN_STATE)


def note_unused(work_dir: Path | None, *paths: AnyPath) -> None:
    """Print a note that `--work-dir` has no effect, if it is given and none of `paths` is in an object store."""
    if work_dir is not None and not any(isinstance(path, StorePath) for path in paths):
        where = work_folder(paths[0]) if len(paths) == 1 else "OUT.prepcli"
        tell(
            f"note: {option('--work-dir', work_dir)} is for an OUT in an object store; the state of this run is in "
            f"{where}"
        )


def _beside(out: Path) -> Path:
    """The path of OUT.prepcli for a local `out`: `a/out` -> `a/out.prepcli`; names such as `.` are resolved.

    For a symbolic link, OUT.prepcli is next to the target: otherwise one directory would belong to two plans. A path
    such as `missing/../out` is refused: nothing would be found there until the run makes the folder `missing`.
    """
    for folder in (out, *out.parents):
        if folder.name == ".." and not os.path.exists(folder):
            raise UsageError(
                f"{out} leads through {folder.parent}, which does not exist; write the path without it, as "
                f"{os.path.normpath(out)}"
            )
    named = Path(os.path.realpath(out)) if out.name in ("", "..") or out.is_symlink() else out
    if not named.name:
        raise UsageError(f"{out} cannot be an output directory; give one of its own")
    if len(os.fsencode(named.name + _SUFFIX)) > MAX_NAME_BYTES:
        raise UsageError(f"the name of the output directory is too long for a file system: {named.name}")
    return named.with_name(named.name + _SUFFIX)


def _of_store(out: StorePath, work_dir: Path | None) -> Path:
    """The path of OUT.prepcli for an `out` in a store: `s3://bucket/a/b` -> `bucket_a_b.prepcli` in `work_dir`.

    If a part of the address has `_` in it, or the scheme is not `s3`, another address could give the same name: then a
    digest of the address is added.
    """
    address = parse_address(str(out))
    if address.scheme == HUB:
        raise UsageError(f"{out} cannot be an output: data sets on the hub are only read; write to a folder or a store")
    if not address.key:
        raise UsageError(f"{out} is a whole bucket; give an output of its own in it, such as {out}/name")
    parts = [address.bucket, *address.key.split("/")]
    folder = (work_dir or Path.cwd()) / f"{'_'.join(parts)}{_SUFFIX}"
    if address.scheme != "s3" or any("_" in part for part in parts):
        digest = hashlib.sha256(str(address).encode(errors="surrogateescape")).hexdigest()
        folder = folder.with_name(f"{folder.stem}-{digest[:8]}{folder.suffix}")
    if len(os.fsencode(folder.name)) > MAX_NAME_BYTES:
        raise UsageError(f"the address of the output is too long for the name of its work folder: {folder.name}")
    return folder


def version_roots(root: Path) -> list[Path]:
    """The folders `version_1`, `version_2`, ... in OUT.prepcli, sorted by number: one per run that added shards.

    The folder of a run that has not finished may not exist yet.
    """
    begun = {root / plan.part for run in run_folders(root) if (plan := _plan_in(run)) is not None and plan.part}
    return sorted({*_numbered(root, ""), *begun}, key=version_of)


def _plan_in(run: Path) -> StoredPlan | None:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((run / "plan.json").read_bytes(), type=StoredPlan)
    return None


def undone_roots(root: Path) -> list[Path]:
    """The folders `undone_version_1`, ... in OUT.prepcli, sorted by number: one per version that is being removed."""
    return _numbered(root, _UNDONE)


def version_of(root: Path) -> int:
    """The number `<n>` of a version, from the name of its folder `root`: `version_<n>` or `undone_version_<n>`."""
    return int(root.name.rpartition("_")[2])


def undone_versions(out: AnyPath) -> list[int]:
    """The numbers of the versions of `out` whose removal has begun and is not complete."""
    root = work_folder_or_none(out)
    return [version_of(one) for one in undone_roots(root)] if root else []


def is_changing(out: Path) -> bool:
    """Whether a version is being added to `out` or removed from it; some files of `out` then belong to no version."""
    root = work_folder_or_none(out)
    return (
        bool(undone_versions(out))
        or (root is not None and is_pending(root))
        or any(
            (one / "plan.json").exists() and not (one / "done" / f"{FINISH_UNIT.id}.json").exists()
            for one in (version_roots(root) if root else ())
        )
    )


def _numbered(root: Path, prefix: str) -> list[Path]:
    pattern = rf"{prefix}version_[0-9]{{1,9}}"
    found = [path for path in root.glob(f"{prefix}version_*") if re.fullmatch(pattern, path.name)]
    return sorted(found, key=version_of)
