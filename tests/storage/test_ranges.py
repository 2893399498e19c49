"""An object as a file: every way of reading gives its bytes, and never those of an object that has replaced it."""

import random
from pathlib import Path

import pytest

from prepcli.errors import InputChangedError
from prepcli.storage.ranges import FIRST_BYTES, RangeFile
from tests.storage.buckets import Bucket

pytestmark = pytest.mark.slow


@pytest.fixture
def there(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    for name, value in bucket.store.environ.items():
        monkeypatch.setenv(name, value)
    return bucket


def test_every_way_of_reading_gives_the_bytes(there: Bucket, tmp_path: Path) -> None:
    data = random.Random(1).randbytes(2 * FIRST_BYTES + 17)
    (tmp_path / "object").write_bytes(data)
    there.upload(tmp_path, "folder")
    file = RangeFile.open(there / "folder/object")
    assert (file.info.num_bytes, file.beginning) == (len(data), data[:FIRST_BYTES])
    for start, length in ((0, 5), (FIRST_BYTES - 3, 6), (FIRST_BYTES + 9, 40), (len(data) - 4, 9), (len(data), 1)):
        assert file.read_at(start, length) == data[start : start + length]
        assert file.read_near(length, start) == data[start : start + length]
    file.seek(0)
    assert file.read() == data


def test_an_empty_object(there: Bucket) -> None:
    file = RangeFile.open(there.put("empty", ""))
    assert (file.read(), file.info.num_bytes) == (b"", 0)


def test_an_object_that_is_replaced_meanwhile(there: Bucket) -> None:
    """By one of the same size: what is held was read before; nothing more is read."""
    size = FIRST_BYTES + 100
    file = RangeFile.open(there.put("object", "a" * size))
    there.put("object", "b" * size)
    assert file.read_at(FIRST_BYTES - 10, 10) == b"a" * 10
    with pytest.raises(InputChangedError, match=f"{there / 'object'} was changed during the run"):
        file.read_at(FIRST_BYTES - 10, 20)
    with pytest.raises(InputChangedError):
        file.read_near(20, FIRST_BYTES - 10)
