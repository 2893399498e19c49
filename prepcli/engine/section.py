"""`OUT.prepcli/train_ds.yaml`, the section for a training config: that of the newest commit, unless a user edited it.

The section of a commit lies in the folder of its final merge.
"""

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from prepcli.engine.ledger import Commit
from prepcli.engine.publishing.publish import UNITS
from prepcli.engine.publishing.recorded import set_aside
from prepcli.engine.state.plan import FINISH_UNIT
from prepcli.engine.state.workspace import Workspace, atomic_file

SECTION_FILE = "train_ds.yaml"
_BEFORE = "train_ds_before.yaml"
"""The section before an addition to the set, next to that of the addition: it comes back with the removal."""


def section_path(workspace: Workspace) -> Path:
    """The absolute path of the section of the whole output, also for a run that adds to it."""
    return Path(os.path.abspath(workspace.ledger_file.with_name(SECTION_FILE)))


def update_section(workspace: Workspace, before: Sequence[Commit], after: Sequence[Commit]) -> None:
    """Write the section of the newest commit; called when the output changes from the commits `before` to `after`.

    A section that a user has edited goes to `OUT.prepcli/kept/` if the whole output is made again, and stays if an
    addition that was made before is removed.
    """
    path = section_path(workspace)
    now, base = _content(path), _content(path)
    removed = before[-1] if before and before[-1].part and before[-1] not in after else None
    if removed is not None and not is_edited(workspace, removed):
        base = _content(_folder(workspace, removed) / _BEFORE)
    if after and after[-1] in before:
        _write(path, base)
        return
    section = _content(_folder(workspace, after[-1]) / SECTION_FILE) if after else b""
    if after and after[-1].part and now != section:
        _write(_folder(workspace, after[-1]) / _BEFORE, base)
    elif now not in (b"", section) and not _is_ours(workspace, now, before):
        set_aside(workspace, path, SECTION_FILE)
    _write(path, section)


def is_edited(workspace: Workspace, commit: Commit) -> bool:
    """Whether the section is not as this commit, the newest of the output, has written it."""
    return _content(section_path(workspace)) != _content(_folder(workspace, commit) / SECTION_FILE)


def _is_ours(workspace: Workspace, content: bytes, commits: Sequence[Commit]) -> bool:
    """Whether one of the commits has written this section."""
    recorded = workspace.ledger_file.with_name("owned") / f"{SECTION_FILE}.sha256"  # digests that 0.3 has written
    if hashlib.sha256(content).hexdigest() in _content(recorded).decode(errors="replace").split():
        return True
    return any(content == _content(_folder(workspace, commit) / SECTION_FILE) for commit in commits if commit.folder)


def _folder(workspace: Workspace, commit: Commit) -> Path:
    """The folder with the section of a commit."""
    root = workspace.ledger_file.parent
    return root / commit.part if commit.folder == commit.part else root / commit.folder / UNITS / FINISH_UNIT.id


def _content(path: Path) -> bytes:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return path.read_bytes()
    return b""


def _write(path: Path, data: bytes) -> None:
    if not data:
        path.unlink(missing_ok=True)
    elif data != _content(path):
        with atomic_file(path) as file:
            file.write(data)
