"""A run into a store is killed, or the store is; whoever continues gives the same bytes."""

import json
import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, read_lines, tree, write_lines
from tests.storage.buckets import Bucket
from tests.storage.object_store import ObjectStore
from tests.support.killing import children
from tests.support.running import HANG_SECONDS, Process, prepcli, start_prepcli

pytestmark = pytest.mark.slow

SHARDS = 6
OPTIONS = ("--num-shards", SHARDS, "--slice-with-offset", "--target-sample-rate", 16000, "--shuffle")


@dataclass(frozen=True)
class Undisturbed:
    """A manifest, and what a run on a disk makes of it."""

    manifest: Path
    made: dict[str, str]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    folder = tmp_path_factory.mktemp("undisturbed")
    read = read_lines(MINI_CORPUS / "manifest.json")
    records = [record | {"offset": turn * 0.01, "duration": 0.9} for turn in range(2) for record in read]
    records.insert(30, records[0] | {"audio_filepath": "missing.wav"})
    manifest = write_lines(folder / "manifest.json", records)
    done = prepcli("manifest-to-tarred", manifest, folder / "out", *OPTIONS, "--audio-base-dir", MINI_CORPUS)
    assert done.code == 0, done.err
    return Undisturbed(manifest, tree(folder / "out"))


class Case:
    """A run with audio and output in the store."""

    def __init__(self, folder: Path, bucket: Bucket, corpus: str, undisturbed: Undisturbed) -> None:
        self.manifest = undisturbed.manifest
        self.undisturbed = undisturbed.made
        self.corpus = corpus
        self.bucket = bucket
        self.folder = folder
        self.out = bucket / "out"

    @property
    def done(self) -> Path:
        """The folder of markers."""
        return self.folder / f"{self.bucket.name}_out.prepcli" / "done"

    def start(self, *more: object) -> Process:
        words = ("manifest-to-tarred", self.manifest, self.out, *OPTIONS, "--audio-base-dir", self.corpus)
        settings = ("--work-dir", self.folder, "--num-workers", 2)
        environ = self.bucket.store.environ
        return start_prepcli(*words, *settings, *more, module="tests.support.small_parts", environ=environ)

    def wait_for_markers(self, count: int, process: Process) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            if len(list(self.done.glob("shard_*.json"))) >= count:
                return
            time.sleep(0.002)

    def resume(self, world_size: int) -> None:
        """Continue with some ranks at once, and compare everything."""
        ranks = [["--rank", rank, "--world-size", world_size] if world_size > 1 else [] for rank in range(world_size)]
        processes = [self.start(*rank) for rank in ranks]
        for process in processes:
            _, err = process.communicate(timeout=HANG_SECONDS)
            assert process.returncode == 0, err
        made = self.bucket.download("out", self.folder / "down")
        assert tree(made) == self.undisturbed
        told = prepcli("status", self.out, "--work-dir", self.folder, "--json", environ=self.bucket.store.environ)
        assert told.json["state"] == "finished"


@pytest.fixture
def case(tmp_path: Path, bucket: Bucket, stored_corpus: str, undisturbed: Undisturbed) -> Case:
    return Case(tmp_path, bucket, stored_corpus, undisturbed)


@pytest.mark.parametrize("world_size", [1, 3])
@pytest.mark.parametrize("victim", ["main", "worker", "SIGTERM"])
def test_a_killed_run(victim: str, world_size: int, case: Case, draw: random.Random) -> None:
    process = case.start()
    case.wait_for_markers(draw.randrange(SHARDS // 2), process)
    case.bucket.wait_for_upload("out", process)
    if victim == "worker":
        workers = children(process.pid)
        if workers:
            os.kill(draw.choice(workers), signal.SIGKILL)
    else:
        os.kill(process.pid, signal.SIGKILL if victim == "main" else signal.SIGTERM)
    process.communicate(timeout=HANG_SECONDS)
    case.resume(world_size)


def test_a_killed_store(case: Case, object_store: ObjectStore, draw: random.Random) -> None:
    """The run waits for the store; where a request cannot be repeated, it stops and can be continued.

    A command that begins meanwhile finds no store; it starts while the first requests are repeated.
    """
    process = case.start()
    case.wait_for_markers(draw.randrange(SHARDS // 2), process)
    time.sleep(draw.uniform(0, 0.3))
    object_store.kill()
    begun = start_prepcli("inspect", f"{case.corpus}/manifest.json", "--json", environ=object_store.environ)
    time.sleep(1.0)
    assert begun.poll() is None
    object_store.start()
    out, err = begun.communicate(timeout=HANG_SECONDS)
    assert (begun.returncode, json.loads(out)["records"]) == (0, 48), err
    _, err = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode in (0, 4), err
    case.resume(2)
