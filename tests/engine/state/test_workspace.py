"""Files beside the output, written whole; and what the engine takes for alive."""

import errno
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prepcli.engine.state.workspace import Workspace, atomic_file, write_json
from prepcli.processes.owner import start_time
from tests.conftest import SHORT_CORPUS
from tests.support.running import prepcli


def test_the_first_document_stays(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "out")
    path = workspace.root / "plan.json"
    assert workspace.write_once(path, {"digest": "a"}, dict) == {"digest": "a"}
    assert workspace.write_once(path, {"digest": "b"}, dict) == {"digest": "a"}
    assert json.loads(path.read_text()) == {"digest": "a"}
    assert [path.name for path in workspace.root.iterdir()] == ["plan.json"]


def test_of_many_at_once_one_is_first(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "out")
    start = threading.Barrier(4)

    def publish(number: int) -> int:
        start.wait()
        return workspace.write_once(workspace.root / "plan.json", number, int)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(publish, range(4)))) == 1


@pytest.mark.parametrize("torn", [b"", b"{}", b'{"digest": "a'])
def test_a_torn_document_is_replaced_once(torn: bytes, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "out")
    path = workspace.root / "plan.json"
    path.parent.mkdir()
    path.write_bytes(torn)
    assert workspace.write_once(path, 1, int) == 1
    assert workspace.write_once(path, 2, int) == 1


def test_a_document_that_the_disk_does_not_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is flushed before it has its name; the earlier one stays, and no draft."""
    write_json(tmp_path / "plan.json", {"a": 1})
    before = (tmp_path / "plan.json").read_bytes()

    def fail(file: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        write_json(tmp_path / "plan.json", {"a": 2})
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("plan.json", before)]


def test_a_zombie_is_not_alive() -> None:
    """In a container nobody may collect the children of a killed process: their files would stay for ever."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is not collected
        assert start_time(process.pid) is None
    assert start_time(os.getpid())


def test_what_tells_of_a_run_can_be_read_by_whoever_can_read_the_data(tmp_path: Path) -> None:
    """`mkstemp` makes files for their owner alone: a colleague's `status`, `verify` and `inspect` would fail."""
    (tmp_path / "data").touch()
    write_json(tmp_path / "plan.json", {})
    assert (tmp_path / "plan.json").stat().st_mode == (tmp_path / "data").stat().st_mode


def test_a_file_that_could_not_be_finished_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "index.jsonl").write_bytes(b"old\n")
    with pytest.raises(KeyError), atomic_file(tmp_path / "index.jsonl") as file:
        file.write(b"new\n")
        raise KeyError
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old\n"]


@pytest.mark.parametrize("command", ["status", "manifest-to-tarred"])
def test_a_link_to_itself_is_not_a_bug(command: str, tmp_path: Path) -> None:
    (tmp_path / "self").symlink_to("self")
    more = [] if command == "status" else [SHORT_CORPUS / "manifest.json", "--num-shards", 2]
    done = prepcli(command, *more, "self", cwd=tmp_path)
    assert done.code == 2
    assert "self" in done.error_line
