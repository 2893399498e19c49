"""The name of OUT.prepcli, the folder with the state of a run."""

import contextlib
import hashlib
import os
from pathlib import Path

import msgspec

from prepcli.engine.state.in_the_way import resolved
from prepcli.errors import UsageError
from prepcli.interface.calls import tell
from prepcli.storage.addresses import parse_address
from prepcli.storage.paths import StorePath

MAX_NAME_BYTES = 255
"""Maximum length of a file name on Linux in bytes; it limits the name of OUT.prepcli."""


def work_folder(out: Path, work_dir: Path | None = None) -> Path:
    """OUT.prepcli: beside `out`; for an output in an object store in `work_dir`, by default the current folder.

    Raises:
        UsageError: `out` cannot be an output.
    """
    return _of_store(out, work_dir) if isinstance(out, StorePath) else _beside(out)


def note_unused(work_dir: Path | None, *paths: Path) -> None:
    """Say that `--work-dir` changes nothing, unless one of `paths` is in an object store."""
    if work_dir is not None and not any(isinstance(path, StorePath) for path in paths):
        where = work_folder(paths[0]) if len(paths) == 1 else "OUT.prepcli"
        tell(f"note: --work-dir {work_dir} is for an OUT in an object store; the state of this run is in {where}")


def _beside(out: Path) -> Path:
    """`a/out` -> `a/out.prepcli`, also for names such as `.` that do not say what they are.

    The workspace of a link is beside its target: under two names, one directory would belong to two plans.
    """
    named = resolved(out) if out.name in ("", "..") or out.is_symlink() else out
    if not named.name:
        raise UsageError(f"{out} cannot be an output directory; give one of its own")
    if len(os.fsencode(named.name + ".prepcli")) > MAX_NAME_BYTES:
        raise UsageError(f"the name of the output directory is too long for a file system: {named.name}")
    return named.with_name(named.name + ".prepcli")


def _of_store(out: StorePath, work_dir: Path | None) -> Path:
    """`s3://bucket/a/b` -> `bucket_a_b.prepcli` in `work_dir`.

    That could be the name for another address too, if a part has `_` in it: then a digest of the address is added,
    unless the folder without it is that of a run of an earlier version.
    """
    address = parse_address(str(out))
    if not address.key:
        raise UsageError(f"{out} is a whole bucket; give an output of its own in it, such as {out}/name")
    parts = [address.bucket, *address.key.split("/")]
    folder = (work_dir or Path.cwd()) / f"{'_'.join(parts)}.prepcli"
    is_clear = address.scheme == "s3" and all(part and "_" not in part for part in parts)
    if not (is_clear or _has_plan_of(folder, str(address))):
        digest = hashlib.sha256(str(address).encode(errors="surrogateescape")).hexdigest()
        folder = folder.with_name(f"{folder.stem}-{digest[:8]}{folder.suffix}")
    if len(os.fsencode(folder.name)) > MAX_NAME_BYTES:
        raise UsageError(f"the address of the output is too long for the name of its work folder: {folder.name}")
    return folder


class _Plan(msgspec.Struct):
    """The part of `plan.json` that names the output."""

    out: str = ""


def _has_plan_of(folder: Path, out: str) -> bool:
    """Whether a state folder has a plan for this output, of the run that makes it or of one that adds to it."""
    for path in (folder / "plan.json", *folder.glob("*/plan.json")):
        with contextlib.suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            if msgspec.json.decode(path.read_bytes(), type=_Plan).out == out:
                return True
    return False
