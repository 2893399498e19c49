"""Codes are written into the store while the run, a worker of it or the store is killed: the bytes of a disk."""

import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from prepcli.engine.state.work_folder import work_folder
from prepcli.storage.paths import StorePath
from tests.conftest import MINI_CORPUS, read_lines, tree
from tests.storage.buckets import Bucket
from tests.storage.object_store import ObjectStore
from tests.support.killing import children
from tests.support.running import HANG_SECONDS, Process, prepcli, start_prepcli
from tests.support.shar_sets import make, rewrite_tar

pytestmark = pytest.mark.slow

BAD = 2


@dataclass(frozen=True)
class Codes:
    """A Shar set in the store, and the codes that a run on a disk has made of it."""

    bucket: Bucket
    source: str
    undisturbed: dict[str, str]


def start(source: object, out: object, work: Path, *more: object, **environ: str) -> Process:
    words = ("extend-codec-codes", source, "--output-dir", out, "--work-dir", work, "--codec-model", "toy")
    options = ("--pool-duration", 1, "--max-rejects", BAD, "--num-workers", 2, "--devices", "cpu")
    variables = {"CUDA_VISIBLE_DEVICES": "", **environ}
    return start_prepcli(*words, *options, *more, module="tests.support.small_parts", environ=variables)


@pytest.fixture(scope="module")
def codes(object_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Codes:
    """Each shard is a unit; two have a recording that is damaged."""
    folder = tmp_path_factory.mktemp("codes")
    make(MINI_CORPUS / "manifest_with_context.json", folder / "shar", "--shard-size", 12)
    for number in range(BAD):
        tar = folder / "shar" / f"target_audio/recording.{2 * number:06d}.tar"
        rewrite_tar(tar, lambda content: content.__setitem__(2, (content[2][0], b"noise")))
    _, err = (run := start(folder / "shar", folder / "out", folder)).communicate(timeout=HANG_SECONDS)
    assert run.returncode == 0, err
    bucket = Bucket(object_store, "killed-codes")
    return Codes(bucket, bucket.upload(folder / "shar", "shar"), tree(folder / "out"))


@pytest.mark.parametrize(
    ("victim", "markers", "world_size"), [("main", 0, 2), ("main", 2, 1), ("worker", 2, 3), ("store", 1, 2)]
)
def test_who_continues_gives_the_same_codes(
    victim: str,
    markers: int,
    world_size: int,
    codes: Codes,
    object_store: ObjectStore,
    tmp_path: Path,
    draw: random.Random,
) -> None:
    out, environ = codes.bucket / tmp_path.name, object_store.environ
    records = work_folder(StorePath(out), tmp_path) / "codes_toy"
    process = start(codes.source, out, tmp_path, **environ)
    wait_for_markers(records / "done", markers, process)
    codes.bucket.wait_for_upload(tmp_path.name, process)
    disturb(victim, process, object_store, draw)
    _, err = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode in {"main": (-9, 0), "worker": (4, 0), "store": (4, 0)}[victim], err

    ranks = [("--rank", rank, "--world-size", world_size) if world_size > 1 else () for rank in range(world_size)]
    processes = [start(codes.source, out, tmp_path, *rank, **environ) for rank in ranks]
    for process in processes:
        _, err = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == 0, err
    assert tree(codes.bucket.download(tmp_path.name, tmp_path / "down")) == codes.undisturbed
    assert len(read_lines(records / "rejects.jsonl")) == BAD
    told = prepcli("status", out, "--work-dir", tmp_path, "--json", environ=environ)
    assert told.json["state"] == "finished"


def disturb(victim: str, process: Process, store: ObjectStore, draw: random.Random) -> None:
    if victim == "main":
        process.kill()
    elif victim == "worker":  # or the process that talks to the store
        if workers := children(process.pid):
            os.kill(draw.choice(workers), signal.SIGKILL)
    else:
        store.kill()
        time.sleep(0.5)
        store.start()


def wait_for_markers(done: Path, count: int, process: Process) -> None:
    """Until so many units are published, or the process has ended."""
    deadline = time.monotonic() + HANG_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if done.exists() and len(list(done.glob("shards_*.json"))) >= count:
            return
        time.sleep(0.005)
