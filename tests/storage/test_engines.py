"""Units as tasks of an engine, into a store: the workers write the objects, and share the folder of the state."""

from pathlib import Path

import pytest

from tests.conftest import tree
from tests.storage.buckets import Bucket
from tests.support.running import prepcli_process
from tests.support.tools import need_package

pytestmark = pytest.mark.slow


def test_objects_are_those_of_a_plain_run(bucket: Bucket, stored_corpus: str, tmp_path: Path) -> None:
    need_package("distributed")
    for name, more in (("plain", ()), ("engine", ("--engine", "dask"))):
        words = ("manifest-to-tarred", f"{stored_corpus}/manifest.json", bucket / name, "--num-shards", 4)
        environ = bucket.store.environ
        done = prepcli_process(*words, *more, "--work-dir", tmp_path, "--num-workers", 2, environ=environ)
        assert done.code == 0, done.err
    plain, made = (tree(bucket.download(name, tmp_path / name)) for name in ("plain", "engine"))
    assert len(made) > 8
    assert made == plain
