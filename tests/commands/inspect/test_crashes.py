"""Audio that crashes the decoder in `inspect`: it counts as unreadable, and everything else is shown."""

import signal
from pathlib import Path
from typing import Any

import pytest

from prepcli.audio import probe as probing
from tests.conftest import MINI_CORPUS
from tests.engine.run.test_crashes import die
from tests.support.running import prepcli

CRASHING = "s03_u3"

pytestmark = pytest.mark.usefixtures("forking")


@pytest.fixture
def crashing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoder dies of one recording, whether it is a file or a member of a tar."""

    module: Any = probing
    real = module._probe

    def probe(source: object, head: bytes, name: str) -> Any:
        if CRASHING in name:
            die(signal.SIGSEGV)
        return real(source, head, name)

    monkeypatch.setattr(module, "_probe", probe)


@pytest.mark.usefixtures("crashing")
def test_files_of_a_manifest() -> None:
    done = prepcli("inspect", MINI_CORPUS / "manifest.json", "--num-audio-files", 48, "--json")
    assert done.code == 0, done.err
    (facts,) = done.json["audio"]
    assert (facts["looked_at"], facts["unreadable"]) == (48, 1)
    (example,) = facts["examples"]
    assert example.endswith("s03_u3.flac has crashed the decoder twice")


@pytest.mark.usefixtures("crashing")
def test_the_file_itself() -> None:
    done = prepcli("inspect", MINI_CORPUS / "s03/s03_u3.flac")
    assert done.code == 0
    assert "has crashed the decoder twice" in done.out


def test_members_of_tars(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    out = tmp_path / "out"
    assert prepcli("manifest-to-tarred", MINI_CORPUS / "manifest.json", out, "--num-shards", 2).code == 0
    request.getfixturevalue("crashing")
    done = prepcli("inspect", out, "--num-audio-files", 48, "--json")
    assert done.code == 0
    (facts,) = done.json["audio"]
    assert (facts["looked_at"], facts["unreadable"]) == (48, 1)
    assert "has crashed the decoder twice" in facts["examples"][0]


@pytest.mark.usefixtures("crashing")
def test_one_record() -> None:
    number = next(
        number
        for number, line in enumerate((MINI_CORPUS / "manifest.json").read_text().splitlines())
        if CRASHING in line
    )
    done = prepcli("inspect", MINI_CORPUS / "manifest.json", "--record", number)
    assert done.code == 0, done.err
    assert "has crashed the decoder twice" in done.out


def test_a_killed_process_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = probing
    real = module._probe

    def probe(source: object, head: bytes, name: str) -> Any:
        if CRASHING in name:
            die(signal.SIGKILL)
        return real(source, head, name)

    monkeypatch.setattr(module, "_probe", probe)
    done = prepcli("inspect", MINI_CORPUS / "manifest.json", "--num-audio-files", 48)
    assert done.code == 4
    assert "SIGKILL" in done.error_line
