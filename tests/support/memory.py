"""The memory of a process of its own."""

import subprocess
import sys

_PEAK = """
from pathlib import Path
lines = Path("/proc/self/status").read_text().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))
"""


def peak_megabytes(code: str, *arguments: object) -> float:
    """The most memory that Python takes which runs `code`, in MB.

    The system's `ru_maxrss` would have that of the parent, too.
    """
    command = [sys.executable, "-c", code + _PEAK, *map(str, arguments)]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout) / 1024
