"""Data sets that tests of indexes share."""

from pathlib import Path

import pytest

from tests.conftest import SHORT_CORPUS, make_set

PLAIN, CONTEXT = SHORT_CORPUS / "manifest.json", SHORT_CORPUS / "manifest_with_context.json"


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tarred set with indexes and one without, and a Shar set with indexes."""
    folder = tmp_path_factory.mktemp("sets")
    make_set("manifest-to-tarred", PLAIN, folder / "tarred", "--num-shards", 3)
    make_set("manifest-to-tarred", PLAIN, folder / "bare", "--num-shards", 3, "--no-index")
    make_set("manifest-to-shar", CONTEXT, folder / "shar", "--shard-size", 20, "--indexed", "--audio-format", "wav")
    return folder
