"""What is on the disk when the power fails after some events of a run, as different file systems leave it.

The log of a run tells in which order files were made, named and flushed, and what they held when they were flushed.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from tests.faults.shim import Event


class Mode(str, Enum):
    """Which names are on the disk; of data it is always what was flushed."""

    FLUSHED = "flushed"
    """Those that a folder had when it was flushed itself, no others."""
    EARLY = "early"
    """All: each was on the disk at once, also before data that nobody had flushed."""
    JOURNAL = "journal"
    """All up to the last flush of anything, in their order, as a journal writes them."""


@dataclass
class _Node:
    """A file: the bytes that are on the disk, and their time."""

    content: bytes = b""
    mtime_ns: int = 0


@dataclass
class Disk:
    """The names of files (nodes) and folders (None) now, and in each folder those that were flushed."""

    names: dict[str, _Node | None] = field(default_factory=dict)
    flushed: dict[str, dict[str, _Node | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path) -> "Disk":
        """A folder, all of which is on the disk."""
        disk = cls()
        for path in [root, *root.rglob("*")]:
            disk.names[str(path)] = None if path.is_dir() else _Node(path.read_bytes(), path.stat().st_mtime_ns)
        for name, node in disk.names.items():
            if node is None:
                disk._flush(name)
        return disk

    def _flush(self, folder: str) -> None:
        self.flushed[folder] = {name: node for name, node in self.names.items() if os.path.dirname(name) == folder}

    def apply(self, event: Event) -> None:
        """What a call has done, if it succeeded."""
        names, path = self.names, event.path
        if event.error:
            return
        if event.call == "open" and (event.other == "new" or (event.other == "cut" and path in names)):
            names[path] = _Node(mtime_ns=event.mtime_ns)
        elif event.call == "ftruncate" and isinstance(node := names.get(path), _Node):
            node.content = b""
        elif event.call == "mkdir":
            names[path] = None
            self.flushed.pop(path, None)
        elif event.call in ("unlink", "rmdir"):
            names.pop(path, None)
        elif event.call == "link" and path in names:
            names[event.other] = names[path]
        elif event.call == "rename" and path in names:
            moved = [name for name in names if name == path or name.startswith(f"{path}/")]
            for name in moved:
                names[event.other + name.removeprefix(path)] = names.pop(name)
                if name in self.flushed:  # also under the old name, which may be the one on the disk
                    self.flushed[event.other + name.removeprefix(path)] = {
                        event.other + inner.removeprefix(path): node for inner, node in self.flushed[name].items()
                    }
        elif event.call == "fsync" and event.is_folder:
            self._flush(path)
        elif event.call == "fsync" and isinstance(node := names.get(path), _Node):
            node.content, node.mtime_ns = event.content, event.mtime_ns

    def lasting(self, root: str) -> dict[str, _Node | None]:
        """The names that can be reached through names that were flushed."""
        found: dict[str, _Node | None] = {root: None}
        waiting = [root]
        while waiting:
            for name, node in self.flushed.get(waiting.pop(), {}).items():
                found[name] = node
                if node is None:
                    waiting.append(name)
        return found


def disk_after(before: Path, events: Sequence[Event], count: int, mode: Mode) -> dict[str, _Node | None]:
    """The names on the disk when the power fails after `count` events; `before` is the folder as it was."""
    disk = Disk.of(before)
    if mode is Mode.JOURNAL:
        flushes = [number for number, event in enumerate(events[:count], 1) if event.call == "fsync"]
        count = flushes[-1] if flushes else 0
    for event in events[:count]:
        disk.apply(event)
    return disk.lasting(str(before)) if mode is Mode.FLUSHED else disk.names


def write_disk(root: Path, names: dict[str, _Node | None]) -> None:
    """Make a folder what is on the disk."""
    shutil.rmtree(root)
    links: dict[int, str] = {}
    for name, node in sorted(names.items()):
        if node is None:
            Path(name).mkdir(parents=True, exist_ok=True)
        elif id(node) in links:
            os.link(links[id(node)], name)
        else:
            Path(name).write_bytes(node.content)
            os.utime(name, ns=(node.mtime_ns, node.mtime_ns))
            links[id(node)] = name
