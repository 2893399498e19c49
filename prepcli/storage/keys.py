"""The keys of a store: which there are, and a clear line where there are none. No key is ever read into a message."""

import os
import socket

from prepcli.errors import UsageError

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_ROLES = (
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
)
"""Variables by which AWS gives the keys of a role to containers."""
_ROLE_SERVICE = ("169.254.169.254", 80)
"""Where machines of AWS ask for the keys of their role."""
_SECONDS = 2.0
HOW_TO_SET = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_ENDPOINT_URL for another store than AWS; for a bucket "
    "that everybody may read, AWS_SKIP_SIGNATURE=true"
)


def check_keys(endpoint: str) -> None:
    """Check that there are keys for the store at `endpoint` (empty: AWS), or may be: machines of AWS have a role.

    Without this check, a request would look for the service that knows the role until its patience ends.

    Raises:
        UsageError: there are none, or one of the two is missing; the message says what to set.
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
    """Whether the keys are in the files of the AWS tools, which only boto3 reads, if that is installed."""
    if os.environ.get("AWS_ACCESS_KEY_ID") or is_true("AWS_SKIP_SIGNATURE"):
        return False
    file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.expanduser("~/.aws/credentials")
    if not (os.environ.get("AWS_PROFILE") or os.path.exists(file)):
        return False
    from importlib.util import find_spec

    return find_spec("boto3") is not None


def is_true(name: str) -> bool:
    """Whether a variable is set to something that obstore takes for true."""
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
