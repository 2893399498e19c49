"""Signals from the first import on, closed standard streams, and a current folder with files named as our libraries."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, tree
from tests.support.running import HANG_SECONDS, clean_environment, prepcli, run_process

ROOT = Path(__file__).parents[2]
MANIFEST = MINI_CORPUS / "manifest.json"
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]
WAIT = "import time; print('waiting', flush=True); [time.sleep(0.05) for _ in range(18_000)]"
"""Waits in short sleeps: a signal just before a long one would be handled at its end."""


def stopped(command: Sequence[object], number: int, **environ: str) -> tuple[int, str]:
    """Exit code and stderr of a process that gets a signal when it says that it waits."""
    with subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(**environ),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=HANG_SECONDS)
    return process.returncode, err


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_commands_are_imported(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "typer.py").write_text(WAIT)
    code, err = stopped([sys.executable, "-m", "prepcli", "--help"], number, PYTHONPATH=f"{tmp_path}:{ROOT}")
    assert (code, err) == (4, f"prepcli: stopped by {number.name}; run the same command again\n")


WORK: list[tuple[str, str, list[object]]] = [
    ("prepcli.commands.inspect.looking", "look_at", ["inspect", MANIFEST]),
    ("prepcli.commands.estimate_bins.durations", "bins_of_durations", ["estimate-bins", MANIFEST]),
    ("prepcli.commands.verify.checking", "check_set", ["verify", "."]),
    ("prepcli.engine.run.status", "workspaces_of", ["status", "out", "--watch"]),
    ("prepcli.manifest.sources", "expand_paths", ["manifest-to-shar", MANIFEST, "out"]),
]


@pytest.mark.parametrize(
    ("module", "function", "arguments", "number"),
    [
        # Each function with one signal, and each signal with two; the slow tests have all pairs.
        pytest.param(*work, number, marks=[pytest.mark.slow] * (place % len(SIGNALS) != turn), id=f"{work[1]}-{number}")
        for place, work in enumerate(WORK)
        for turn, number in enumerate(SIGNALS)
    ],
)
def test_a_signal_while_a_command_works(
    module: str, function: str, arguments: list[object], number: signal.Signals
) -> None:
    code = (
        f"def wait(*_, **__):\n    try:\n        {WAIT}\n    except Exception:\n        pass  # as libraries do\n"
        f"import {module} as module; module.{function} = wait\n"
        "from prepcli.__main__ import main; main()"
    )
    status, err = stopped([sys.executable, "-c", code, *arguments], number)
    assert (status, err) == (4, f"prepcli: stopped by {number.name}; run the same command again\n")


@pytest.mark.parametrize(
    "closed", [*(pytest.param(one, marks=pytest.mark.slow) for one in ("0<&-", "2>&-")), "1>&-", "0<&- 1>&- 2>&-"]
)
def test_closed_standard_streams(tmp_path: Path, closed: str) -> None:
    """What is opened next must not get their numbers, nor stdout what is meant for stderr."""
    whole, out = tmp_path / "whole", tmp_path / "out"
    options = ["--num-shards", 2, "--num-workers", 2, "--json"]
    made = prepcli("manifest-to-tarred", MANIFEST, whole, *options)
    command = [sys.executable, "-m", "prepcli", "manifest-to-tarred", MANIFEST, out, *options]
    line = f"{shlex.join(map(str, command))} {closed}"
    done = run_process(["sh", "-c", line])
    assert done.code == 0, done.err
    assert done.out.count("\n") == ("1>&-" not in closed)
    assert tree(out) == tree(whole)
    assert made.json["records_out"] == 48
    wrong = run_process(["sh", "-c", f"{shlex.quote(sys.executable)} -m prepcli verify /nowhere {closed}"])
    assert wrong.code == 2
    assert wrong.out == ""


def test_nothing_is_imported_from_the_current_folder(tmp_path: Path) -> None:
    for name in ("typer.py", "msgspec.py", "prepcli.py", "signal.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong one')")
    code = "import sys; from prepcli.engine.ranks.launch import spawn_ranks; sys.exit(spawn_ranks(['--version'], 2))"
    # With -c the current folder is the path's first entry as well: the parent must not find the files either.
    parent = f"import sys; sys.path.remove(''); {code}"
    ranks = run_process([sys.executable, "-c", parent], cwd=tmp_path, env=clean_environment(PYTHONPATH=str(ROOT)))
    assert (ranks.code, ranks.out) == (0, prepcli("--version").out * 2), ranks.err


def test_python_m_prepcli_imports_nothing_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit('the wrong one')")
    command = [sys.executable, "-m", "prepcli", "--version"]
    done = run_process(command, cwd=tmp_path, env=clean_environment(PYTHONPATH=str(ROOT)))
    assert (done.code, done.out) == (0, prepcli("--version").out), done.err


def test_it_still_runs_from_a_checkout(tmp_path: Path) -> None:
    """Without an installation, and without PYTHONPATH."""
    (tmp_path / "prepcli").symlink_to(ROOT / "prepcli")
    environment = clean_environment()
    environment.pop("PYTHONPATH", None)
    done = run_process([sys.executable, "-m", "prepcli", "--version"], cwd=tmp_path, env=environment)
    assert (done.code, done.out) == (0, prepcli("--version").out), done.err
    assert os.path.samefile(tmp_path / "prepcli", ROOT / "prepcli")
