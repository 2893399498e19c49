"""Files of a unit: what is collected before it is written, short writes, buffers that change, and groups of flushes."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from prepcli.engine.publishing.output_files import (
    FLUSHED_TOGETHER,
    MAX_PARTS,
    WRITTEN_BYTES,
    Flusher,
    HashedFile,
    WrittenFile,
)


def write_pieces(path: Path) -> bytes:
    """Write pieces of many sizes, and return what the file must hold."""
    file = HashedFile(path, path)
    expected = bytearray()
    sizes = [0, 1, *[7] * (2 * MAX_PARTS), WRITTEN_BYTES // 3, WRITTEN_BYTES // 3, WRITTEN_BYTES // 3, WRITTEN_BYTES, 5]
    for number, size in enumerate(sizes):
        data = bytes([number % 251]) * size
        assert file.write(data) == size
        expected += data
    changing = bytearray(b"as it was")
    file.write(changing)  # type: ignore[arg-type]
    expected += changing
    changing[:] = b"different"
    file.write(b"the end")
    expected += b"the end"
    done = file.close()
    assert (done.num_bytes, done.sha256) == (len(expected), hashlib.sha256(expected).hexdigest())
    return bytes(expected)


def test_all_pieces_in_order(tmp_path: Path) -> None:
    expected = write_pieces(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == expected


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_a_short_write_is_completed(share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted or nearly full file system takes less than it was given."""
    write_all: Callable[[int, Sequence[bytes]], int] = os.writev

    def write_some(file: int, parts: Sequence[bytes]) -> int:
        whole = b"".join(parts)
        return write_all(file, [whole[: int(share * len(whole))]])

    class Nearly(FileIO):
        """What is left is taken in two steps or more, too."""

        def write(self, data: Any, /) -> int:
            return super().write(data[: len(data) // 2 + 1])

    monkeypatch.setattr(os, "writev", write_some)
    monkeypatch.setattr(Path, "open", lambda path, mode, **_: Nearly(path, mode))
    expected = write_pieces(tmp_path / "file")
    monkeypatch.undo()
    assert (tmp_path / "file").read_bytes() == expected


@pytest.fixture
def flusher() -> Iterator[Flusher]:
    flusher = Flusher()
    yield flusher
    flusher.stop()


@pytest.mark.parametrize("num_files", [0, 1, FLUSHED_TOGETHER - 1, FLUSHED_TOGETHER, FLUSHED_TOGETHER + 1])
def test_every_whole_file_is_flushed_once(
    num_files: int, flusher: Flusher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: flushed.append(os.readlink(f"/proc/self/fd/{file}")))
    files = [WrittenFile(path := tmp_path / str(number), path, b"data", flusher) for number in range(num_files)]
    for file in files:
        assert file.close().num_bytes == 4
        assert len(flushed) == num_files
    assert sorted(flushed) == sorted(str(tmp_path / str(number)) for number in range(num_files))


def test_a_flush_that_fails_is_an_error_each_time(
    flusher: Flusher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    files = [
        WrittenFile(path := tmp_path / str(number), path, b"data", flusher) for number in range(FLUSHED_TOGETHER + 1)
    ]
    for file in files:
        with pytest.raises(OSError, match="Input/output error"):
            file.close()


def test_thousands_of_files_do_not_wait_for_all_groups_each(
    flusher: Flusher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit of 10,000 files took 11 s of CPU time for that."""
    waits = 0
    result = Future.result

    def count(group: "Future[None]", timeout: float | None = None) -> None:
        nonlocal waits
        waits += 1
        result(group, timeout)

    monkeypatch.setattr(Future, "result", count)
    files = [WrittenFile(path := tmp_path / str(number), path, b"", flusher) for number in range(10 * FLUSHED_TOGETHER)]
    for file in files:
        file.close()
    assert waits == 10
