"""Of several commands, or state folders, that want one output in a store at once, exactly one gets it."""

import gzip
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prepcli.engine.state.store_claim import Claim, StoreClaim
from prepcli.errors import PrepcliError, UsageError
from prepcli.storage.paths import StorePath
from tests.conftest import read_lines, tree, write_lines
from tests.storage.buckets import Bucket
from tests.storage.test_store import without_dates
from tests.support.running import HANG_SECONDS, Prepcli, prepcli, start_prepcli

pytestmark = pytest.mark.slow

PAIRS = 10
CLAIMS = 10


@pytest.fixture
def out(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> StorePath:
    for name, value in bucket.store.environ.items():
        monkeypatch.setenv(name, value)
    return StorePath(bucket / "out")


def takes(out: StorePath, claim: Claim) -> bool:
    try:
        StoreClaim(out, claim).take()
    except UsageError as error:
        assert "belongs to a run whose records are in" in str(error)
        return False
    return True


def test_racing_claims(out: StorePath, tmp_path: Path) -> None:
    """Their requests interleave, because they go one by one through the helper process."""
    with ThreadPoolExecutor(2 * CLAIMS) as pool:
        claims = [[Claim.of(tmp_path / str(number)) for _ in range(2)] for number in range(CLAIMS)]
        taken = [[pool.submit(takes, out / str(number), claim) for claim in pair] for number, pair in enumerate(claims)]
        results = [sorted(one.result() for one in pair) for pair in taken]
    assert results == [[False, True]] * CLAIMS


def test_an_output_is_held_until_its_claim_is_removed(out: StorePath, bucket: Bucket, tmp_path: Path) -> None:
    first, second = Claim.of(tmp_path / "one"), Claim.of(tmp_path / "two")
    assert takes(out, first)
    assert takes(out, first)  # another rank
    assert not takes(out, second)
    for name in bucket.names("out.prepcli/"):
        bucket.delete(name)
    assert takes(out, second)
    assert not takes(out, first)
    StoreClaim(out, second).check()
    with pytest.raises(PrepcliError, match="was removed during this run"):
        StoreClaim(out, first).check()
    assert os.environ["AWS_ENDPOINT_URL"]


def test_a_command_that_is_refused_leaves_nothing_in_its_work_folder(
    bucket: Bucket, run: Prepcli, mini_corpus: Path, tmp_path: Path
) -> None:
    """Planning has unpacked its manifest there, before the output is asked whose it is."""
    packed = tmp_path / "m.json.gz"
    packed.write_bytes(gzip.compress((mini_corpus / "manifest.json").read_bytes()))
    options = ("--num-shards", 2, "--audio-base-dir", mini_corpus, "--work-dir")
    command = ("manifest-to-tarred", packed, bucket / "out", *options)
    (tmp_path / "two").mkdir()
    assert run(*command, tmp_path / "one").code == 0
    made = bucket.download("out", tmp_path / "made")
    belongs = f"belongs to a run whose records are in {tmp_path}/one/{bucket.name}_out.prepcli on "

    for change, words in (
        ("none", belongs),
        ("no output", belongs),
        ("no claim", "which would tell how they were made, is not there"),
    ):
        for name in bucket.names({"no output": "out/", "no claim": "out.prepcli/"}.get(change, "none")):
            bucket.delete(name)
        if change == "no claim":
            bucket.upload(made, "out")
        objects, records = bucket.names(), tree(tmp_path / "one")
        done = run(*command, tmp_path / "two")
        assert (done.code, words in done.error_line) == (2, True), done.err
        assert list((tmp_path / "two").iterdir()) == []
        assert (bucket.names(), tree(tmp_path / "one")) == (objects, records)


def test_racing_pairs_of_commands(bucket: Bucket, mini_corpus: Path, tmp_path: Path) -> None:
    """Whole commands with other settings each: one is refused, and what is there is that of the other, all of it.

    Most have a state folder each, so that only the store can tell; some have one for both.
    """
    read = read_lines(mini_corpus / "manifest.json")[:6]
    lines = [one | {"audio_filepath": str(mini_corpus / one["audio_filepath"])} for one in read]
    manifest = write_lines(tmp_path / "manifest.json", lines)
    words = ("manifest-to-tarred", manifest, "--num-shards", 1, "--shuffle", "--no-index", "--num-workers", 1)
    alone = []
    for seed in range(2):
        assert prepcli(*words, tmp_path / f"seed{seed}", "--shuffle-seed", seed).code == 0
        alone.append(without_dates(tree(tmp_path / f"seed{seed}")))
    assert alone[0] != alone[1]
    for number in range(PAIRS):
        folders = [tmp_path / f"records{number}_{seed if number % 5 else 0}" for seed in range(2)]
        for folder in folders:
            folder.mkdir(exist_ok=True)
        pair = [
            start_prepcli(
                *words,
                *(bucket / f"sets/{number}", "--shuffle-seed", seed, "--work-dir", folder),
                environ=bucket.store.environ,
            )
            for seed, folder in enumerate(folders)
        ]
        said = [process.communicate(timeout=HANG_SECONDS)[1] for process in pair]
        codes = [process.returncode for process in pair]
        assert sorted(codes, key=str) == [0, 2], said
        assert re.search("belongs to a run whose records are in|was made differently", said[codes.index(2)]), said
        made = bucket.download(f"sets/{number}", tmp_path / f"made{number}")
        assert without_dates(tree(made)) == alone[codes.index(0)]


def test_racing_overwrites(bucket: Bucket, mini_corpus: Path, tmp_path: Path) -> None:
    """From state folders of their own: one does the work, and the other is not told to give what it has given."""
    words = ("manifest-to-tarred", mini_corpus / "manifest.json", "--num-shards", 2, "--num-workers", 1, "--overwrite")
    for number in range(PAIRS // 4):
        pair = [
            start_prepcli(
                *words, bucket / f"sets/{number}", "--work-dir", tmp_path / name, environ=bucket.store.environ
            )
            for name in ("one", "two")
        ]
        said = [process.communicate(timeout=HANG_SECONDS)[1] for process in pair]
        codes = [process.returncode for process in pair]
        assert sorted(codes, key=str) == [0, 2], said
        refused = said[codes.index(2)]
        assert "continue it or start again there (--work-dir)" in refused
        assert "--overwrite" not in refused


def test_overwrite_removes_only_objects_that_are_as_they_were_published(
    bucket: Bucket, run: Prepcli, mini_corpus: Path, tmp_path: Path
) -> None:
    words = (
        "manifest-to-tarred",
        mini_corpus / "manifest.json",
        bucket / "out",
        "--work-dir",
        tmp_path,
        "--num-shards",
    )
    assert run(*words, 3).code == 0
    bucket.put("out/audio_backup.tar", "mine")
    for name in ("audio_7.tar", "audio_1.tar"):
        before = bucket.download("out", tmp_path / f"before {name}")
        bucket.put(f"out/{name}", "mine")
        changed = tree(bucket.download("out", tmp_path / f"changed {name}"))
        refused = run(*words, 2, "--overwrite")
        assert refused.code == 2
        assert name in refused.error_line
        assert tree(bucket.download("out", tmp_path / f"after {name}")) == changed
        bucket.delete(f"out/{name}")
        if name in tree(before):
            bucket.upload(before, "out")  # the content decides, whatever the store calls it
    done = run(*words, 2, "--overwrite")
    assert done.code == 0, done.err
    assert "others there stay (1), such as audio_backup.tar" in done.err
    assert "audio_2.tar" not in tree(bucket.download("out", tmp_path / "down"))
