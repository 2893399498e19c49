"""Bytes over HTTP into a file: continued where they stopped, and asked for again when a server breaks off."""

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from prepcli.errors import IncompleteError, PrepcliError, UsageError

if TYPE_CHECKING:
    import urllib3

MOST_FAILURES = 6
"""Failures of one mirror, one after the other without a new byte, after which the next one is asked."""
BACKOFF, LONGEST_WAIT = 0.5, 60.0
"""Seconds before the second try, doubled for each one that follows, and the most of them."""
LONGEST_RETRY_AFTER = 600.0
"""Seconds that a server may ask us to wait."""
_BLOCK = 1 << 20

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
            self.validator: str | None = stored["validator"]
        except (OSError, msgspec.DecodeError, KeyError, TypeError):
            self.validator = None
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

    def remember(self, headers: Mapping[str, str]) -> None:
        """Keep what `If-Range` may ask for: a strong ETag, or else the date of the last change."""
        etag = headers.get("ETag")
        self.validator = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")
        self._sidecar.write_bytes(msgspec.json.encode({"validator": self.validator}))

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


class _GoneError(Exception):
    """This server does not have the file, or does not give it to us."""


class _BrokenOffError(Exception):
    """The server could not be reached or broke off; it may do better later."""

    def __init__(self, what: str, retry_after: float | None = None) -> None:
        super().__init__(what)
        self.retry_after = retry_after


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
        failures, most = 0, part.num_bytes
        while failures < MOST_FAILURES:
            try:
                _continue(_pool(url), url, checksummed, part, progress)
                return url
            except _GoneError as error:
                troubles.append(f"{url}: {error}")
                break
            except _BrokenOffError as error:
                failures = 1 if part.num_bytes > most else failures + 1
                most = max(most, part.num_bytes)
                trouble = str(error)
                if failures < MOST_FAILURES:
                    wait = min(BACKOFF * 2 ** (failures - 1), LONGEST_WAIT)
                    time.sleep(min(error.retry_after, LONGEST_RETRY_AFTER) if error.retry_after is not None else wait)
        else:
            hopeless = False
            troubles.append(f"{url}: {trouble}")
    if hopeless:
        raise FetchError(f"{name} is not where it should be: {'; '.join(troubles)}; give --base-url or --archive")
    raise IncompleteError(
        f"{name} could not be fetched ({'; '.join(troubles)}); {part.num_bytes:,} bytes are there and are kept"
    )


def _pool(url: str) -> "urllib3.PoolManager":
    """Connections to a server, through the proxy that the environment names for it (`https_proxy`, `no_proxy`)."""
    import urllib3

    # No retries inside: what is there already must be continued, not asked for again.
    retries = urllib3.Retry(total=None, connect=0, read=0, status=0, other=0, redirect=8)
    timeout = urllib3.Timeout(connect=30, read=60)
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    if proxy and not proxy_bypass(parts.hostname or ""):
        return urllib3.ProxyManager(proxy if "://" in proxy else f"http://{proxy}", retries=retries, timeout=timeout)
    return urllib3.PoolManager(retries=retries, timeout=timeout)


def _continue(pool: "urllib3.PoolManager", url: str, checksummed: bool, part: Part, progress: Progress) -> None:
    """One request for what is missing, or for everything where the server cannot continue."""
    from urllib3.exceptions import HTTPError, LocationValueError

    headers = {"Accept-Encoding": "identity", "User-Agent": "prepcli"}
    if part.num_bytes and not part.validator and not checksummed:
        part.restart()  # nothing would tell whether the rest belongs to it
    if part.num_bytes:
        headers["Range"] = f"bytes={part.num_bytes}-"
        if part.validator:
            headers["If-Range"] = part.validator
    try:
        # The length is compared here, so that the message can say what is there.
        response = pool.request("GET", url, headers=headers, preload_content=False, enforce_content_length=False)
        try:
            _receive(response, part, progress)
        finally:
            response.close()
    except LocationValueError as error:
        raise UsageError(f"{url} is no address to fetch from: {error}") from error
    except (HTTPError, OSError) as error:
        if isinstance(error, OSError) and not isinstance(error, (ConnectionError, TimeoutError)) and error.errno:
            raise  # the disk is full, ...
        raise _BrokenOffError(_words(error)) from error


def _receive(response: "urllib3.BaseHTTPResponse", part: Part, progress: Progress) -> None:
    length = response.headers.get("Content-Length")
    total = int(length) if length and length.isdigit() else None
    content_range = response.headers.get("Content-Range", "")
    if response.status == 416:
        if content_range == f"bytes */{part.num_bytes}":
            return
        part.restart()
        raise _BrokenOffError("the file is shorter than what was fetched of it")
    if response.status == 206:
        if not content_range.startswith(f"bytes {part.num_bytes}-"):
            part.restart()
            raise _BrokenOffError(f"asked for the rest, the server sent {content_range or 'something else'}")
        total = None if total is None else total + part.num_bytes
    elif response.status == 200:
        part.restart()
    elif response.status in (408, 429) or response.status >= 500:
        raise _BrokenOffError(_status(response), _retry_after(response))
    else:
        raise _GoneError(_status(response))
    part.remember(response.headers)
    for block in response.stream(_BLOCK, decode_content=False):
        part.write(block)
        progress(part.num_bytes, total)
    if total is not None and part.num_bytes != total:
        if part.num_bytes > total:
            part.restart()
        raise _BrokenOffError(f"the connection ended after {part.num_bytes:,} of {total:,} bytes")


def _status(response: "urllib3.BaseHTTPResponse") -> str:
    return f"{response.status} {response.reason or ''}".strip()


def _retry_after(response: "urllib3.BaseHTTPResponse") -> float | None:
    import urllib3

    try:
        return urllib3.Retry().get_retry_after(response)
    except urllib3.exceptions.InvalidHeader:
        return None


def _words(error: BaseException) -> str:
    """What went wrong, without urllib3's Python objects."""
    reason = getattr(error, "reason", None)
    if isinstance(reason, BaseException):
        error = reason
    text = str(error.args[0] if error.args and isinstance(error.args[0], str) else error)
    return text.rpartition(">: ")[2] if ">: " in text else text
