"""torchrun, the real one, as launcher."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, tree
from tests.support.running import HANG_SECONDS, clean_environment, prepcli

OPTIONS = ("--num-shards", "6", "--num-workers", "1", "--no-steal")  # else the first may do all before the other starts


@pytest.mark.slow
def test_two_ranks(tmp_path: Path) -> None:
    alone, out = tmp_path / "alone", tmp_path / "out"
    manifest = MINI_CORPUS / "manifest.json"
    assert prepcli("manifest-to-tarred", manifest, alone, *OPTIONS).code == 0
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, "-m", "prepcli", "manifest-to-tarred", str(manifest), str(out), *OPTIONS],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert tree(out) == tree(alone)
    ranks = prepcli("status", out, "--json").json["ranks"]
    assert [(rank["rank"], rank["state"]) for rank in ranks] == [(0, "done"), (1, "done")]
    assert sum(rank["units_total"] for rank in ranks) == 6
