"""Turns errors of a store into errors of prepcli: one line, never with a secret."""

import errno
import itertools
import os
import random
import re
import time
from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

from prepcli.errors import IncompleteError, InputChangedError, UsageError
from prepcli.storage.addresses import UNNAMED, Address, AddressError
from prepcli.storage.keys import HOW_TO_SET, KEYS, is_true

Result = TypeVar("Result")

PATIENCE = "PREPCLI_STORE_PATIENCE"
"""Environment variable: seconds for which a request is repeated while the store does not answer (default 180)."""
_REFUSED = re.compile(r"status 4(?!08|29)")
"""Matches the message of an error for which another attempt would not help. Status 408 and 429 are left out: with them,
the server asks for another attempt.
"""
_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AIS_AUTHN_TOKEN")
_CODE = re.compile(r"<Code>([A-Za-z0-9]+)</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
_REASON = re.compile(r" - (?:HTTP error: )?(.*)")
_KEY = re.compile(r'[Pp]ath:? "(.*?)"', re.DOTALL)
_MAX_REASON = 200


class StoreError(IncompleteError):
    """A request to a store has failed: the store did not answer, or answered with an error.

    If another attempt may help, `retried` makes several attempts before it raises this error.

    `retry_after`: the seconds that the store asks to wait; None if it does not ask.
    """

    retry_after: float | None = None


def patience() -> float:
    """Seconds for which a request is repeated while the store does not answer.

    Raises:
        UsageError: the environment variable `PREPCLI_STORE_PATIENCE` is not a number.
    """
    text = os.environ.get(PATIENCE, "180")
    try:
        return max(float(text), 0.0)
    except ValueError:
        raise UsageError(f"{PATIENCE} is {text!r}; it must be a number of seconds") from None


def retried(send: Callable[[], Result], translate: Callable[[Exception], Exception]) -> Result:
    """Send a request and return its result; send it again after a `StoreError` if another attempt may help.

    After `patience()` seconds no further attempt is made, and the error is raised. `translate` makes prepcli's error
    from an error of the library that sends the requests.
    """
    give_up = time.monotonic() + patience()
    for attempt in itertools.count():
        try:
            return send()
        except Exception as error:
            failure = translate(error)
            if not isinstance(failure, StoreError) or _REFUSED.search(str(failure)):
                raise failure from None
            wait = failure.retry_after
            if wait is None:
                wait = min(0.1 * 2**attempt, 5.0) * random.uniform(0.5, 1.0)
            if time.monotonic() + wait > give_up:
                raise failure from None
            time.sleep(wait)
    raise AssertionError


def obstore_package() -> ModuleType:
    """The package obstore, which makes the requests.

    Raises:
        UsageError: obstore is not installed.
    """
    try:
        import obstore
    except ImportError as error:
        why = "" if isinstance(error, ModuleNotFoundError) else f" ({error})"
        raise UsageError(f"addresses in an object store need obstore: pip install 'prepcli[s3]'{why}") from None
    return obstore


def missing_object(address: Address | str) -> FileNotFoundError:
    """The error for an object that does not exist."""
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(address))


def translated(error: Exception, address: Address, endpoint: str) -> Exception:
    """The error of prepcli to raise in place of an error of obstore.

    The message of obstore's error is too long for users: it may be the whole answer of the store.
    """
    text = str(error)
    kind = type(error).__name__
    code, status = _first(_CODE, text), _first(_STATUS, text)
    if code == "NoSuchBucket":
        return UsageError(
            f"there is no bucket {address.bucket} at {endpoint}: make it, or correct the address {address}"
        )
    if kind in ("NotFoundError", "FileNotFoundError"):
        return missing_object(address)
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or status in ("401", "403"):
        return UsageError(
            f"access to {address} at {endpoint} was denied ({code or 'status ' + (status or '403')}): "
            f"{_advice(address.scheme)}"
        )
    if kind == "PreconditionError":
        return InputChangedError(
            f"{address} was changed during the run, which has stopped; let nothing write to it and run the same "
            "command again"
        )
    if kind == "InvalidPathError":
        key = _first(_KEY, text) or "?"
        return AddressError(
            f"{address} cannot be listed because of the object {key!r}: {UNNAMED}; remove it, or copy it to another key"
        )
    if code in ("InvalidBucketName", "KeyTooLongError", "InvalidURI"):
        return UsageError(f"{address} is not an address that the store accepts ({code})")
    return StoreError(
        f"{address}: the store at {endpoint} has failed: {_reason(text, code, status)}; check that it runs"
    )


def _advice(scheme: str) -> str:
    """Advice for the message that access was denied.

    Missing keys need no advice here: `check_keys` refuses them earlier.
    """
    if scheme == "ais":
        return "check AIS_AUTHN_TOKEN, and what it allows in the bucket"
    if is_true("AWS_SKIP_SIGNATURE"):
        return f"no keys are used, as AWS_SKIP_SIGNATURE is set: {HOW_TO_SET}"
    if all(map(os.environ.get, KEYS)):
        return "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and what this key may do in the bucket"
    return "check what the profile or the role whose keys are used may do in the bucket"


def _reason(text: str, code: str | None, status: str | None) -> str:
    if code or status:
        return " ".join(part for part in (f"status {status}" if status else "", code or "") if part)
    first_line = text.partition("\n")[0]
    return without_secrets(_first(_REASON, first_line) or first_line)[:_MAX_REASON].strip().rstrip(".") or "no reason"


def without_secrets(text: str) -> str:
    """The text with `***` in place of every secret from the environment."""
    for name in _SECRETS:
        secret = os.environ.get(name)
        if secret:
            text = text.replace(secret, "***")
    return text


def _first(pattern: "re.Pattern[str]", text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None


def message_of(error: Exception) -> str:
    """The message of an error of the library `requests`, without the `repr` of Python objects such as connections."""
    inner = error.args[0] if error.args and isinstance(error.args[0], Exception) else error
    inner = getattr(inner, "reason", None) or inner
    text = str(inner.args[0] if inner.args else inner)
    return re.sub(r"^\S*HTTPS?Connection.*?[>)]: ", "", text)
