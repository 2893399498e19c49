"""Operations on objects, in the process that calls them; other processes call them through `prepcli.storage.access`.

Data sets on the Hugging Face hub are read by `prepcli.storage.hub`, all other objects by obstore.

obstore runs requests in its own threads, which do not survive a fork: a process that uses this module must not fork
workers afterwards.

An object of up to `PART_BYTES` is sent in one request (`put_file`), a longer one in parts while it is written.
"""

import contextlib
import itertools
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from prepcli.errors import UsageError
from prepcli.storage.addresses import HUB, UNNAMED, Address, AddressError, ObjectInfo, parse_address, parse_object
from prepcli.storage.failures import (
    StoreError,
    missing_object,
    obstore_package,
    patience,
    retried,
    translated,
    without_secrets,
)
from prepcli.storage.hub import file_info, listed, read_file
from prepcli.storage.keys import check_keys, has_profile

if TYPE_CHECKING:
    from obstore import WritableFile
    from obstore.store import ObjectStore

Result = TypeVar("Result")

_TIMEOUT = timedelta(seconds=120)
_CONNECT_TIMEOUT = timedelta(seconds=10)
_MAX_BACKOFF = timedelta(seconds=5)
PART_BYTES = 12 << 20
"""Bytes of a part of a multipart upload; a store allows 10,000 parts of at least 5 MiB.

Measured with 1 GB in four tars: 12 MiB take 5 % less time than 8, as each part costs the store a request; larger parts
would take too much memory in a worker that writes two tars at once, as for Lhotse Shar with contexts.
"""
PARTS_AT_ONCE = 3
"""Number of parts of one upload that are sent at the same time; each is in memory until it has arrived."""
_numbers = itertools.count()


def endpoint_of(scheme: str) -> str:
    """The endpoint of the stores of a scheme, from the environment, without a slash at the end; empty for AWS.

    It may hold a user name and a password: messages use `shown_endpoint`.

    Raises:
        UsageError: no endpoint is set for AIStore, or it is not an address.
    """
    if scheme == "ais":
        endpoint = os.environ.get("AIS_ENDPOINT", "")
        if not endpoint:
            raise UsageError("ais:// needs the address of AIStore in AIS_ENDPOINT, such as http://host:51080")
        return _checked("AIS_ENDPOINT").rstrip("/") + "/s3"
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    return next((_checked(name).rstrip("/") for name in names if os.environ.get(name)), "")


def _checked(name: str) -> str:
    """The address in an environment variable; raises `UsageError` if it is not one, instead of obstore's long error."""
    address = os.environ[name]
    if not re.match(r"https?://[^/\s]+(/\S*)?$", address):
        # The message leaves out the value, which may hold a password.
        raise UsageError(f"{name} must be the address of a store, such as http://host:9000")
    return address


def shown_endpoint(scheme: str) -> str:
    """The endpoint of a scheme for messages, without user name and password; `AWS` if none is set."""
    endpoint = endpoint_of(scheme)
    before, at, host = endpoint.rpartition("@")
    return (before.partition("//")[0] + "//" + host if at else endpoint) or "AWS"


@lru_cache(maxsize=32)
def _store(scheme: str, bucket: str, endpoint: str, seconds: float) -> "ObjectStore":
    obstore_package()
    from obstore.store import S3Store

    client: Any = {"timeout": _TIMEOUT, "connect_timeout": _CONNECT_TIMEOUT}
    settings: dict[str, Any] = {}
    if endpoint:
        settings |= {"endpoint": endpoint, "virtual_hosted_style_request": False}
        client["allow_http"] = endpoint.startswith("http://")
    if scheme == "ais":  # AIStore takes requests without a signature, or with its own token
        settings["region"] = "us-east-1"
        token = os.environ.get("AIS_AUTHN_TOKEN")
        if token:
            client["default_headers"] = {"Authorization": f"Bearer {token}"}
        if token or not os.environ.get("AWS_ACCESS_KEY_ID"):
            settings["skip_signature"] = True
    else:
        check_keys(shown_endpoint(scheme) if endpoint else "")
    backoff = {"init_backoff": timedelta(milliseconds=100), "max_backoff": _MAX_BACKOFF, "base": 2}
    retries: Any = {"max_retries": 1000, "retry_timeout": timedelta(seconds=seconds), "backoff": backoff}
    if not endpoint.startswith("http://127.") and has_profile():
        from obstore.auth.boto3 import Boto3CredentialProvider

        settings["credential_provider"] = Boto3CredentialProvider()
    store: Any = S3Store(bucket, client_options=client, retry_config=retries, **settings)
    return store  # type: ignore[no-any-return]


