"""Downloads files over HTTP: continues where a download stopped, and tries again after errors."""

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from prepcli.errors import IncompleteError, PrepcliError, UsageError, naming
from prepcli.storage.addresses import is_web_address
from prepcli.storage.failures import message_of

if TYPE_CHECKING:
    from requests import Response

MAX_FAILURES = 6
"""Number of consecutive failures of a mirror, with no new byte between them, after which the next mirror is used."""
BACKOFF, MAX_WAIT = 0.5, 60.0
"""The wait before the second attempt, and its maximum, in seconds. The wait doubles with each further attempt."""
MAX_RETRY_AFTER = 600.0
"""Maximum number of seconds that a download waits if a server asks it to wait."""
_TIMEOUTS = (30, 60)
"""Seconds to wait for a connection, and for the next bytes."""
_BLOCK = 1 << 20
_MAX_LENGTH_DIGITS = 20

Progress = Callable[[int, int | None], None]
"""Called as bytes arrive, with the bytes fetched so far and the size of the file (None: unknown)."""


class FetchError(PrepcliError):
    """A file cannot be had: no server has it, or what the servers send is not the right file.

    Another attempt will not help.
    """


def part_of(path: Path) -> Path:
    """The path at which a download collects the bytes of the file `path` until it is complete."""
    return path.with_name(f"{path.name}.part")


def sidecar_of(part: Path) -> Path:
    """The path of the file next to a part. It holds the address and the version of the file that is downloaded."""
    return part.with_name(f"{part.name}.json")


class PartialFile:
    """The bytes that have been fetched of a file, their hash, and the address and version of the file on the server."""

    def __init__(self, path: Path, algorithm: str) -> None:
        self._path, self._sidecar = path, sidecar_of(path)
        self._algorithm = algorithm
        self._file = path.open("r+b" if path.exists() else "w+b")
        self._hash = hashlib.new(algorithm)
        self.num_bytes = 0
        try:
            stored: Any = msgspec.json.decode(self._sidecar.read_bytes())
            self._url, self._validator = stored["url"], stored["validator"]
        except (OSError, msgspec.DecodeError, KeyError, TypeError):
            self._url = self._validator = None
        with naming(path):
            while block := self._file.read(_BLOCK):
                self._hash.update(block)
                self.num_bytes += len(block)

    def write(self, data: bytes) -> None:
        """Append bytes."""
        with naming(self._path):
            self._file.write(data)
        self._hash.update(data)
        self.num_bytes += len(data)

    def restart(self) -> None:
        """Discard all bytes."""
        with naming(self._path):
            self._file.seek(0)
            self._file.truncate()
        self._hash = hashlib.new(self._algorithm)
        self.num_bytes = 0

    def validator(self, url: str) -> str | None:
        """The value of the header `If-Range` for a request to `url`.

        None if the bytes of the part come from another address, or if their version is not known.
        """
        return self._validator if self._url == url else None

    def remember(self, url: str, headers: Mapping[str, str]) -> None:
        """Store the address of the file, and its strong ETag or, without one, the date of its last change."""
        etag = headers.get("ETag")
        self._url = url
        self._validator = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")
        with naming(self._sidecar):
            self._sidecar.write_bytes(msgspec.json.encode({"url": url, "validator": self._validator}))

    def forget(self) -> None:
        """Remove the stored address and version."""
        self._sidecar.unlink(missing_ok=True)

    def finish(self) -> str:
        """Flush the file to disk, and return its checksum as `<algorithm>:<hex>`."""
        with naming(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
        return f"{self._algorithm}:{self._hash.hexdigest()}"

    def __enter__(self) -> "PartialFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class BusyError(IncompleteError):
    """The servers can be reached, but answer each time that they cannot send the file now."""


class _BrokenOffError(Exception):
    """A request failed: the server could not be reached, cannot send the file now, or broke off.

    A later attempt may succeed.
    """

    def __init__(self, what: str, retry_after: str = "", *, is_answer: bool = False) -> None:
        super().__init__(what)
        self.is_answer = is_answer
        self.retry_after = min(float(retry_after), MAX_RETRY_AFTER) if retry_after.isdecimal() else None


def download(
    name: str,
    urls: Sequence[str],
    checksummed: bool,
    part: PartialFile,
    progress: Progress,
    max_failures: int | None = None,
    otherwise: str = "",
) -> str:
    """Download the missing bytes of a file from the first mirror that can send them all.

    Args:
        name: name of the file, for messages.
        urls: addresses of the file at its mirrors, in the order to try.
        checksummed: whether the caller will compare the whole file with a checksum.
        part: the bytes fetched so far; the missing bytes are appended.
        progress: called as bytes arrive.
        max_failures: number of consecutive failures of a mirror, with no new byte between them, after which the next
            mirror is used; None: `MAX_FAILURES`.
        otherwise: advice in the message if no server has the file.

    Returns:
        The address of the mirror that sent the last bytes.

    Raises:
        FetchError: no server has the file.
        BusyError: the servers refuse to send the file now.
        IncompleteError: the servers cannot be reached, or the connections break; the bytes fetched so far are kept.
        UsageError: an address is not valid.
    """
    failures: list[str] = []
    is_final = has_answers = True
    for url in urls:
        try:
            _download_from(url, checksummed, part, progress, max_failures or MAX_FAILURES)
            return url
        except (FetchError, _BrokenOffError) as error:
            is_final = is_final and isinstance(error, FetchError)
            has_answers = has_answers and (isinstance(error, FetchError) or error.is_answer)
            failures.append(f"{url}: {error}")
    if is_final:
        raise FetchError(f"{name} is not where it should be: {'; '.join(failures)}{otherwise and f'; {otherwise}'}")
    raise (BusyError if has_answers else IncompleteError)(
        f"{name} could not be fetched ({'; '.join(failures)}); {part.num_bytes:,} bytes were fetched and are kept"
    )


def _download_from(url: str, checksummed: bool, part: PartialFile, progress: Progress, max_failures: int) -> None:
    """Download the missing bytes of `part` from the mirror `url`; try again after failures.

    Raises:
        _BrokenOffError: there were `max_failures` consecutive failures, with no new byte between them.
        FetchError: the mirror does not have the file.
        UsageError: `url` is not valid.
    """
    failures, max_bytes = 0, part.num_bytes
    while True:
        try:
            return _request(url, checksummed, part, progress)
        except _BrokenOffError as error:
            failures = 1 if part.num_bytes > max_bytes else failures + 1
            max_bytes = max(max_bytes, part.num_bytes)
            if failures >= max_failures:
                raise
            wait = min(BACKOFF * 2 ** (failures - 1), MAX_WAIT)
            time.sleep(wait if error.retry_after is None else error.retry_after)


def _request(url: str, checksummed: bool, part: PartialFile, progress: Progress) -> None:
    """Request the missing bytes, or all bytes if the file at the server may have changed.

    If `checksummed`, the missing bytes are enough, because the checksum will show a change.
    """
    import requests
    from requests.exceptions import InvalidProxyURL
    from urllib3.exceptions import HTTPError

    headers = {"Accept-Encoding": "identity", "User-Agent": "prepcli"}
    validator = part.validator(url)
    if part.num_bytes and not validator and not checksummed:
        part.restart()
    if part.num_bytes:
        headers["Range"] = f"bytes={part.num_bytes}-"
        if validator:
            headers["If-Range"] = validator
    try:
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUTS) as response:
            _receive(response, url, part, progress)
    except ValueError as error:  # requests has no common class of errors for addresses
        if isinstance(error, InvalidProxyURL) or not is_web_address(url):
            raise UsageError(f"{url} is not an address to fetch from: {error}") from error
        raise FetchError(f"it leads to an address that cannot be used: {error}") from error
    except (requests.RequestException, HTTPError) as error:
        raise _BrokenOffError(message_of(error)) from error


