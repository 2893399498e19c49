"""Data sets that tests of blend share."""

from pathlib import Path

import pytest
import yaml

from tests.conftest import MINI_CORPUS, write_lines
from tests.support.running import prepcli


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tarred set, Shar, a set in buckets, manifests of 1, 2 and 8 hours, cuts, and a config without weights."""
    folder = tmp_path_factory.mktemp("sets")
    manifest = MINI_CORPUS / "manifest.json"
    for command, out, *options in (
        ("manifest-to-tarred", "tarred", "--num-shards", 2),
        ("manifest-to-tarred", "buckets", "--num-shards", 1, "--buckets-num", 2, "--max-duration", 7),
        ("manifest-to-shar", "shar", "--shard-size", 30),
    ):
        done = prepcli(command, manifest, folder / out, *options)
        assert done.code == 0, done.err
    for hours in (1, 2, 8):
        record = {"audio_filepath": f"{hours}.wav", "duration": 360.0 * hours, "text": ""}
        write_lines(folder / f"{hours}h.json", [record] * 10)
    write_lines(folder / "cuts.jsonl", [{"id": "c", "type": "MonoCut", "duration": 7200.0}] * 5)
    config = [{"type": "nemo", "manifest_filepath": f"{folder}/{hours}h.json"} for hours in (1, 8)]
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder
