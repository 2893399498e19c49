"""Reading a tar for checking: every member, the SHA-256 on the way, and whether the archive has an end."""

import hashlib
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

END_BYTES = 1024
"""Two zero blocks end an archive. A tar cut between two members lacks only them, and no reader complains."""


class _HashingReader:
    """Passes a file through SHA-256 on its way to `tarfile`, and counts the zeros at its end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.trailing_zeros = 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._hash.update(data)
        stripped = len(data.rstrip(b"\0"))
        self.trailing_zeros = len(data) - stripped + (self.trailing_zeros if not stripped else 0)
        return data

    def digest(self) -> str:
        while self.read(1 << 20):
            pass
        return self._hash.hexdigest()


def read_members(
    path: Path, where: str, sha256: str | None, problems: list[str]
) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """Yield the members with their bytes (empty for what is no file).

    What is wrong with the archive itself is added to `problems`, as "<where>: ...", once the last member has been
    taken: that it cannot be read, breaks off, has no end, or is not the file whose `sha256` was published.
    """
    count = 0
    try:
        with path.open("rb") as file:
            reader = _HashingReader(file)
            try:
                with tarfile.open(fileobj=reader, mode="r|") as tar:  # type: ignore[call-overload]
                    for member in tar:
                        content = tar.extractfile(member)
                        yield member, content.read() if content is not None else b""
                        count += 1
                digest = reader.digest()
                if reader.trailing_zeros < END_BYTES:
                    problems.append(f"{where}: cut off: the two zero blocks that end a tar are missing")
            except (tarfile.TarError, EOFError) as error:
                digest = reader.digest()
                problems.append(f"{where}: broken after {count} members: {error}")
            if sha256 not in (None, digest):
                problems.append(f"{where}: not the bytes that were published (SHA-256 differs)")
    except OSError as error:
        problems.append(f"{where}: cannot be read: {error.strerror or error}")
