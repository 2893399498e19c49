"""External programs for audio that libsndfile cannot decode: ffmpeg and sph2pipe.

A program gets the open file as its standard input, and the name /dev/stdin. So it cannot take the name of a file for an
option, a pattern or a playlist, and it judges the file by its content and not by its extension.
"""

import os
import subprocess
from typing import IO

from prepcli.audio.source import Source

STDIN = "/dev/stdin"
"""The name by which a program opens the file."""


def run_tool(command: list[str], source: Source) -> tuple[int, bytes, str]:
    """Run a program on the audio.

    Returns:
        Its exit status, its output, and the first line of its standard error.
    """
    stdin: IO[bytes] | int = source.for_process()
    try:
        # The C locale: messages are the same on all machines.
        done = subprocess.run(command, stdin=stdin, capture_output=True, check=False, env={**os.environ, "LC_ALL": "C"})
    finally:
        if not isinstance(stdin, int):
            stdin.close()
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return done.returncode, done.stdout, lines[0] if lines else f"status {done.returncode}"
