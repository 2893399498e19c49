"""Downloads pretrained models from NVIDIA's servers.

One rank downloads for all ranks. Only a complete file gets the final name.

NeMo itself downloads to the final name, in every process that finds no file: ranks that start together read a file that
another one is writing, and the incomplete file of a killed process stays. Hugging Face's hub has locks.
"""

import gzip
import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TextIO

from prepcli.engine.lock import do_once
from prepcli.engine.run.report import format_bytes
from prepcli.errors import IncompleteError, PrepcliError
from prepcli.formats.tar import BLOCK
from prepcli.interface.calls import tell
from prepcli.storage.transfer import PartialFile, download

_NEMOS_NAME = "maybe_download_from_cloud"
_FAILURES = 3
"""Number of consecutive failures after which this machine counts as offline: cluster nodes often have no network."""


@dataclass(frozen=True, slots=True)
class _Model:
    """A model to fetch from `url` to `target`."""

    url: str
    target: Path

    @property
    def name(self) -> str:
        """The file name."""
        return self.target.name


@contextmanager
def fetching_once(messages: TextIO) -> Iterator[None]:
    """Within the context, NeMo downloads models by `fetch_model`, whose messages are written to `messages`.

    NeMo must be imported before.
    """
    from nemo.core.classes import common

    theirs = getattr(common, _NEMOS_NAME, None)
    if theirs is None:  # another version of NeMo
        yield
        return
    setattr(common, _NEMOS_NAME, partial(_in_place_of_nemos, messages))
    try:
        yield
    finally:
        setattr(common, _NEMOS_NAME, theirs)


def _in_place_of_nemos(messages: TextIO, url: str, filename: str, cache_dir: Path, subfolder: str, **_: object) -> str:
    target = Path(cache_dir, subfolder, filename)
    with redirect_stderr(messages):
        fetch_model(url + filename, target)
    return str(target)


def fetch_model(url: str, target: Path) -> None:
    """Download a `.nemo` file unless it exists and is complete; one process downloads, and the others wait.

    A download that breaks is continued, also by another process. An existing file is replaced only by a complete one.

    Raises:
        IncompleteError: the connection has broken several times; the downloaded bytes are kept.
        PrepcliError: the server cannot be reached, or has no complete file.
    """
    model = _Model(url, target)
    if _is_whole(model):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = target.with_name(f".{target.name}.lock")
    do_once(lock, lambda _: _fetch(model), lambda: _is_whole(model), f"is fetching {model.name}")


def _fetch(model: _Model) -> None:
    part_file = model.target.with_name(f"{model.name}.part")
    tell(f"note: fetching {model.name} to {model.target.parent}")
    with PartialFile(part_file, "sha256") as part:
        try:
            download(model.name, [model.url], False, part, lambda done, total: None, _FAILURES)
        except IncompleteError as error:
            if part.num_bytes:
                raise
            raise PrepcliError(str(error)) from error
        part.finish()
    is_whole = _reads_whole(part_file, *_state(part_file))
    part.forget()
    if not is_whole:
        part_file.unlink()
        raise PrepcliError(f"{model.url} is not a whole .nemo file")
    os.replace(part_file, model.target)
    tell(f"note: fetched {model.name}, {format_bytes(model.target.stat().st_size)}")


def _is_whole(model: _Model) -> bool:
    try:
        return _reads_whole(model.target, *_state(model.target))
    except FileNotFoundError:
        return False


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


@lru_cache(maxsize=8)
def _reads_whole(path: Path, size: int, changed: int) -> bool:
    """Whether a tar archive can be read to its end.

    The archive is read once, and again only if its `size` or the time of its last change, `changed`, differs. `tarfile`
    accepts an archive that is cut off in a header, so the block of zeros after the last member is required. Reading to
    the end of a compressed file also verifies its checksum.
    """
    try:
        with tarfile.open(path, "r:*") as tar:
            num_members = sum(1 for _ in tar)
            file: Any = tar.fileobj
            file.seek(tar.offset)
            is_whole = num_members > 0 and file.read(BLOCK) == bytes(BLOCK)
            while file.read(1 << 20):
                pass
            return is_whole
    except (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, ValueError, LookupError):
        return False
