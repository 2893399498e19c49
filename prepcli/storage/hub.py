"""Reads data sets on the Hugging Face hub over HTTP: their commits, their listings, and ranges of their files.

The address of the hub is `HF_ENDPOINT`. The token is that of huggingface_hub (`HF_TOKEN`, or the file that `hf auth
login` writes). If an answer redirects to another host or port, the library `requests` does not send the token there.

The module takes nothing else from huggingface_hub: its HfFileSystem (2.4) was tried with the server of
`tests/support/hub.py`. It gives wrong bytes if a proxy ignores ranges, follows the pages of a listing to another host
with the token, and waits as long as an answer asks, whatever `PREPCLI_STORE_PATIENCE` is. It does not ask again if the
address of a redirect has expired, and lists a whole folder to learn the size of one file.
"""

import os
import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

from prepcli.errors import InputChangedError, PrepcliError, UsageError, same_command
from prepcli.storage.addresses import Address, ObjectInfo, is_web_address
from prepcli.storage.failures import StoreError, message_of, missing_object, retried

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

Result = TypeVar("Result")

_PUBLIC = "https://huggingface.co"
_TIMEOUTS = (10, 60)
"""Seconds to wait for a connection, and for the next bytes."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_TOTAL = re.compile(r"bytes (?:\*|\d+-\d+)/(\d+)")
_RESET = re.compile(r"\bt=(\d+)")
_TOKEN = re.compile(r"[!-~]+")
_MAX_CONNECTIONS = 64


_known: dict[tuple[str, Address], ObjectInfo] = {}
"""Properties of files in commits, by endpoint and address. They never change, and keeping them saves requests."""


def endpoint() -> str:
    """The address of the hub, without a slash at the end.

    Raises:
        UsageError: `HF_ENDPOINT` is not an address, or `HF_HUB_OFFLINE` forbids requests.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise UsageError("hf:// needs the hub, but HF_HUB_OFFLINE is set: unset it, or download the data set first")
    text = (os.environ.get("HF_ENDPOINT") or _PUBLIC).rstrip("/")
    if "@" in text or not is_web_address(text):
        raise UsageError("HF_ENDPOINT must be the address of a hub, such as https://huggingface.co")
    return text


def commit_of(address: Address) -> str:
    """The hash of the commit that the revision of an address names now. Without a revision, the branch `main` is taken.

    Raises:
        UsageError: there is no such data set or revision, or access is denied.
        StoreError: the hub does not answer.
    """
    revision = _revision(address)
    if _COMMIT.fullmatch(revision):
        return revision
    commit = _json(address, f"{endpoint()}/api/{_repository(address)}/revision/{quote(revision, safe='')}")[0].get(
        "sha"
    )
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise UsageError(f"{address}: {endpoint()} does not answer as a Hugging Face hub; check HF_ENDPOINT")
    return commit


def listed(address: Address, *, recursive: bool) -> tuple[list[str], list[ObjectInfo]]:
    """The sorted names of the folders, and the sorted files, directly below an address; raises as `commit_of` does.

    With `recursive`, the lists also have the folders and files at greater depths. Both lists are empty if the address
    does not name a folder.
    """
    place = f"tree/{quote(_revision(address), safe='')}{'/' * bool(address.key)}{quote(address.key)}"
    url: str | None = f"{endpoint()}/api/{_repository(address)}/{place}?recursive={str(recursive).lower()}"
    folders: list[str] = []
    files: list[ObjectInfo] = []
    try:
        while url is not None:
            entries, url = _json(address, url)
            for entry in entries:
                if entry["type"] == "directory":
                    folders.append(entry["path"].rpartition("/")[2])
                elif entry["type"] == "file":
                    files.append(_remembered(address, entry["path"], entry["size"], entry["oid"]))
    except FileNotFoundError:
        return [], []
    except (KeyError, TypeError, AttributeError):
        raise UsageError(f"{address}: {endpoint()} does not answer as a Hugging Face hub; check HF_ENDPOINT") from None
    return sorted(folders), sorted(files)


