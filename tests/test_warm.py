"""A fork of the server must be what a new process is: else tests of signals and kills would show nothing."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.killing import gone, wait_until_gone
from tests.support import warm
from tests.support.running import HANG_SECONDS, Process, clean_environment, start_prepcli

SHOWS_ITSELF = """
import json, os, signal, sys, threading
print(json.dumps({
    "arguments": sys.argv[1:], "folder": os.getcwd(), "path": sys.path[0], "name": __name__, "main": sys.argv[0],
    "environ": dict(os.environ), "streams": [[s.encoding, s.errors, s.line_buffering, s.fileno()] for s in
    (sys.stdin, sys.stdout, sys.stderr)], "open": sorted(map(int, os.listdir("/proc/self/fd")))[:3],
    "handlers": {n: str(signal.getsignal(n)).split(" at ")[0] for n in signal.valid_signals()},
    "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), "wakeup": signal.set_wakeup_fd(-1),
    "threads": threading.active_count(), "children": open("/proc/thread-self/children").read(),
    "leads": [os.getpid() == os.getsid(0), os.getpid() == os.getpgid(0)],
    "num_open": len(os.listdir("/proc/self/fd")), "umask": os.umask(0),
}))
"""


def start(folder: Path, code: str, *arguments: str, **environ: str) -> warm.WarmProcess:
    (folder / "program.py").write_text(code)
    return warm.WarmProcess("program", arguments, clean_environment(**environ), cwd=folder)


def start_anew(folder: Path, code: str, *arguments: str, **environ: str) -> "subprocess.Popen[str]":
    (folder / "program.py").write_text(code)
    return subprocess.Popen(
        [sys.executable, "-m", "program", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=clean_environment(**environ),
        start_new_session=True,
    )


def ends(process: Process) -> tuple[int | None, str, str]:
    out, err = process.communicate(timeout=HANG_SECONDS)
    return process.returncode, out, err


def test_a_fork_is_like_a_new_process(tmp_path: Path) -> None:
    arguments = ("--a", "b c", "\udcff", "")
    shown = []
    for starting in (start, start_anew):
        code, out, err = ends(starting(tmp_path, SHOWS_ITSELF, *arguments, X="y"))
        assert code == 0, err
        shown.append(json.loads(out))
    assert shown[0] == shown[1]
    assert shown[0]["arguments"] == list(arguments)


def test_faulthandler_can_be_enabled(tmp_path: Path) -> None:
    code = "import faulthandler; print(faulthandler.is_enabled())"
    assert ends(start(tmp_path, code, PYTHONFAULTHANDLER="1"))[1] == "True\n"


@pytest.mark.parametrize(
    "how", ["import sys; sys.exit(7)", "raise SystemExit('no')", "1 / 0", "raise KeyboardInterrupt"]
)
def test_it_ends_like_a_new_process(tmp_path: Path, how: str) -> None:
    """With the same exit code, what it has not flushed, its `atexit` and its threads."""
    code = (
        "import atexit, threading, time; atexit.register(print, 'at exit'); print('begin', end=' ')\n"
        f"threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()\n{how}"
    )
    new, fork = ends(start_anew(tmp_path, code)), ends(start(tmp_path, code))
    assert fork[:2] == new[:2]
    assert fork[2].splitlines()[-1:] == new[2].splitlines()[-1:]


def test_it_is_killed_and_collected(tmp_path: Path) -> None:
    code = "import os, time; print('here', flush=True); os.fork() or time.sleep(900); time.sleep(900)"
    process = start(tmp_path, code)
    assert process.stdout.readline() == "here\n"
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=0.01)
    assert not gone(process.pid)
    os.killpg(process.pid, signal.SIGKILL)  # it leads its session
    assert ends(process) == (-signal.SIGKILL, "", "")
    assert process.wait() == process.poll() == -signal.SIGKILL
    wait_until_gone([process.pid])
    process.kill()  # harmless


def test_signals_reach_it(tmp_path: Path) -> None:
    # What a shell starts with `&` ignores SIGINT, and so do its children, forks or not.
    heeds = "import signal, time; signal.signal(2, signal.default_int_handler)"
    for number in (signal.SIGINT, signal.SIGTERM):
        process = start(tmp_path, f"{heeds}; print('here', flush=True); time.sleep(900)")
        process.stdout.readline()
        process.send_signal(number)
        code, _, err = ends(process)
        assert (code, "KeyboardInterrupt" in err) == (-number, number == signal.SIGINT)


def test_many_at_once_and_random_numbers_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "draws.py").write_text("import random; print(random.random())")
    processes = [warm.WarmProcess("draws", [], clean_environment(), cwd=tmp_path) for _ in range(5)]
    assert len({ends(process)[1] for process in processes}) == 5


def test_a_light_fork_has_all_commands_but_not_pytorch(tmp_path: Path) -> None:
    code = (
        "import importlib.util, sys\n"
        "print('prepcli.commands.manifest_to_shar.shards' in sys.modules, 'torch' in sys.modules)\n"
        "importlib.util.find_spec('torch')"
    )
    assert ends(start(tmp_path, code))[:2] == (0, "True False\n")


def test_scripts_can_start_forks(tmp_path: Path) -> None:
    """With the streams and the folder of the script, and the exit code for it, also after a signal."""
    python = warm.warm_python(tmp_path / "python")
    (tmp_path / "program.py").write_text(
        "import os, sys, signal\n"
        "print(os.getcwd(), sys.argv[1:], sys.stdin.read(), os.environ['X'])\n"
        "signal.raise_signal(int(sys.argv[2])) if sys.argv[2:] else sys.exit(3)\n"
    )
    for arguments, code in ((["a b"], 3), (["a", "15"], -15)):
        command = [str(python), "-m", "program", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=clean_environment(X="y"), input="in", text=True, stdout=-1)
        assert (done.returncode, done.stdout) == (code, f"{tmp_path} {arguments} in y\n" if code > 0 else "")
    (tmp_path / "beside.py").touch()
    (tmp_path / "script.py").write_text("import beside, sys; print(sys.argv, __name__, 'yaml' in sys.modules)")
    done = subprocess.run([python, tmp_path / "script.py", "a"], text=True, stdout=-1)
    assert done.stdout == f"['{tmp_path}/script.py', 'a'] __main__ True\n"
    done = subprocess.run([python, "-c", "import sys; print('json' in sys.modules)"], text=True, stdout=-1)
    assert done.stdout == "False\n"


def test_a_signal_for_the_client_is_for_the_fork(tmp_path: Path) -> None:
    python = warm.warm_python(tmp_path / "python")
    (tmp_path / "program.py").write_text(
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(5)); print('here', flush=True)\n"
        "while True: time.sleep(0.01)\n"
    )
    with subprocess.Popen([python, "-m", "program"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.terminate()
        assert process.wait(HANG_SECONDS) == 5


def test_other_settings_of_python_need_a_new_process() -> None:
    assert isinstance(start_prepcli("--version"), warm.WarmProcess)
    for process in (start_prepcli("--version", environ={"PYTHONUTF8": "1"}), start_prepcli("--version", is_cold=True)):
        assert isinstance(process, subprocess.Popen)
        assert ends(process)[0] == 0


@pytest.mark.slow
def test_the_server_ends_with_its_client_and_takes_all_along(tmp_path: Path) -> None:
    (tmp_path / "sleeps.py").write_text("import time; print('here', flush=True); time.sleep(900)")
    code = (
        "import os, sys, time; from pathlib import Path\n"
        "from tests.support import warm; from tests.jobs.killing import children\n"
        "one = warm.WarmProcess('sleeps', [], os.environ, ('json',), Path(sys.argv[1])); one.stdout.readline()\n"
        "print(one.pid, *children(os.getpid()), flush=True); time.sleep(900)"
    )
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        pids = list(map(int, client.stdout.readline().split()))
        assert len(pids) == 2
        assert not any(map(gone, pids))
        client.kill()
    wait_until_gone(pids)
