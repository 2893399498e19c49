"""The files of a folder: by the numbers of shards, with missing buckets and two files of one shard."""

from pathlib import Path

import pytest

from prepcli.errors import UsageError
from prepcli.formats.sets import open_set
from prepcli.formats.stored_set import pattern
from prepcli.formats.tarred import TarredSet
from tests.formats.test_sets import make


def test_shards_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = [f"audio_{number}.tar" for number in (10, 9, 2)]
    assert list(TarredSet(make(tmp_path, *names)).shards) == [2, 9, 10]
    assert pattern(TarredSet(tmp_path).shards) == [f"{tmp_path}/{name}" for name in reversed(names)]


def test_two_files_of_a_shard(tmp_path: Path) -> None:
    """The set is found, and whoever asks for its shards gets the error."""
    one = open_set(make(tmp_path, "cuts/cuts.000000.jsonl", "cuts/cuts.000000.jsonl.gz"))
    assert one is not None
    with pytest.raises(UsageError, match="two files of the same shard"):
        one.shards  # noqa: B018


def test_missing_buckets(tmp_path: Path) -> None:
    one = open_set(make(tmp_path, "bucket1/audio_0.tar", "bucket10/audio_0.tar", "bucket2/notes.txt"))
    assert isinstance(one, TarredSet)
    assert list(one.parts) == [1, 2, 10]
    assert [part.folder.name for part in one.sets] == ["bucket1", "bucket10"]
    with pytest.raises(UsageError, match="holds bucket10, but not bucket2, bucket3, "):
        one.check_parts()
