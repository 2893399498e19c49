"""Paths in a store: what they can do, and what they cannot."""

import os
from pathlib import Path

from prepcli.storage.paths import StorePath, path_of, relative


def test_paths_of_addresses() -> None:
    path = path_of(Path("s3://bucket/a"))  # as typer gives it
    assert isinstance(path, StorePath)
    assert str(path / "b" / "c.tar") == "s3://bucket/a/b/c.tar"
    assert (path / "b").parent == path
    assert relative(path / "b", path) == "b"
    assert not isinstance(path, os.PathLike), "or `os.rename` would take it"
    assert path.absolute() == path
    assert path_of("a/b") == Path("a/b")
    assert type(path_of("a/b")) is type(Path("a"))


def test_a_path_in_a_store_has_only_what_a_store_can_do() -> None:
    path = path_of("s3://bucket/a/b.json")
    assert not isinstance(path, Path)
    missing = ("rename", "replace", "mkdir", "rmdir", "touch", "write_bytes", "write_text", "lstat", "chmod", "link_to")
    assert [name for name in missing if hasattr(path, name)] == []
    assert str(path.parent / path.name) == "s3://bucket/a/b.json"
