"""Set-up before any other import: signals and standard streams."""

import os
import signal
import sys

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
INTERRUPTED = 4
"""Exit code of an interrupted command, as in `prepcli.errors`, which is not imported yet."""


def exit_on_signals() -> None:
    """Make stop signals end the process at once, with one line and exit code 4.

    No exception is raised, because an exception within an import can be lost. Nothing has been written yet, so there is
    nothing to clean up. Commands replace these handlers while they work; see `prepcli.processes.signals`.
    """

    def stop(number: int, _frame: object) -> None:
        os.write(2, f"prepcli: stopped by {signal.Signals(number).name}; run the same command again\n".encode())
        os._exit(INTERRUPTED)

    for number in SIGNALS:
        signal.signal(number, stop)


def open_closed_streams() -> None:
    """Open the null device for standard streams that are closed (`2>&-`).

    Python represents a closed stream by None: `isatty` fails, and `print(file=sys.stderr)` writes to stdout. The next
    file that is opened would get descriptor 2, and receive everything that C libraries print there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # This opens the lowest free descriptor, which is the descriptor of the closed stream.
            os.open(os.devnull, os.O_RDWR)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - no pathlib yet