def _remembered(address: Address, path: str, num_bytes: int, etag: str) -> ObjectInfo:
    """Make the properties of the file `path` in the data set of an address.

    If the address names a commit, the ETag is that commit, and the properties are stored in `_known`. Otherwise the
    ETag is `etag`, the hash that the hub states. The time of the last change is unknown, so it is 0.
    """
    file, commit = address._replace(key=path), _revision(address)
    if not _COMMIT.fullmatch(commit):
        return ObjectInfo(str(file), num_bytes, 0, etag)
    return _known.setdefault((endpoint(), file), ObjectInfo(str(file), num_bytes, 0, commit))


def file_info(address: Address) -> ObjectInfo:
    """The properties of a file; raises as `read_file` does."""
    return _known.get((endpoint(), address)) or read_file(address, 0, 1)[1]


def read_file(address: Address, start: int, length: int, etag: str = "") -> tuple[bytes, ObjectInfo]:
    """Read `length` bytes of a file from byte `start` on, fewer at its end; returns them with the file's properties.

    Raises:
        InputChangedError: `etag` is given, and the file now has another one.
        FileNotFoundError: there is no such file.
        UsageError: there is no such data set or revision, or access is denied.
        StoreError: the hub does not answer, or the connection ends too early.
    """
    if not address.key:
        raise missing_object(address)
    if not length:
        return b"", file_info(address)
    base = f"{endpoint()}/{_repository(address)}/resolve/{quote(_revision(address), safe='')}/{quote(address.key)}"

    def send() -> tuple[bytes, ObjectInfo]:
        with _session(os.getpid()).get(
            base, headers={"Range": f"bytes={start}-{start + length - 1}"}, auth=_auth(), stream=True, timeout=_TIMEOUTS
        ) as response:
            total = _total(response)
            if total is None:
                raise _refusal(address, response)
            own = next(filter(None, map(_etag, [*response.history, response])), "")
            info = _remembered(address, address.key, total, own)
            if etag and info.etag != etag:
                raise InputChangedError(
                    f"{address} was changed during the run, which has stopped; run {same_command()} again"
                )
            wanted = max(min(length, total - start), 0)
            data = _body(response, start, wanted)
            if len(data) != wanted:
                raise StoreError(f"{address}: the connection ended after {len(data):,} of {wanted:,} bytes")
            return data, info

    return _repeated(address, send)


def _total(response: "Response") -> int | None:
    """The size in bytes of the file that an answer belongs to; None if the answer does not state it.

    Status 416 (no byte in this range) states the size. With other error statuses the result is None.
    """
    if response.status_code in (206, 416):
        match = _TOTAL.fullmatch(response.headers.get("Content-Range", ""))
        return int(match[1]) if match else None
    if response.status_code == 200:
        length = response.headers.get("Content-Length", "")
        return int(length) if length.isdecimal() else None
    return None


def _body(response: "Response", start: int, wanted: int) -> bytes:
    """At most `wanted` bytes of an answer. Status 200 means the whole file, whose first `start` bytes are skipped."""
    if response.status_code == 416:
        return b""
    response.raw.enforce_content_length = False  # the length is compared with the wanted one
    skip = start if response.status_code == 200 else 0
    parts: list[bytes] = []
    for block in response.raw.stream(1 << 20, decode_content=False):
        part = block[skip:] if skip < len(block) else b""
        skip -= min(skip, len(block))
        parts.append(part[:wanted])
        wanted -= len(parts[-1])
        if not wanted:
            break
    return b"".join(parts)


def _etag(response: "Response") -> str:
    """The hash of a file's content, as the hub states it in an answer.

    The hub may redirect a request to a store; an answer of the store has no such hash, and the result is empty.
    """
    linked = response.headers.get("X-Linked-Etag")
    own = response.headers.get("ETag") if "X-Repo-Commit" in response.headers else None
    return (linked or own or "").removeprefix("W/").strip('"')


def _json(address: Address, url: str) -> tuple[Any, str | None]:
    """The JSON document at `url` of the hub, and the URL of the next page of a listing; None after the last page."""

    def send() -> tuple[Any, str | None]:
        response = _session(os.getpid()).get(url, auth=_auth(), timeout=_TIMEOUTS)
        if response.status_code != 200:
            raise _refusal(address, response)
        following = response.links.get("next", {}).get("url")
        if following is not None and urlsplit(following)[:2] != urlsplit(url)[:2]:
            raise UsageError(f"{address}: the listing continues at another host, which is not followed")
        try:
            return response.json(), following
        except ValueError:
            raise UsageError(
                f"{address}: {endpoint()} does not answer as a Hugging Face hub; check HF_ENDPOINT"
            ) from None

    return _repeated(address, send)


