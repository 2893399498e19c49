"""The program: `prepcli`, or `python -m prepcli`."""

import gc
import os
import sys


def leave_out_current_folder() -> None:
    """Under `python -m`, a file `typer.py` in the current folder would be imported instead of typer."""
    root = os.path.dirname(os.path.dirname(__file__))
    if not getattr(sys.flags, "safe_path", False) and sys.path[0] != root:
        del sys.path[0]


def main() -> None:
    """Handle signals first, then import and run the commands."""
    # Imports leave no garbage; the command enables it again (`prepcli.cli.building`). Saves 5 % of the start.
    gc.disable()
    from prepcli.cli.startup import exit_on_signals, open_closed_streams

    open_closed_streams()
    exit_on_signals()
    from prepcli.cli.app import main as run

    run()


if __name__ == "__main__":
    leave_out_current_folder()
    main()
