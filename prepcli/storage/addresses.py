"""Addresses of objects: `s3://bucket/key`, `ais://bucket/key`, `hf://datasets/OWNER/NAME/key`; light to import."""

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from prepcli.errors import UsageError

HUB = "hf"
"""The scheme of data sets on the Hugging Face hub, which are only read."""
SCHEMES = ("s3", "ais", HUB)
_BEGINNINGS = tuple(f"{scheme}://" for scheme in SCHEMES)
_ROOTS = ("/", *_BEGINNINGS)
_ADDRESS = re.compile(r"(s3|ais)://([^/]*)(?:/(.*))?", re.DOTALL)
_OF_HUB = re.compile(
    r"hf://datasets/((?!\.\.?/)[\w.-]+/(?!\.\.?(?:[/@]|$))[\w.-]+)(?:@(refs/(?:convert/[\w.-]+|pr/\d+)|[^/@]+))?(?:/(.*))?",
    re.DOTALL | re.ASCII,
)
"""An address on the hub; its groups are owner and name, revision, and path. A slash in a revision is written `%2F`,
except in `refs/convert/...` and `refs/pr/...`.
"""
_CONVERTED = ("~parquet", "refs/convert/parquet")
_AS_PATH = re.compile(r"(s3|ais|hf):/+")
_WITHIN_TEXT = re.compile(r"(?:^|[\s,\[\](){}<>=\"'])(?:s3|ais|hf)://")
_OTHER = (
    r"(?i)(?:^|[\s,\[\](){}<>=\"'])((s3[an]?|ais|gs|gcs|az|azure|adl|abfss?|wasbs?|oss|cos|swift|hdfs|webhdfs|dbfs|hf|"
    r"https?|s?ftp|ssh|file):/+[^\s,\"']*)"
)
"""Pattern for text that looks like an address, even with only one slash, as `pathlib` leaves it.

It is compiled when it is needed.
"""
_PATTERN = re.compile(r"[,{}()\[\]<>]|_OP_")
_UNNAMED = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|[\x00-\x1f\x7f]")
"""Matches an empty part, `.`, `..` or a control character. obstore cannot name an object whose key has one of these."""
_DOTS = re.compile(r"(?:^|/)\.{1,2}(?:/|$)")
_CREDENTIALS = re.compile(r"(?<=://)[^/]*@")
"""Matches what stands in an address where tokens and passwords do; messages do not repeat it."""
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


UNNAMED = "a part of a key must not be empty, '.' or '..', nor hold a control character"


class ByteRange(NamedTuple):
    """Some bytes of a file or of an object in a store, such as a member of a tar; `crc32`: their checksum, if known."""

    path: str
    start: int
    length: int
    crc32: int | None = None


class ObjectInfo(NamedTuple):
    """An object: its address, its size in bytes, the time of its last change in ns, and the store's ETag."""

    address: str
    num_bytes: int
    mtime_ns: int
    etag: str


class AddressError(UsageError):
    """A text that begins as an address but is not one."""


class Address(NamedTuple):
    """An object or a prefix in a bucket.

    The bucket of a data set on the hub is `datasets/OWNER/NAME`, with `@REVISION` if one is named.

    Keys are opaque: `d//e`, `d/./e` and `d/e` are three objects. obstore can name only the last of them, so `key` has
    no part that is empty, `.` or `..`, and no control character.
    """

    scheme: str
    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}" + (f"/{self.key}" if self.key else "")


def is_address(path: object) -> bool:
    """Whether a path is an address in an object store or on the Hugging Face hub."""
    return (path if isinstance(path, str) else str(path)).startswith(_BEGINNINGS)


def on_hub(path: str) -> bool:
    """Whether a path is the address of a data set on the Hugging Face hub, or of a file in one."""
    return path.startswith(f"{HUB}://")


