"""The bytes of members in archives lie where they are said to lie."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from prepcli.errors import RecordRejected
from prepcli.formats.archives import ArkEntries, StreamedTar, TarMembers, ZipMembers
from prepcli.jobs.inputs.catalogue import FieldNames
from prepcli.jobs.inputs.samples import sample_lines
from prepcli.storage.addresses import ByteRange
from tests.support.tars import write_tar

CONTENT = b"content of a file"


def read(found: ByteRange | bytes) -> bytes:
    if isinstance(found, bytes):
        return found
    return Path(found.path).read_bytes()[found.start : found.start + found.length]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_archive_with_extra_fields(method: int, tmp_path: Path) -> None:
    """As programs write them for times and owners: before the content, in the local header only or in both."""
    member = zipfile.ZipInfo("a/b.wav")
    member.extra = b"\x99\x99\x06\x00123456"
    member.compress_type = method
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(member, CONTENT)
    found = ZipMembers(str(tmp_path / "a.zip"))
    assert (read(found.audio("a/b.wav")), found.is_deflated) == (CONTENT, method == zipfile.ZIP_DEFLATED)


@pytest.mark.parametrize("claimed", [3, 1000])
def test_a_deflated_file_of_another_size_than_the_archive_says(claimed: int, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.wav", CONTENT)
    data, size = path.read_bytes(), len(CONTENT).to_bytes(4, "little")
    path.write_bytes(data.replace(size, claimed.to_bytes(4, "little")))
    found = ZipMembers(str(path))
    if claimed < len(CONTENT):
        with pytest.raises(RecordRejected, match="cannot be unpacked: Bad CRC-32"):
            found.audio("a.wav")
    else:  # whole, by its checksum
        assert read(found.audio("a.wav")) == CONTENT


@pytest.mark.parametrize("length", [0, 20, 0xFFFFFFFF])
def test_a_wav_in_an_archive_of_kaldi_whose_header_has_no_length(length: int, tmp_path: Path) -> None:
    """sox writes 0 or the largest number to a pipe: then the file ends with the archive."""
    wav = b"RIFF" + length.to_bytes(4, "little") + b"WAVEfmt " + bytes(20)
    (tmp_path / "a.ark").write_bytes(b"id-1 " + wav + b"id-2 ")
    found = ArkEntries(str(tmp_path / "a.ark")).audio("5")
    assert read(found) == (wav[:28] if length == 20 else wav + b"id-2 ")


def test_a_repeated_name_in_a_compressed_tar_is_its_first_member_in_any_order(tmp_path: Path) -> None:
    members = [("a.wav", b"first"), ("b.wav", b"b"), ("c.wav", b"c"), ("a.wav", b"second")]
    tar = StreamedTar(str(write_tar(tmp_path / "a.tar.gz", members, "w:gz")))
    assert [tar.audio(name) for name in ("b.wav", "a.wav", "c.wav", "a.wav")] == [b"b", b"first", b"c", b"first"]


def test_a_sparse_member_is_named_as_such(tmp_path: Path) -> None:
    """Its bytes are not in one piece, as `tar --sparse` leaves out its holes."""
    member = tarfile.TarInfo("a.wav")
    member.size = len(CONTENT)
    member.pax_headers = {"GNU.sparse.map": f"4096,{len(CONTENT)}", "GNU.sparse.size": "9000"}
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(member, io.BytesIO(CONTENT))
    with pytest.raises(RecordRejected, match=r"a\.wav is stored as a sparse file; pack the files without --sparse"):
        TarMembers(str(tmp_path / "a.tar")).audio("a.wav")
    (line,) = sample_lines(str(tmp_path / "a.tar"), None, FieldNames())
    assert b"a.wav is stored as a sparse file" in line


@pytest.mark.parametrize("member", ["\u00b2", "\u0663\u00b2", "9" * 5000, "-1", "9"])
def test_members_that_are_not_the_byte_of_an_entry(member: str, tmp_path: Path) -> None:
    (tmp_path / "a.ark").write_bytes(b"fLaC")
    with pytest.raises(RecordRejected, match="has no member"):
        ArkEntries(str(tmp_path / "a.ark")).audio(member)
