"""The kill matrix over the slicing of Fisher: hundreds of small files, which appear a few conversations at a time."""

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.commands.download.make_fisher import folders, make_fisher
from tests.conftest import read_lines, tree
from tests.support.killing import Case, KillMatrix
from tests.support.running import prepcli

pytestmark = pytest.mark.slow

CONVERSATIONS = 60
NUM_UNITS = 12 + 2 + 2


class FisherCase(Case):
    """`manifest` is the LDC's tree."""

    def arguments(self, out: Path) -> list[object]:
        where = ["--ldc-root", self.manifest, "--dest-root", out]
        return ["download", "fisher", *where, *self.options, "--num-workers", 2]


def make_case(folder: Path) -> Case:
    """Sixty conversations, one of them without its recording."""
    make_fisher(folder / "ldc", CONVERSATIONS, 50.0)
    (folders(folder / "ldc", 7)[0] / "fe_03_00007.sph").unlink()
    options = ("--min-slice-duration", 0, "--max-rejects", 0.1)
    case = FisherCase("download fisher", folder / "ldc", options, NUM_UNITS, 0, {}, units="t*_*", verified=False)
    done = prepcli(*case.arguments(folder / "out"), "--json")
    assert done.code == 0, done.err
    assert done.json["units"] == NUM_UNITS
    listed = read_lines(folder / "out.prepcli/rejects.jsonl")
    assert {line["reject_reason"] for line in listed} == {"missing_audio"}
    return replace(case, num_rejects=len(listed), undisturbed=tree(folder / "out"))


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp("kill"))


class TestKills(KillMatrix):
    signals = (signal.SIGINT,)
