"""Running the tools of others on audio that our libraries don't know: ffmpeg and sph2pipe.

They get the file as their standard input, opened here, and the name /dev/stdin. So no name can be taken for an
option, a pattern or a playlist, and what counts is the content, not the extension.
"""

import os
import subprocess
from typing import IO

from prepcli.audio.source import Source

STDIN = "/dev/stdin"
"""The name under which a tool opens the file."""


def run_tool(command: list[str], source: Source) -> tuple[int, bytes, str]:
    """Run a tool on the audio; return its status, its output, and the first line of what it complained of."""
    stdin: IO[bytes] | int = source.for_process()
    try:
        # The C locale, for messages that all machines give alike.
        done = subprocess.run(command, stdin=stdin, capture_output=True, check=False, env={**os.environ, "LC_ALL": "C"})
    finally:
        if not isinstance(stdin, int):
            stdin.close()
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return done.returncode, done.stdout, lines[0] if lines else f"status {done.returncode}"
