"""Allows one state folder per output in a store: of two commands with different folders, one is refused.

A store has no lock that works with racing writers. So each state folder writes its own object,
`OUT.prepcli/claims/<id>.candidate`, and lists the others; the folder with the smallest id then writes `<id>.held`.
Other candidates see this object in their next listing and withdraw; when none is left, the folder holds the output. The
listings of the store must show all earlier writes.
"""

import contextlib
import socket
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

import msgspec

from prepcli.engine.state.store_output import check_writing
from prepcli.errors import PrepcliError, UsageError, option, same_command
from prepcli.processes.owner import REPEAT_SECONDS
from prepcli.storage import client
from prepcli.storage.access import call
from prepcli.storage.addresses import ObjectInfo
from prepcli.storage.paths import StorePath

_CANDIDATE, _HELD = ".candidate", ".held"
_WAIT = 0.2


class Claim(msgspec.Struct, frozen=True):
    """A claim on an output in a store: an id, the path of the state folder, and the name of its machine."""

    id: str
    folder: str
    host: str

    @classmethod
    def of(cls, root: Path) -> "Claim":
        """A new claim for the state folder `root`."""
        return cls(uuid.uuid4().hex, str(root.absolute()), socket.gethostname())


class StoreClaim:
    """Takes, checks and gives up the claim of one state folder on an output in a store."""

    def __init__(self, out: StorePath, own: Claim, part: Path = Path()) -> None:
        """`own`: the claim of this state folder. `part`: the path of the folder relative to `OUT.prepcli`."""
        self._out = out
        self._folder = f"{out}.prepcli/{part / 'claims'}"
        self._own = own

    def take(self, is_new: bool = False) -> None:
        """Take the claim, unless this state folder holds the output already; check that objects can be written there.

        `is_new`: whether the claim was made just now, so that it cannot be held yet.

        Raises:
            UsageError: another state folder holds the output, or writing is denied.
        """
        if not is_new and self._own.id + _HELD in self._listed():
            check_writing(self._out)  # writing a new claim would have shown this
            return
        self._put(_CANDIDATE)
        found = self._listed()  # one listing for both kinds: another folder is a candidate until it holds the output
        self._give_way_to(self._first(found, _HELD) or self._first(found, _CANDIDATE, smaller=True))
        self._put(_HELD)
        self._wait_for_others()
        call(client.delete_objects, (self._name(_CANDIDATE),))

    def refuse_holder(self) -> None:
        """Raise `UsageError` if another state folder holds the output; the message names the folder."""
        self._refuse_to(self._first(self._listed(), _HELD))

    def check(self) -> None:
        """Check that this state folder still holds the output.

        Raises:
            PrepcliError: the claim was removed.
        """
        try:
            call(client.object_info, self._name(_HELD))
        except FileNotFoundError:
            raise PrepcliError(
                f"{self._name(_HELD)} was removed during this run, which has stopped, because another one may have "
                "begun there; let one of them run alone"
            ) from None

    def _wait_for_others(self) -> None:
        """Wait until no other state folder has a claim on the output, for at most `REPEAT_SECONDS`.

        If another folder has written `<id>.held` too, this folder gives way: at once if the other id is smaller, else
        at the end of the wait. Folders that still have only a candidate then are
        ignored: their processes were probably killed.

        Raises:
            UsageError: this folder gives way.
        """
        begun = time.monotonic()
        while True:
            found = self._listed()
            is_late = time.monotonic() - begun > REPEAT_SECONDS
            self._give_way_to(self._first(found, _HELD, smaller=not is_late))
            if is_late or not (self._first(found, _HELD) or self._first(found, _CANDIDATE)):
                return
            time.sleep(_WAIT)

    def _give_way_to(self, other: str | None) -> None:
        if other is not None:
            call(client.delete_objects, (self._name(_HELD), self._name(_CANDIDATE)))
        self._refuse_to(other)

    def _refuse_to(self, other: str | None) -> None:
        if other is None:
            return
        where = "another folder"
        with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):
            claim = msgspec.json.decode(call(client.read_object, f"{self._folder}/{other}"), type=Claim)
            where = f"{claim.folder} on {claim.host}"
            if (claim.folder, claim.host) == (self._own.folder, self._own.host):
                raise UsageError(
                    f"{self._out} belongs to a run whose records are in {where}, as those of this one are, but the "
                    f"claim.json there is not that run's: if it was lost, and nobody else works there, remove the "
                    f"object {self._folder}/{other} and run {same_command()} again to continue"
                )
        raise UsageError(
            f"{self._out} belongs to a run whose records are in {where}: continue it or start again there "
            f"({option('--work-dir')}), or choose another output. If these records are lost, remove what is below "
            f"{self._out} and {self._folder}, and run {same_command()} again"
        )

    def _first(self, found: Mapping[str, ObjectInfo], kind: str, smaller: bool = False) -> str | None:
        """The name of the first claim of another state folder in `found`; None if there is none.

        `found`: the objects in the store, by name. `kind`: the suffix of the names of the claims to look for. A
        candidate, a claim that is not yet held, does not count if it is older than `REPEAT_SECONDS`. With `smaller`, a
        claim counts only if its id is smaller than our own id.
        """
        now = max((one.mtime_ns for one in found.values()), default=0)
        for name, one in found.items():
            other = name.removesuffix(kind)
            is_stale = kind == _CANDIDATE and now - one.mtime_ns > REPEAT_SECONDS * 1e9
            if other not in (name, self._own.id) and not is_stale and not (smaller and other > self._own.id):
                return name
        return None

    def _listed(self) -> dict[str, ObjectInfo]:
        return {one.address.rpartition("/")[2]: one for one in call(client.list_objects, self._folder)}

    def _put(self, kind: str) -> None:
        call(client.put_object, self._name(kind), msgspec.json.encode(self._own))

    def _name(self, kind: str) -> str:
        return f"{self._folder}/{self._own.id}{kind}"
