"""Uploads in parts: what the client aborts, and what it leaves to the store's lifecycle rule."""

from pathlib import Path

import pytest
from xxhash import xxh3_128

from prepcli.engine.objects import note
from prepcli.engine.publishing.output_files import PublishedFile
from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.run import run_job
from prepcli.engine.state.workspace import Workspace
from prepcli.storage import client
from prepcli.storage.access import call
from prepcli.storage.failures import StoreError
from prepcli.storage.paths import StorePath
from tests.engine.toy import ToyJob
from tests.storage.buckets import Bucket
from tests.storage.object_store import ObjectStore
from tests.support.running import Prepcli

pytestmark = pytest.mark.slow

MORE_THAN_A_PART = bytes(client.PART_BYTES + 1)


@pytest.fixture
def there(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    for name, value in bucket.store.environ.items():
        monkeypatch.setenv(name, value)
    return bucket


def begin(bucket: Bucket) -> int:
    """Begin an upload in parts; returns its number."""
    number = call(client.open_upload, bucket / "out")
    call(client.write_upload, number, MORE_THAN_A_PART)
    assert bucket.unfinished("out") == ["out"]
    return number


def test_an_upload_that_is_not_wanted_is_aborted(there: Bucket) -> None:
    number = begin(there)
    call(client.abort_upload, number)
    assert (there.unfinished("out"), there.names()) == ([], [])
    call(client.abort_upload, number)


def test_an_upload_that_the_store_may_have_completed_is_not_aborted(
    there: Bucket, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is lost, so nobody knows: Swift removes the parts of the object if the abort overtakes the end."""
    monkeypatch.setenv("PREPCLI_STORE_PATIENCE", "0.5")
    number = begin(there)
    object_store.kill()
    try:
        with pytest.raises(StoreError):
            call(client.finish_upload, number, len(MORE_THAN_A_PART))
    finally:
        object_store.start()
    call(client.abort_upload, number)
    assert there.unfinished("out") == ["out"]


def test_no_run_aborts_an_upload_that_it_has_not_begun(
    bucket: Bucket, run: Prepcli, mini_corpus: Path, tmp_path: Path
) -> None:
    """A killed process leaves one; the store may be completing it at this moment, and then the object would break."""
    out = bucket / "out"
    left = ["out/audio_0.tar", "out/audio_1.tar", "out/other.tar"]
    for key in left:
        bucket.begin_upload(key)
    words = ("manifest-to-tarred", mini_corpus / "manifest.json", out, "--num-shards", 2, "--work-dir", tmp_path)
    for more in ((), ("--overwrite",)):
        done = run(*words, *more)
        assert done.code == 0, done.err
        assert bucket.unfinished("out") == left
        checked = run("verify", out, "--work-dir", tmp_path, "--json")
        assert (checked.code, checked.json["problems"], checked.json["records"]) == (0, [], 48)
    assert "out/other.tar" not in bucket.names()


def test_an_object_that_appears_after_the_output_was_cleared_is_still_ours(there: Bucket, tmp_path: Path) -> None:
    """A process of the former run, which is alive, completes it late; clearing again removes it."""
    out = StorePath(there / "out")

    def make(overwrite: bool = True) -> None:
        job = ToyJob(out, num_units=2)  # type: ignore[arg-type]
        run_job(job, Workspace(out, work_dir=tmp_path / "state"), RunOptions(budget=Budget(1), overwrite=overwrite))

    make(overwrite=False)
    whole = there.names("out/")
    workspace = Workspace(out, work_dir=tmp_path / "state")
    workspace.prepare()
    note(workspace, "unit_007", {"unit_007.txt": PublishedFile(4, xxh3_128(b"late").hexdigest())})
    make()
    call(client.put_object, str(out / "unit_007.txt"), b"late")
    make()
    assert there.names("out/") == whole
