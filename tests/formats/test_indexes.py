"""Indexes of tars and JSONL files: byte for byte those of the readers' own tools, from headers and line ends alone."""

import importlib.util
import io
import os
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prepcli.formats import indexes
from prepcli.formats.indexes import (
    DamagedError,
    IndexedLines,
    IndexKind,
    PairTarWriter,
    SampleTarWriter,
    index_bytes,
    index_problem,
    is_current,
    make_index,
    member_name_stem,
    mirrored,
)

LONG = "an_utterance_with_a_name_" + "x" * 120
NAMES = {
    "short": ["a.wav", "b.flac", "c.mp3"],
    "long": [f"{LONG}.wav", "b.wav", f"{LONG}_2.wav"],
    "not ASCII": ["ä.wav", "目录.flac", f"{'é' * 80}.wav"],
    "folders": ["x/y/a.wav", "x/b.wav", "x/c.tar.gz", ".hidden", "dot."],
    "samples of two files": ["a.wav", "a.json", "b.json", "b.wav", "b.wav", "c.txt"],
    "pairs": ["id1.flac", "id1.json", "id2.nodata", "id2.nometa"],
    "none": [],
}


def make_tar(path: Path, names: list[str], format: int, sizes: Callable[[int], int] = lambda n: 700 * n) -> Path:
    with tarfile.open(path, "w", format=format) as tar:
        for number, name in enumerate(names):
            info = tarfile.TarInfo(name)
            info.size = sizes(number)
            tar.addfile(info, io.BytesIO(bytes([number + 1]) * info.size))
    return path


def by_tarfile(path: Path, kind: IndexKind) -> bytes:
    """The rules of the readers over what Python's tarfile finds."""
    with tarfile.open(path) as tar:
        members = tar.getmembers()
    if kind == "shar_tar":
        offsets = [member.offset for member in members[::2]]
    else:
        offsets, stem = [], None
        for member in members:
            if member.isreg() and Path(member.name).stem != stem:
                stem = Path(member.name).stem
                offsets.append(member.offset)
    return struct.pack(f"<{len(offsets) + 1}Q", *offsets, path.stat().st_size)


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("names", NAMES)
def test_indexes_of_tars(tmp_path: Path, names: str, format: int) -> None:
    if format == tarfile.USTAR_FORMAT and names in ("long", "not ASCII"):
        pytest.skip("USTAR has no such names")
    path = make_tar(tmp_path / "x.tar", NAMES[names], format)
    assert make_index(path, "nemo_tar") == by_tarfile(path, "nemo_tar")
    if len(NAMES[names]) % 2 == 0:
        assert make_index(path, "shar_tar") == by_tarfile(path, "shar_tar")
    else:
        with pytest.raises(DamagedError, match="come in pairs"):
            make_index(path, "shar_tar")


def test_the_index_of_nemo(tmp_path: Path) -> None:
    """Of its own function, in a file that imports nothing of NeMo."""
    found = importlib.util.find_spec("nemo")
    if found is None or found.origin is None:
        pytest.skip("NeMo is not installed")
    source = Path(found.origin).parent / "collections/common/data/lhotse/indexed_adapters.py"
    if not source.exists():
        pytest.skip("this NeMo has no indexes")
    spec = importlib.util.spec_from_file_location("indexed_adapters", source)
    assert spec is not None
    assert spec.loader is not None
    adapters: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(adapters)
    for number, names in enumerate(NAMES.values()):
        path = make_tar(tmp_path / f"{number}.tar", names, tarfile.GNU_FORMAT)
        adapters.create_tar_index(str(path), str(tmp_path / "theirs.idx"))
        assert make_index(path, "nemo_tar") == (tmp_path / "theirs.idx").read_bytes()
    lines = tmp_path / "x.json"
    lines.write_bytes(b'{"a": 1}\n{}\n\n{"b": 2}')
    adapters.create_index(str(lines), str(tmp_path / "theirs.idx"))
    assert make_index(lines, "jsonl") == (tmp_path / "theirs.idx").read_bytes()


