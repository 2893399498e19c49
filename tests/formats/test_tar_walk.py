"""Offsets of the members of any tar, and damage that is found."""

import contextlib
import io
import random
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from prepcli.formats import tar_walk
from prepcli.formats.indexes import (
    DamagedError,
    make_index,
)
from tests.formats.test_indexes import by_tarfile, make_tar

LONG = "an_utterance_with_a_name_" + "x" * 120


def test_other_members(tmp_path: Path) -> None:
    """Folders, links, global headers and old headers: `tarfile` itself reads those."""
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "all"}) as tar:
        for name, kind in (("d", tarfile.DIRTYPE), ("d/a.wav", tarfile.AREGTYPE), ("l", tarfile.SYMTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.size = kind, 900 * (kind == tarfile.AREGTYPE)
            tar.addfile(info, io.BytesIO(bytes(info.size)))
        tar.addfile(tarfile.TarInfo("empty.wav"))
    assert make_index(path, "nemo_tar") == by_tarfile(path, "nemo_tar")
    assert make_index(path, "shar_tar") == by_tarfile(path, "shar_tar")


def test_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than are checked at once, and larger than what is read at once."""
    monkeypatch.setattr(tar_walk, "_CHECKED_AT_ONCE", 4)
    path = make_tar(tmp_path / "x.tar", [f"{n}.wav" for n in range(30)], tarfile.GNU_FORMAT, lambda n: n * n * 17)
    assert make_index(path, "nemo_tar") == by_tarfile(path, "nemo_tar")


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_plain_and_other_headers_in_any_order(format: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random.Random(format)
    sizes = [0, 1, 512, 513, 1024, 3000]
    for turn in range(30):
        monkeypatch.setattr(tar_walk, "_CHECKED_AT_ONCE", generator.choice([1, 3, 240]))
        names = [f"{generator.choice(['a', 'é', LONG, 'x.'])}{generator.randint(0, 2)}.wav" for _ in range(12)]
        path = make_tar(tmp_path / f"{turn}.tar", names, format, lambda _: generator.choice(sizes))
        assert make_index(path, "nemo_tar") == by_tarfile(path, "nemo_tar")
        assert make_index(path, "shar_tar") == by_tarfile(path, "shar_tar")


def cut_in_data(data: bytes) -> bytes:
    return data[:1800]


def cut_in_header(data: bytes) -> bytes:
    return data[:1300]


def change_header(data: bytes) -> bytes:
    return data[:1030] + b"X" + data[1031:]


def is_text(data: bytes) -> bytes:
    return b"no tar at all" * 100


def is_empty(data: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [cut_in_data, cut_in_header, change_header, is_text, is_empty])
def test_a_damaged_tar_has_no_index(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = make_tar(tmp_path / "x.tar", ["a.wav", "b.wav"], tarfile.GNU_FORMAT, lambda _: 700 - 200)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DamagedError, match="it is"):
        make_index(path, "nemo_tar")


def test_a_size_below_zero_ends(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", ["a.wav", "b.wav"], tarfile.GNU_FORMAT)
    data = bytearray(path.read_bytes())
    data[124:136] = b"-0000001000\0"
    data[148:156] = b"%06o\0 " % (sum(data[:148]) + sum(data[156:512]) + 8 * 32)
    path.write_bytes(data)
    with pytest.raises(DamagedError):
        make_index(path, "nemo_tar")


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_any_damage_is_said_or_harmless(tmp_path: Path, draw: random.Random, format: int) -> None:
    """Never another exception, and never an index with which a reader would seek outside the file."""
    whole = make_tar(tmp_path / "x.tar", ["a.wav", f"{LONG}.wav", "c.wav"], format).read_bytes()
    path = tmp_path / "y.tar"
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(data) // 512) * 512 + draw.randrange(512)
            data[at] = draw.choice([0, 32, 45, 48, 55, 57, 120, 128, 255])
        path.write_bytes(data[: draw.choice([len(data), draw.randrange(len(data))])])
        with contextlib.suppress(DamagedError):
            index = make_index(path, "nemo_tar")
            offsets = struct.unpack(f"<{len(index) // 8}Q", index)
            assert list(offsets) == sorted(set(offsets))
            assert offsets[-1] == path.stat().st_size


@pytest.mark.parametrize("zeros", [0, 512, 10240, 199_680])
def test_tars_that_are_joined(tmp_path: Path, zeros: int) -> None:
    """GNU tar reads all of them with --ignore-zeros; plain headers and those that `tarfile` reads."""
    for kind, names in (("plain", ["a.wav", "b.wav"]), ("other", ["a.wav", f"{LONG}.wav"])):
        formats = (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
        parts = [make_tar(tmp_path / f"{kind}{n}.tar", names, format) for n, format in enumerate(formats)]
        path = tmp_path / f"{kind}.tar"
        path.write_bytes(bytes(zeros).join(part.read_bytes() for part in parts) + bytes(zeros))
        with path.open("rb") as file:
            walk = tar_walk.walk_tar(file)
        with tarfile.open(path, ignore_zeros=True) as tar:
            assert (walk.names, walk.offsets) == ([one.name for one in tar], [one.offset for one in tar])
        path.write_bytes(path.read_bytes() + b"x" * 600)
        with path.open("rb") as file, pytest.raises(ValueError, match="bytes that are not a tar follow its end mark"):
            tar_walk.walk_tar(file)
