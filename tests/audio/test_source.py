"""Reading that fails in the middle of a run stops it: that of a manifest, and that of an audio file as well."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

import prepcli
from prepcli.audio.source import FileSource
from prepcli.errors import PrepcliError
from tests.conftest import MINI_CORPUS, tree


def run(out: Path) -> Any:
    return prepcli.manifest_to_tarred(MINI_CORPUS / "manifest.json", out, num_shards=4, num_workers=2)


@pytest.fixture
def broken_disk(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`broken_disk(word, after)`: reading a file whose path holds `word` fails from the call number `after` on."""

    def breaks(word: str, after: int) -> None:
        real = os.pread
        calls = [0]

        def pread(handle: int, length: int, offset: int) -> bytes:
            if word in os.readlink(f"/proc/self/fd/{handle}"):
                calls[0] += 1
                if calls[0] > after:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(handle, length, offset)

        monkeypatch.setattr(os, "pread", pread)

    return breaks


@pytest.mark.parametrize("after", [0, 5, 13])
def test_manifest_cannot_be_read_on(tmp_path: Path, broken_disk: Any, after: int) -> None:
    out = tmp_path / "out"
    broken_disk("manifest.json", after)
    with pytest.raises(PrepcliError, match=r"Input/output error.*run the same command again") as caught:
        run(out)
    assert caught.value.exit_code == 1
    assert not list(out.glob("*"))


def test_run_continues_when_the_disk_is_mended(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(tmp_path / "reference")
    with pytest.MonkeyPatch.context() as patched:
        real = os.pread

        def pread(handle: int, length: int, offset: int) -> bytes:
            if offset > 4000 and "manifest.json" in os.readlink(f"/proc/self/fd/{handle}"):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(handle, length, offset)

        patched.setattr(os, "pread", pread)
        with pytest.raises(PrepcliError):
            run(out)
    assert run(out).status == "done"
    assert tree(out) == tree(tmp_path / "reference")


def test_audio_that_cannot_be_read_stops_the_run_and_is_named(tmp_path: Path, broken_disk: Any) -> None:
    broken_disk("s03_u2.flac", 0)
    with pytest.raises(PrepcliError, match=r"s03_u2\.flac: Input/output error.*run the same command again") as caught:
        run(tmp_path / "out")
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("at_once", [1, 3, 9])
def test_a_file_system_that_reads_less_than_it_is_asked_for(
    at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytes(range(10))
    (tmp_path / "x").write_bytes(data)
    handle = os.open(tmp_path / "x", os.O_RDONLY)
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda file, length, offset: real(file, min(length, at_once), offset))
    source = FileSource(handle, len(data), "x")
    assert (source.everything(), source.read(2, 5), source.read(8, 5)) == (data, data[2:7], data[8:])
    os.close(handle)
