"""A user without a home directory, as containers have them, is not a reason to fail."""

import os
from pathlib import Path

import pytest

from prepcli.audio import shorten
from prepcli.audio.probe import probe_bytes
from prepcli.errors import RecordRejected


@pytest.fixture
def no_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the environment nor the table of users knows one; nor is any tool installed."""

    def unknown(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert os.path.expanduser("~") == "~"


SHORTENED = b"NIST_1A\n   1024\nsample_count -i 80\nsample_rate -i 8000\nchannel_count -i 1\nsample_n_bytes -i 2\n"
SHORTENED += b"sample_coding -s26 pcm,embedded-shorten-v2.00\nend_head\n"


@pytest.mark.usefixtures("no_home")
def test_shortened_sphere_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(RecordRejected, match=r"is SPHERE compressed with shorten .*install .*sph2pipe"):
        probe_bytes(SHORTENED.ljust(1024) + b"ajkg\x02" + bytes(100), "a.sph")
    # A folder of that name here is not somebody's home.
    tool = tmp_path / "~/.lhotse/tools/sph2pipe-2.5/sph2pipe"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert shorten.decoder("ulaw,embedded-shorten-v2.00") is None


@pytest.mark.usefixtures("no_home")
def test_the_path_still_counts(tmp_path: Path) -> None:
    tool = tmp_path / "sph2pipe"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert (shorten.decoder("ulaw,embedded-shorten-v2.00") or [""])[0] == str(tool)


def test_where_lhotse_installs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    tool = tmp_path / ".lhotse/tools/sph2pipe-2.5/sph2pipe"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert (shorten.decoder("pcm,embedded-shorten-v2.00") or [""])[0] == str(tool)
