"""Computes digests of a Shar tar: they show whether its audio has changed since codes were made from it."""

import contextlib
import hashlib
import tarfile
from collections.abc import Iterator

from prepcli.errors import naming
from prepcli.formats.pairs import is_placeholder, walk_pairs
from prepcli.formats.tar import read_content
from prepcli.storage.paths import AnyPath


def content_digest(tar: AnyPath) -> str:
    """The BLAKE2 digest (hex) of a Shar tar's content up to its end or to the point of damage; empty if unreadable."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with contextlib.suppress(EOFError, tarfile.TarError):
            for _ in tar_contents(tar, digest):
                pass
    except OSError:
        return ""
    return digest.hexdigest()


def tar_contents(
    tar: AnyPath, digest: "hashlib.blake2b"
) -> Iterator[tuple[tarfile.TarInfo, tuple[bytes, bytes, bytes] | None]]:
    """Yield, for each data member in a Shar tar, its header and a tuple: audio, digest of the audio, and manifest.

    For a placeholder, None takes the place of the tuple. `digest` is updated with the name of each data member, the
    digest of its audio, and its manifest; for a placeholder, with the name alone.
    """
    with naming(tar), tar.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as members:
        for data, recording in walk_pairs(members, check_names=False):
            if is_placeholder(data.name):
                digest.update(b"%a" % data.name)
                yield data, None
                continue
            audio, manifest = read_content(members, data), read_content(members, recording)
            own = hashlib.blake2b(audio, digest_size=16).digest()
            digest.update(b"%a %b %b" % (data.name, own, manifest))
            yield data, (audio, own, manifest)
