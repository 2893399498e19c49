"""An input that changes during a run stops the run; other permissions, names and inode numbers do not."""

import gzip
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prepcli.commands.manifest_to_tarred import making, shards
from prepcli.errors import InputChangedError
from prepcli.storage.input_files import check_unchanged, state_of
from tests.conftest import SHORT_CORPUS, read_lines, tree
from tests.support.running import prepcli

MINI = SHORT_CORPUS / "manifest.json"


def in_place(path: Path, content: bytes) -> None:
    with path.open("r+b") as file:
        file.write(content)


def by_rename(path: Path, content: bytes) -> None:
    path.with_suffix(".new").write_bytes(content)
    path.with_suffix(".new").replace(path)


@pytest.mark.parametrize("rewrite", [in_place, by_rename])
@pytest.mark.parametrize("packed", [False, True])
def test_a_manifest_rewritten_during_a_run(
    rewrite: Callable[[Path, bytes], None], packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old and new lines must not be mixed, and nothing made of new lines may be taken for the old ones' output."""
    manifest = tmp_path / ("m.json.gz" if packed else "m.json")
    old = MINI.read_bytes()
    new = old.replace(b'"text": "', b'"text": "X')
    pack: Callable[[bytes], bytes] = gzip.compress if packed else bytes

    def write_old() -> None:
        manifest.write_bytes(pack(old))
        os.utime(manifest, (1_000_000_000, 1_000_000_000))  # metadata.yaml tells it

    write_old()
    arguments = [manifest, "--audio-base-dir", SHORT_CORPUS, "--num-shards", 3, "--num-workers", 1]
    assert prepcli("manifest-to-tarred", arguments[0], tmp_path / "reference", *arguments[1:]).code == 0
    write = shards.write_shard

    def slow(contents: Any, unit: Any, writer: Any, form: Any) -> None:
        write(contents, unit, writer, form)
        rewrite(manifest, pack(new))

    monkeypatch.setattr(making, "write_shard", slow)
    done = prepcli("manifest-to-tarred", arguments[0], tmp_path / "out", *arguments[1:])
    assert done.code == 1
    assert f"{manifest} was changed during the run" in done.error_line
    assert not (tmp_path / "out/tarred_audio_manifest.json").exists()
    monkeypatch.undo()
    assert prepcli("manifest-to-tarred", arguments[0], tmp_path / "out", *arguments[1:]).code == 0
    lines = read_lines(tmp_path / "out/tarred_audio_manifest.json")
    assert all(line["text"].startswith("X") for line in lines)
    write_old()
    refused = prepcli("manifest-to-tarred", arguments[0], tmp_path / "out", *arguments[1:])
    assert refused.code == 2
    assert "has another content" in refused.error_line
    assert prepcli("manifest-to-tarred", arguments[0], tmp_path / "out", *arguments[1:], "--overwrite").code == 0
    assert tree(tmp_path / "out") == tree(tmp_path / "reference")


def with_the_time_of_before(path: Path, content: bytes) -> None:
    """Size and time of modification are the same."""
    before = path.stat()
    in_place(path, content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


def replaced_with_the_time_of_before(path: Path, content: bytes) -> None:
    before = path.stat()
    by_rename(path, content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


OTHER = re.sub(rb'("text": ")(.)', lambda found: found[1] + found[2].swapcase(), MINI.read_bytes())


@pytest.mark.parametrize("rewrite", [with_the_time_of_before, replaced_with_the_time_of_before])
@pytest.mark.parametrize("units_before", [0, 2])
def test_a_manifest_rewritten_with_the_size_and_time_that_it_had(
    units_before: int, rewrite: Callable[[Path, bytes], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the beginning, and after the last line was read."""
    manifest = Path(shutil.copy(MINI, tmp_path / "m.json"))
    write, done = shards.write_shard, tmp_path / "done"

    def slow(contents: Any, unit: Any, writer: Any, form: Any) -> None:
        if units_before == 0:
            rewrite(manifest, OTHER)
        write(contents, unit, writer, form)
        with done.open("a") as file:
            file.write("x")
        if done.stat().st_size == units_before:
            rewrite(manifest, OTHER)

    monkeypatch.setattr(making, "write_shard", slow)
    options = ["--audio-base-dir", SHORT_CORPUS, "--num-shards", 2, "--num-workers", 1]
    stopped = prepcli("manifest-to-tarred", manifest, tmp_path / "out", *options)
    assert stopped.code == 1
    assert f"{manifest} was changed during the run" in stopped.error_line


def test_other_permissions_and_another_name_are_not_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They change `ctime`, as a network file system may change the inode: then the content decides."""
    manifest = Path(shutil.copy(MINI, tmp_path / "m.json"))
    write = shards.write_shard

    def slow(contents: Any, unit: Any, writer: Any, form: Any) -> None:
        manifest.chmod(0o640)
        os.link(manifest, tmp_path / f"{unit.id}.json")
        write(contents, unit, writer, form)

    monkeypatch.setattr(making, "write_shard", slow)
    options = ["--audio-base-dir", SHORT_CORPUS, "--num-shards", 2, "--num-workers", 1, "--json"]
    done = prepcli("manifest-to-tarred", manifest, tmp_path / "out", *options)
    assert (done.code, done.json["records_out"]) == (0, 48)


def test_another_inode_alone_is_not_a_change(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("content")
    before = state_of(file)
    assert check_unchanged(file, before._replace(inode=before.inode + 1)) == before
    with pytest.raises(InputChangedError):
        check_unchanged(file, before._replace(ctime_ns=before.ctime_ns - 1))
    with pytest.raises(InputChangedError):  # not where the content says so
        check_unchanged(file, before._replace(inode=before.inode + 1), same_content=lambda: False)
