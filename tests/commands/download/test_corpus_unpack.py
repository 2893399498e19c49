"""Unpacking archives of strangers: nothing outside of the folder, nothing half, nothing but files."""

import bz2
import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from prepcli.commands.download import corpus_unpack as unpacking
from prepcli.commands.download.corpus_unpack import DamagedArchiveError, UnsafeArchiveError, unpack, unpack_checked
from tests.commands.download.miniatures import tar, tar_gz, zipped
from tests.conftest import tree

FILES = {"corpus/a.txt": b"a" * 3000, "corpus/deep/er/b.txt": b"", "corpus/naïve 目录.txt": b"c" * 512}
BIG = {f"corpus/{n:03d}": hashlib.sha512(str(n).encode()).digest() * 500 for n in range(100)}


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    """A tar with a good file, then one such member, then another good one."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as out:
        for info in (tarfile.TarInfo("corpus/good"), tarfile.TarInfo(name), tarfile.TarInfo("corpus/later")):
            if info.name == name:
                info.type, info.linkname = kind, link
            out.addfile(info)
    return buffer.getvalue()


def several(*members: tuple[str, bytes, str]) -> bytes:
    """A tar of empty members: name, kind, what a link points at."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as out:
        for name, kind, link in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, link
            out.addfile(info)
    return buffer.getvalue()


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress])
def test_whole(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    archive = tmp_path / "a.tgz"
    archive.write_bytes(compress(tar(FILES)))
    unpack(archive, tmp_path / "out")
    assert tree(tmp_path / "out") == {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    (tmp_path / "out/corpus/a.txt").write_text("the archive's read-only mode is not taken over")


def zip_of(*members: tuple[str, int], data: bytes = b"x" * 3000) -> bytes:
    """A zip of members, by name and mode of the file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
        for name, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            out.writestr(info, b"" if name.endswith("/") else data)
    return buffer.getvalue()


def test_a_whole_zip(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zipped(FILES))
    unpack(tmp_path / "a.zip", tmp_path / "out")
    assert tree(tmp_path / "out") == {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [
        ("../evil", 0o100644, "would be outside"),
        ("corpus/../../evil", 0o100644, "would be outside"),
        ("/tmp/evil", 0, "would be outside"),
        ("corpus/link", 0o120777, "is not a plain file"),
        ("corpus/pipe", 0o010644, "is not a plain file"),
        ("corpus/good/x", 0o100644, "cannot be unpacked"),
    ],
)
def test_members_of_a_zip_that_reach_out_are_refused(name: str, mode: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zip_of(("corpus/", 0o040755), ("corpus/good", 0o100644), (name, mode)))
    with pytest.raises(UnsafeArchiveError, match=f"a.zip is not to be trusted.*{said}"):
        unpack(tmp_path / "a.zip", tmp_path / "out")
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} <= {"a.zip", "good"}


@pytest.mark.parametrize("damage", ["cut", "changed", "encrypted", "too large"])
def test_a_damaged_zip(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(zip_of(("corpus/a", 0o100644)))
    if damage == "cut":
        del data[-30:]
    elif damage == "changed":
        data[45] ^= 255
    elif damage == "encrypted":
        data[data.index(b"PK\1\2") + 8] |= 1
        data[6] |= 1
    else:
        monkeypatch.setattr(unpacking, "MAX_SMALL", 100)
        monkeypatch.setattr(unpacking, "MAX_RATIO", 2)
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(UnsafeArchiveError if damage == "too large" else DamagedArchiveError, match=r"a\.zip"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "kind", "link"),
    [
        ("../evil", tarfile.REGTYPE, ""),
        ("corpus/../../evil", tarfile.REGTYPE, ""),
        ("/tmp/evil", tarfile.REGTYPE, ""),
        ("corpus/link", tarfile.SYMTYPE, "/etc/passwd"),
        ("corpus/link", tarfile.SYMTYPE, "../../evil"),
        ("corpus/link", tarfile.LNKTYPE, "../evil"),
        ("corpus/link", tarfile.LNKTYPE, "/etc/passwd"),
        ("..", tarfile.DIRTYPE, ""),
        ("corpus/device", tarfile.CHRTYPE, ""),
        ("corpus/pipe", tarfile.FIFOTYPE, ""),
    ],
)
def test_what_reaches_out_refuses_the_archive(tmp_path: Path, name: str, kind: bytes, link: str) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(member(name, kind, link))
    with pytest.raises(UnsafeArchiveError, match=r"a\.tar is not to be trusted: its member .* nothing of it is kept"):
        unpack(archive, tmp_path / "inner/out")
    assert not list(tmp_path.rglob("evil"))
    assert not Path("/tmp/evil").exists()


def test_a_sparse_file_is_refused(tmp_path: Path) -> None:
    """A member of 512 bytes could stand for petabytes of zeros."""
    member = tarfile.TarInfo("corpus/sparse")
    member.type, member.size = tarfile.GNUTYPE_SPARSE, 512
    header = bytearray(member.tobuf(format=tarfile.GNU_FORMAT))
    header[386:410] = b"%011o\0%011o\0" % (0, 512)
    header[483:495] = b"%011o\0" % (8 << 20)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "a.tar").write_bytes(bytes(header) + bytes(512 + 1024))
    with pytest.raises(UnsafeArchiveError, match="'corpus/sparse' is not a plain file or folder"):
        unpack(tmp_path / "a.tar", tmp_path / "out")


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
def test_an_archive_that_unpacks_without_end(
    tmp_path: Path, compress: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "MAX_SMALL", 1 << 20)
    (tmp_path / "small.tgz").write_bytes(compress(tar({"corpus/a": bytes(900_000)})))
    unpack(tmp_path / "small.tgz", tmp_path / "out")
    (tmp_path / "a.tgz").write_bytes(compress(tar({"corpus/b": bytes(4 << 20)})))
    with pytest.raises(UnsafeArchiveError, match="it unpacks to more than 100 times its size"):
        unpack(tmp_path / "a.tgz", tmp_path / "out")


def test_links_within_the_tree_are_left_out(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(member("corpus/link", tarfile.SYMTYPE, "good"))
    unpack(archive, tmp_path / "out")
    assert sorted(tree(tmp_path / "out")) == ["corpus/good", "corpus/later"]
    assert not (tmp_path / "out/corpus/link").is_symlink()


def test_a_way_through_a_link_stays_inside(tmp_path: Path) -> None:
    """Links are not made, so what would lead through one is a plain path: here into the folder, above it refused."""
    archive = tmp_path / "a.tar"
    for way, found in (("a/b/s/../../../evil", ["evil"]), ("a/b/s/../../../../evil", None)):
        archive.write_bytes(several(("a/b/s", tarfile.SYMTYPE, "."), (way, tarfile.REGTYPE, "")))
        if found is None:
            with pytest.raises(UnsafeArchiveError, match="outside of the folder"):
                unpack(archive, tmp_path / "refused/out")
        else:
            unpack(archive, tmp_path / "inner/out")
            assert sorted(tree(tmp_path / "inner/out")) == found
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path / "inner/evil").exists()


@pytest.mark.parametrize(
    "members",
    [
        [("a", tarfile.REGTYPE, ""), ("a/b", tarfile.REGTYPE, "")],
        [("a/b", tarfile.REGTYPE, ""), ("a", tarfile.REGTYPE, "")],
        [("a", tarfile.REGTYPE, ""), ("a", tarfile.DIRTYPE, "")],
        [(".", tarfile.REGTYPE, "")],
        [("a" * 300, tarfile.REGTYPE, "")],
        [("a/" * 3000 + "b", tarfile.REGTYPE, "")],
    ],
)
def test_members_that_cannot_all_be_there(tmp_path: Path, members: list[tuple[str, bytes, str]]) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(several(*members))
    with pytest.raises(UnsafeArchiveError, match=r"a\.tar is not to be trusted: its member .* cannot be unpacked"):
        unpack(archive, tmp_path / "out")


def pax(**fields: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as out:
        info = tarfile.TarInfo("corpus/a")
        info.size, info.pax_headers = 3, {name.replace("_", "."): value for name, value in fields.items()}
        out.addfile(info, io.BytesIO(b"abc"))
    return buffer.getvalue()


def long_names_without_end() -> bytes:
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 2
    return (info.tobuf(tarfile.GNU_FORMAT) + b"a".ljust(512, b"\0")) * 5000 + bytes(1024)


@pytest.mark.parametrize(
    "data",
    [
        pax(GNU_sparse_map="0,1,2,x", GNU_sparse_major="0"),
        pax(GNU_sparse_map="0,1", GNU_sparse_size="many"),
        pax(GNU_sparse_major="1", GNU_sparse_minor="0", GNU_sparse_realsize="99", GNU_sparse_name="corpus/a"),
        long_names_without_end(),
    ],
)
def test_headers_that_python_chokes_on(tmp_path: Path, data: bytes) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(data)
    with pytest.raises(DamagedArchiveError, match=r"a\.tar is damaged"):
        unpack(archive, tmp_path / "out")


def test_every_truncation_is_found(tmp_path: Path) -> None:
    whole = tar_gz(BIG)
    archive = tmp_path / "a.tgz"
    for length in (0, 1, 2, 10, 100, len(whole) // 3, len(whole) // 2, len(whole) - 8, len(whole) - 1):
        archive.write_bytes(whole[:length])
        with pytest.raises(DamagedArchiveError, match=r"a\.tgz is damaged"):
            unpack(archive, tmp_path / "out")


def test_a_tar_that_ends_between_two_members_is_not_whole(tmp_path: Path) -> None:
    """tarfile and GNU tar take it for whole."""
    plain = tar(BIG)
    cut = plain[: 512 + 50 * (512 + 32256)]
    archive = tmp_path / "a.tgz"
    archive.write_bytes(gzip.compress(cut))
    with tarfile.open(archive) as judge:
        assert len(judge.getnames()) == 51
    with pytest.raises(DamagedArchiveError, match="its tar ends early"):
        unpack(archive, tmp_path / "out")


@pytest.mark.parametrize("where", [0.1, 0.5, 0.9999])
def test_a_wrong_byte_is_found_by_the_crc(tmp_path: Path, where: float) -> None:
    data = bytearray(gzip.compress(tar(BIG), 0))  # stored: inflating notices nothing
    data[int(len(data) * where) if where < 0.99 else -6] ^= 1
    archive = tmp_path / "a.tgz"
    archive.write_bytes(data)
    with pytest.raises(DamagedArchiveError, match="CRC check failed"):
        unpack(archive, tmp_path / "out")


def test_the_checksum_is_taken_on_the_way(tmp_path: Path) -> None:
    archive = tmp_path / "a.tgz"
    archive.write_bytes(tar_gz(BIG))
    checksum = f"md5:{hashlib.md5(archive.read_bytes()).hexdigest()}"
    unpack_checked(archive, tmp_path / "out", checksum)
    assert len(tree(tmp_path / "out")) == 100
    with pytest.raises(DamagedArchiveError, match=f"a.tgz is damaged .{checksum} instead of md5:0000"):
        unpack_checked(archive, tmp_path / "out", "md5:0000")


def test_what_is_not_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "a.tgz"
    archive.write_bytes(b"<html>a page for people</html>" * 100)
    with pytest.raises(DamagedArchiveError):
        unpack(archive, tmp_path / "out")
