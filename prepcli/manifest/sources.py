"""Finds the manifest files that a user names, opens them, and reads them."""

import contextlib
import io
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, cast

from prepcli.errors import FAULTS_OF_THE_MACHINE, UsageError, named
from prepcli.manifest.braces import expand_braces, nemo_to_braces, split_as_written
from prepcli.storage.addresses import is_address, parse_address
from prepcli.storage.containers import Catalogue
from prepcli.storage.paths import absolute, is_dir, path_of
from prepcli.storage.ranges import open_object

_BLOCK_BYTES = 256 << 10


def expand_paths(spec: str, of_folder: Callable[[str], list[str]] | None = None, what: str = "manifest") -> list[str]:
    """The files that `spec` names, in order: a path, several separated by commas, or NeMo's brace forms.

    Brace forms are `{0..7}`, `{a,b}`, `_OP_0..7_CL_`, `(0..7)`, `[0..7]` and `<0..7>`. An existing path is used
    literally, so brackets, commas and blanks in real names do no harm. `of_folder` returns the files of a directory.
    `what` names a file in messages.

    Raises:
        UsageError: nothing is named, a file does not exist, or, without `of_folder`, it is a directory.
    """
    paths: list[str] = []
    for part in _parts(spec):
        if of_folder is not None and part.strip() and is_dir(part.strip()):
            paths.extend(of_folder(part.strip()))
        elif part.strip():
            paths.extend(_expand_part(part, what))
    if not paths:
        raise UsageError(
            f"no {what} is named; give a path, several separated by commas, or a form like m_{{0..7}}.json"
        )
    return paths


def specs_in(spec: Any) -> list[str]:
    """The paths and patterns in `spec`, unchanged and without weights; raises `UsageError` for other values."""
    items = [spec] if isinstance(spec, str) else spec
    if isinstance(items, list):
        names = [item[0] if isinstance(item, list) and item else item for item in items]
        if all(isinstance(name, str) for name in names):
            return names
    raise UsageError(f"a path or a list of paths is expected, not {spec!r}")


def refuse_if_nemo_differs(spec: str) -> None:
    """Raise `UsageError` if NeMo would read other files for `spec` than `expand_paths`.

    NeMo takes no path literally: it expands all braces, brackets and parentheses, and does not split at commas.
    """
    if is_address(spec):
        return
    try:
        in_nemo = list(expand_braces(nemo_to_braces(spec)))
    except ValueError:
        in_nemo = [nemo_to_braces(spec)]
    for ours, theirs in zip_longest(expand_paths(spec), in_nemo):
        if ours != theirs:
            raise UsageError(
                f"{ours or 'nothing more'} is read for {spec}, and NeMo would look for {theirs or 'nothing more'}; "
                "give the files other names, or name them in another way"
            )


def check_file(path: str, what: str = "manifest") -> str:
    """Return `path` if it is a readable file; raises `UsageError` otherwise. `what` names the file in the message.

    A pipe, such as `<(zcat m.json.gz)`, is refused: it could be read only once, and by one process.
    """
    if is_address(path):
        return _check_object(path, what)
    if isinstance(path, Catalogue) and os.path.isdir(path):  # a folder of audio, whose files are the lines
        return path
    with contextlib.suppress(OSError, ValueError):
        if stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.R_OK):
            return path
    if os.path.isdir(path):
        is_manifest = what.startswith("manifest")
        from prepcli.formats.tarred import refusal_of_tarred  # few messages need it

        if is_manifest and (refusal := refusal_of_tarred(Path(path), is_given=True)):
            raise UsageError(refusal)
        make = f", or make one of its audio: prepcli make-manifest {path} OUT.json" if is_manifest else ""
        raise UsageError(f"{what} is a directory, not a file: {path}; name a file in it{make}")
    if not os.path.exists(path):
        hint = "" if os.path.isabs(path) else f" (looked in {Path.cwd()})"
        raise UsageError(f"{what} not found: {path}{hint}")
    if not os.path.isfile(path):
        raise UsageError(
            f"{what} is a pipe or a device, not a file: {path}; it is read more than once, so write it to a file first"
        )
    if not os.access(path, os.R_OK):
        raise UsageError(f"{what} cannot be read, permission is missing: {path}")
    return path


def _check_object(path: str, what: str) -> str:
    """`check_file` for an address; raises `UsageError` also if the bucket is missing or access is denied."""
    address = path_of(path)
    if not address.is_file():
        if address.is_dir():
            raise UsageError(f"{what} is a prefix, not an object: {path}; name an object below it")
        raise UsageError(f"{what} not found: {path}")
    return str(parse_address(path))


def is_gzip(path: str) -> bool:
    """Whether a file counts as compressed: its name ends with `.gz`, as in NeMo and lhotse, or it is a container."""
    return path.endswith(".gz") or isinstance(path, Catalogue)


