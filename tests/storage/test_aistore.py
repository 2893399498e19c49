"""`ais://`: AIStore's S3 interface and token, which a gateway before the store of the tests imitates."""

from pathlib import Path

import pytest

from tests.conftest import tree
from tests.storage.buckets import Bucket
from tests.storage.gateway import TOKEN, gateway
from tests.storage.test_store import without_dates
from tests.support.running import prepcli

pytestmark = pytest.mark.slow


def test_in_and_out_of_aistore(bucket: Bucket, mini_corpus: Path, stored_corpus: str, tmp_path: Path) -> None:
    manifest, out = f"ais{stored_corpus.removeprefix('s3')}/manifest.json", f"ais://{bucket.name}/out"
    words = ("manifest-to-tarred", "--num-shards", 2, "--num-workers", 1)
    assert prepcli(*words, mini_corpus / "manifest.json", tmp_path / "here").code == 0
    with gateway(bucket.store) as endpoint:
        environ = {"AIS_ENDPOINT": endpoint, "AIS_AUTHN_TOKEN": TOKEN}
        done = prepcli(*words, manifest, out, "--work-dir", tmp_path, "--json", environ=environ)
        assert done.code == 0, done.err
        checked = prepcli("verify", out, "--work-dir", tmp_path, "--json", environ=environ)
        assert (checked.code, checked.json["problems"], checked.json["records"]) == (0, [], 48)
        refused = prepcli("inspect", manifest, environ=environ | {"AIS_AUTHN_TOKEN": "another-token"})
    assert without_dates(tree(bucket.download("out", tmp_path / "down"))) == without_dates(tree(tmp_path / "here"))
    assert refused.code == 2
    assert "was denied (status 401): check AIS_AUTHN_TOKEN" in refused.error_line
    assert "another-token" not in refused.err
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes()


def test_without_an_endpoint(tmp_path: Path) -> None:
    done = prepcli("inspect", "ais://bucket/manifest.json", environ={"AIS_ENDPOINT": ""})
    assert done.code == 2
    assert "ais:// needs the address of AIStore in AIS_ENDPOINT, such as http://host:51080" in done.error_line
