"""kill -9 at random points of make-manifest, continue with another number of ranks: the same bytes."""

from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS
from tests.support.killing import Case, KillMatrix, kill_a_worker, kill_main, undisturbed_case

pytestmark = pytest.mark.slow

NUM_UNITS = 15
BAD = 7


def make_case(folder: Path) -> Case:
    """The mini corpus ten times by links, and seven damaged files."""
    for turn in range(10):
        for path in sorted(MINI_CORPUS.glob("s0*/*.flac")):
            link = folder / f"audio/{turn}/{path.name}"
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    for number in range(BAD):
        (folder / f"audio/{number}/s03_u3.flac").unlink()
        (folder / f"audio/{number}/s03_u3.flac").write_bytes(b"fLaC")
    options = ("--absolute-paths", "--speaker-pattern", r"s\d+")
    more = {"units": "slice_*", "verified": False, "module": "tests.commands.make_manifest.slow_probe"}
    return undisturbed_case(folder, "make-manifest", folder / "audio", options, NUM_UNITS, BAD, **more)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp("kill"))


class TestKills(KillMatrix):
    kills = ((kill_main, 0, 1), (kill_main, 5, 5), (kill_a_worker, 5, 2))


def test_the_case_is_of_a_file(case: Case) -> None:
    assert [*case.undisturbed] == ["."]
