"""Member names: what NeMo's loaders do with them, and that two files never share one."""

import itertools
import random
import re
from pathlib import Path

import pytest

from prepcli.errors import UsageError
from prepcli.formats.names import check_braces, check_loadable, member_stem, normal_path, segment_suffix, tagged

# What NeMo's Lhotse adapter takes off a name before it looks the member up (nemo_adapters.py).
NEMO_SUB = re.compile(r"^(?P<stem>.+)(?P<sub>-sub\d+)(?P<ext>\.\w+)?$")

ODD_PATHS = [
    "a.wav", "a/b.wav", "/a/b.wav", "./a/b.wav", "../a.wav", "a..b.wav", ".hidden.wav", "a/.wav", "noextension",
    "x-sub1.wav", "x-sub1", "d/x-sub12.flac", "x-sub.wav", "v1.0/u.1.wav", "a b.wav", "naïve.wav", "目录/文件.wav",
    "new\nline.wav", "tab\t.wav", "\x7f.wav", "a" * 300 + ".wav", "é" * 300 + ".wav", "-rf.wav", "a//b.wav",
    "a/./b.wav",
]  # fmt: skip


@pytest.mark.parametrize("path", ODD_PATHS)
def test_stems_are_flat_printable_and_survive_nemo(path: str) -> None:
    stem = member_stem(path)
    assert stem
    assert "." not in stem
    assert "/" not in stem
    assert stem.isprintable()
    assert len(f"{tagged(stem, 0, path)}{segment_suffix(12345.678901, 12.345678)}-shard12345.flac".encode()) <= 255
    assert NEMO_SUB.match(f"{stem}.wav") is None
    assert NEMO_SUB.match(f"{stem}{segment_suffix(1.0, 2.0)}.wav") is None


def test_same_file_same_name() -> None:
    assert normal_path("./a//./c.wav") == normal_path("a/c.wav") == "a/c.wav"
    assert member_stem("./a/c.wav") == member_stem("a/c.wav") == "a_c"


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        *((path, path) for path in ("a/b.wav", "/a/b.wav", "a.b/c.wav", "..wav", "a/..b", "/", ".", "a/.b")),
        *(("x/.", "x"), ("./", "."), ("a/", "a"), ("//a", "/a"), ("/./a//b/.", "/a/b")),
        *((path, path) for path in ("x/..", "../a", "a/../b.wav", "/a/../b", "..")),  # x, a may be a link
        ("./a/..//b", "a/../b"),
    ],
)
def test_normal_paths(path: str, normal: str) -> None:
    assert normal_path(path) == normal


def test_segments_of_one_file_keep_apart_however_close() -> None:
    generator = random.Random(5)
    numbers = {0.0, 1e-7, 1e-20, 5e-324, 1.0, 1.5, 12, 1e15, 0.1, 0.1 + 2**-55, 0.30000000000000004, 0.3}
    numbers |= {generator.uniform(0, 1000) for _ in range(200)} | {
        round(generator.uniform(0, 10), 3) for _ in range(200)
    }
    suffixes = {segment_suffix(offset, 1.0) for offset in numbers if offset == 0 or offset > 1e-15}
    assert len(suffixes) == len({offset for offset in numbers if offset == 0 or offset > 1e-15})
    assert segment_suffix(12, 3.25) == "_12_0_3_25"


def test_suffixes_cannot_be_mistaken_for_the_end_of_another_stem() -> None:
    stems = ["a", "a_1", "a_1_2", "a_1_2_3"]
    numbers = [1.0, 1.2, 2.3, 3.4, 12.0]
    names = {
        member_stem(f"{stem}.wav") + segment_suffix(offset, duration)
        for stem, offset, duration in itertools.product(stems, numbers, numbers)
    }
    assert len(names) == len(stems) * len(numbers) ** 2


@pytest.mark.parametrize("folder", ["/data/a(1)", "/data/[x]", "/data/<x>", "/data/{x}", "/x_OP_y", "/x_CL_y"])
def test_folders_that_nemo_takes_for_braces(folder: str) -> None:
    for check in (check_braces, check_loadable):
        with pytest.raises(UsageError, match="in a path for a brace expression"):
            check(Path(folder))


@pytest.mark.parametrize("folder", ["/data/audio_16.tarred", "/data/audio_x_1.tar.d/set", "/manifest_3.json_out"])
def test_folders_whose_number_nemo_would_read(folder: str) -> None:
    """Where NeMo looks for numbers: only of a tarred set."""
    check_braces(Path(folder))
    with pytest.raises(UsageError, match="a shard's number off the folder name"):
        check_loadable(Path(folder))


@pytest.mark.parametrize("folder", ["/data/a b, c", "/data/naïve 'x'", "/audio/set_1", "/audio_1/tar", "/data/x=1"])
def test_folders_that_do_no_harm(folder: str) -> None:
    check_loadable(Path(folder))
