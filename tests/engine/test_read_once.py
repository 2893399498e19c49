"""`status`, `verify`, `--dry-run` and a run that is finished do not read the manifests again."""

import json
from pathlib import Path

import pytest

from tests.conftest import read_lines
from tests.support.audio_files import write_short_corpus
from tests.support.running import prepcli
from tests.support.sharing_ranks import share

COMMANDS: dict[str, tuple[object, ...]] = {
    "manifest-to-tarred": ("--num-shards", 3, "--shuffle"),
    "manifest-to-shar": ("--shard-size", 16, "--shuffle"),
    "manifest-to-wenet": ("--shard-size", 16, "--shuffle"),
}


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Long lines, in several ranges: a start reads modules as well, and a sample of the lines."""
    share(monkeypatch.setattr, range_bytes=1 << 20)
    path = tmp_path / "m.json"
    with path.open("w") as file:
        for record in read_lines(write_short_corpus(tmp_path, 48)) * 5:
            file.write(json.dumps(record | {"notes": "abc " * 6_000}) + "\n")
    return path


def num_read(*arguments: object) -> int:
    """The bytes that a command reads with system calls, and its workers with it."""
    before = bytes_read()
    done = prepcli(*arguments)
    assert done.code == 0, done.err
    return bytes_read() - before


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split("rchar: ")[1].split()[0])


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_the_manifest_is_read_once(command: str, manifest: Path, tmp_path: Path) -> None:
    if not Path("/proc/self/io").exists():
        pytest.skip("there is no /proc/self/io")
    out, size = tmp_path / "out", manifest.stat().st_size
    run = command, manifest, out, *COMMANDS[command], "--num-workers", 1
    assert num_read(*run, "--dry-run") > size  # without an index
    prepcli(*run)
    for _ in range(2):  # at first, modules are read as well
        again = [num_read(*run), num_read(*run, "--dry-run"), num_read("status", out)]
    assert max(again) < size / 2, (again, size)
    manifest.unlink()
    for name in ("status", "verify"):
        done = prepcli(name, out)
        assert done.code == 0, done.err
