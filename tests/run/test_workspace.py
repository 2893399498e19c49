"""What the engine takes for alive."""

import os
import subprocess
import sys

from prepcli.run.workspace import is_alive


def test_a_zombie_is_not_alive() -> None:
    """In a container nobody may collect the children of a killed process: their files would stay for ever."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is not collected
        assert not is_alive(process.pid)
    assert is_alive(os.getpid())
