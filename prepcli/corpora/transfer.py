"""Bytes over HTTP into a file: continued where they stopped, and asked for again when a server breaks off."""

import hashlib
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from prepcli.errors import IncompleteError, PrepcliError, UsageError

if TYPE_CHECKING:
    from requests import Response

MAX_FAILURES = 6
"""Failures of one mirror, one after the other without a new byte, after which the next one is asked."""
BACKOFF, MAX_WAIT = 0.5, 60.0
"""Seconds before the second try, doubled for each one that follows, and their maximum."""
MAX_RETRY_AFTER = 600.0
"""The maximum of the seconds that a server may ask us to wait."""
_TIMEOUTS = (30, 60)
"""Seconds to wait for a connection, and for the next bytes."""
_BLOCK = 1 << 20
_MAX_LENGTH_DIGITS = 20

Progress = Callable[[int, int | None], None]
"""Called as bytes arrive: bytes there so far, bytes in all (None: the server does not say)."""


class FetchError(PrepcliError):
    """Nobody has the archive, or it is damaged wherever it comes from; trying again will not help."""


class Part:
    """The bytes fetched so far, hashed as they come, and what the server said about the file they belong to."""

    def __init__(self, path: Path, algorithm: str) -> None:
        self._sidecar = path.with_name(path.name + ".json")
        self._algorithm = algorithm
        self._file = path.open("r+b" if path.exists() else "w+b")
        self._hash = hashlib.new(algorithm)
        self.num_bytes = 0
        try:
            stored: Any = msgspec.json.decode(self._sidecar.read_bytes())
            self._url, self._validator = stored["url"], stored["validator"]
        except (OSError, msgspec.DecodeError, KeyError, TypeError):
            self._url = self._validator = None
        while block := self._file.read(_BLOCK):
            self._hash.update(block)
            self.num_bytes += len(block)

    def write(self, data: bytes) -> None:
        """Append what has arrived."""
        self._file.write(data)
        self._hash.update(data)
        self.num_bytes += len(data)

    def restart(self) -> None:
        """Throw away what is there."""
        self._file.seek(0)
        self._file.truncate()
        self._hash = hashlib.new(self._algorithm)
        self.num_bytes = 0

    def validator(self, url: str) -> str | None:
        """What `If-Range` may ask `url` for; None where the bytes came from elsewhere, or nothing is known of them."""
        return self._validator if self._url == url else None

    def remember(self, url: str, headers: Mapping[str, str]) -> None:
        """Keep where the bytes come from, with a strong ETag or else the date of the last change."""
        etag = headers.get("ETag")
        self._url = url
        self._validator = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")
        self._sidecar.write_bytes(msgspec.json.encode({"url": url, "validator": self._validator}))

    def forget(self) -> None:
        """The part is none any more."""
        self._sidecar.unlink(missing_ok=True)

    def finish(self) -> str:
        """Force the file to the disk; its checksum."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return f"{self._algorithm}:{self._hash.hexdigest()}"

    def __enter__(self) -> "Part":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class _BrokenOffError(Exception):
    """The server could not be reached or broke off; it may do better later."""

    def __init__(self, what: str, retry_after: str = "") -> None:
        super().__init__(what)
        self.retry_after = min(float(retry_after), MAX_RETRY_AFTER) if retry_after.isdecimal() else None


def download(name: str, urls: Sequence[str], checksummed: bool, part: Part, progress: Progress) -> str:
    """Bring the part to its full length, from the first of the mirrors that can; returns its address.

    Raises:
        FetchError: no server has it.
        IncompleteError: the servers cannot be reached, or keep breaking off; what is there is kept.
        UsageError: an address is none.
    """
    troubles: list[str] = []
    hopeless = True
    for url in urls:
        try:
            _download_from(url, checksummed, part, progress)
            return url
        except (FetchError, _BrokenOffError) as error:
            hopeless = hopeless and isinstance(error, FetchError)
            troubles.append(f"{url}: {error}")
    if hopeless:
        raise FetchError(f"{name} is not where it should be: {'; '.join(troubles)}; give --base-url or --archive")
    raise IncompleteError(
        f"{name} could not be fetched ({'; '.join(troubles)}); {part.num_bytes:,} bytes are there and are kept"
    )


def _download_from(url: str, checksummed: bool, part: Part, progress: Progress) -> None:
    """Bring the part to its full length in as many requests as it takes, while new bytes arrive."""
    failures, most = 0, part.num_bytes
    while True:
        try:
            return _request(url, checksummed, part, progress)
        except _BrokenOffError as error:
            failures = 1 if part.num_bytes > most else failures + 1
            most = max(most, part.num_bytes)
            if failures >= MAX_FAILURES:
                raise
            wait = min(BACKOFF * 2 ** (failures - 1), MAX_WAIT)
            time.sleep(wait if error.retry_after is None else error.retry_after)


def _request(url: str, checksummed: bool, part: Part, progress: Progress) -> None:
    """Ask once for what is missing, or for everything where nothing would tell whether the rest belongs to the part."""
    import requests
    from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema
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
    except (InvalidSchema, InvalidURL, MissingSchema) as error:
        raise UsageError(f"{url} is not an address to fetch from: {error}") from error
    except (requests.RequestException, HTTPError) as error:
        raise _BrokenOffError(_words(error)) from error


def _receive(response: "Response", url: str, part: Part, progress: Progress) -> None:
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
        raise _BrokenOffError(status, response.headers.get("Retry-After", ""))
    else:
        raise FetchError(status)
    part.remember(url, response.headers)
    response.raw.enforce_content_length = (
        False  # the length is compared here, so that the message can say what is there
    )
    # Not `iter_content`: where a server calls the archive itself an encoding, that would decompress it.
    for block in response.raw.stream(_BLOCK, decode_content=False):
        part.write(block)
        progress(part.num_bytes, total)
    if total is not None and part.num_bytes != total:
        if part.num_bytes > total:
            part.restart()
        raise _BrokenOffError(f"the connection ended after {part.num_bytes:,} of {total:,} bytes")


def _words(error: Exception) -> str:
    """What went wrong, without Python objects of urllib3 and requests."""
    inner = error.args[0] if error.args and isinstance(error.args[0], Exception) else error
    inner = getattr(inner, "reason", None) or inner
    text = str(inner.args[0] if inner.args else inner)
    return re.sub(r"^\S*HTTPS?Connection.*?[>)]: ", "", text)
