"""The API in scripts: worker processes without a guard, kills, threads, and rank processes of its own."""

import shlex
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import prepcli as library
from prepcli.engine.ranks import launch
from prepcli.models import ranks
from prepcli.models.devices import Devices
from tests.conftest import MINI_CORPUS, read_lines, tree, write_lines
from tests.support.forks import FORKING
from tests.support.running import clean_environment, prepcli, run_process
from tests.support.tools import need_package

MANIFEST = MINI_CORPUS / "manifest.json"
CALL = "prepcli.manifest_to_tarred({manifest!r}, {out!r}, num_shards=6, num_workers=2, {more})"


def script(folder: Path, lines: str) -> Path:
    path = folder / "script.py"
    path.write_text(f"import prepcli\n{lines}\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("guard", ["", "if __name__ == '__main__': "])
def test_a_script_with_and_without_a_guard(guard: str, tmp_path: Path) -> None:
    call = CALL.format(manifest=str(MANIFEST), out=str(tmp_path / "t"), more="")
    done = run_process([sys.executable, script(tmp_path, f"{guard}print({call}.records_out)")])
    assert (done.code, done.out, done.err) == (0, "48\n", "")


@pytest.mark.slow
def test_a_cell_of_a_notebook(tmp_path: Path) -> None:
    """There `__main__` has no file, and an event loop runs."""
    call = CALL.format(manifest=str(MANIFEST), out=str(tmp_path / "t"), more="")
    code = f"import asyncio, prepcli\nasync def cell(): return {call}\nprint(repr(asyncio.run(cell())))"
    done = run_process([sys.executable, "-c", code])
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Report('manifest-to-tarred', 'done', ")


@pytest.mark.slow
def test_a_run_from_python_that_was_killed_is_continued_by_the_command_of_status(tmp_path: Path) -> None:
    """One that stops by itself is enough: the continuation is what matters, and it does not depend on timing."""
    out = tmp_path / "it's out"
    call = CALL.format(manifest="manifest.json", out=str(out), more="shuffle=True, shard_manifests=False")
    code = (
        "import os, signal, prepcli\n"
        "from prepcli.engine.publishing.publish import UnitWriter\n"
        "publish = UnitWriter.publish\n"
        "def kill(self):\n"
        "    marker = publish(self)\n"
        "    os.kill(os.getppid(), signal.SIGKILL)\n"
        "    return marker\n"
        "UnitWriter.publish = kill\n"
        f"{call}\n"
    )
    killed = run_process([sys.executable, "-c", code], cwd=MINI_CORPUS)
    assert killed.code == -signal.SIGKILL
    [status] = library.status(out)
    assert 0 < status.units_done < 6
    assert status.continue_with is not None
    change_directory, _, command = status.continue_with.partition(" && ")
    words = shlex.split(command)
    assert words[:2] == ["prepcli", "manifest-to-tarred"]
    assert "--no-shard-manifests" in words
    done = prepcli(*words[1:], cwd=Path(shlex.split(change_directory)[1]))
    assert done.code == 0, done.err
    whole = library.manifest_to_tarred(MANIFEST, tmp_path / "w", num_shards=6, shuffle=True, shard_manifests=False)
    assert whole.status == "done"
    assert tree(out) == tree(tmp_path / "w")


def test_a_signal_is_an_error_that_says_how_to_continue(tmp_path: Path) -> None:
    call = CALL.format(manifest=str(MANIFEST), out=str(tmp_path / "t"), more="")
    code = (
        "import os, signal, prepcli\n"
        "from prepcli.engine import runs\n"
        "def stop(*_): os.kill(os.getpid(), signal.SIGINT)\n"
        "runs.do_share = stop\n"
        f"try: {call}\n"
        "except prepcli.IncompleteError as error: print(error, error.continue_with, sep='\\n')\n"
    )
    done = run_process([sys.executable, "-c", code])
    message, command = done.out.splitlines()
    assert command == f"prepcli manifest-to-tarred {MANIFEST} {tmp_path}/t --num-shards 6 --num-workers 2"
    assert message.endswith(f". Continue with: {command}")
    assert prepcli(*shlex.split(command)[1:]).code == 0


def test_ranks_in_threads(tmp_path: Path) -> None:
    """Each call has its own words to continue with."""
    calls = [{"rank": rank, "world_size": 2, "launch_id": "x"} for rank in range(2)]
    reports: list[Any] = []

    def run(options: dict[str, Any]) -> None:
        reports.append(library.manifest_to_tarred(MANIFEST, tmp_path / "t", num_shards=6, num_workers=1, **options))

    threads = [threading.Thread(target=run, args=[options]) for options in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reports) == 2
    assert {report.status for report in reports} <= {"done", "incomplete", "nothing_to_do"}
    assert library.status(tmp_path / "t")[0].state == "finished"


@pytest.mark.torch
@pytest.mark.slow
def test_gpu_rank_processes_are_started_from_the_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As on a machine with two GPUs, but on the processor; nothing is printed, and errors are exceptions."""
    need_package("resemblyzer")
    monkeypatch.setattr(ranks, "find_devices", lambda _, rank: Devices("cpu", 2 if rank.launcher == "none" else 1))
    monkeypatch.setattr(launch, "subprocess", FORKING)
    for name in set(clean_environment()) ^ set(__import__("os").environ):
        monkeypatch.delenv(name, raising=False)
    records = [one | {"audio_filepath": str(MINI_CORPUS / one["audio_filepath"])} for one in read_lines(MANIFEST)[:12]]
    manifest = write_lines(tmp_path / "m.json", records)
    options: dict[str, Any] = {"speaker_model": "resemblyzer", "devices": "cpu", "num_workers": 2}
    report = library.extend_context_audio(manifest, tmp_path / "c", **options)
    assert (report.status, report.records_out) == ("done", 12)
    assert len(list((tmp_path / "c.prepcli").glob("*/progress/*"))) == 2
    assert library.extend_context_audio(manifest, tmp_path / "c", **options).status == "nothing_to_do"
    with pytest.raises(library.UsageError, match=r"context_min_ssim was 0.6, now 0.7"):
        library.extend_context_audio(manifest, tmp_path / "c", context_min_ssim=0.7, **options)
    assert capfd.readouterr() == ("", "")


def test_progress_is_shown_where_it_is_asked_for(tmp_path: Path) -> None:
    lines = (
        "from prepcli.engine.ranks import progress\n"
        "progress.LINE_INTERVAL = 0\n"
        f"{CALL.format(manifest=str(MANIFEST), out=str(tmp_path / 't'), more='progress=True')}"
    )
    done = run_process([sys.executable, script(tmp_path, lines)])
    assert (done.code, done.out) == (0, "")
    assert "[0/1] manifest-to-tarred: " in done.err
