"""A store that lacks an object, refuses, or does not answer: a reject, or one clear line, and never a secret."""

from pathlib import Path

import pytest

from prepcli.storage.addresses import parse_address
from prepcli.storage.failures import translated
from tests.conftest import read_lines, write_lines
from tests.storage.buckets import Bucket
from tests.storage.object_store import SECRET_KEY
from tests.support.running import Outcome, Prepcli, prepcli

pytestmark = pytest.mark.slow


def without_secret(outcome: Outcome, *folders: Path) -> None:
    """The secret is in no message, and in no file that the run has left."""
    assert SECRET_KEY not in outcome.out + outcome.err
    for folder in folders:
        for path in folder.rglob("*"):
            assert not path.is_file() or SECRET_KEY.encode() not in path.read_bytes()


def test_an_object_that_is_not_there_is_a_reject(
    run: Prepcli, mini_corpus: Path, stored_corpus: str, tmp_path: Path
) -> None:
    records = read_lines(mini_corpus / "manifest.json")
    records[3]["audio_filepath"] = "nowhere.wav"
    manifest = write_lines(tmp_path / "m.json", records)
    out = tmp_path / "out"
    done = run("manifest-to-tarred", manifest, out, "--num-shards", 2, "--audio-base-dir", stored_corpus, "--json")
    assert done.code == 0, done.err
    assert (done.json["records_out"], done.json["rejects_by_reason"]) == (47, {"missing_audio": 1})
    (reject,) = read_lines(tmp_path / "out.prepcli" / "rejects.jsonl")
    assert reject["reject_detail"] == f"{stored_corpus}/nowhere.wav does not exist"
    without_secret(done, tmp_path)


def test_a_missing_manifest(bucket: Bucket, run: Prepcli, tmp_path: Path) -> None:
    done = run("manifest-to-tarred", bucket / "no.json", tmp_path / "out", "--num-shards", 1)
    assert (done.code, done.error_line) == (2, f"prepcli: manifest not found: {bucket / 'no.json'}")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("where", ["manifest", "audio", "out"])
def test_a_missing_bucket_is_one_error_before_the_work(
    where: str, bucket: Bucket, run: Prepcli, mini_corpus: Path, tmp_path: Path
) -> None:
    manifest: object = mini_corpus / "manifest.json"
    out: object = tmp_path / "out"
    options: list[object] = ["--num-shards", 2]
    if where == "manifest":
        manifest = "s3://no-such-bucket/m.json"
    elif where == "audio":
        options += ["--audio-base-dir", "s3://no-such-bucket/audio"]
    else:
        out = "s3://no-such-bucket/out"
        options += ["--work-dir", tmp_path]
    done = run("manifest-to-tarred", manifest, out, *options)
    assert done.code == 2
    assert "there is no bucket no-such-bucket at http://127.0.0.1:" in done.error_line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("where", ["manifest", "audio", "out"])
def test_refused_access_is_one_error_before_the_work(
    where: str, bucket: Bucket, run: Prepcli, mini_corpus: Path, stored_corpus: str, tmp_path: Path
) -> None:
    manifest: object = mini_corpus / "manifest.json"
    out: object = tmp_path / "out"
    options: list[object] = ["--num-shards", 2]
    if where == "manifest":
        manifest = f"{stored_corpus}/manifest.json"
    elif where == "audio":
        options += ["--audio-base-dir", stored_corpus]
    else:
        out = bucket / "out"
        options += ["--work-dir", tmp_path]
    wrong = {"AWS_SECRET_ACCESS_KEY": "another-secret"}
    done = run("manifest-to-tarred", manifest, out, *options, environ=wrong)
    assert done.code == 2
    assert "was denied (" in done.error_line
    assert "AWS_SECRET_ACCESS_KEY" in done.error_line
    assert "another-secret" not in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("unset", "says"),
    [
        ((), "there are no keys for the store at http://127.0.0.1:9: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        (("AWS_ENDPOINT_URL",), "there are no keys for the store at AWS: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_"),
        (("AWS_SECRET_ACCESS_KEY",), "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not: set both"),
    ],
)
def test_without_keys(unset: tuple[str, ...], says: str) -> None:
    """One line at once, and no minutes of questions to a service that only machines of AWS have."""
    environ = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_EC2_METADATA_DISABLED": "true"}
    if "AWS_SECRET_ACCESS_KEY" in unset:
        environ["AWS_ACCESS_KEY_ID"] = "key"
    environ |= dict.fromkeys(unset, "")
    done = prepcli("inspect", "s3://bucket/m.json", environ=environ)
    assert (done.code, done.error_line[: len("prepcli: " + says)]) == (2, "prepcli: " + says)


@pytest.mark.parametrize("endpoint", ["store:9000", "//store", "http://", "user:a-password@store", "http://a b"])
@pytest.mark.parametrize(("name", "scheme"), [("AWS_ENDPOINT_URL", "s3"), ("AIS_ENDPOINT", "ais")])
def test_an_endpoint_that_is_not_an_address(name: str, scheme: str, endpoint: str) -> None:
    """The library for requests would print hundreds of lines."""
    environ = {name: endpoint, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    done = prepcli("inspect", f"{scheme}://bucket/m.json", environ=environ)
    assert done.code == 2
    assert done.error_line == f"prepcli: {name} must be the address of a store, such as http://host:9000"


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"AWS_SKIP_SIGNATURE": "true"}, "no keys are used, as AWS_SKIP_SIGNATURE is set: set AWS_ACCESS_KEY_ID"),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "token"}, "check what the profile or the role whose keys are used may do"),
    ],
)
def test_refused_access_without_keys_in_the_environment(
    environ: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SKIP_SIGNATURE"):
        monkeypatch.setenv(name, environ.get(name, ""))
    error = translated(RuntimeError("status code: 403"), parse_address("s3://bucket/key"), "http://host")
    assert f"was denied (status 403): {says}" in str(error)


def test_a_store_that_does_not_answer(tmp_path: Path, mini_corpus: Path) -> None:
    environ = {
        "AWS_ENDPOINT_URL": "http://user:a-password@127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "PREPCLI_STORE_PATIENCE": "0.5",
    }
    done = prepcli("inspect", "s3://bucket/m.json", environ=environ)
    assert done.code == 4
    assert "s3://bucket/m.json: the store at http://127.0.0.1:9 has failed: " in done.error_line
    assert "a-password" not in done.err
    without_secret(done)
