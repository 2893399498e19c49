"""The chain of recipes/object_store with two ranks of a Slurm job: the same bytes as on a disk."""

import sys
from pathlib import Path

import pytest

from tests.conftest import tree
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import REPOSITORY, cluster  # noqa: F401 - the fixture
from tests.storage.buckets import Bucket
from tests.storage.test_models import run_toy
from tests.storage.test_store import without_dates
from tests.support.running import Outcome

pytestmark = [pytest.mark.slow, pytest.mark.slurm]

CONTEXTS = "manifest_withContextAudioMinDur3.0MinSSIM0.6.json"


def on_a_disk(corpus: Path, folder: Path) -> None:
    """The same commands with files, in one process each."""
    manifest, shar = corpus / "manifest.json", folder / "shar"
    chain: list[tuple[object, ...]] = [
        ("manifest-to-tarred", manifest, folder / "tarred", "--num-shards", 4),
        ("extend-context-audio", manifest, folder / "context", "--speaker-model", "toy", "--devices", "cpu"),
        ("manifest-to-shar", folder / "context" / CONTEXTS, shar, "--audio-base-dir", corpus, "--shard-size", 12),
        ("extend-codec-codes", shar, "--codec-model", "toy", "--devices", "cpu"),
    ]
    for words in chain:
        done: Outcome = run_toy("toy_models", *words)
        assert done.code == 0, done.err


def test_the_chain_with_two_ranks(
    cluster: Cluster,  # noqa: F811
    bucket: Bucket,
    mini_corpus: Path,
    stored_corpus: str,
    tmp_path: Path,
) -> None:
    work, here = tmp_path / "work", tmp_path / "here"
    here.mkdir()
    launch = tmp_path / "launch.sh"
    launch.write_text('exec "$@" --no-steal\n')  # else one rank may have done all before the other begins
    settings = {
        "MANIFEST": f"{stored_corpus}/manifest.json",
        "STORE": bucket / "sets",
        "WORK": str(work),
        "CODEC": "toy",
        "SPEAKER_MODEL": "toy",
        "NUM_SHARDS": "4",
        "SHARD_SIZE": "12",
        "DEVICES": "cpu",
        "LAUNCH": f"srun --ntasks=2 --cpus-per-task=1 bash {launch}",
        "PREPCLI_MODULE": "tests.support.toy_models",
        "PREPCLI_PYTHON": sys.executable,
        "OMP_NUM_THREADS": "1",
    }
    batch, log = tmp_path / "batch.sh", tmp_path / "log"
    batch.write_text(f"#!/bin/bash\nexec bash {REPOSITORY}/recipes/object_store/run.sh\n")
    words = ("sbatch", "--parsable", "--ntasks=2", f"--output={log}", batch)
    job = cluster.run(*words, cwd=tmp_path, environ=bucket.store.environ | settings).strip()
    on_a_disk(mini_corpus, here)
    assert cluster.wait(job) == ["COMPLETED"], log.read_text()
    for name in ("tarred", "shar"):
        made = bucket.download(f"sets/{name}", tmp_path / "down" / name)
        assert without_dates(tree(made)) == without_dates(tree(here / name))
    assert (work / "context" / CONTEXTS).read_bytes() == (here / "context" / CONTEXTS).read_bytes()
    for records in (f"{bucket.name}_sets_tarred.prepcli", "context.prepcli", f"{bucket.name}_sets_shar.prepcli"):
        found = [path for pattern in ("", "*/") for path in (work / records).glob(f"{pattern}progress/rank_*.json")]
        assert len(found) == 2  # not those of the codes, which are deeper
