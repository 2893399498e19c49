"""`python -m tests.support.sharing_ranks`: prepcli, whose ranks share any manifest's index, and which may kill itself.

The tasks of the first stage are small. `KILL_AT` names the moment at which the process kills itself: when it is about
to publish what it has read (and holds the lock of the index), when the index is complete, when the plan is, or when it
is about to publish its first unit. Models are toys.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from prepcli.engine.publishing.publish import UnitWriter
from prepcli.manifest import index as index_module
from prepcli.manifest import scan, shared_index
from prepcli.planning import arrays

KILL_AT = "KILL_AT"
MOMENTS = ("reading", "read", "planned", "at work")
_MAIN = os.getpid()


def share(replace: Callable[[Any, str, Any], None], range_bytes: int = 3000) -> None:
    """Make any manifest long enough for several tasks, by `setattr` or a monkeypatch's."""
    replace(shared_index, "MIN_SHARED_BYTES", 0)
    for module in (scan, shared_index, index_module):
        replace(module, "RANGE_BYTES", range_bytes)


def _die() -> None:
    os.kill(_MAIN, signal.SIGKILL)
    signal.pause()  # a worker ends with its rank


def _kill_at(moment: str) -> None:
    places: dict[str, tuple[bool, str, list[Any]]] = {
        "reading": (True, "write_parts", [shared_index]),
        "read": (False, "save_index", [shared_index]),
        "planned": (False, "_make", [arrays]),
        "at work": (True, "publish", [UnitWriter]),
    }
    before, name, owners = places[moment]
    for owner in owners:
        setattr(owner, name, _deadly(getattr(owner, name), before))


def _deadly(real: Callable[..., object], before: bool) -> Callable[..., None]:
    def deadly(*arguments: object, **named: object) -> None:
        if not before:
            real(*arguments, **named)
        _die()

    return deadly


def main() -> None:
    from prepcli.cli.app import main

    share(setattr)
    if KILL_AT in os.environ:
        _kill_at(os.environ[KILL_AT])
    if "extend-codec-codes" in sys.argv:
        from tests.support.toy_codec import use_toy_codec

        use_toy_codec(setattr)
    if "extend-context-audio" in sys.argv:
        from tests.support.toy_voice import use_toy_voice

        use_toy_voice(setattr)
    main()


if __name__ == "__main__":
    main()
