"""Audio with several channels: all are kept, and the summary counts it, or `--channel` chooses one or their mean."""

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from tests.conftest import read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli
from tests.support.shar_sets import members
from tests.support.tools import need_package

OPTIONS: dict[str, list[object]] = {
    "manifest-to-tarred": ["--num-shards", 2, "--slice-with-offset"],
    "manifest-to-shar": ["--shard-size", 3],
    "manifest-to-wenet": ["--shard-size", 3],
    "manifest-to-parquet": ["--shard-size", 3],
}


@pytest.mark.parametrize(
    ("command", "options", "found"),
    [
        ("manifest-to-tarred", ["--num-shards", 2, "--keep-files-together"], "2 files have several channels, all of"),
        ("manifest-to-wenet", ["--shard-size", 2], "3 records have several channels, all of which are kept; for mono"),
        ("manifest-to-wenet", ["--raw"], "3 records have several channels"),
        ("manifest-to-parquet", ["--shard-size", 2], "3 records have several channels"),
    ],
)
def test_several_channels(command: str, options: list[object], found: str, tmp_path: Path) -> None:
    if command == "manifest-to-parquet":
        need_package("pyarrow")
    for name, channels in (("mono.wav", 1), ("stereo.wav", 2), ("quad.flac", 4)):
        write_audio(tmp_path / name, 1.0, channels=channels)
    records = [
        {"audio_filepath": name, "duration": 1.0, "text": ""} for name in ("mono.wav", "stereo.wav", "quad.flac")
    ]
    part = {"audio_filepath": "stereo.wav", "offset": 0.25, "duration": 0.5, "text": ""}
    manifest = write_lines(tmp_path / "m.json", [records[0], records[1], part, records[2]])
    done = prepcli(command, manifest, tmp_path / "out", *options)
    assert done.code == 0, done.err
    assert found in done.out
    mono = write_lines(
        tmp_path / "mono.json", records[:1] + [part | {"channel": 0}] * (command != "manifest-to-tarred")
    )
    assert "several channels" not in prepcli(command, mono, tmp_path / "mono", *options, "--json").out


def stored(command: str, out: Path) -> Iterator[bytes]:
    """The audio files in a set, in the order of its records."""
    if command == "manifest-to-parquet":
        import pyarrow.parquet as pq

        for path in sorted(out.glob("*.parquet")):
            yield from (audio["bytes"] for audio in pq.read_table(path).column("audio").to_pylist())
        return
    for path in sorted(out.rglob("*.tar")):
        files = {name: data for name, data in members(path) if not name.endswith((".txt", ".json"))}
        shared = out / f"sharded_manifests/manifest_{path.stem.rpartition('_')[2]}.json"
        names = [line["audio_filepath"] for line in read_lines(shared)] if shared.exists() else files
        yield from (files[name] for name in names)


@pytest.mark.parametrize("command", OPTIONS)
def test_one_channel_or_the_mean(command: str, tmp_path: Path) -> None:
    """A record's own channel is taken before that of the option, but not before the mean; mono files are copied."""
    if command == "manifest-to-parquet":
        need_package("pyarrow")
    mono = write_audio(tmp_path / "mono.flac", 1.0, seed=1)
    three = write_audio(tmp_path / "three.flac", 1.0, channels=3, seed=2)
    records = [
        {"audio_filepath": "mono.flac", "duration": 1.0, "text": "a"},
        {"audio_filepath": "three.flac", "duration": 1.0, "text": "b"},
        {"audio_filepath": "three.flac", "duration": 1.0, "channel": 0, "text": "c"},
        {"audio_filepath": "three.flac", "duration": 1.0, "channel": 2, "text": "d"},
        {"audio_filepath": "three.flac", "offset": 0.25, "duration": 0.5, "channel": 2, "text": "e"},
        {"audio_filepath": "three.flac", "duration": 1.0, "channel": 3, "text": "f"},
    ]
    manifest = write_lines(tmp_path / "m.json", records)
    mean = np.rint(three.mean(axis=1)).astype(np.int16)
    wanted: dict[str, list[NDArray[np.int16]]] = {
        "1": [mono, three[:, 1], three[:, 0], three[:, 2], three[2000:6000, 2]],
        "mix": [mono, mean, mean, mean, mean[2000:6000], mean],
    }
    for channel, samples in wanted.items():
        out = tmp_path / channel
        words = (command, manifest, out, *OPTIONS[command], "--channel", channel, "--max-rejects", 1)
        done = prepcli(*words, "--json")
        assert done.code == 0, done.err
        assert "channels" not in done.json["details"]
        assert prepcli("verify", out).code == 0
        files = list(stored(command, out))
        assert files[0] == (tmp_path / "mono.flac").read_bytes()
        found = [soundfile.read(io.BytesIO(data), dtype="int16")[0] for data in files]
        assert len(found) == len(samples)
        for one, other in zip(found, samples, strict=True):
            assert np.array_equal(one, other)
        rejected = read_lines(tmp_path / f"{channel}.prepcli/rejects.jsonl")
        details = [line["reject_detail"] for line in rejected]
        assert details == [f"channel is 3; {tmp_path}/three.flac has 3 channels, counted from 0"] * (channel != "mix")
    assert prepcli(command, manifest, tmp_path / "1", *OPTIONS[command], "--channel", 0).code == 2