def open_bytes(path: str) -> BinaryIO:
    """Open a manifest to read its (uncompressed) bytes from the start; plain files are not buffered.

    The bytes of a container are the lines of its catalogue.
    """
    if isinstance(path, Catalogue):
        return cast(BinaryIO, io.BufferedReader(Blocks(path, _in_blocks(path.read(absolute(path))))))
    if is_gzip(path):
        import gzip

        return cast(BinaryIO, gzip.open(open_object(path) if is_address(path) else path, "rb"))
    if is_address(path):
        return open_object(path)
    return cast(BinaryIO, Path(path).open("rb", buffering=0))


def _parts(spec: str) -> list[str]:
    # Not `Path.exists`, which raises `OSError` if a list is longer than a file name may be.
    if os.path.exists(spec):
        return [spec]
    braces = nemo_to_braces(spec)
    if braces.count("{") != braces.count("}"):
        return spec.split(",")
    return split_as_written(spec)


def _expand_part(part: str, what: str) -> Iterator[str]:
    for written in (part, part.strip()):
        if os.path.exists(written):
            return iter([check_file(written, what)])
    part = part.strip()
    if is_address(part):
        return _expand_address(part, what)
    # Existing folders are taken literally, even with brackets in their names: only the rest is a pattern.
    slash = len(part)
    while (slash := part.rfind("/", 0, slash)) >= 0 and not os.path.isdir(part[: slash + 1]):
        pass
    folder, pattern = part[: slash + 1], nemo_to_braces(part[slash + 1 :])
    try:
        names = expand_braces(pattern)
    except ValueError:
        return iter([check_file(part, what)])
    first = next(names, pattern)
    if first == pattern:
        return iter([check_file(part, what)])
    return (check_file(folder + name, what) for name in chain([first], names))


def _expand_address(part: str, what: str) -> Iterator[str]:
    """The objects that an address names.

    All braces, brackets and parentheses in it are read as a pattern; if they are not balanced, none of them is.
    """
    try:
        names = list(expand_braces(nemo_to_braces(part)))
    except ValueError:
        names = [part]
    return (check_file(name, what) for name in names)


def _in_blocks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines to blocks of at least `_BLOCK_BYTES`; the last block may be smaller."""
    pending: list[bytes] = []
    size = 0
    for line in lines:
        pending.append(line)
        size += len(line)
        if size >= _BLOCK_BYTES:
            yield b"".join(pending)
            pending, size = [], 0
    if pending:
        yield b"".join(pending)


class Blocks(io.RawIOBase):
    """A file whose content is the blocks of an iterator."""

    def __init__(self, path: str, blocks: Iterator[bytes]) -> None:
        self.name = path
        self._blocks = blocks
        self._block = memoryview(b"")

    def readable(self) -> bool:
        """True, because the file can be read."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill `buffer` from the next block; returns the number of bytes, 0 at the end."""
        while not self._block:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._block = memoryview(block)
        count = min(len(buffer), len(self._block))
        buffer[:count] = self._block[:count]
        self._block = self._block[count:]
        return count


class Reader:
    """Reads a manifest in order. A caller can give back bytes, which the next `read` then returns.

    `begin`: the byte of `file` at which the manifest begins; above 0 if other manifests were unpacked into this file
    before it. `num_bytes` and `in_line` are set by `prepcli.manifest.scan` when it has read a range: the number of
    bytes in this range, and whether the range ended inside a line.
    """

    def __init__(self, path: str, file: BinaryIO, begin: int = 0) -> None:
        self.path = path
        self._begin = begin
        self.num_bytes = 0
        self.in_line = False
        self._file = file
        self._kept = b""

    def seek_to(self, start: int) -> bool:
        """Go to byte `start` of the manifest; returns whether this byte is inside a line, and not at its beginning.

        For a compressed file, `start` must be 0.
        """
        if at := self._begin + max(start - 1, 0):
            self._file.seek(at)
        return start > 0 and self.read(1) != b"\n"

    def read(self, num_bytes: int) -> bytes:
        """Up to `num_bytes` bytes, empty at the end; raises `UsageError` for damaged compressed data."""
        if self._kept:
            data, self._kept = self._kept[:num_bytes], self._kept[num_bytes:]
            return data
        try:
            return self._file.read(num_bytes)
        except EOFError:
            raise UsageError(f"{self.path} is cut short: its compressed data end too early; make it again") from None
        except OSError as error:
            if not is_gzip(self.path) or error.errno in FAULTS_OF_THE_MACHINE:
                raise named(error, self.path) from None
            raise UsageError(
                f"{self.path} is damaged or not a gzip file: {error}; make it again, or take .gz off its name"
            ) from None
        except Exception as error:
            if type(error).__module__ != "zlib":  # zlib.error, without importing zlib
                raise
            raise UsageError(f"{self.path} is damaged: {error}; make it again") from None

    def read_all(self, num_bytes: int) -> bytes:
        """`num_bytes` bytes, fewer only at the end; raises as `read` does."""
        data = self.read(num_bytes)
        while len(data) < num_bytes and (more := self.read(num_bytes - len(data))):
            data += more
        return data

    def give_back(self, data: bytes) -> None:
        """Make the next call of `read` begin with `data`."""
        self._kept = data + self._kept