def store_of(address: Address) -> "ObjectStore":
    """The client of the address's bucket; one per bucket and process.

    Raises:
        UsageError: obstore is not installed, or environment variables are wrong.
    """
    try:
        return _store(address.scheme, address.bucket, endpoint_of(address.scheme), patience())
    except UsageError:
        raise
    except Exception as error:
        why = without_secrets(str(error).partition("\n")[0])[:200]
        raise UsageError(f"{address}: the settings of the store are not right: {why}") from None


def _request(address: Address, send: Callable[[Any, "ObjectStore"], Result]) -> Result:
    """Call `send` with the module obstore and its client for the bucket of `address`, and return the result.

    `send` is called again after errors that obstore does not retry, such as an answer that breaks off.
    """
    obstore, store, endpoint = obstore_package(), store_of(address), shown_endpoint(address.scheme)
    return retried(lambda: send(obstore, store), lambda error: translated(error, address, endpoint))


def object_info(text: str) -> ObjectInfo:
    """The size, time and ETag of an object.

    Raises:
        FileNotFoundError: there is no such object.
        UsageError: there is no such bucket, or access is denied.
        StoreError: the store does not answer.
    """
    address = parse_object(text)
    if address.scheme == HUB:
        return file_info(address)
    if not address.key:
        raise missing_object(address)
    return _info(str(address), _request(address, lambda obstore, store: obstore.head(store, address.key)))


def _info(text: str, meta: Mapping[str, Any]) -> ObjectInfo:
    changed = int(meta["last_modified"].timestamp() * 1000) * 1_000_000
    return ObjectInfo(text, int(meta["size"]), changed, str(meta.get("e_tag") or "").strip('"'))


def read_object(text: str) -> bytes:
    """All bytes of an object; raises as `object_info` does."""
    address = parse_object(text)
    if address.scheme == HUB:
        return read_file(address, 0, file_info(address).num_bytes)[0]
    return _request(address, lambda obstore, store: bytes(obstore.get(store, address.key).bytes()))


def read_beginning(text: str, length: int) -> tuple[bytes, ObjectInfo]:
    """The first `length` bytes of an object and its properties, in one request; raises as `object_info` does."""
    address = parse_object(text)
    if address.scheme == HUB:
        return read_file(address, 0, length)

    def send(obstore: Any, store: "ObjectStore") -> tuple[bytes, ObjectInfo]:
        result = obstore.get(store, address.key, options={"range": (0, length)})
        info = _info(text, result.meta)
        return bytes(result.bytes()), info

    try:
        return _request(address, send)
    except StoreError as error:
        if "InvalidRange" not in str(error) and "416" not in str(error):
            raise
    return b"", object_info(text)  # an empty object has no first byte


def read_range(text: str, start: int, length: int, etag: str = "") -> bytes:
    """Read `length` bytes of an object from byte `start` on, fewer at its end.

    Raises:
        InputChangedError: `etag` is given, and the object now has another one.
        Exception: as `object_info` does.
    """
    if length <= 0:
        return b""
    address = parse_object(text)
    if address.scheme == HUB:
        return read_file(address, start, length, etag)[0]
    options: Any = {"range": (start, start + length)}
    if etag:
        options["if_match"] = f'"{etag}"'
    return _request(address, lambda obstore, store: bytes(obstore.get(store, address.key, options=options).bytes()))


def list_objects(text: str) -> list[ObjectInfo]:
    """All objects below a prefix, sorted by key; empty if there are none. Raises as `object_info` does."""
    address = parse_address(text)
    if address.scheme == HUB:
        return listed(address, recursive=True)[1]
    start = f"{address.scheme}://{address.bucket}/"

    def send(obstore: Any, store: "ObjectStore") -> list[ObjectInfo]:
        pages = obstore.list(store, prefix=address.key + "/" if address.key else None, chunk_size=1000)
        return sorted(_info(start + str(meta["path"]), meta) for page in pages for meta in page)

    return _without_markers(_request(address, send), address)


