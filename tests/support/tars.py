"""Writes tars with a few files, such as models in NeMo's format."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path


def write_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write a tar of files, given the content of each by its name; returns its path."""
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path