def is_web_address(url: str) -> bool:
    """Whether this is the address of a web server; whether the server exists is not checked."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def is_absolute(path: str) -> bool:
    """Whether a path is absolute; addresses are too."""
    return path.startswith(_ROOTS)


def names_addresses(text: str) -> bool:
    """Whether a text from a user contains an address.

    An address begins at the start of the text, or after a space, a quote, a comma, a bracket or `=`.
    """
    return _WITHIN_TEXT.search(text) is not None


def other_scheme(text: str) -> str | None:
    """The first address in a text whose scheme is not supported, such as `gs://bucket/a` or `S3://bucket/a`."""
    if ":/" not in text:
        return None
    match = next((match for match in re.finditer(_OTHER, text) if match[2] not in SCHEMES), None)
    if match is None:
        return None
    slashes = "///" if match[2].lower() == "file" else "//"
    return re.sub(":/+", f":{slashes}", match[1], count=1)


def names_several(text: str) -> bool:
    """Whether a text holds a bracket, a comma or `_OP_`: then it is not one address, but a pattern or a list."""
    return _PATTERN.search(text) is not None


def restored(path: str) -> str:
    """The address of a path that `pathlib` has changed: `s3:/bucket/key` -> `s3://bucket/key`.

    Other paths are returned as they are.
    """
    return _AS_PATH.sub(r"\1://", path, count=1) if _AS_PATH.match(path) else path


def parse_address(text: str) -> Address:
    """Parse an address.

    A slash at its end marks a prefix; it is not a part of the key.

    Raises:
        AddressError: the text is not an address with a bucket; the address holds credentials (the message does not
            repeat them); or obstore cannot name its key.
    """
    if on_hub(text):
        return _parse_of_hub(text)
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise AddressError(f"{text} is not an address such as s3://bucket/prefix")
    scheme, bucket, key = match[1], match[2], match[3] or ""
    if "@" in bucket or ":" in bucket:
        raise AddressError(
            f"an address {scheme}://... must hold only a bucket and a key; give credentials and the endpoint in the "
            "environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL)"
        )
    if not _BUCKET.fullmatch(bucket):
        raise AddressError(
            f"{text} does not name a bucket, by two or more letters, digits, '.', '_' or '-'; give an address such as "
            f"{scheme}://bucket/prefix"
        )
    return Address(scheme, bucket, _checked_key(text, key))


def _checked_key(text: str, key: str) -> str:
    if key and _UNNAMED.search(key.removesuffix("/")):
        raise AddressError(f"{ascii(text)[1:-1]} cannot be used: {UNNAMED}; copy the object to another key")
    return key.removesuffix("/")


def _parse_of_hub(text: str) -> Address:
    match = _OF_HUB.fullmatch(text)
    if match is None:
        shown = _CREDENTIALS.sub("...@", text)
        raise AddressError(
            f"{shown} is not an address such as hf://datasets/OWNER/NAME, with @REVISION and /PATH if needed"
        )
    repository, revision, key = match[1], match[2], match[3] or ""
    if revision in _CONVERTED:
        revision = _CONVERTED[1]
    named = f"@{revision.replace('/', '%2F')}" if revision else ""
    return Address(HUB, f"datasets/{repository}{named}", _checked_key(text, key))


def parse_object(text: str) -> Address:
    """Parse the address of an object; raises `AddressError` also for a slash at the end, which marks a prefix."""
    address = parse_address(text)
    if text.endswith("/"):
        raise AddressError(f"{text} is not the address of an object: it ends with a slash")
    return address


def without_scheme(path: str) -> str:
    """`/bucket/key` for an address; other paths are returned as they are."""
    return path.partition(":/")[2] if is_address(path) else path


def join(folder: str, name: str) -> str:
    """The address or path of `name` below `folder`; a `name` that is absolute (`is_absolute`) is returned as it is.

    As in URLs, `.` and `..` of a relative name below an address are resolved, but empty parts stay.
    """
    if name.startswith(_ROOTS) or not folder:
        return name
    folder = folder.removesuffix("/")
    if is_address(folder) and _DOTS.search(name):
        return _resolved(folder, name)
    return f"{folder}/{name}"


def _resolved(folder: str, name: str) -> str:
    parts = folder.split("/")
    fixed = 5 if on_hub(folder) else 3  # `s3:`, an empty part and the bucket stay; reading refuses a `..` that is left
    for part in name.split("/"):
        if part == ".." and len(parts) > fixed and parts[-1] != "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
