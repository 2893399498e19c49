"""Audio of several channels that is stored as it is, is told in the summary."""

from pathlib import Path

import pytest

from tests.conftest import write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli
from tests.support.tools import need_package


@pytest.mark.parametrize(
    ("command", "options", "found"),
    [
        (
            "manifest-to-tarred",
            ["--num-shards", 2, "--keep-files-together"],
            "2 files have several channels, all of which are kept; for mono make",
        ),
        (
            "manifest-to-wenet",
            ["--shard-size", 2],
            "3 records have several channels, all of which are kept; for mono give",
        ),
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
