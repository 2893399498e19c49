"""Units as tasks of engines: every job gives the bytes of a plain run, whoever is killed, and whoever continues."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

import prepcli as library
from tests.conftest import SHORT_CORPUS, read_lines, tree, write_lines
from tests.jobs.kill_cases import JOBS
from tests.jobs.killing import Case, check, children, end, resume, wait_for
from tests.support.audio_files import write_audio
from tests.support.running import HANG_SECONDS, prepcli, prepcli_process
from tests.support.running import Process as Running
from tests.support.tools import need_package

MANIFEST = str(SHORT_CORPUS / "manifest.json")
SLOW = pytest.mark.slow
IN_WORKERS = (
    *("tarred", "reshuffled", "shar", "wenet", "parquet", "omnilingual", "conversations", "texts", "convert"),
    *("make-manifest", "filter", "split", "segment", "fisher", "download", "lhotse"),
)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Case]:
    """Each job's case is made once."""
    return cache(lambda job: JOBS[job].make(tmp_path_factory.mktemp(job)))


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster of Dask with two workers."""
    need_package("distributed")
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as found:
        yield found.scheduler_address


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The mini corpus in eight shards."""
    out = tmp_path_factory.mktemp("plain") / "out"
    assert prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", 8).code == 0
    return tree(out)


@pytest.mark.parametrize("pool", [ProcessPoolExecutor, ThreadPoolExecutor])
def test_any_executor_of_python(pool: Callable[[int], Executor], plain: dict[str, str], tmp_path: Path) -> None:
    """Threads of a process make a unit each in turn."""
    before = os.getcwd()
    with pool(2) as executor:
        report = library.manifest_to_tarred(MANIFEST, tmp_path / "out", num_shards=8, executor=executor)
        assert (report.status, report.records_out) == ("done", 48)
    assert tree(tmp_path / "out") == plain
    assert os.getcwd() == before
    assert not list((tmp_path / "out.prepcli").rglob("*.pickle"))


@pytest.mark.slow
def test_the_executor_of_a_client(cluster: str, plain: dict[str, str], tmp_path: Path) -> None:
    from distributed import Client

    with Client(cluster, set_as_default=False) as client:
        library.manifest_to_tarred(MANIFEST, tmp_path / "out", num_shards=8, executor=client.get_executor())
    assert tree(tmp_path / "out") == plain


def test_relative_paths_start_from_the_folder_of_the_driver(
    cluster: str, plain: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SHORT_CORPUS)
    out = os.path.relpath(tmp_path / "out")
    done = prepcli("manifest-to-tarred", "manifest.json", out, "--num-shards", 8, "--engine", f"dask={cluster}")
    assert done.code == 0, done.err
    assert tree(tmp_path / "out") == plain


@pytest.mark.parametrize(
    ("engine", "variable"), [("dask", "DASK_SCHEDULER_ADDRESS"), pytest.param("ray", "RAY_ADDRESS", marks=SLOW)]
)
def test_a_cluster_of_the_environment_is_left_alone(
    engine: str, variable: str, plain: dict[str, str], tmp_path: Path
) -> None:
    """Without an address, a cluster is started here."""
    need_package({"dask": "distributed"}.get(engine, engine))
    words = (MANIFEST, tmp_path / "out", "--num-shards", 8, "--engine", engine, "--num-workers", 1)
    done = prepcli_process("manifest-to-tarred", *words, environ={variable: "127.0.0.1:1"})
    assert done.code == 0, done.err
    assert tree(tmp_path / "out") == plain


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_WORKERS)
def test_every_job(name: str, cases: Callable[[str], Case], cluster: str, tmp_path: Path) -> None:
    """Workers of Dask inherit nothing: all that units need is sent."""
    case = cases(name)
    out = case.new_place(tmp_path)
    end(case.start(out, "--engine", f"dask={cluster}"))
    check(case, out)


