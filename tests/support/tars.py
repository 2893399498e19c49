"""Writes tars with a few files, such as models in NeMo's format."""

import io
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path


def write_tar(path: Path, files: Mapping[str, bytes] | Iterable[tuple[str, bytes]], mode: str = "w") -> Path:
    """Write a tar of files, given the content of each by its name; returns its path."""
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, data in files.items() if isinstance(files, Mapping) else files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path
