"""PyAV without ffmpeg, and what it leaves to ffmpeg. test_ffmpeg.py compares the samples of both."""

import errno
import io
import os
from pathlib import Path

import pytest

from prepcli.audio import ffmpeg, pyav
from prepcli.audio.probe import probe, probe_bytes
from prepcli.audio.source import ByteSource
from prepcli.errors import RecordRejected
from tests.audio.conftest import Samples
from tests.audio.test_ffmpeg import encoded
from tests.support.tools import import_pyav


def test_what_is_left_to_ffmpeg(tmp_path: Path, speech: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    """A codec whose samples differ, damage in the middle, and no audio at all: the output stays empty."""
    import_pyav(monkeypatch)
    webm = encoded(tmp_path, speech, "a.webm").read_bytes()
    aac = bytearray(encoded(tmp_path, speech, "a.aac").read_bytes())
    aac[len(aac) // 2 : len(aac) // 2 + 400] = bytes(400)
    for data, demuxer, why in ((webm, "matroska", "opus"), (bytes(aac), "aac", ""), (bytes(5000), "mov", "")):
        output = io.BytesIO()
        found = pyav.decode(ByteSource(data), demuxer, output)
        assert isinstance(found, str) and why in found
        assert output.getvalue() == b"" and output.tell() == 0


def test_a_read_error_is_the_machines(tmp_path: Path, speech: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops the run, and names the file: the record is not damaged."""

    class Failing(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell():
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().read(size)

    import_pyav(monkeypatch)
    monkeypatch.setattr(ByteSource, "for_process", lambda source: Failing(source.data))
    with pytest.raises(OSError, match=r"a\.m4a") as caught:
        probe_bytes(encoded(tmp_path, speech, "a.m4a").read_bytes(), "a.m4a")
    assert caught.value.errno == errno.EIO


@pytest.mark.parametrize(("version", "is_used"), [("14.0.0", True), ("18.1.0", True), ("19.0.2", False)])
def test_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, is_used: bool) -> None:
    (tmp_path / "av").mkdir()
    (tmp_path / "av/__init__.py").touch()
    (tmp_path / f"av-{version}.dist-info").mkdir()
    (tmp_path / f"av-{version}.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: av\nVersion: {version}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert pyav.is_installed.__wrapped__() is is_used


@pytest.mark.slow
def test_pyav_without_ffmpeg(
    tmp_path: Path, speech: Samples, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What PyAV decodes needs no ffmpeg; for the rest the reason names both."""
    import_pyav(monkeypatch)
    names = ("a.m4a", "a.aac", "a.wma", "a.webm")
    good, *rest = (encoded(tmp_path, speech, name) for name in names)
    damaged = tmp_path / "damaged.m4a"
    damaged.write_bytes(encoded(tmp_path, speech, "first.m4a").read_bytes()[:-1000] + bytes(1000))
    request.getfixturevalue("no_tools")
    ffmpeg._Last.decoded = None
    for path in (good, *rest[:2]):
        assert probe(path).num_channels == 1
    for path, why in ((rest[2], "its codec is opus"), (damaged, ".*")):
        with pytest.raises(RecordRejected, match=rf"; PyAV does not decode it \({why}\), but ffmpeg may: install"):
            probe(path)
