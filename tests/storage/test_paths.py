"""Paths in a store: what they can do, and what they cannot."""

import os
from pathlib import Path

import pytest

from prepcli.storage import client
from prepcli.storage.paths import StorePath, matching, path_of, relative


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


def test_a_bucket_is_not_read_as_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is requested: the answer of a store would be its listing."""
    monkeypatch.setattr(client, "store_of", lambda address: pytest.fail("a request"))
    with pytest.raises(IsADirectoryError, match="s3://bucket"):
        path_of("s3://bucket").open()


def test_patterns_of_names_in_a_store() -> None:
    names = ["codes/a.pt", "codes/b/c/d.pt", "codes/b/d.pty", "other/codes/a.pt"]
    assert [*matching(names, ["codes/**/*.pt"])] == names[:2]
    assert [*matching(names, ["codes/*.pt"])] == names[:1]
    assert [*matching(names, ["codes/b/*", "other/*/a.pt"])] == names[2:]
