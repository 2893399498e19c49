"""The audio of rows is read in batches, in any order, and never more of a large row group than is needed."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from prepcli.errors import RecordRejected, UsageError
from prepcli.formats import parquet_audio
from prepcli.formats.members import audio_of, forget
from prepcli.formats.parquet_audio import HeldRows
from prepcli.storage.addresses import ByteRange
from prepcli.storage.containers import Place, name_in, place_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

COUNT = 200


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    forget()


def value(row: int) -> bytes:
    """What stands for the audio of a row; readers look at its bytes only later."""
    return f"audio {row} ".encode() * (1 + row % 50)


def write(path: Path, *, compression: str = "snappy", rows: int = COUNT) -> Path:
    """Write a file with one row group, whose column is not encoded by a dictionary."""
    sounds = [{"bytes": value(row), "path": None} for row in range(rows)]
    column = pa.array(sounds, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    options = {"use_dictionary": False, "data_page_size": 2000, "write_page_checksum": True, "write_batch_size": 10}
    pq.write_table(pa.table({"audio": column}), path, compression=compression, **options)
    return path


def read(path: Path, row: int) -> ByteRange | bytes:
    place = place_of(name_in(str(path), str(row)))
    assert isinstance(place, Place)
    return audio_of(place)


def content(audio: ByteRange | bytes) -> bytes:
    if isinstance(audio, bytes):
        return audio
    return Path(audio.path).read_bytes()[audio.start : audio.start + audio.length]


def test_rows_in_their_order_are_held_in_batches(tmp_path: Path) -> None:
    """A file whose only row group had 2.3 GB took 5.8 GB in each process."""
    path = write(tmp_path / "a.parquet")
    for row in range(0, COUNT, 3):
        assert read(path, row) == value(row)
        assert len(HeldRows._values) <= parquet_audio._BATCH_ROWS


def test_a_row_group_is_held_whole_when_a_row_before_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    for row in (150, 20, 199, 0):
        assert read(path, row) == value(row)
    assert len(HeldRows._values) == COUNT


def test_a_large_one_only_after_some_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_audio, "_MAX_WHOLE", 1000)
    path = write(tmp_path / "a.parquet")
    num_returns = 0
    for number in range(3 * parquet_audio._MAX_RETURNS):
        row = (100, 10)[number % 2]
        num_returns += row == 10
        assert read(path, row) == value(row)
        assert (len(HeldRows._values) == COUNT) == (num_returns > parquet_audio._MAX_RETURNS)


@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_any_order(compression: str, tmp_path: Path, draw: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_audio, "_MAX_WHOLE", draw.choice([0, 1 << 28]))
    paths = [write(tmp_path / f"{name}.parquet", compression=compression) for name in "ab"]
    rows = [draw.randrange(COUNT) for _ in range(3 * COUNT)]
    seen: dict[Path, int] = {}
    for row in rows:
        path = draw.choice(paths)
        audio = read(path, row)
        assert content(audio) == value(row)
        if compression == "none" and row <= seen.get(path, -1):
            assert isinstance(audio, ByteRange), "its place is known since a row after it was read"
        seen[path] = max(seen.get(path, -1), row)


@pytest.mark.parametrize("max_whole", [0, 1 << 28])
def test_rows_before_damage_are_read_in_any_order(
    max_whole: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads them, and whatever was read before: the outcome of a row is the same."""
    monkeypatch.setattr(parquet_audio, "_MAX_WHOLE", max_whole)
    path = write(tmp_path / "a.parquet")
    data = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(0).column(0)
    at = chunk.data_page_offset + chunk.total_compressed_size // 2
    data[at : at + 20] = bytes(20)
    path.write_bytes(data)

    def outcome(row: int) -> bool:
        try:
            return read(path, row) == value(row)
        except (RecordRejected, UsageError):
            return False

    ascending = [outcome(row) for row in range(COUNT)]
    forget()
    descending = [outcome(row) for row in reversed(range(COUNT))][::-1]
    assert ascending == descending
    assert (ascending[0], ascending[-1]) == (True, False)
    assert ascending == sorted(ascending, reverse=True)
