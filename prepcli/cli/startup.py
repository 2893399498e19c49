"""What the program does before anything else is imported: signals and standard streams."""

import os
import signal
import sys

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
INTERRUPTED = 4
"""Exit code of an interrupted command; `prepcli.errors` is not imported yet."""


def exit_on_signals() -> None:
    """From now on a stop signal ends the process with one line and exit code 4.

    At once: an exception raised within an import can be lost there, and nothing has been written yet. The commands
    replace these handlers while they work, see `prepcli.engine.signals`.
    """

    def stop(number: int, _frame: object) -> None:
        os.write(2, f"prepcli: stopped by {signal.Signals(number).name}; run the same command again\n".encode())
        os._exit(INTERRUPTED)

    for number in SIGNALS:
        signal.signal(number, stop)


def open_closed_streams() -> None:
    """Give a process that was started with closed standard streams (`2>&-`) ones that lead nowhere.

    Python has None for them, which has no `isatty` and makes `print(file=sys.stderr)` go to stdout. The next file that
    is opened would get the number 2, and whatever a C library prints there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free, which is this one: those below are open.
            os.open(os.devnull, os.O_RDWR)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - no pathlib yet
