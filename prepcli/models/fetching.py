"""Pretrained models on NVIDIA's servers: fetched once for all ranks, and whole before they get their name.

NeMo fetches to the final name, in every process that finds no file there: ranks that start together read what another
one is writing, and what a killed process has left stays for good. Hugging Face's hub has locks of its own.
"""

import gzip
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TextIO

from prepcli.engine.ranks.claims import Claims, do_together
from prepcli.engine.run.report import format_bytes
from prepcli.errors import IncompleteError, PrepcliError
from prepcli.formats.tar import BLOCK
from prepcli.interface.calls import tell
from prepcli.processes.owner import new_rank_id
from prepcli.storage.transfer import Part, download

_NEMOS_NAME = "maybe_download_from_cloud"
_FAILURES = 3
"""Consecutive failures after which the network counts as not there: nodes of a cluster often have none."""


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
def fetching_once(said: TextIO) -> Iterator[None]:
    """Within the context NeMo, which must be imported, fetches models by `fetch_model`; its notes go to `said`."""
    from nemo.core.classes import common

    theirs = getattr(common, _NEMOS_NAME, None)
    if theirs is None:  # of another version
        yield
        return
    setattr(common, _NEMOS_NAME, partial(_in_place_of_nemos, said))
    try:
        yield
    finally:
        setattr(common, _NEMOS_NAME, theirs)


def _in_place_of_nemos(said: TextIO, url: str, filename: str, cache_dir: Path, subfolder: str, **_: object) -> str:
    target = Path(cache_dir, subfolder, filename)
    with redirect_stderr(said):
        fetch_model(url + filename, target)
    return str(target)


def fetch_model(url: str, target: Path) -> None:
    """Fetch a `.nemo` file, unless it is there and whole; one of several processes does, and the others wait.

    A download that breaks is continued, also by another process. What lies in the place of the file is replaced only
    by a whole file.

    Raises:
        IncompleteError: the connection has broken several times; what was fetched is kept.
        PrepcliError: the server cannot be reached, or has no whole file.
    """
    model = _Model(url, target)
    if _is_whole(model):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = target.with_name(f".{target.name}.claims")
    do_together([model], _fetch, _is_whole, Claims(folder, 0, new_rank_id()))
    shutil.rmtree(folder, ignore_errors=True)  # with what killed processes have left; nobody has to wait any more


def _fetch(model: _Model) -> None:
    part_file = model.target.with_name(f"{model.name}.part")
    tell(f"note: fetching {model.name} to {model.target.parent}")
    with Part(part_file, "sha256") as part:
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
    found = path.stat()
    return found.st_size, found.st_mtime_ns


@lru_cache(maxsize=8)
def _reads_whole(path: Path, size: int, changed: int) -> bool:
    """Whether a tar archive can be read to its end; looked at once while its size and time stay.

    An archive that is cut off in a header ends there for `tarfile`, so the block of zeros behind the members is looked
    for; at the end of a compressed file its checksum is compared.
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
