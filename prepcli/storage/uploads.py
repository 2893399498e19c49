"""Uploads that were begun and neither finished nor aborted: a killed process leaves them. They are listed and removed.

obstore has no call for these two requests, so they are signed here (AWS Signature Version 4).
"""

import hashlib
import hmac
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import NamedTuple
from xml.etree import ElementTree

from prepcli.storage.addresses import Address, parse_address
from prepcli.storage.client import endpoint_of

_TIMEOUT = 30.0
_NOTHING = hashlib.sha256(b"").hexdigest()
_MAX_PAGES = 100


class Upload(NamedTuple):
    """An upload: the address of its object, its id at the store, and when it was begun, as the store writes it."""

    address: str
    id: str
    begun: str


class CannotListError(Exception):
    """The store does not list uploads, or there are no keys in the environment to ask it with."""


def list_uploads(text: str) -> list[Upload]:
    """The uploads below a prefix, or of one object.

    Raises:
        CannotListError: they cannot be listed.
    """
    address = parse_address(text)
    query = {"uploads": "", "prefix": address.key}
    found: list[Upload] = []
    for _ in range(_MAX_PAGES):
        page = ElementTree.fromstring(_send("GET", address._replace(key=""), query))
        space = page.tag.partition("}")[0] + "}" if page.tag.startswith("{") else ""
        for one in page.iter(f"{space}Upload"):
            key, upload = (one.findtext(f"{space}{name}") or "" for name in ("Key", "UploadId"))
            if key == address.key or key.startswith(address.key + "/") or not address.key:
                found.append(Upload(str(address._replace(key=key)), upload, one.findtext(f"{space}Initiated") or ""))
        if page.findtext(f"{space}IsTruncated") != "true":
            break
        query["key-marker"] = page.findtext(f"{space}NextKeyMarker") or ""
        query["upload-id-marker"] = page.findtext(f"{space}NextUploadIdMarker") or ""
    return found


def abort(upload: Upload) -> None:
    """Remove an upload and its parts; nothing if it has ended meanwhile.

    Raises:
        CannotListError: the store refuses.
    """
    _send("DELETE", parse_address(upload.address), {"uploadId": upload.id}, missing_is_fine=True)


def _send(method: str, address: Address, query: dict[str, str], missing_is_fine: bool = False) -> bytes:
    request = _signed(method, address, query)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
            data: bytes = answer.read()
            return data
    except urllib.error.HTTPError as error:
        if missing_is_fine and error.code == 404:
            return b""
        raise CannotListError(f"the store answers {error.code} when it is asked for unfinished uploads") from None
    except OSError as error:
        raise CannotListError(f"the store does not answer: {getattr(error, 'reason', error)}") from None


def _signed(method: str, address: Address, query: dict[str, str]) -> urllib.request.Request:
    """The request, signed with the keys of the environment."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    access_key, secret_key = (os.environ.get(name, "") for name in names)
    if not access_key or not secret_key or address.scheme != "s3":
        raise CannotListError("unfinished uploads are listed only with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    endpoint = endpoint_of("s3") or f"https://s3.{region}.amazonaws.com"
    place = urllib.parse.urlsplit(endpoint)
    path = place.path.rstrip("/") + _quoted(f"/{address.bucket}" + (f"/{address.key}" if address.key else ""), "/")
    asked = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in sorted(query.items()))
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    headers = {"host": re.sub(r".*@", "", place.netloc), "x-amz-content-sha256": _NOTHING, "x-amz-date": now}
    token = os.environ.get("AWS_SESSION_TOKEN")
    if token:
        headers["x-amz-security-token"] = token
    scope = f"{now[:8]}/{region}/s3/aws4_request"
    names_signed = ";".join(headers)
    canonical = [
        method,
        path,
        asked,
        *(f"{name}:{value}" for name, value in headers.items()),
        "",
        names_signed,
        _NOTHING,
    ]
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    key = f"AWS4{secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, "\n".join(["AWS4-HMAC-SHA256", now, scope, digest]).encode(), "sha256").hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={names_signed}, Signature={signature}"
    )
    url = f"{place.scheme}://{headers['host']}{path}?{asked}"
    return urllib.request.Request(url, method=method, headers=headers)


def _quoted(text: str, safe: str = "") -> str:
    return urllib.parse.quote(text, safe=safe + "-_.~")
