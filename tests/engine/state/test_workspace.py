"""Files beside the output, written whole; and what the engine takes for alive."""

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prepcli.engine.state.workspace import atomic_file, publish_json_once, write_json
from prepcli.processes.owner import start_time
from tests.conftest import SHORT_CORPUS
from tests.support.running import prepcli

LINKS = ["hard links", "no hard links"]


@pytest.fixture(params=LINKS)
def links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run with hard links and, as on exFAT, many object stores and some shares, without."""
    if request.param != LINKS[0]:

        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr(os, "link", refuse)
    yield


@pytest.mark.usefixtures("links")
def test_the_first_document_stays(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    assert publish_json_once(path, {"digest": "a"}, dict) == {"digest": "a"}
    assert publish_json_once(path, {"digest": "b"}, dict) == {"digest": "a"}
    assert json.loads(path.read_text()) == {"digest": "a"}
    assert not [path for path in tmp_path.iterdir() if "~" in path.name]


@pytest.mark.usefixtures("links")
def test_of_many_at_once_one_is_first(tmp_path: Path) -> None:
    for attempt in range(20):
        start = threading.Barrier(8)

        def publish(
            number: int, start: threading.Barrier = start, path: Path = tmp_path / f"{attempt}.json"
        ) -> int | None:
            start.wait()
            return publish_json_once(path, number, int)

        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(publish, range(8)))) == 1


@pytest.mark.parametrize("torn", [b"", b"{}", b'{"digest": "a'])
def test_a_torn_document_is_replaced_once(torn: bytes, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(torn)
    assert publish_json_once(tmp_path / "plan.json", 1, int) == 1
    assert publish_json_once(tmp_path / "plan.json", 2, int) == 1


def test_a_process_killed_on_the_way_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without hard links there are two steps: the next process does the second one as well."""
    path = tmp_path / "plan.json"

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "link", refuse)
    assert publish_json_once(path, "first", str) == "first"
    path.unlink()
    assert publish_json_once(path, "second", str) == "first"


def test_a_full_disk_is_not_a_lost_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(OSError, match="No space left"):
        publish_json_once(tmp_path / "plan.json", 1, int)
    assert list(tmp_path.iterdir()) == []


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
