"""verify compares what a run's last step has written as well: it names every published file that has changed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, copy_set, read_lines, write_lines
from tests.running import prepcli

BUCKETS = ["--buckets-num", 2, "--max-duration", 7.0]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set with a later version."""
    folder = tmp_path_factory.mktemp("whole")
    first, second = read_lines(MINI_CORPUS / "manifest.json")[:24], read_lines(MINI_CORPUS / "manifest.json")[24:]
    base = ["--audio-base-dir", MINI_CORPUS, "--num-shards", 2]
    assert prepcli("manifest-to-tarred", write_lines(folder / "a.json", first), folder / "out", *base).code == 0
    more = write_lines(folder / "b.json", second)
    assert prepcli("manifest-to-tarred", more, "--concat-to", folder / "out", *base).code == 0
    return folder / "out"


def swap_two_lines(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))


def edit(path: Path) -> None:
    path.write_text(path.read_text().replace("num_samples_per_shard: ", "num_samples_per_shard: 1"))


@pytest.mark.parametrize("version", ["", "_version_1"])
@pytest.mark.parametrize(
    ("name", "change"), [("tarred_audio_manifest{}.json", swap_two_lines), ("metadata{}.yaml", edit)]
)
def test_changed_files_of_the_last_step(
    whole: Path, tmp_path: Path, name: str, change: Callable[[Path], None], version: str
) -> None:
    out = copy_set(whole, tmp_path, records=True)
    assert prepcli("verify", out).code == 0
    name = name.format(version)
    before = (out / name).read_bytes()
    change(out / name)
    assert (out / name).read_bytes() != before
    done = prepcli("verify", out, "--json")
    assert done.code == 1
    assert done.json["problems"] == [f"{name}: not the bytes that were published (SHA-256 differs)"]


def test_static_buckets(tmp_path: Path) -> None:
    out = tmp_path / "out"
    manifest = MINI_CORPUS / "manifest.json"
    assert prepcli("manifest-to-tarred", manifest, out, "--num-shards", 1, *BUCKETS).code == 0
    swap_two_lines(out / "bucket2/tarred_audio_manifest.json")
    done = prepcli("verify", out, "--json")
    assert done.code == 1
    assert [problem.partition(":")[0] for problem in done.json["problems"]] == ["bucket2/tarred_audio_manifest.json"]


def test_outputs_that_are_no_shards(tmp_path: Path) -> None:
    """An extended manifest: only its bytes can be checked."""
    pytest.importorskip("resemblyzer", exc_type=ImportError)
    out = tmp_path / "out"
    manifest = MINI_CORPUS / "manifest.json"
    assert prepcli("extend-context-audio", manifest, out, "--speaker-model", "resemblyzer").code == 0
    assert prepcli("verify", out).code == 0
    (extended,) = out.glob("*.json")
    swap_two_lines(extended)
    assert f"{extended.name}: not the bytes that were published" in prepcli("verify", out).out
