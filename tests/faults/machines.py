"""Machines that share a file system, all of it in memory: their clocks, their listings, and the calls of `os` and `io`.

Paths below `/sim` are of that file system, and those below `/proc` are of the machine that asks; all others are real.
Before each call on the file system another process may go on (`World.step`), as between any two system calls.
"""

import errno
import io
import itertools
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.faults.ranks import World

ROOT = "/sim"
_FIRST_DESCRIPTOR = 1 << 20
_DEVICE = 77


@dataclass(eq=False, slots=True)
class Node:
    """A file (`entries` is None) or a folder. `is_users`: no run may change it."""

    number: int
    entries: "dict[str, Node] | None"
    changed: float
    content: bytes = b""
    num_links: int = 1
    is_users: bool = False


@dataclass(eq=False, slots=True)
class Machine:
    """`clock` and `since_boot`: what its clocks are ahead of the simulated time, in seconds."""

    name: str
    clock: float = 0.0
    since_boot: float = 0.0
    pids: set[int] = field(default_factory=set)
    listings: dict[int, tuple[float, dict[str, Node]]] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict)


def _error(number: int, path: object) -> OSError:
    return OSError(number, os.strerror(number), path)  # Python makes a FileNotFoundError of it, ...


class Entry:
    """An `os.DirEntry`."""

    __slots__ = ("_files", "_node", "name", "path")

    def __init__(self, files: "Files", path: str, name: str, node: Node) -> None:
        self._files, self._node = files, node
        self.name, self.path = name, f"{path}/{name}"

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._node.entries is not None

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._node.entries is None

    def is_symlink(self) -> bool:
        return False

    def is_junction(self) -> bool:
        return False

    def inode(self) -> int:
        return self._node.number

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return self._files.stat(self.path)

    def __fspath__(self) -> str:
        return self.path


class Entries:
    """What `os.scandir` returns."""

    def __init__(self, entries: list[Entry]) -> None:
        self._left = iter(entries)

    def __iter__(self) -> Iterator[Entry]:
        return self._left

    def __next__(self) -> Entry:
        return next(self._left)

    def __enter__(self) -> Iterator[Entry]:
        return self._left

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._left = iter(())