def list_folder(text: str) -> tuple[list[str], list[ObjectInfo]]:
    """The names of the folders directly below a prefix, and the objects there; raises as `list_objects` does."""
    address = parse_address(text)
    if address.scheme == HUB:
        return listed(address, recursive=False)
    start = f"{address.scheme}://{address.bucket}/"

    def send(obstore: Any, store: "ObjectStore") -> tuple[list[str], list[ObjectInfo]]:
        listing = obstore.list_with_delimiter(store, prefix=address.key + "/" if address.key else None)
        folders = sorted(str(prefix).rstrip("/").rpartition("/")[2] for prefix in listing["common_prefixes"])
        return folders, sorted(_info(start + str(meta["path"]), meta) for meta in listing["objects"])

    folders, objects = _request(address, send)
    if "" in folders:
        raise AddressError(f"{address} has objects whose keys begin with a slash: {UNNAMED}; copy them to other keys")
    return folders, _without_markers(objects, address)


def _without_markers(objects: list[ObjectInfo], folder: Address) -> list[ObjectInfo]:
    """The objects of a listing, which must be sorted, without empty objects that only mark a folder, as `folder/` does.

    Web consoles make such objects. obstore reports them without the slash at the end, so they look like objects with
    data.
    """
    addresses = [info.address for info in objects]

    def is_marker(info: ObjectInfo) -> bool:
        below = bisect_left(addresses, f"{info.address}/")
        return not info.num_bytes and (
            info.address == str(folder) or "".join(addresses[below : below + 1]).startswith(f"{info.address}/")
        )

    return [info for info in objects if not is_marker(info)]


def put_object(text: str, data: bytes) -> str:
    """Write a small object, whole or not at all; returns its ETag, and raises as `object_info` does."""
    address = parse_object(text)
    result = _request(address, lambda obstore, store: obstore.put(store, address.key, data, use_multipart=False))
    return str(result["e_tag"] or "").strip('"')


def delete_objects(texts: Sequence[str]) -> None:
    """Remove objects, given by their addresses in one bucket; missing ones are skipped.

    Raises as `object_info` does, but no `FileNotFoundError`.
    """
    addresses = [parse_address(text) for text in texts]
    with contextlib.suppress(FileNotFoundError):
        if addresses:
            _request(addresses[0], lambda obstore, store: obstore.delete(store, [address.key for address in addresses]))


def put_file(text: str, data: bytes, num_bytes: int) -> str:
    """Write an object of at most `PART_BYTES` in one request, and check that the stored object has `num_bytes` bytes.

    Returns its ETag, and raises as `finish_upload` does.
    """
    etag = put_object(text, data)
    import hashlib  # imported for stores only: loading OpenSSL takes 3 ms

    if len(data) == num_bytes and etag == hashlib.md5(data, usedforsecurity=False).hexdigest():
        return etag  # the store computed it from the received bytes; if it differs, check the object
    return _etag_of_size(text, num_bytes)


def _etag_of_size(text: str, num_bytes: int) -> str:
    info = object_info(text)
    if info.num_bytes != num_bytes:
        raise StoreError(f"{text} has {info.num_bytes:,} bytes at the store, but {num_bytes:,} were sent")
    return info.etag


_uploads: "dict[int, tuple[Address, WritableFile]]" = {}
"""Uploads that have not ended, by their number: the address of the object, and the obstore file that sends its parts.
"""


def open_upload(text: str) -> int:
    """Begin an upload in parts and return its number. The object appears, complete, only after `finish_upload`."""
    obstore = obstore_package()

    address = parse_address(text)
    file = obstore.open_writer(store_of(address), address.key, buffer_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE)
    number = next(_numbers)
    _uploads[number] = address, file
    return number


def write_upload(number: int, data: bytes) -> None:
    """Append to an upload; raises as `object_info` does."""
    address, file = _uploads[number]
    _translating(address, lambda: file.write(data))


def finish_upload(number: int, num_bytes: int) -> str:
    """End the upload with this number: send the remaining bytes, so that the object appears; returns its ETag.

    Raises:
        StoreError: the object has another size than `num_bytes`.
        Exception: as `object_info` does.
    """
    address, file = _uploads[number]
    _translating(address, file.close)
    del _uploads[number]
    return _etag_of_size(str(address), num_bytes)


def abort_upload(number: int) -> None:
    """Abort an upload and remove its parts if the store answers; an upload that has ended is left as it is."""
    _, file = _uploads.pop(number, (None, None))
    if file is None or file.closed():
        return
    try:
        file.__exit__(InterruptedError, InterruptedError(), None)
    except Exception:  # the parts stay until the store's lifecycle rule removes them
        return


def _translating(address: Address, use: Callable[[], object]) -> None:
    try:
        use()
    except Exception as error:
        raise translated(error, address, shown_endpoint(address.scheme)) from None
