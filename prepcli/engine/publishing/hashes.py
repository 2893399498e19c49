"""Hashes of published files: XXH3 (128 bits) since version 0.4, SHA-256 in the records of version 0.3.

XXH3 takes a thirtieth of the time of SHA-256. It finds damage and other content, but not content that was made to have
the same hash. Inputs, models and downloads have SHA-256 digests.
"""

import hashlib

import xxhash

from prepcli.storage.paths import AnyPath, blocks_of

XXH3 = "xxh3:"
"""The start of a published hash of this kind; without it, a published hash is the hex digits of a SHA-256."""
OTHER_BYTES = "not the bytes that were published (its hash differs)"


class ContentHash:
    """The hash of some content, which is passed to `update` in pieces; it is compared with a published hash.

    Attributes:
        update: adds a piece of the content.
    """

    def __init__(self, published: str | None = None, data: bytes = b"") -> None:
        """Start with the content `data`. The hash is of the kind of `published`, or XXH3 if that is None."""
        self._published = published
        self._prefix = XXH3 if published is None or published.startswith(XXH3) else ""
        self._hash = xxhash.xxh3_128(data) if self._prefix else hashlib.sha256(data)
        self.update = self._hash.update

    @property
    def text(self) -> str:
        """The hash in the form of a published hash."""
        return self._prefix + self._hash.hexdigest()

    @property
    def differs(self) -> bool:
        """Whether this is not the published hash; False if there is none to compare with."""
        return self._published not in (None, self.text)


def hash_of(path: AnyPath, published: str | None = None) -> ContentHash:
    """The hash of a file, of the kind of `published`."""
    content = ContentHash(published)
    for block in blocks_of(path):
        content.update(block)
    return content


def sha256_of(path: AnyPath) -> str:
    """The SHA-256 (hex) of a file."""
    digest = hashlib.sha256()
    for block in blocks_of(path):
        digest.update(block)
    return digest.hexdigest()
