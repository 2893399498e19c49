"""Each call on a job's files fails once, or from then on: one clear line or success, and the next run mends it.

PREPCLI_FAULTS=all python -m pytest tests/faults -n 2     # every n-th call with every error
"""

import errno
import os
import random
from collections.abc import Callable, Iterator

import pytest

from tests.faults.cases import CASES
from tests.faults.runs import Runs, calls_of, prepared
from tests.faults.shim import SHORT, Fault
from tests.support.seeds import some_of

EVERYTHING = os.environ.get("PREPCLI_FAULTS") == "all"
_OF_WRITES = (errno.ENOSPC, errno.EIO, SHORT)
_OF_NAMES = (errno.EIO, errno.ENOSPC, errno.EACCES)
ERRORS: dict[str, tuple[int, ...]] = {
    "read": (errno.EIO, SHORT),
    "pread": (errno.EIO, SHORT),
    "write": _OF_WRITES,
    "writev": _OF_WRITES,
    "pwrite": _OF_WRITES,
    "copy": _OF_WRITES,
    "fsync": (errno.EIO, errno.ENOSPC),
    "rename": _OF_NAMES,
    "link": _OF_NAMES,
    "mkdir": _OF_NAMES,
    "unlink": (errno.EACCES, errno.EIO),
    "rmdir": (errno.EACCES, errno.EIO),
    "ftruncate": (errno.ENOSPC, errno.EIO),
    "open": (errno.EMFILE, errno.ENOSPC, errno.EACCES, errno.EIO),
}
NEW_BYTES = ("write", "writev", "pwrite", "copy", "open", "mkdir", "link")
"""What a full disk refuses."""
KINDS = ("OUT", "STATE", "TMP")
STEPS = {
    **dict.fromkeys(("wenet", "parquet", "omnilingual", "reshuffled", "convert", "fix-durations", "texts"), 6),
    **dict.fromkeys(("prepare-texts", "score"), 6),
    **dict.fromkeys(("codes", "context", "segment", "conversations", "pairs"), 10),
    "mels": 16,
}
"""Every n-th pair of a call and a kind of files is tried: of most commands every second, of those that write as others
do, or import PyTorch, fewer."""
ON_DEMAND = () if EVERYTHING else ("codes-of-files", "omnivoice", "qwen3-tts")
"""Forms of codes that are written as those of a Shar are; `test_power_loss` has them."""


def faults_of(runs: Runs, draw: random.Random) -> Iterator[Fault]:
    """A fault of some pairs of a call and a kind of files, or with `EVERYTHING` all; and a disk that fills up.

    `draw` chooses the first pair, so that several runs of the suite try all.
    """
    calls = calls_of(runs.events)
    step = 1 if EVERYTHING else STEPS.get(runs.name, 2)
    for (call, kind), count in sorted(calls.items())[draw.randrange(step) :: step]:
        every = [
            Fault((call,), (kind,), nth, error, stays)
            for nth in range(1, count + 1)
            for error in ERRORS[call]
            for stays in (False, True)
        ]
        yield from every if EVERYTHING else [random.Random(f"{runs.name} {call} {kind}").choice(every)]
    total = sum(count for (call, kind), count in calls.items() if call in NEW_BYTES and kind in KINDS)
    for nth in range(1, total + 1, 1 if EVERYTHING else max(1, total // 3)):
        yield Fault(NEW_BYTES, KINDS, nth, errno.ENOSPC, True)


FAST = {
    "tarred": (
        Fault(("writev",), ("TMP",), 2, errno.ENOSPC, True),
        Fault(("rename",), ("TMP",), 4, errno.EIO),
        Fault(("pread",), ("INPUT",), 3, SHORT),
    ),
    "codes": (
        Fault(("read",), ("INPUT",), 3, errno.EIO, True),
        Fault(("read",), ("INPUT",), 10, errno.EIO, True),
        Fault(("read",), ("INPUT",), 16, errno.EIO, True),
        Fault(("read",), ("INPUT",), 60, errno.EIO, True),
    ),
    "download": (Fault(("read",), ("OUT",), 82, errno.EIO), Fault(("read",), ("OUT",), 82, errno.EIO, True)),
    "chapters": (Fault(("read",), ("INPUT",), 3, errno.EIO),),
    "split": (Fault(("write",), ("STATE",), 3, errno.EIO, True),),
    "duplicates": (Fault(("pread",), ("INPUT",), 26, errno.EIO),),
    "marks": (Fault(("unlink",), ("OUT",), 3, errno.EACCES),),
    "make-manifest": (Fault(("write",), ("STATE",), 1, errno.EIO, True),),
    "write-config": (Fault(("fsync",), ("OUT",), 1, errno.EIO),),
    "fix-durations": (Fault(("open",), ("STATE",), 3, errno.EMFILE),),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[] if one in ("tarred", "split", "write-config") else [pytest.mark.slow]) for one in FAST],
)
def test_some_calls(name: str, record_property: Callable[[str, object], None]) -> None:
    with prepared(name) as runs:
        assert [one for fault in FAST[name] for one in runs.faults(fault)] == []
    record_property("faults", len(FAST[name]))


@pytest.mark.slow
@pytest.mark.parametrize("name", some_of(name for name in CASES if name not in ON_DEMAND))
def test_every_call(name: str, draw: random.Random, record_property: Callable[[str, object], None]) -> None:
    found, count = [], 0
    with prepared(name) as runs:
        for fault in faults_of(runs, draw):
            found += runs.faults(fault)
            count += 1
    record_property("faults", count)
    assert found == []
