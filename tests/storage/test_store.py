"""Commands that read from and write to a real object store give the same bytes as with files."""

from pathlib import Path

import pytest

from tests.conftest import tree
from tests.running import Prepcli, prepcli
from tests.storage.buckets import Bucket

pytestmark = pytest.mark.slow

COMMANDS = {
    "manifest-to-tarred": ["--num-shards", "3"],
    "manifest-to-shar": ["--shard-size", "20"],
    "manifest-to-wenet": ["--shard-size", "20", "--prefix", "x"],
    "manifest-to-parquet": ["--shard-size", "20"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_in_and_out_of_the_store_are_as_on_a_disk(
    command: str, bucket: Bucket, run: Prepcli, mini_corpus: Path, tmp_path: Path
) -> None:
    corpus = bucket.upload(mini_corpus, "corpus")
    options = COMMANDS[command]
    # The list of WeNet has names without a folder where the output is in a store.
    local = [*options, *(["--relative-to", tmp_path / "local"] if "wenet" in command else [])]
    assert prepcli(command, mini_corpus / "manifest.json", tmp_path / "local", *local).code == 0
    done = run(command, f"{corpus}/manifest.json", bucket / "out/set", *options, "--work-dir", tmp_path, "--json")
    assert done.code == 0, done.err
    assert done.json["records_out"] == 48
    made = tree(bucket.download("out/set", tmp_path / "down"))
    assert without_dates(made) == without_dates(tree(tmp_path / "local"))
    again = run(command, f"{corpus}/manifest.json", bucket / "out/set", *options, "--work-dir", tmp_path, "--json")
    assert (again.code, again.json["status"]) == (0, "nothing_to_do")


def without_dates(files: dict[str, str]) -> dict[str, str]:
    """The metadata of tarred sets tells when the manifest was written."""
    return {name: data for name, data in files.items() if name != "metadata.yaml"}
