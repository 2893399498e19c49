"""`python -IS warm_client.py ADDRESS MODULE ARGUMENT…`: `python -m MODULE ARGUMENT…` as a fork of a server.

A MODULE that ends with `.py` is a script.

`tests.support.warm.warm_python` makes a program of it that scripts can take for Python. It imports little, because it
starts often.
"""

import json
import os
import signal
import socket
import sys
import tempfile

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


def main() -> int:
    """The exit code of the module, which has our arguments, environment, folder and standard streams."""
    address, module, *arguments = sys.argv[1:]
    told, tells = os.pipe()
    request = {"module": module, "arguments": arguments, "environ": dict(os.environ), "folder": os.getcwd()}
    with socket.socket(socket.AF_UNIX) as channel, tempfile.TemporaryFile("w+", encoding="ascii") as text:
        channel.connect(f"\0{address}")
        # The fork may print something, and be sent a signal for it, before its process id is known here.
        signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
        json.dump(request, text)
        text.seek(0)
        socket.send_fds(channel, [b"!"], [text.fileno(), 0, 1, 2, tells])
        os.close(tells)
        with os.fdopen(told) as lines:
            pid = int(lines.readline())
            for number in FORWARDED:
                signal.signal(number, lambda number, _: os.kill(pid, number))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
            return int(lines.readline())


if __name__ == "__main__":
    code = main()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
