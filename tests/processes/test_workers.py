import platform
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from prepcli.errors import IncompleteError
from prepcli.processes.workers import interrupt, interruptible, no_interruption
from tests.support.running import HANG_SECONDS


def test_another_thread_that_must_not_be_interrupted_holds_no_signal_back() -> None:
    """Signals are raised in the main thread. One that waited for another thread to finish a file was raised there."""
    inside, leave = threading.Event(), threading.Event()

    def publish() -> str:
        with no_interruption():
            inside.set()
            leave.wait(HANG_SECONDS)
        return "published"

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(publish)
        inside.wait(HANG_SECONDS)
        try:
            with pytest.raises(IncompleteError, match="stopped"), interruptible():  # later tests are not stopped
                interrupt(IncompleteError("stopped"))
        finally:
            leave.set()
        assert future.result() == "published"


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep memory in their own ways")
def test_freed_memory_is_used_again() -> None:
    # Three arrays at once, as decoding makes them; faults are counted after the first round.
    script = """
import resource, sys
from prepcli.processes.workers import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for round in range(21):
    if round == 1:
        before = faults()
    blocks = [b"x" * (1 << 20) for _ in range(3)]
    del blocks
print(faults() - before)
"""
    counts = {
        how: int(subprocess.check_output([sys.executable, "-c", script, how], text=True)) for how in ("keep", "plain")
    }
    assert counts["keep"] < 1000 < counts["plain"]
