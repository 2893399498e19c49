"""External programs for audio that libsndfile cannot decode: ffmpeg and sph2pipe.

A program gets the open file as its standard input, named /dev/stdin or pipe:0. So it cannot mistake a file name
for an option, a pattern or a playlist, nor judge the file by its extension.
"""

import os
import re
import subprocess
from typing import IO

from prepcli.audio.source import Source

STDIN = "/dev/stdin"
"""The path by which a program opens its standard input, which is the audio file."""
_PLACE_IN_MEMORY = re.compile(r"\[([^]@]+) @ 0x[0-9a-f]+\] ")


def run_tool(command: list[str], source: Source, output: IO[bytes] | int = subprocess.PIPE) -> tuple[int, bytes, str]:
    """Run a program on the audio; `output` is a file for its standard output.

    Returns:
        The exit status, the standard output (empty if it goes to a file), and a message: the first line of the standard
        error, or the exit status if there is none.
    """
    stdin: IO[bytes] | int = source.for_process()
    try:
        # The C locale: messages are the same on all machines.
        environment = {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(command, stdin=stdin, stdout=output, stderr=subprocess.PIPE, check=False, env=environment)
    finally:
        if not isinstance(stdin, int):
            stdin.close()
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    # The names of ffmpeg's parts contain memory addresses, which differ each time.
    message = _PLACE_IN_MEMORY.sub("", lines[0]) if lines else f"status {done.returncode}"
    return done.returncode, done.stdout or b"", message
