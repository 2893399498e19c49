"""Uploads of objects in parts, in the process that calls them; see `prepcli.storage.access` for all others."""

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

from prepcli.storage.addresses import Address, parse_address
from prepcli.storage.client import object_info, shown_endpoint, store_of
from prepcli.storage.failures import StoreError, translated

if TYPE_CHECKING:
    from obstore import WritableFile

PART_BYTES = 8 << 20
"""Bytes of a part of a multipart upload; a store allows 10,000 parts of at least 5 MiB."""
PARTS_AT_ONCE = 3
"""Parts of one upload that are sent at the same time; each is held in memory until it has arrived."""
_uploads: "dict[int, tuple[Address, WritableFile]]" = {}
_numbers = itertools.count()


def open_upload(text: str) -> int:
    """Begin an upload; the object appears, whole, with `finish_upload`. Returns the number of the upload."""
    import obstore

    address = parse_address(text)
    number = next(_numbers)
    store = store_of(address)
    _uploads[number] = (
        address,
        obstore.open_writer(store, address.key, buffer_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE),
    )
    return number


def write_upload(number: int, data: bytes) -> None:
    """Append to an upload; raises as `object_info` does."""
    _of_upload(number, lambda file: file.write(data))


def finish_upload(number: int, num_bytes: int) -> str:
    """Send what is left and let the object appear; returns its ETag.

    Raises:
        StoreError: the object has another size than `num_bytes`.
        Exception: as `object_info` does.
    """
    _of_upload(number, lambda file: file.close())
    address, _ = _uploads.pop(number)
    found = object_info(str(address))
    if found.num_bytes != num_bytes:
        raise StoreError(f"{address} has {found.num_bytes:,} bytes at the store, but {num_bytes:,} were sent")
    return found.etag


def abort_upload(number: int) -> None:
    """Abort an upload and remove its parts, as far as the store answers; nothing for one that has ended."""
    found = _uploads.pop(number, None)
    if found is None or found[1].closed():
        return
    try:
        found[1].__exit__(InterruptedError, InterruptedError(), None)
    except Exception:  # the parts stay until `prepcli.storage.uploads` removes them
        return


def _of_upload(number: int, use: "Callable[[WritableFile], object]") -> None:
    address, file = _uploads[number]
    try:
        use(file)
    except Exception as error:
        raise translated(error, address, shown_endpoint(address.scheme)) from None
