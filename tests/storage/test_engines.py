"""Units as tasks of an engine, into a store: the workers write the objects, and share the folder of the state."""

from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, tree
from tests.storage.buckets import Bucket
from tests.support.running import prepcli, prepcli_process
from tests.support.tools import need_package

pytestmark = pytest.mark.slow


def test_objects_are_those_of_a_plain_run(bucket: Bucket, stored_corpus: str, tmp_path: Path) -> None:
    need_package("distributed")
    assert prepcli("manifest-to-tarred", MINI_CORPUS / "manifest.json", tmp_path / "out", "--num-shards", 4).code == 0
    words = ("manifest-to-tarred", f"{stored_corpus}/manifest.json", bucket / "out", "--num-shards", 4)
    more = ("--work-dir", tmp_path, "--engine", "dask", "--num-workers", 2)
    done = prepcli_process(*words, *more, environ=bucket.store.environ)
    assert done.code == 0, done.err
    assert tree(bucket.download("out", tmp_path / "down")) == tree(tmp_path / "out")
