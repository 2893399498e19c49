"""`index` killed at any moment: the next run goes on, and leaves the indexes of a run that nobody disturbed."""

import random
import shutil
import time
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, make_set, tree
from tests.support.killing import wait_until_gone
from tests.support.running import HANG_SECONDS, prepcli, start_prepcli

pytestmark = pytest.mark.slow

COPIES = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many tars."""
    made = tmp_path_factory.mktemp("kill")
    make_set("manifest-to-tarred", MINI_CORPUS / "manifest.json", made / "one", "--num-shards", 1, "--no-index")
    (made / "many").mkdir()
    for number in range(COPIES):
        shutil.copy(made / "one/audio_0.tar", made / f"many/x{number}.tar")
    return made / "many"


@pytest.mark.parametrize("written", [1, 7, 30])
def test_killed_and_continued(folder: Path, tmp_path: Path, draw: random.Random, written: int) -> None:
    whole = tmp_path / "whole"
    assert prepcli("index", folder, "--indexes-root", whole, "--json").json["written"] == COPIES
    root = tmp_path / "killed"
    process = start_prepcli("index", folder, "--indexes-root", root, "--num-workers", 2)
    deadline = time.monotonic() + HANG_SECONDS
    while process.poll() is None and len(list(root.rglob("x*.idx"))) < written:
        assert time.monotonic() < deadline
    process.kill()
    process.communicate(timeout=HANG_SECONDS)
    wait_until_gone([process.pid])
    half = {name: digest for name, digest in tree(root).items() if tree(whole).get(name) != digest and "~" not in name}
    assert half == {}
    done = prepcli("index", folder, "--indexes-root", root, "--json", "--num-workers", 1)
    assert done.code == 0, done.err
    assert done.json["written"] + done.json["kept"] == COPIES
    assert {name: digest for name, digest in tree(root).items() if "~" not in name} == tree(whole)