class File:
    """An open file. What is written to one with a buffer is in the file from `flush` on."""

    def __init__(self, files: "Files", node: Node, number: int, path: object, mode: str, is_buffered: bool) -> None:
        self._files, self._node, self._number = files, node, number
        self.name: object = path
        self._is_text, self._is_buffered = "b" not in mode, is_buffered
        self._waiting: list[bytes] = []
        self._read = 0
        self.closed = False

    def fileno(self) -> int:
        return self._number

    def write(self, data: Any) -> int:
        self._waiting.append(data.encode() if self._is_text else bytes(data))
        if not self._is_buffered:
            self.flush()
        return len(data)

    def flush(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._files.writev(self._number, waiting)

    def read(self, size: int = -1) -> Any:
        if size:
            self._files.world.step()
        end = len(self._node.content) if size is None or size < 0 else self._read + size
        data = self._node.content[self._read : end]
        self._read += len(data)
        return data.decode() if self._is_text else data

    def __iter__(self) -> Iterator[Any]:
        return iter(self.read().splitlines(keepends=True))

    def close(self) -> None:
        if not self.closed:
            self.flush()
            self.closed = True
            self._files.close(self._number)

    def __enter__(self) -> "File":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Files:
    """The file system, and the functions of `os` and `io` that use it.

    Attributes:
        appeared: called with the path and the node of each file that gets a name by a rename or a link.
        harmed: the files of the user that were removed, replaced, moved or written to.
    """

    def __init__(self, world: "World") -> None:
        self.world = world
        self.reset()

    def reset(self) -> None:
        """An empty file system, whose server has the simulated time plus `clock`."""
        self.clock = 0.0
        self.stale_seconds = 0.0
        self.has_links = self.has_unnamed = True
        self.appeared: Callable[[str, Node], object] = lambda path, node: None
        self.harmed: list[str] = []
        self._numbers = itertools.count(1)
        self._descriptors = itertools.count(_FIRST_DESCRIPTOR)
        self._open: dict[int, tuple[Node, int]] = {}
        self.root = self._node({})

    def _node(self, entries: dict[str, Node] | None) -> Node:
        return Node(next(self._numbers), entries, self.world.now + self.clock)

    def find(self, path: str) -> Node:
        """The file or folder at a path; another process does not go on before."""
        node = self.root
        for name in path.split("/")[2:]:
            entries = node.entries
            if entries is None:
                raise _error(errno.ENOTDIR, path)
            found = entries.get(name)
            if found is None:
                raise _error(errno.ENOENT, path)
            node = found
        return node

    def _folder(self, path: str) -> tuple[Node, dict[str, Node], str]:
        above, _, name = path.rpartition("/")
        folder = self.find(above)
        if folder.entries is None:
            raise _error(errno.ENOTDIR, path)
        return folder, folder.entries, name

    def _change(self, folder: Node) -> None:
        folder.changed = self.world.now + self.clock
        self.world.process.machine.listings.pop(folder.number, None)

    def _lose(self, path: str, node: Node) -> None:
        node.num_links -= 1
        if node.is_users:
            self.harmed.append(path)

    def write_users(self, path: str, content: bytes) -> None:
        """Put a file of the user there, with the folders above it."""
        folder = self.root
        *above, name = path.split("/")[2:]
        for one in above:
            assert folder.entries is not None
            folder = folder.entries.setdefault(one, self._node({}))
        assert folder.entries is not None
        made = folder.entries[name] = self._node(None)
        made.content, made.is_users = content, True

    def tree(self, path: str) -> dict[str, bytes]:
        """The files below a folder, by their relative names; another process does not go on meanwhile."""
        found: dict[str, bytes] = {}

        def add(node: Node, name: str) -> None:
            if node.entries is None:
                found[name] = node.content
                return
            for one, child in node.entries.items():
                add(child, f"{name}/{one}" if name else one)

        try:
            add(self.find(path), "")
        except FileNotFoundError:
            return {}
        return found

    # The functions of `os`.

    def stat(self, path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        if isinstance(path, int):
            return self.fstat(path)
        path = os.fspath(path)
        if not path.startswith(ROOT):
            if path == "/proc/self/ns/pid":
                return _result(Node(sum(map(ord, self.world.process.machine.name)), None, 0.0))
            return os.stat(path, follow_symlinks=follow_symlinks)
        self.world.step()
        return _result(self.find(path))

    lstat = stat

    def fstat(self, descriptor: int) -> os.stat_result:
        if descriptor < _FIRST_DESCRIPTOR:
            return os.fstat(descriptor)
        return _result(self._open[descriptor][0])

    def access(self, path: Any, mode: int, **_: Any) -> bool:
        try:
            self.stat(path)
        except OSError:
            return False
        return True

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        path = os.fspath(path)
        if not path.startswith(ROOT):
            return os.open(path, flags, mode, dir_fd=dir_fd)
        self.world.step()
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            if not self.has_unnamed:
                raise _error(errno.EOPNOTSUPP, path)
            self.find(path)
            node = self._node(None)
        elif flags & os.O_DIRECTORY:
            node = self.find(path)
        else:
            folder, entries, name = self._folder(path)
            found = entries.get(name)
            if found is None:
                if not flags & os.O_CREAT:
                    raise _error(errno.ENOENT, path)
                node = entries[name] = self._node(None)
                self._change(folder)
            elif flags & os.O_EXCL:
                raise _error(errno.EEXIST, path)
            elif found.entries is not None and flags & (os.O_WRONLY | os.O_RDWR):
                raise _error(errno.EISDIR, path)
            else:
                node = found
        if flags & os.O_TRUNC and node.content:
            self._write(node, b"", path)
        descriptor = next(self._descriptors)
        self._open[descriptor] = node, flags
        return descriptor

    def _write(self, node: Node, content: bytes, path: object) -> None:
        if node.is_users:
            self.harmed.append(str(path))
        node.content = content
        node.changed = self.world.now + self.clock

    def write(self, descriptor: int, data: bytes) -> int:
        return self.writev(descriptor, [data])

    def writev(self, descriptor: int, data: Any) -> int:
        if descriptor < _FIRST_DESCRIPTOR:
            return os.writev(descriptor, data)
        self.world.step()
        joined = b"".join(data)
        node = self._open[descriptor][0]
        self._write(node, node.content + joined, descriptor)
        return len(joined)

    def fsync(self, descriptor: int) -> None:
        self.world.step()

    def posix_fadvise(self, *_: int) -> None:
        pass

    def close(self, descriptor: int) -> None:
        if descriptor < _FIRST_DESCRIPTOR:
            os.close(descriptor)
        else:
            del self._open[descriptor]

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        path = os.fspath(path)
        self.world.step()
        folder, entries, name = self._folder(path)
        if name in entries:
            raise _error(errno.EEXIST, path)
        entries[name] = self._node({})
        self._change(folder)

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        path = os.fspath(path)
        self.world.step()
        node, (folder, entries, name) = self.find(path), self._folder(path)
        if node.entries is None:
            raise _error(errno.ENOTDIR, path)
        if node.entries:
            raise _error(errno.ENOTEMPTY, path)
        del entries[name]
        self._change(folder)

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        path = os.fspath(path)
        self.world.step()
        node, (folder, entries, name) = self.find(path), self._folder(path)
        if node.entries is not None:
            raise _error(errno.EISDIR, path)
        del entries[name]
        self._lose(path, node)
        self._change(folder)

    remove = unlink

    def replace(self, source: Any, target: Any, **_: Any) -> None:
        source, target = os.fspath(source), os.fspath(target)
        self.world.step()
        node, (folder, entries, name) = self.find(source), self._folder(source)
        to, there, new = self._folder(target)
        found = there.get(new)
        if found is node:
            return
        if found is not None:
            if node.entries is None and found.entries is not None:
                raise _error(errno.EISDIR, source)
            if node.entries is not None and found.entries is None:
                raise _error(errno.ENOTDIR, source)
            if found.entries:
                raise _error(errno.ENOTEMPTY, source)
            self._lose(target, found)
        if node.is_users:
            self.harmed.append(source)
        del entries[name]
        there[new] = node
        self._change(folder)
        self._change(to)
        self.appeared(target, node)

    rename = replace

    def link(self, source: Any, target: Any, **_: Any) -> None:
        source, target = os.fspath(source), os.fspath(target)
        self.world.step()
        if not self.has_links:
            raise _error(errno.EOPNOTSUPP, source)
        node, (folder, entries, name) = self.find(source), self._folder(target)
        if name in entries:
            raise _error(errno.EEXIST, source)
        entries[name] = node
        node.num_links += 1
        self._change(folder)
        self.appeared(target, node)

    def utime(self, path: Any, times: Any = None, *, ns: Any = None, **_: Any) -> None:
        path = os.fspath(path)
        self.world.step()
        node = self.find(path)
        if node.is_users:
            self.harmed.append(path)
        node.changed = (
            self.world.now + self.clock if times is None and ns is None else (times or [t / 1e9 for t in ns])[1]
        )

    def listdir(self, path: Any = ".") -> list[str]:
        return list(self._listed(os.fspath(path)))

    def scandir(self, path: Any = ".") -> Any:
        path = os.fspath(path)
        if not path.startswith(ROOT):
            return os.scandir(path)
        return Entries([Entry(self, path, name, node) for name, node in self._listed(path).items()])

    def _listed(self, path: str) -> dict[str, Node]:
        """What a machine lists: for a while it may not see what others have changed."""
        self.world.step()
        node = self.find(path)
        if node.entries is None:
            raise _error(errno.ENOTDIR, path)
        if not self.stale_seconds:
            return node.entries
        listings, now = self.world.process.machine.listings, self.world.now
        seen = listings.get(node.number)
        if seen is None or now - seen[0] > self.stale_seconds:
            seen = listings[node.number] = now, dict(node.entries)
        return seen[1]

    def getpid(self) -> int:
        return self.world.process.pid

    def kill(self, pid: int, number: int) -> None:
        if pid not in self.world.process.machine.pids:
            raise _error(errno.ESRCH, pid)

    def getcwd(self) -> str:
        return ROOT

    # The functions of `io`.

    def open_file(
        self, path: Any, mode: str = "r", buffering: int = -1, *rest: Any, opener: Any = None, **_: Any
    ) -> Any:
        path = os.fspath(path)
        if not path.startswith(ROOT):
            if path.startswith("/proc/"):
                told = self._of_machine(path)
                return io.BytesIO(told) if "b" in mode else io.StringIO(told.decode())
            return open(path, mode, buffering, *rest)  # noqa: PTH123 - `Path.open` calls this
        flags = os.O_RDONLY
        if "r" not in mode:
            flags = os.O_WRONLY | os.O_CREAT | (os.O_EXCL if "x" in mode else os.O_TRUNC if "w" in mode else 0)
        descriptor = opener(path, flags) if opener is not None else self.open(path, flags)
        node = self._open[descriptor][0]
        if node.entries is not None:
            self.close(descriptor)
            raise _error(errno.EISDIR, path)
        return File(self, node, descriptor, path, mode, buffering != 0)

    def _of_machine(self, path: str) -> bytes:
        """What the kernel of the machine tells."""
        machine = self.world.process.machine
        if path == "/proc/sys/kernel/random/boot_id":
            return machine.name.encode()
        pid = path.split("/")[2]
        if path != f"/proc/{pid}/stat" or not pid.isdecimal() or int(pid) not in machine.pids:
            raise _error(errno.ENOENT, path)
        return b"%s (prepcli) S %s" % (pid.encode(), b" ".join([pid.encode()] * 20))


def _result(node: Node) -> os.stat_result:
    is_folder, size, at = node.entries is not None, len(node.content), node.changed
    mode = stat.S_IFDIR | 0o755 if is_folder else stat.S_IFREG | 0o644
    seconds, ns = int(at), round(at * 1e9)
    return os.stat_result(
        (
            mode,
            node.number,
            _DEVICE,
            node.num_links,
            1000,
            1000,
            size,
            seconds,
            seconds,
            seconds,
            at,
            at,
            at,
            ns,
            ns,
            ns,
        )
    )


FUNCTIONS = (
    *("stat", "lstat", "fstat", "access", "open", "write", "writev", "fsync", "posix_fadvise", "close"),
    *("mkdir", "rmdir", "unlink", "remove", "replace", "rename", "link", "utime", "listdir", "scandir"),
    *("getpid", "kill", "getcwd"),
)
"""The functions of `os` that `Files` has."""
