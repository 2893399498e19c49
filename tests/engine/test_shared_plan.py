"""Jobs over a shared index give the bytes that they give without one, whoever planned."""

from pathlib import Path

import pytest

from prepcli.manifest import shared_index
from prepcli.planning import arrays, hashing
from tests.conftest import MINI_CORPUS, tree
from tests.support.running import prepcli

MANIFEST = MINI_CORPUS / "manifest.json"
TARRED = ["manifest-to-tarred", MANIFEST, "--num-shards", 3]
COMMANDS: dict[str, list[object]] = {
    "shuffle": [*TARRED, "--shuffle"],
    "together": [*TARRED, "--shuffle", "--keep-files-together"],
    "sorted": [*TARRED, "--shuffle", "--sort-in-shards"],
    "slices": [*TARRED, "--slice-with-offset"],
    "hours": ["manifest-to-tarred", MANIFEST, "--shard-hours", "0.004", "--shuffle"],
    "durations": [*TARRED, "--min-duration", "1", "--max-duration", "3"],
    "buckets": [*TARRED, "--min-duration", "0.5", "--max-duration", "6", "--buckets-num", "2"],
    "dropped": [*TARRED, "--remainder", "drop"],
    "shar": ["manifest-to-shar", MANIFEST, "--shard-size", 9, "--shuffle"],
    "wenet": ["manifest-to-wenet", MANIFEST, "--shard-size", 9, "--shuffle"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_same_bytes_with_and_without_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, manifest, *options = COMMANDS[name]
    expected = prepcli(command, manifest, tmp_path / "plain", *options, "--max-rejects", 1000)
    assert expected.code == 0, expected.err
    monkeypatch.setattr(shared_index, "MIN_SHARED_BYTES", 0)
    monkeypatch.setattr(hashing, "GROUP_SIZE", 5)
    monkeypatch.setattr(hashing, "CHUNK_SIZE", 7)
    monkeypatch.setattr(arrays, "_MIN_BYTES", 1)
    out = tmp_path / "shared"
    for _ in range(2):
        done = prepcli(command, manifest, out, *options, "--max-rejects", 1000)
        assert done.code == 0, done.err
    assert "nothing to do" in done.out
    found, wanted = tree(out), tree(tmp_path / "plain")
    if name == "wenet":  # it names OUT
        assert found.pop("shards.list") and wanted.pop("shards.list")
    assert found == wanted
    left, right = (tmp_path / f"{name}.prepcli" / "rejects.jsonl" for name in ("shared", "plain"))
    assert left.read_bytes() == right.read_bytes()
    plans = list((tmp_path / "shared.prepcli" / "index").glob("*/plan-*"))
    assert len(plans) == 1
    planned = prepcli(command, manifest, out, *options, "--dry-run", "--json").json
    assert (
        planned["records_in"]
        == prepcli(command, manifest, tmp_path / "no", *options, "--dry-run", "--json").json["records_in"]
    )