def _repeated(address: Address, send: Callable[[], Result]) -> Result:
    def translated(error: Exception) -> Exception:
        if isinstance(error, (PrepcliError, FileNotFoundError)):
            return error
        return StoreError(f"{address}: the hub at {endpoint()} cannot be reached: {message_of(error)}")

    return retried(send, translated)


def _refusal(address: Address, response: "Response") -> Exception:
    """The error to raise for an answer with an error status."""
    status = response.status_code
    code = response.headers.get("X-Error-Code", "")
    is_hub = urlsplit(response.url)[:2] == urlsplit(endpoint())[:2]
    owner_and_name = address.bucket.partition("@")[0].removeprefix("datasets/")
    if is_hub and status in (401, 403):
        page = f"{endpoint()}/datasets/{owner_and_name}"
        todo = "check that the token of HF_TOKEN may read it" if _token() else "set HF_TOKEN (or run hf auth login)"
        is_gated = code == "GatedRepo"
        what = "is gated" if is_gated else "is private or gated, or does not exist"
        return UsageError(
            f"access to {address} was denied (status {status}): the data set {what}; {todo}, and accept the terms "
            f"of the data set at {page}"
        )
    if is_hub and status == 404:
        if code == "RepoNotFound":
            return UsageError(f"there is no data set {owner_and_name} at {endpoint()}; correct the address {address}")
        if code == "RevisionNotFound":
            return UsageError(
                f"{owner_and_name} has no revision {_revision(address)}; correct the address {address}"
                + (": its copy in Parquet has not been made" if _revision(address).startswith("refs/convert") else "")
            )
        return missing_object(address)
    what = f"status {status}" if is_hub else f"the store of its files answered with {status}"
    wait = _wait(response)
    when = "later" if wait is None else f"later, it asks to wait {wait:,.0f} s"
    error = StoreError(f"{address}: the hub at {endpoint()} has failed: {what}; try again {when}")
    error.retry_after = wait
    return error


def _wait(response: "Response") -> float | None:
    """The number of seconds that the hub asks to wait, in `Retry-After` or, with status 429, in `RateLimit`.

    None if it does not ask.
    """
    text = response.headers.get("Retry-After", "")
    if not text.isdecimal():
        match = _RESET.search(response.headers.get("RateLimit", "")) if response.status_code == 429 else None
        text = match[1] if match else ""
    return float(text) if text else None


@lru_cache(maxsize=1)
def _session(process: int) -> "Session":
    """The HTTP session with the hub that the process with the id `process` uses. A forked process makes its own."""
    import requests
    from requests.adapters import HTTPAdapter

    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=_MAX_CONNECTIONS))
    session.headers.update({"User-Agent": "prepcli", "Accept-Encoding": "identity"})
    return session


def _token() -> str | None:
    """The token for the hub; None if there is none.

    Raises:
        UsageError: huggingface_hub is not installed, or the token has characters that a request cannot have.
    """
    try:
        from huggingface_hub import get_token
    except ImportError:
        raise UsageError("hf:// needs huggingface_hub: pip install 'prepcli[hf]'") from None
    token: str | None = get_token()
    if token and not _TOKEN.fullmatch(token):
        raise UsageError("the token for the hub (HF_TOKEN, or hf auth login) has characters that no token has")
    return token


def _auth() -> Any:
    """The function that adds the token, if there is one, to a request of the library `requests`.

    If `requests` is given such a function, it does not look for passwords in `~/.netrc`.
    """
    token = _token()

    def sign(request: "PreparedRequest") -> "PreparedRequest":
        if token:
            request.headers["Authorization"] = f"Bearer {token}"
        return request

    return sign


def _repository(address: Address) -> str:
    return address.bucket.partition("@")[0]


def _revision(address: Address) -> str:
    return address.bucket.partition("@")[2].replace("%2F", "/") or "main"
