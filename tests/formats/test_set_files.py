"""Files of data sets that another command would replace: refused, whether the set is its input or not."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, SHORT_CORPUS, make_set, tree
from tests.support.running import prepcli

MANIFEST = SHORT_CORPUS / "manifest.json"


@pytest.fixture(scope="module")
def tarred(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sets") / "tarred"
    make_set(
        "manifest-to-tarred",
        MINI_CORPUS / "manifest.json",
        out,
        "--num-shards",
        1,
        "--buckets-num",
        2,
        "--max-duration",
        7,
    )
    return out


@pytest.mark.parametrize("has_state", [True, False])
def test_metadata_of_a_tarred_set(tarred: Path, has_state: bool, tmp_path: Path) -> None:
    """Also through a link, and if the set is not the input; a config of the user in its folder is replaced."""
    shutil.copytree(tarred, tmp_path / "set")
    if has_state:
        shutil.copytree(f"{tarred}.prepcli", tmp_path / "set.prepcli")
    (tmp_path / "link.yaml").symlink_to("set/bucket2/metadata.yaml")
    before = tree(tmp_path)
    named = tmp_path / "set" if has_state else tmp_path / "set/bucket2"
    for out in ("set/bucket2/metadata.yaml", "link.yaml"):
        for source in ("set", MANIFEST):
            done = prepcli("blend", f"a={source}", out, "--no-check", "--overwrite", cwd=tmp_path)
            assert (done.code, tree(tmp_path)) == (2, before)
            assert f"OUT {out} would replace a file of the data set {named}; give another name" in done.error_line
    for name in ("a", "b"):
        assert prepcli("blend", f"{name}=set", "set/mix.yaml", "--no-check", "--overwrite", cwd=tmp_path).code == 0


def test_lists_of_a_finished_set(tmp_path: Path) -> None:
    """By another set; a list of other files is replaced."""
    for name in ("a", "b"):
        make_set("manifest-to-wenet", MANIFEST, tmp_path / name, "--shard-size", 24)
    done = prepcli("blend", "a=a", "b/shards.list", "--overwrite", cwd=tmp_path)
    assert (done.code, f"would replace a file of the data set {tmp_path}/b" in done.error_line) == (2, True)
    (tmp_path / "b/mine.list").write_text("mine")
    assert prepcli("blend", "a=a", "b/mine.list", "--overwrite", cwd=tmp_path).code == 0
