"""What stands in a tar of a Shar set, as a digest: whether it holds the audio that something was made of."""

import hashlib
import tarfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from prepcli.formats.pairs import is_placeholder, walk_pairs
from prepcli.formats.tar import read_content
from prepcli.storage.input_files import FileState

AUDIO_RECORD = "parts/{}.audio.json"
"""In the workspace of a codec's codes, for each unit: the `States` of the tars that it was made of."""


class TarState(msgspec.Struct, frozen=True):
    """A tar as it was read: what shows that it has been touched since, and a digest (hex) of what stands in it."""

    num_bytes: int
    mtime_ns: int
    inode: int
    digest: str

    def is_of(self, found: FileState) -> bool:
        """Whether a file with this state has not been touched since."""
        return (self.num_bytes, self.mtime_ns, self.inode) == (found.num_bytes, found.mtime_ns, found.inode)


States = dict[str, TarState]
"""States by the tars' paths in the set."""


def content_digest(tar: Path) -> str:
    """The digest of a tar as in `TarState`; what cannot be read has none."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        for _ in tar_contents(tar, digest):
            pass
    except (OSError, EOFError, tarfile.TarError):
        return ""
    return digest.hexdigest()


def tar_contents(
    tar: Path, digest: "hashlib.blake2b"
) -> Iterator[tuple[tarfile.TarInfo, tuple[bytes, bytes, bytes] | None]]:
    """Each pair's data, with audio, digest of the audio, and manifest; None for a placeholder."""
    with tar.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as members:
        for data, recording in walk_pairs(members, check_names=False):
            if is_placeholder(data.name):
                digest.update(b"%a" % data.name)
                yield data, None
                continue
            audio, manifest = read_content(members, data), read_content(members, recording)
            own = hashlib.blake2b(audio, digest_size=16).digest()
            digest.update(b"%a %b %b" % (data.name, own, manifest))
            yield data, (audio, own, manifest)
