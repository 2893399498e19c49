"""Tokenizers on Hugging Face's hub.

A copy on this machine is used if there is one. Otherwise one check shows whether the hub can be reached.
"""

import os
import re
from urllib.parse import urlsplit

from prepcli.errors import UsageError
from prepcli.interface.printing import first_line

FILE = "tokenizer.json"
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""Environment variables with which Hugging Face's packages use no network."""
CONNECT_SECONDS = 5.0

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_MAX_NAME = 96
"""The limit of huggingface_hub."""
_ADVICE = "give a .model or tokenizer.json file, the folder of one, or the name of a tokenizer on the hub (owner/name)"


def is_hub_name(name: str) -> bool:
    """Whether the hub could have a model of this name: `owner/name`, or one word as in the oldest names."""
    return len(name) <= _MAX_NAME and _NAME.fullmatch(name) is not None and "--" not in name and ".." not in name


def tokenizer_file(name: str) -> str:
    """Return the path of the `tokenizer.json` of a name on the hub; it is downloaded if this machine has no copy.

    Raises:
        UsageError: a package is missing, the hub cannot be reached, or it has no tokenizer of this name.
    """
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import (
            EntryNotFoundError,
            GatedRepoError,
            LocalEntryNotFoundError,
            RepositoryNotFoundError,
        )
    except ImportError:
        raise UsageError("Hugging Face tokenizers need a package: pip install 'prepcli[hf]'") from None
    cached = check_reachable(name, FILE)
    if cached is not None:
        return cached
    host = _host()
    try:
        return str(hf_hub_download(name, FILE))
    except GatedRepoError:
        raise UsageError(
            f"the tokenizer {name} on {host} is only for those who have agreed to its terms: agree there, and log in "
            "with `hf auth login`"
        ) from None
    except RepositoryNotFoundError:
        raise UsageError(f"{_not_here(name)}, and {host} has no public {name}; {_ADVICE}") from None
    except LocalEntryNotFoundError as error:  # the hub has not answered; this class derives from the next one
        why = first_line(error.__cause__ or error)
        raise UsageError(f"{_not_here(name)}, and downloading it from {host} failed: {why}") from None
    except EntryNotFoundError:
        raise UsageError(f"{_not_here(name)}, and {name} on {host} has no {FILE}; {_ADVICE}") from None
    except Exception as error:  # errors of the network and of the disk
        raise UsageError(f"{_not_here(name)}, and downloading it from {host} failed: {first_line(error)}") from None


def check_reachable(name: str, *files: str) -> str | None:
    """Return this machine's copy of one of the `files` of a hub model; without one, check that the hub can be reached.

    The check is one attempt. Hugging Face's packages make five attempts, which take half a minute.

    Returns:
        The path of the first of the files that is on this machine; None if there is none and the hub can be reached, or
        requests go through a proxy, which is not checked.

    Raises:
        UsageError: the hub cannot be reached.
    """
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.constants import ENDPOINT

    for file in files:
        cached = try_to_load_from_cache(name, file)
        if isinstance(cached, str):
            return cached
    why = _no_connection(ENDPOINT)
    if why is not None:
        raise UsageError(f"{_not_here(name)}, and it cannot be looked up on {_host()}: {why}; {_ADVICE}")
    return None


def _not_here(name: str) -> str:
    return f"tokenizer not found: {name} is neither a file nor a folder"


def _host() -> str:
    from huggingface_hub.constants import ENDPOINT

    return urlsplit(ENDPOINT).hostname or str(ENDPOINT)


def _no_connection(endpoint: str) -> str | None:
    """Return the reason why the hub cannot be reached; None if it can, or if requests go through a proxy."""
    offline = next((name for name in OFFLINE if os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE")), None)
    if offline is not None:
        return f"{offline} is set, so nothing is downloaded"
    import socket  # each import takes milliseconds; counting tokens by a file does not need them
    import urllib.request

    address = urlsplit(endpoint)
    host = address.hostname or ""
    if address.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host):
        return None
    try:
        port = address.port or (80 if address.scheme == "http" else 443)
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as error:
        return f"this machine is offline, or behind a firewall ({error.strerror or error})"
    return None
