"""Adds a commit to each address of a data set on the hub, so that a run that is continued reads the same commit."""

import re
from collections.abc import Callable, Mapping

from prepcli.interface.calls import note_revision
from prepcli.storage import hub
from prepcli.storage.access import call
from prepcli.storage.addresses import HUB, parse_address

_DATA_SET = re.compile(
    rf"{HUB}://datasets/[\w.-]+/[\w.-]+(?:@(?:refs/(?:convert/[\w.-]+|pr/\d+)|[^/@,\s]+))?", re.ASCII
)
Commits = Callable[[], Mapping[str, str]]
"""Returns commits that an earlier start of the same run has read, by the address of each data set as the user gave it.

The result is empty for a new run."""


def with_commits(spec: str, commits: Commits = dict[str, str]) -> str:
    """The inputs `spec` of a user, with a commit in each address of a data set on the hub.

    `commits`: a function, called only if `spec` has an address on the hub. For a continued run, it returns the commits
    that the run has read before. The hub is asked for all other commits.

    Raises:
        UsageError: there is no such data set or revision, or access is denied.
    """
    if f"{HUB}://" not in spec:
        return spec
    known = commits()

    def pinned(match: re.Match[str]) -> str:
        address = parse_address(match[0])
        commit = known.get(str(address)) or call(hub.commit_of, address)
        note_revision(str(address), commit)
        return str(address._replace(bucket=f"{address.bucket.partition('@')[0]}@{commit}"))

    return _DATA_SET.sub(pinned, spec)