@pytest.mark.parametrize("text", [b"", b"{}", b"{}\n", b'{"a": 1}\n\n{}\r\n{"b": 2}', b"\n", b"\n\n{}\n"])
@pytest.mark.parametrize("block", [1, 3, 1 << 20])
def test_indexes_of_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, block: int) -> None:
    monkeypatch.setattr(indexes, "_BLOCK_BYTES", block)
    path = tmp_path / "x.jsonl"
    path.write_bytes(text)
    lengths = [len(line) for line in io.BytesIO(text)]
    offsets = [sum(lengths[:n]) for n in range(len(lengths))]
    assert make_index(path, "jsonl") == struct.pack(f"<{len(offsets) + 1}Q", *offsets, len(text))


@pytest.mark.parametrize("names", [["a.wav", "b.wav"], [f"{LONG}.flac", f"{LONG}.json"], []])
def test_what_is_known_while_writing(tmp_path: Path, names: list[str]) -> None:
    for kind, writer_class in (("nemo_tar", SampleTarWriter), ("shar_tar", PairTarWriter)):
        path = tmp_path / f"{kind}.tar"
        with path.open("wb") as file:
            writer: Any = writer_class(file)
            for name in names:
                writer.add(name, name.encode() * 50)
            writer.close()
        assert writer.index == make_index(path, kind) == by_tarfile(path, kind)  # type: ignore[arg-type]
    with (tmp_path / "x.jsonl").open("wb") as file:
        lines = IndexedLines(file)
        for name in names:
            lines.add(name.encode() + b"\n")
    assert lines.index == make_index(tmp_path / "x.jsonl", "jsonl")


def test_long_names_are_counted(tmp_path: Path) -> None:
    writer = PairTarWriter(io.BytesIO())
    for name in ("a" * 96 + ".wav", "ä" * 60 + ".wav", "b" * 97 + ".wav"):
        writer.add(name, b"")
    assert writer.num_long_names == 2


def test_wrong_indexes_are_told_from_right_ones(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", ["a.wav", "b.wav"], tarfile.GNU_FORMAT, lambda _: 600)
    right = make_index(path, "nemo_tar")
    size = path.stat().st_size
    assert index_problem(path, "nemo_tar", right) is None
    # Energon ends with the end of the last member, lhotse 2 in some cases between the zero blocks.
    for end in (2 * (512 + 1024), 2 * (512 + 1024) + 512):
        assert index_problem(path, "nemo_tar", index_bytes([0, 1536], end)) is None
    for wrong, message in (
        (b"", "0 bytes"),
        (right[:-1], "23 bytes"),
        (right[:-8], "1 records, the data 2"),
        (index_bytes([0, 1536], size + 512), f"{size + 512:,} bytes, the data have {size:,}"),
        (index_bytes([0, 512], size), "record 1 begins at byte 512, that of the data at byte 1,536"),
        (bytes(24), "of a file of 0 bytes"),
    ):
        found = index_problem(path, "nemo_tar", wrong)
        assert found is not None
        assert message in found


def test_the_end_of_the_index_of_lines(tmp_path: Path) -> None:
    """Bytes that were added to the last line change only the last value."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2}')
    right = make_index(path, "jsonl")
    assert index_problem(path, "jsonl", right) is None
    path.write_bytes(path.read_bytes() + b" ")
    assert index_problem(path, "jsonl", right) == "it is of a file of 17 bytes, the data have 18"


def test_current_indexes(tmp_path: Path) -> None:
    data, index = tmp_path / "x.jsonl", tmp_path / "x.jsonl.idx"
    data.write_bytes(b"{}\n{}\n")
    assert not is_current(index, data.stat())
    index.write_bytes(make_index(data, "jsonl"))
    assert is_current(index, data.stat())
    os.utime(index, ns=(0, data.stat().st_mtime_ns - 1))
    assert not is_current(index, data.stat())
    for wrong in (b"", b"1234567", index_bytes([0, 3], 7)):
        index.write_bytes(wrong)
        assert not is_current(index, data.stat())


@pytest.mark.parametrize("name", ["a.wav", "a", "a.b.c", ".a", "a.", "x/y.z/a", "x/.a", "..a", "a/", ""])
def test_stems_are_those_of_paths(name: str) -> None:
    assert member_name_stem(name) == Path(name).stem


def test_names_in_a_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    expected = f"{str(tmp_path)[1:]}/set/x.tar.idx"
    assert mirrored("set/x.tar") == mirrored(tmp_path / "set/x.tar") == mirrored("./set//x.tar") == expected
