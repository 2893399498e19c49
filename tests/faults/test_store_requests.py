"""Requests to a store fail, break off, are cut short or reach it twice: the output is whole, or becomes it again."""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import SHORT_CORPUS, read_lines, tree, write_lines
from tests.faults.proxy import WAYS, Disturbance, Proxy, proxied
from tests.faults.test_every_call import EVERYTHING
from tests.storage.buckets import Bucket
from tests.storage.conftest import bucket as bucket  # fixtures
from tests.storage.object_store import ObjectStore
from tests.support.running import Outcome, prepcli_process

pytestmark = pytest.mark.slow

KINDS = ("GET", "PUT", "LIST", "HEAD", "POST", "DELETE") if EVERYTHING else ("GET", "PUT", "LIST")


class StoreRuns:
    """Runs with manifest, audio and output in a bucket."""

    def __init__(self, folder: Path, bucket: Bucket, store: ObjectStore, proxy: Proxy) -> None:
        self.folder, self.bucket, self.proxy = folder, bucket, proxy
        self._environ = store.environ | {"AWS_ENDPOINT_URL": proxy.url}
        records = read_lines(SHORT_CORPUS / "manifest.json")[:9]
        inputs = folder / "inputs"
        for record in records:
            (inputs / record["audio_filepath"]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SHORT_CORPUS / record["audio_filepath"], inputs / record["audio_filepath"])
        write_lines(inputs / "manifest.json", records)
        self.inputs = bucket.upload(inputs, "inputs")
        self._number = 0
        done = self.call()
        assert done.code == 0, done.err
        self.counts = proxy.disturbance.counts
        self.undisturbed = self.made()

    def call(self, disturbance: Disturbance | None = None) -> Outcome:
        """The command; with a disturbance into a new output."""
        self.proxy.disturbance = disturbance or Disturbance()
        words = ("manifest-to-tarred", f"{self.inputs}/manifest.json", self.bucket / f"out-{self._number}")
        options = ("--num-shards", 3, "--work-dir", self.folder / "work", "--num-workers", 1)
        return prepcli_process(*words, *options, environ=self._environ)

    def made(self) -> dict[str, str]:
        """The objects of the output."""
        return tree(self.bucket.download(f"out-{self._number}", self.folder / f"made-{self._number}"))

    def faults(self, disturbance: Disturbance) -> Iterator[str]:
        """Run disturbed and again; everything that was not as it must be."""
        self._number += 1
        done = self.call(disturbance)
        lines = [line for line in done.err.splitlines() if line.startswith("prepcli: ")]
        if done.code not in (0, 1, 4) or "a bug in" in done.err or len(lines) != bool(done.code):
            yield f"exit code {done.code}: {done.err[-500:]}"
        if done.code:
            again = self.call()
            if again.code:
                yield f"again: exit code {again.code}: {again.err[-500:]}"
        if self.made() != self.undisturbed:
            yield f"another output after exit code {done.code}"


def disturbances(counts: dict[str, int]) -> Iterator[Disturbance]:
    """Of each kind of request and each way one, or with `EVERYTHING` all."""
    for kind in KINDS:
        for way in WAYS:
            moments = range(1, counts.get(kind, 0) + 1)
            drawn = random.Random(f"{kind} {way}").sample(moments, min(1, len(moments)))
            yield from (Disturbance(kind, nth, way) for nth in (moments if EVERYTHING else drawn))


def test_every_request(
    object_store: ObjectStore, bucket: Bucket, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    found, count = [], 0
    with proxied(object_store.endpoint) as proxy:
        runs = StoreRuns(tmp_path, bucket, object_store, proxy)
        for one in disturbances(runs.counts):
            found += [f"{one.kind} {one.nth} {one.way}: {fault}" for fault in runs.faults(one)]
            count += 1
    record_property("requests", count)
    assert found == []
