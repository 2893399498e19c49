"""Unfinished uploads, without a store: which are listed, and which are aborted."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from prepcli.engine.state.store_output import abort_left, abort_unknown, note_upload
from prepcli.storage import uploads
from prepcli.storage.addresses import Address
from prepcli.storage.paths import StorePath
from prepcli.storage.uploads import Upload, list_uploads

OUT = StorePath("s3://bucket/out")
PAGE = """<ListMultipartUploadsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
<IsTruncated>{more}</IsTruncated><NextKeyMarker>{key}</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker>
<Upload><Key>{key}</Key><UploadId>1</UploadId><Initiated>2026-01-01</Initiated></Upload>
</ListMultipartUploadsResult>"""


def test_all_pages_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what only begins like the prefix is left out."""
    keys = ["out/a.tar", "out/b.tar", "outside.tar"]
    asked: list[str | None] = []

    def send(method: str, address: Address, query: dict[str, str]) -> bytes:
        assert (method, str(address), query["prefix"]) == ("GET", "s3://bucket", "out")
        asked.append(query.get("key-marker"))
        key = keys[len(asked) - 1]
        return PAGE.format(key=key, more="true" if key != keys[-1] else "false").encode()

    monkeypatch.setattr(uploads, "_send", send)
    assert [one.address for one in list_uploads(str(OUT))] == [f"{OUT}/a.tar", f"{OUT}/b.tar"]
    assert asked == [None, "out/a.tar", "out/b.tar"]


@pytest.fixture
def aborted(monkeypatch: pytest.MonkeyPatch) -> Sequence[str]:
    """The objects whose uploads are aborted, of a store that has one to each of four objects."""
    found: list[str] = []
    listed = [Upload(f"{OUT}/{name}.tar", "1", "") for name in "abcd"]
    monkeypatch.setattr(
        uploads, "list_uploads", lambda text: [one for one in listed if one.address.startswith(str(text))]
    )
    monkeypatch.setattr(uploads, "abort", lambda upload: found.append(upload.address[-5:]))
    return found


def folder_with(names: str, folder: Path) -> Path:
    """The temporary directory of a process that uploads to these objects."""
    folder.mkdir()
    for name in names:
        note_upload(folder, OUT / f"{name}.tar")
    return folder


def test_uploads_of_processes_that_are_gone(aborted: Sequence[str], tmp_path: Path) -> None:
    """Not those to which a living process uploads as well, nor those that nobody has noted."""
    gone = [folder_with("ab", tmp_path / "1"), folder_with("c", tmp_path / "2"), tmp_path / "removed"]
    abort_left(gone, [folder_with("bd", tmp_path / "3")])
    assert aborted == ["a.tar", "c.tar"]


def test_uploads_that_nobody_knows(aborted: Sequence[str], tmp_path: Path) -> None:
    """Only to what is published, and not where a process writes that again."""
    at_work = [folder_with("b", tmp_path / "1")]
    abort_unknown(OUT, ["a.tar", "b.tar", "c.tar"], lambda: at_work)
    assert aborted == ["a.tar", "c.tar"]
    abort_unknown(tmp_path, ["d.tar"], lambda: at_work)
    assert aborted == ["a.tar", "c.tar"]
