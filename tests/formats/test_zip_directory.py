"""Zip archives in several volumes, joined, in a program, and with names in an extra field."""

import shlex
import subprocess
import zipfile
import zlib
from pathlib import Path

import pytest

from prepcli.errors import UsageError
from prepcli.formats.archives import ZipMembers
from tests.support.tools import need


def write_zip(path: Path, files: dict[str, bytes], comment: bytes = b"") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.comment = comment
    return path


@pytest.mark.parametrize("comment", [b"", b"a comment"])
def test_joined_archives_are_divided_as_the_message_says(comment: bytes, tmp_path: Path) -> None:
    first, last = write_zip(tmp_path / "a.zip", {"a": b"1"}, comment), write_zip(tmp_path / "b.zip", {"b": b"2"})
    (tmp_path / "all.zip").write_bytes(first.read_bytes() + last.read_bytes())
    with pytest.raises(UsageError, match="is several zip archives joined") as refused:
        ZipMembers(str(tmp_path / "all.zip"))
    advice = str(refused.value).partition("divide it (")[2].removesuffix(")")
    subprocess.run(advice, shell=True, check=True, cwd=tmp_path)
    assert [list(ZipMembers(str(tmp_path / name)).members) for name in ("first.zip", "last.zip")] == [["a"], ["b"]]


def test_a_program_before_an_archive_and_bytes_after_it(tmp_path: Path) -> None:
    data = write_zip(tmp_path / "a.zip", {"a": b"content"}).read_bytes()
    (tmp_path / "b.zip").write_bytes(b"#!/bin/sh\nPK\5\6\n" + data + b"after")
    found = ZipMembers(str(tmp_path / "b.zip")).audio("a")
    assert not isinstance(found, bytes)
    assert Path(found.path).read_bytes()[found.start :][: found.length] == b"content"


def test_a_number_of_a_volume(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.zip", {"a": b"1"})
    data = bytearray(path.read_bytes())
    data[-18] = 2  # the number of this volume
    path.write_bytes(data)
    with pytest.raises(UsageError, match="is the last of several volumes"):
        ZipMembers(str(path))


def test_the_last_of_several_volumes(tmp_path: Path) -> None:
    need("zip")
    (tmp_path / "a").write_bytes(bytes(range(256)) * 1000)
    subprocess.run(["zip", "-q", "-0", "-s", "64k", "v.zip", "a"], check=True, cwd=tmp_path)
    with pytest.raises(UsageError, match="is the last of several volumes; join them first: zip -s 0") as refused:
        ZipMembers(str(tmp_path / "v.zip"))
    subprocess.run(shlex.split(str(refused.value).partition("first: ")[2]), check=True, stdout=subprocess.DEVNULL)
    assert list(ZipMembers(str(tmp_path / "v-whole.zip")).members) == ["a"]


def test_a_name_in_an_extra_field(tmp_path: Path) -> None:
    """As Info-ZIP writes it: the name in the encoding of the system, and once more in UTF-8."""

    class Old(zipfile.ZipInfo):
        def _encodeFilenameFlags(self) -> tuple[bytes, int]:  # noqa: N802 - the name of a method of `ZipInfo`
            return self.filename.encode("cp1252"), self.flag_bits & ~0x800

    path = b"\1" + zlib.crc32("ü.wav".encode("cp1252")).to_bytes(4, "little") + "ü.wav".encode()
    member = Old("ü.wav")
    member.extra = b"up" + len(path).to_bytes(2, "little") + path
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(member, b"content")
    found = ZipMembers(str(tmp_path / "a.zip"))
    assert (list(found.members), found.is_unknown) == (["ü.wav"], False)


def test_backslashes_of_programs_for_windows(tmp_path: Path) -> None:
    member = zipfile.ZipInfo("d\\a.wav")
    member.create_system = 0
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(member, b"content")
    assert list(ZipMembers(str(tmp_path / "a.zip")).members) == ["d/a.wav"]
