"""Of several folders of records that claim an output in a store at once, exactly one gets it."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prepcli.engine.store_claim import Claim, StoreClaim
from prepcli.errors import PrepcliError, UsageError
from prepcli.storage.paths import StorePath
from tests.storage.buckets import Bucket

pytestmark = pytest.mark.slow

PAIRS = 20


@pytest.fixture
def out(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> StorePath:
    for name, value in bucket.store.environ.items():
        monkeypatch.setenv(name, value)
    return StorePath(bucket / "out")


def takes(out: StorePath, claim: Claim, by_force: bool = False) -> bool:
    try:
        StoreClaim(out, claim).take(by_force)
    except UsageError as error:
        assert "belongs to a run whose records are in" in str(error)
        return False
    return True


def test_racing_pairs(out: StorePath, tmp_path: Path) -> None:
    """Their requests interleave, because they go one by one through the helper process."""
    with ThreadPoolExecutor(2 * PAIRS) as pool:
        claims = [[Claim.of(tmp_path / str(number)) for _ in range(2)] for number in range(PAIRS)]
        taken = [[pool.submit(takes, out / str(number), claim) for claim in pair] for number, pair in enumerate(claims)]
        results = [sorted(one.result() for one in pair) for pair in taken]
    assert results == [[False, True]] * PAIRS


def test_an_output_is_held_until_it_is_taken_by_force(out: StorePath, tmp_path: Path) -> None:
    first, second = Claim.of(tmp_path / "one"), Claim.of(tmp_path / "two")
    assert takes(out, first)
    assert takes(out, first)  # another rank
    assert not takes(out, second)
    assert takes(out, second, by_force=True)
    assert not takes(out, first)
    StoreClaim(out, second).check()
    with pytest.raises(PrepcliError, match="another command has started again"):
        StoreClaim(out, first).check()
    assert os.environ["AWS_ENDPOINT_URL"]
