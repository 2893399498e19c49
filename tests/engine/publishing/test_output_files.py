"""Files of a unit: what is collected before it is written, short writes, buffers that change, and flushes."""

import os
from collections.abc import Callable, Sequence
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from prepcli.engine.publishing.hashes import ContentHash
from prepcli.engine.publishing.output_files import MAX_PARTS, WRITTEN_BYTES, HashedFile


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
    assert (done.num_bytes, done.hash) == (len(expected), ContentHash(data=bytes(expected)).text)
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


def released(path: Path) -> HashedFile:
    """A whole file, without a descriptor."""
    file = HashedFile(path, path)
    file.write(b"data")
    file.release()
    assert path.read_bytes() == b"data"
    return file


def test_a_whole_file_is_flushed_when_it_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: flushed.append(os.readlink(f"/proc/self/fd/{file}")))
    path = tmp_path / "file"
    file = released(path)
    assert (file.close().num_bytes, flushed) == (4, [str(path)])


def test_a_flush_that_fails_is_an_error_that_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    file = released(path := tmp_path / "file")
    with pytest.raises(OSError, match=f"Input/output error: '{path}'"):
        file.close()
