"""Checks that there are keys for a store, with a clear message if there are none. Messages never contain a key."""

import os
import socket

from prepcli.errors import UsageError

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_ROLES = (
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)
"""Environment variables with which AWS gives the keys of a role to Docker containers and Kubernetes pods."""
_ROLE_SERVICE = ("169.254.169.254", 80)
"""The service from which machines of AWS get the keys of their role."""
_SECONDS = 2.0
HOW_TO_SET = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_ENDPOINT_URL for another store than AWS; for a bucket "
    "that everybody may read, AWS_SKIP_SIGNATURE=true"
)


def check_keys(endpoint: str) -> None:
    """Check that keys for the store at `endpoint` (empty: AWS) are set, or may come from the role of an AWS machine.

    Without this check, a request would try to reach the service for roles until `patience` ends.

    Raises:
        UsageError: there are no keys, or only one of `KEYS` is set; the message says what to set.
    """
    missing = [name for name in KEYS if not os.environ.get(name)]
    if not missing or is_true("AWS_SKIP_SIGNATURE"):
        return
    if len(missing) == 1:
        other = next(name for name in KEYS if name not in missing)
        raise UsageError(f"{other} is set, but {missing[0]} is not: set both, or none of them")
    if has_profile() or any(map(os.environ.get, _ROLES)):
        return
    is_aws = not endpoint or ".amazonaws." in endpoint
    if not is_aws or not _has_role_service():
        raise UsageError(f"there are no keys for the store at {endpoint or 'AWS'}: {HOW_TO_SET}")


def has_profile() -> bool:
    """Whether requests take keys from the files of the AWS tools, such as `~/.aws/credentials`.

    False if there are no such files, if the environment has a key, or if requests go without keys
    (AWS_SKIP_SIGNATURE). Also False without boto3, because only boto3 reads the files.
    """
    if os.environ.get("AWS_ACCESS_KEY_ID") or is_true("AWS_SKIP_SIGNATURE"):
        return False
    file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.expanduser("~/.aws/credentials")
    if not (os.environ.get("AWS_PROFILE") or os.path.exists(file)):
        return False
    from importlib.util import find_spec

    return find_spec("boto3") is not None


def is_true(name: str) -> bool:
    """Whether an environment variable has a value that obstore takes for true."""
    return os.environ.get(name, "").lower() in ("1", "true", "on", "yes", "y")


def _has_role_service() -> bool:
    if is_true("AWS_EC2_METADATA_DISABLED"):
        return False
    if os.environ.get("AWS_METADATA_ENDPOINT"):
        return True
    try:
        socket.create_connection(_ROLE_SERVICE, _SECONDS).close()
    except OSError:
        return False
    return True
