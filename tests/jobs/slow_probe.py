"""prepcli with a disk that takes its time and with small units, so that a run can be stopped in the middle."""

import time
from typing import Any

from prepcli.audio import probe as probing
from prepcli.cli.app import main
from prepcli.manifest import line_slices

SECONDS_PER_FILE = 0.004
_probe: Any = probing.__dict__["_probe"]


def probe_slowly(*arguments: Any) -> Any:
    """The properties of a file, after a while."""
    time.sleep(SECONDS_PER_FILE)
    return _probe(*arguments)


if __name__ == "__main__":
    probing.__dict__["_probe"] = probe_slowly
    line_slices.MIN_UNIT_BYTES = 1500
    main()
