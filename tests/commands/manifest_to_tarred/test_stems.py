"""A member's name stands for one piece of audio in the whole set, whatever the files are called."""

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.commands.manifest_to_tarred.test_job import make
from tests.conftest import Lines, read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli
from tests.support.shar_sets import members


def record(folder: Path, name: str, seed: int) -> dict[str, Any]:
    """A file that is different from all others; the text tells where it is."""
    write_audio(folder / name, 1.0, seed=seed)
    return {"audio_filepath": name, "duration": 1.0, "text": str(folder / name)}


def check(out: Path, manifest: str = "tarred_audio_manifest.json") -> Lines:
    """Every line's audio is its own, and no stem is there twice: NeMo's classic loader looks for stems only."""
    members: dict[str, bytes] = {}
    for path in sorted(out.glob("audio_*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                stem = member.name.rpartition(".")[0]
                assert stem not in members, stem
                members[stem] = tar.extractfile(member).read()  # type: ignore[union-attr]
    lines = read_lines(out / manifest)
    for line in lines:
        assert members[line["audio_filepath"].rpartition(".")[0]] == Path(line["text"]).read_bytes()
    return lines


@pytest.mark.parametrize("slices", [[], ["--slice-with-offset"]])
def test_a_file_with_the_name_of_a_copy(tmp_path: Path, slices: list[str]) -> None:
    twice, other = record(tmp_path, "x.wav", 1), record(tmp_path, "x-shard1.wav", 2)
    records = [twice, other, record(tmp_path, "y.wav", 3), twice]
    make(write_lines(tmp_path / "m.json", records), tmp_path / "out", "--num-shards", 2, *slices)
    lines = check(tmp_path / "out")
    if not slices:
        assert [line["audio_filepath"] for line in lines if line["text"] == twice["text"]] == [
            "x-shard0.wav",
            "x-shard1.wav",
        ]


def test_a_file_with_the_name_of_a_tagged_one(tmp_path: Path) -> None:
    """Of a file whose name was tagged because of another's, when that member has become a file."""
    same_stem = [record(tmp_path, "a/b.wav", 1), record(tmp_path, "a_b.wav", 2)]
    make(write_lines(tmp_path / "m.json", same_stem), tmp_path / "first", "--num-shards", 1)
    for number, line in enumerate(check(tmp_path / "first")):
        same_stem.append(record(tmp_path, line["audio_filepath"], 3 + number))
    make(write_lines(tmp_path / "m.json", same_stem), tmp_path / "second", "--num-shards", 2)
    check(tmp_path / "second")
    # And as copies in several shards.
    make(write_lines(tmp_path / "m.json", same_stem * 2), tmp_path / "third", "--num-shards", 2)
    check(tmp_path / "third")


def test_names_that_only_look_so_stay_as_they_are(tmp_path: Path) -> None:
    names = ["x-shard1", "550e8400-e29b-41d4-a716-446655440000", "z-0123456789ab-shard7", "z"]
    records = [record(tmp_path, f"{name}.wav", seed) for seed, name in enumerate(names)]
    make(write_lines(tmp_path / "m.json", records), tmp_path / "out", "--num-shards", 2)
    assert [line["audio_filepath"] for line in check(tmp_path / "out")] == [f"{name}.wav" for name in names]


def add(out: Path, manifest: Path, version: int, *options: object) -> Lines:
    done = prepcli("manifest-to-tarred", manifest, "--concat-to", out, *options)
    assert done.code == 0, done.err
    assert prepcli("verify", out).code == 0
    return check(out, f"tarred_audio_manifest_version_{version}.json")


@pytest.mark.parametrize("slices", [[], ["--slice-with-offset"]])
def test_names_of_the_set_that_is_added_to(tmp_path: Path, slices: list[str]) -> None:
    out = tmp_path / "out"
    manifests = {
        folder: write_lines(
            tmp_path / folder / "m.json",
            [record(tmp_path / folder, f"wav/u{number}.wav", 10 * seed + number) for number in range(3)],
        )
        for seed, folder in enumerate(("one", "two"))
    }
    make(manifests["one"], out, "--num-shards", 1, *slices)
    before = [line["audio_filepath"] for line in check(out)]
    assert len(add(out, manifests["two"], 1, *slices)) == 6
    # The same records once more, as another manifest: their names are taken as well, and so are those chosen instead.
    again = write_lines(tmp_path / "two/again.json", [line | {"n": 1} for line in read_lines(manifests["two"])])
    lines = add(out, again, 2, *slices, "--allow-duplicates")
    assert len(lines) == 9
    assert [line["audio_filepath"] for line in lines[:3]] == before


def test_names_that_would_be_chosen_are_taken_too(tmp_path: Path) -> None:
    """In the new shard 1, copies of `x.wav` would be called `x-shard1` and `x-shard2`: the set has these."""
    out = tmp_path / "out"
    first = [record(tmp_path / "one", f"{name}.wav", seed) for seed, name in enumerate(["x-shard1", "x-shard2", "y"])]
    make(write_lines(tmp_path / "one/m.json", first), out, "--num-shards", 1)
    twice = record(tmp_path / "two", "x.wav", 7)
    second = [twice, record(tmp_path / "two", "z.wav", 8), record(tmp_path / "two", "y.wav", 9), twice]
    add(out, write_lines(tmp_path / "two/m.json", second), 1, "--num-shards", 2)


def test_members_of_the_channels_of_a_file(tmp_path: Path) -> None:
    """A member per file and channel, each with a name that stands for it in the whole set, and in additions."""
    both = write_audio(tmp_path / "call.flac", 2.0, channels=2)
    lines = [
        {"audio_filepath": "call.flac", "offset": 0.5 * part, "duration": 0.5, "text": f"{part} {channel}"} | channel
        for part in range(4)
        for channel in ({"channel": 0}, {"channel": 1}, {})
    ]
    first, second = (write_lines(tmp_path / name, lines[part::2]) for part, name in enumerate(("a.json", "b.json")))
    out = tmp_path / "out"
    make(first, out, "--num-shards", 2, "--channel", 1)
    assert prepcli("manifest-to-tarred", second, "--concat-to", out, "--channel", "mix").code == 2
    assert prepcli("manifest-to-tarred", second, "--concat-to", out).code == 0
    assert prepcli("verify", out).code == 0
    audio = {}
    for shard in range(4):
        for name, data in members(out / f"audio_{shard}.tar"):
            assert name not in audio
            audio[name] = soundfile.read(io.BytesIO(data), dtype="int16")[0]
    found = read_lines(out / "tarred_audio_manifest_version_1.json")
    assert [line["text"] for line in found] == [line["text"] for line in (*lines[::2], *lines[1::2])]
    for line in found:
        assert np.array_equal(audio[line["audio_filepath"]], both[:, line.get("channel", 1)])
