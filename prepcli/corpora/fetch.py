"""Fetching an archive over HTTP: continued where it stopped, tried again, and checked before it gets its name."""

import hashlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from prepcli.errors import IncompleteError, PrepcliError, UsageError

if TYPE_CHECKING:
    import urllib3

MOST_FAILURES = 6
"""Failures of one mirror, one after the other without a new byte, after which the next one is asked."""
MOST_DAMAGED = 3
"""How often an archive may arrive damaged before we give up."""
BACKOFF, LONGEST_WAIT = 0.5, 60.0
"""Seconds before the second try, doubled for each one that follows, and the most of them."""
LONGEST_RETRY_AFTER = 600.0
"""Seconds that a server may ask us to wait."""
_BLOCK = 1 << 20

Progress = Callable[[int, int | None], None]
"""Called as bytes arrive: bytes there so far, bytes in all (None: the server does not say)."""


class FetchError(PrepcliError):
    """Nobody has the archive, or it is damaged wherever it comes from; trying again will not help."""


@dataclass(frozen=True, slots=True)
class Archive:
    """A published archive: its file name and where it is, in the order to try.

    `num_bytes` is for plans only, and follows the publisher or those who have measured it. `checksum` is
    `sha256:<hex>` or `md5:<hex>`, None where nobody publishes one: then the length that the server states, the CRC
    inside gzip and the end of the tar must do.
    """

    name: str
    urls: tuple[str, ...]
    num_bytes: int | None = None
    checksum: str | None = None

    def at(self, base_url: str | None, checksums: Mapping[str, str]) -> "Archive":
        """The same archive on another server, with the checksum of a list instead of the published one."""
        urls = self.urls if base_url is None else (f"{base_url.rstrip('/')}/{self.name}",)
        return replace(self, urls=urls, checksum=checksums.get(self.name, self.checksum))


def fetch(archive: Archive, folder: Path, progress: Progress) -> Path:
    """Fetch `archive` into `folder`, and return where it is; an interrupted fetch is continued.

    What is fetched so far lies in `<name>.part`, and beside it what tells whether the server still has the same file.

    Raises:
        FetchError: no server has it, or what they send is damaged again and again.
        IncompleteError: the servers cannot be reached, or keep breaking off; what is there is kept.
        UsageError: an address is none.
    """
    target = folder / archive.name
    part_file = folder / f"{archive.name}.part"
    folder.mkdir(parents=True, exist_ok=True)
    urls = list(archive.urls)
    for _ in range(MOST_DAMAGED):
        with _Part(part_file, algorithm_of(archive.checksum)) as part:
            url = _download(archive.name, urls, archive.checksum is not None, part, progress)
            found = part.finish()
        if archive.checksum in (None, found):
            os.replace(part_file, target)
            part.forget()
            return target
        part_file.unlink()
        part.forget()
        note(f"{archive.name} from {url} is damaged ({found} instead of {archive.checksum}): fetching it again")
        urls.append(urls.pop(urls.index(url)))  # perhaps another one has it whole
    raise FetchError(
        f"{archive.name} arrived damaged {MOST_DAMAGED} times (it should be {archive.checksum}); give another "
        "--base-url, or a good copy with --archive"
    )


def algorithm_of(checksum: str | None) -> str:
    """`md5` of `md5:<hex>`; SHA-256 where there is no checksum to compare with."""
    return checksum.partition(":")[0] if checksum else "sha256"


def read_checksums(path: Path) -> dict[str, str]:
    """The checksums in a list as `md5sum` and `sha256sum` print it: file name -> `md5:<hex>` or `sha256:<hex>`.

    Raises:
        UsageError: there is no such list, or a line of another kind in it.
    """
    kinds = {32: "md5", 64: "sha256"}
    found = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--checksums {path} cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        digest, _, name = line.strip().partition(" ")
        kind = kinds.get(len(digest))
        if kind is None or set(digest.lower()) - set("0123456789abcdef") or not name.strip(" *"):
            if line.strip():
                raise UsageError(f"{path}:{number}: no line as md5sum or sha256sum prints it")
            continue
        found[Path(name.strip(" *")).name] = f"{kind}:{digest.lower()}"
    return found


def note(message: str) -> None:
    """One line for people, on stderr."""
    print(f"prepcli: {message}", file=sys.stderr, flush=True)


class _Part:
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
        self._file.write(data)
        self._hash.update(data)
        self.num_bytes += len(data)

    def restart(self) -> None:
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
        self._sidecar.unlink(missing_ok=True)

    def finish(self) -> str:
        """Force the file to the disk; its checksum."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return f"{self._algorithm}:{self._hash.hexdigest()}"

    def __enter__(self) -> "_Part":
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


def _download(name: str, urls: list[str], checksummed: bool, part: _Part, progress: Progress) -> str:
    """Bring the part to its full length; returns the address that had the last byte."""
    import urllib3

    # No retries inside: what is there already must be continued, not asked for again.
    retries = urllib3.Retry(total=None, connect=0, read=0, status=0, other=0, redirect=8)
    pool = urllib3.PoolManager(retries=retries, timeout=urllib3.Timeout(connect=30, read=60))
    troubles: list[str] = []
    hopeless = True
    for url in urls:
        failures, most = 0, part.num_bytes
        while failures < MOST_FAILURES:
            try:
                _continue(pool, url, checksummed, part, progress)
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


def _continue(pool: "urllib3.PoolManager", url: str, checksummed: bool, part: _Part, progress: Progress) -> None:
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


def _receive(response: "urllib3.BaseHTTPResponse", part: _Part, progress: Progress) -> None:
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