@pytest.mark.slow
def test_segments_are_known_in_processes_with_other_hashes(cluster: str, tmp_path: Path) -> None:
    """Of a file with segments, `fix-durations` changes no duration; the planning process has found those files."""
    write_audio(tmp_path / "talk.wav", 4.0, 16000)
    write_audio(tmp_path / "one.wav", 2.0, 16000)
    spans = [{"duration": 1.0, "offset": 0.0}, {"duration": 1.0, "offset": 2.0}]
    records = [{"audio_filepath": "talk.wav", "text": "a", **span} for span in spans]
    records.append({"audio_filepath": "one.wav", "text": "b", "duration": 1.5})
    manifest = write_lines(tmp_path / "m.json", records)
    done = prepcli("fix-durations", manifest, tmp_path / "out.json", "--engine", f"dask={cluster}")
    assert done.code == 0, done.err
    assert [record["duration"] for record in read_lines(tmp_path / "out.json")] == [1.0, 1.0, 2.0]


def workers_of(engine: str, driver: Running) -> list[int]:
    """The processes that make units: Dask starts them itself, Ray's agents name them after their function."""
    if engine == "dask":
        return [pid for pid in children(driver.pid) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    lines = {int(path.parent.name): path for path in Path("/proc").glob("[0-9]*/cmdline")}
    return [pid for pid, path in lines.items() if _begins_with_ray(path)]


def _begins_with_ray(path: Path) -> bool:
    try:
        return path.read_bytes().startswith(b"ray::_call")
    except OSError:
        return False


engines = pytest.mark.parametrize("engine", ["dask", "ray"])


@pytest.mark.slow
@engines
def test_a_killed_worker(engine: str, cases: Callable[[str], Case], draw: random.Random, tmp_path: Path) -> None:
    """The engine makes its unit once more."""
    need_package({"dask": "distributed"}.get(engine, engine))
    case, out = cases("tarred"), tmp_path / "out"
    process = case.start(out, "--engine", engine)
    wait_for(case, out, 2, process)
    if pids := workers_of(engine, process):
        os.kill(draw.choice(pids), signal.SIGKILL)
    end(process)
    check(case, out)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "number"), [("dask", signal.SIGKILL), ("ray", signal.SIGTERM)])
def test_a_killed_driver(engine: str, number: signal.Signals, cases: Callable[[str], Case], tmp_path: Path) -> None:
    """A plain run continues, or the other engine."""
    need_package({"dask": "distributed"}.get(engine, engine))
    case, out = cases("tarred"), tmp_path / "out"
    process = case.start(out, "--engine", engine)
    wait_for(case, out, 2, process)
    process.send_signal(number)
    _, err = process.communicate(timeout=HANG_SECONDS)
    if number != signal.SIGKILL and process.returncode:
        assert process.returncode == 4, err
        assert f"Continue with: prepcli {case.command}" in err
    if engine == "dask":
        end(case.start(out, "--engine", "ray"))
        check(case, out)
    else:
        resume(case, out, 2)


TWO_NODES = """
from ray.cluster_utils import Cluster

nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
second = nodes.add_node(num_cpus=1)
print("at", nodes.address, flush=True)
input()
nodes.remove_node(second, allow_graceful=False)
print("removed", flush=True)
input()
nodes.shutdown()
"""
"""In a process of its own: Ray takes signals of the process that starts nodes."""


@pytest.mark.slow
def test_a_node_of_ray_that_is_lost(cases: Callable[[str], Case], tmp_path: Path) -> None:
    need_package("ray")
    case, out = cases("tarred"), tmp_path / "out"
    command = [sys.executable, "-c", TWO_NODES]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as nodes:
        assert nodes.stdout is not None and nodes.stdin is not None
        address = next(line.split()[1] for line in nodes.stdout if line.startswith("at "))
        process = case.start(out, "--engine", f"ray={address}")
        wait_for(case, out, 2, process)
        print(file=nodes.stdin, flush=True)
        assert any(line.startswith("removed") for line in nodes.stdout)
        end(process)
        print(file=nodes.stdin, flush=True)
    check(case, out)