def _receive(response: "Response", url: str, part: PartialFile, progress: Progress) -> None:
    length = response.headers.get("Content-Length", "")
    total = int(length) if length.isdecimal() and len(length) <= _MAX_LENGTH_DIGITS else None
    content_range = response.headers.get("Content-Range", "")
    status = f"{response.status_code} {response.reason or ''}".strip()
    if response.status_code == 416:
        if content_range == f"bytes */{part.num_bytes}":
            return
        part.restart()
        raise _BrokenOffError("the file is shorter than what was fetched of it")
    if response.status_code == 206:
        if not content_range.startswith(f"bytes {part.num_bytes}-"):
            part.restart()
            raise _BrokenOffError(f"asked for the rest, the server sent {content_range or 'something else'}")
        total = None if total is None else total + part.num_bytes
    elif response.status_code == 200:
        part.restart()
    elif response.status_code in (408, 429) or response.status_code >= 500:
        raise _BrokenOffError(status, response.headers.get("Retry-After", ""), is_answer=True)
    else:
        raise FetchError(status)
    part.remember(url, response.headers)
    response.raw.enforce_content_length = False  # it is compared here: the message names the received bytes
    # Not `iter_content`: it would decompress the archive if a server declares compression as its encoding.
    for block in response.raw.stream(_BLOCK, decode_content=False):
        part.write(block)
        progress(part.num_bytes, total)
    if total is not None and part.num_bytes != total:
        if part.num_bytes > total:
            part.restart()
        raise _BrokenOffError(f"the connection ended after {part.num_bytes:,} of {total:,} bytes")
