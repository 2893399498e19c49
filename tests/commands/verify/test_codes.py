"""What `verify` finds in codes, and what it leaves in peace."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prepcli.commands.verify.checking import check_set
from prepcli.formats.npy import npy_bytes
from tests.conftest import MINI_CORPUS, copy_set
from tests.support.running import prepcli
from tests.support.shar_sets import Members, make, rewrite_tar
from tests.support.toy_codec import use_toy_codec

pytestmark = pytest.mark.torch

TARGET = "codes_toy/target_codes/codes.000001.tar"
CONTEXT = "codes_toy/context_codes/codes.000000.tar"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini corpus in two shards, with codes."""
    out = tmp_path_factory.mktemp("whole") / "shar"
    make(MINI_CORPUS / "manifest_with_context.json", out, "--shard-size", 24)
    with pytest.MonkeyPatch.context() as patch:
        use_toy_codec(patch.setattr)
        done = prepcli("extend-codec-codes", out, "--codec-model", "toy", "--devices", "cpu")
    assert done.code == 0, done.err
    assert check_set(out).problems == []
    return out


def swap(content: Members) -> None:
    content[:4] = content[2:4] + content[:2]


def drop(content: Members) -> None:
    del content[-2:]


def shorten(content: Members) -> None:
    codes = np.ones((4, 20), np.int16)
    content[0] = (content[0][0], npy_bytes(codes))
    manifest = json.loads(content[1][1])
    manifest["array"]["shape"] = [4, 20]
    content[1] = (content[1][0], json.dumps(manifest).encode())


def other_shape(content: Members) -> None:
    content[0] = (content[0][0], npy_bytes(np.ones((4, 20), np.int16)))


def floats(content: Members) -> None:
    content[0] = (content[0][0], npy_bytes(np.ones((4, 20), np.float32)))


def no_array(content: Members) -> None:
    content[0] = (content[0][0], b"codes")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tar", "change", "message"),
    [
        (TARGET, swap, f"{TARGET}: array 1 is "),
        (CONTEXT, drop, f"{CONTEXT}: 23 arrays, but cuts.000000.jsonl.gz has 24 cuts"),
        (TARGET, shorten, "20 frames of 0.01 s, but the audio lasts "),
        (CONTEXT, shorten, "20 frames of 0.01 s, but the audio lasts "),
        (TARGET, other_shape, "its manifest says "),
        (TARGET, floats, "float32 of shape (4, 20); expected integers of shape (codebooks, frames)"),
        (CONTEXT, no_array, "not an array with its manifest"),
    ],
)
def test_damage_is_found(
    whole: Path, tmp_path: Path, tar: str, change: Callable[[Members], None], message: str
) -> None:
    out = copy_set(whole, tmp_path)
    rewrite_tar(out / tar, change)
    problems = check_set(out).problems
    assert any(message in problem for problem in problems), problems
    assert all(tar in problem for problem in problems)


def test_a_missing_shard_and_one_too_many(whole: Path, tmp_path: Path) -> None:
    out = copy_set(whole, tmp_path)
    (out / CONTEXT).rename(out / CONTEXT.replace("000000", "000007"))
    problems = check_set(out).problems
    assert problems == [
        f"{CONTEXT}: missing",
        f"{CONTEXT.replace('000000', '000007')}: there are no such cuts",
    ]


@pytest.mark.slow
def test_other_bytes_than_were_published(whole: Path, tmp_path: Path) -> None:
    out = copy_set(whole, tmp_path, records=True)
    assert check_set(out).problems == []
    rewrite_tar(out / TARGET, lambda content: None)
    problems = check_set(out).problems
    assert f"{TARGET}: not the bytes that were published (its hash differs)" in problems
    (out / TARGET).unlink()
    assert f"{TARGET}: was published, but is missing" in check_set(out).problems
