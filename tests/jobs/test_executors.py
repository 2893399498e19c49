"""Units as tasks of engines: every job gives the bytes of a plain run, whoever is killed, and whoever continues."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.kill_cases import JOBS
from tests.jobs.killing import check, end
from tests.support.tools import need_package

IN_WORKERS = (
    *("tarred", "reshuffled", "shar", "indexed-shar", "wenet", "mels", "parquet", "omnilingual", "convert"),
    *("make-manifest", "filter", "split", "duplicates", "score", "index", "fisher"),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster of Dask with two workers."""
    need_package("distributed")
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as found:
        yield found.scheduler_address


@pytest.mark.parametrize("name", IN_WORKERS)
def test_every_job(name: str, cluster: str, tmp_path: Path) -> None:
    case = JOBS[name].make(tmp_path)
    out = case.new_place(tmp_path / "engine")
    out.parent.mkdir(exist_ok=True)
    end(case.start(out, "--engine", f"dask={cluster}"))
    check(case, out)
