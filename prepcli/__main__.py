"""The program: `prepcli`, or `python -m prepcli`."""

import gc
import os
import sys


def leave_out_current_folder() -> None:
    """Remove the current folder from `sys.path`: `python -m` puts it first, and a `typer.py` there would hide typer."""
    root = os.path.dirname(os.path.dirname(__file__))
    if not getattr(sys.flags, "safe_path", False) and sys.path[0] != root:
        del sys.path[0]


def main() -> None:
    """Handle signals first, then import and run the commands."""
    # Imports leave no garbage, so this saves 5 % of the start. The command enables collection (`prepcli.cli.building`).
    gc.disable()
    from prepcli.cli.startup import exit_on_signals, open_closed_streams

    open_closed_streams()
    exit_on_signals()
    from prepcli.cli.app import main as run

    run()


# Since Python 3.11, frames lie in chunks of 16 kB. If a chunk ends just above a loop, each call in the loop maps memory
# and unmaps it again; such loops took 15 % of a small export. A frame of 144 kB gets a chunk of 256 kB (`push_chunk` in
# CPython's Python/pystate.c), and the rest of this chunk holds the frames of a thousand nested calls. Unused
# pages cost nothing.
main.__code__ = main.__code__.replace(co_stacksize=18_000)

if __name__ == "__main__":
    leave_out_current_folder()
    main()
