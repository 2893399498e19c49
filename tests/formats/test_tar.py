"""The hand-written tar headers, judged by Python's tarfile and by GNU tar."""

import io
import subprocess
import tarfile
from pathlib import Path

from prepcli.formats.tar import TarWriter, member_header
from tests.support.tools import need

MEMBERS = {
    "a.wav": b"",
    "b.wav": b"x",
    "c.flac": b"y" * 512,
    "d.flac": b"z" * 513,
    "ü目录 with 'quotes'.wav": b"1",
    "n" * 96 + ".wav": b"exactly 100 bytes of name",
    "n" * 97 + ".wav": b"101 bytes of name",
    "é" * 120 + ".wav": b"244 bytes of name",
}


def write(path: Path) -> bytes:
    with path.open("wb") as file:
        tar = TarWriter(file)
        for name, data in MEMBERS.items():
            tar.add(name, data)
        tar.close()
    return path.read_bytes()


def test_tarfile_reads_it(tmp_path: Path) -> None:
    write(tmp_path / "x.tar")
    with tarfile.open(tmp_path / "x.tar") as tar:
        found = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
        assert all(member.isreg() and member.mtime == 0 and member.mode == 0o644 for member in tar.getmembers())
    assert found == MEMBERS


def test_tarfile_reads_it_as_a_stream(tmp_path: Path) -> None:
    data = write(tmp_path / "x.tar")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r|") as tar:
        assert [member.name for member in tar] == list(MEMBERS)


def test_gnu_tar_unpacks_it_without_a_word(tmp_path: Path) -> None:
    write(tmp_path / "x.tar")
    (tmp_path / "out").mkdir()
    done = subprocess.run([need("tar"), "-xvf", "../x.tar"], cwd=tmp_path / "out", capture_output=True, check=True)
    assert done.stderr == b""
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == MEMBERS


def test_the_bytes_are_those_of_tarfile_for_plain_names() -> None:
    info = tarfile.TarInfo("abc.wav")
    info.size = 1234567
    info.mode = 0o644
    theirs = info.tobuf(format=tarfile.USTAR_FORMAT)
    assert member_header(b"abc.wav", 1234567) == theirs


def test_members_beyond_8_gib() -> None:
    size = 9 << 30
    info = tarfile.TarInfo.frombuf(member_header(b"long.wav", size), "utf-8", "strict")
    assert (info.name, info.size) == ("long.wav", size)
    info = tarfile.TarInfo.frombuf(member_header(b"long.wav", 8**11 - 1), "utf-8", "strict")
    assert info.size == 8**11 - 1


def test_the_same_members_give_the_same_bytes(tmp_path: Path) -> None:
    assert write(tmp_path / "x.tar") == write(tmp_path / "y.tar")
