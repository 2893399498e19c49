"""Every job, killed or stopped at random moments and continued by other numbers of ranks, gives the same bytes.

The rows are in `tests/jobs/kill_cases.py`; ranks that read manifests together, and runs into a store, are below.
"""

import gzip
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import pytest

from prepcli.engine.state.work_folder import work_folder
from prepcli.storage.paths import StorePath
from tests.conftest import MINI_CORPUS, read_lines, tree, write_lines
from tests.jobs.kill_cases import JOBS, noisy_shar, segments
from tests.jobs.killing import (
    ATTEMPTS,
    Case,
    Environ,
    Victim,
    check,
    children,
    end,
    kill_a_worker,
    resume,
    stop_amid,
    undisturbed,
    wait_for,
    wait_until_gone,
)
from tests.storage.buckets import Bucket
from tests.storage.object_store import ObjectStore
from tests.support import seeds
from tests.support.running import HANG_SECONDS, Process, prepcli, start_prepcli
from tests.support.sharing_ranks import KILL_AT, MOMENTS
from tests.support.toy_codec import HOLD

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forking")]


def rows(moments: str, step: int = 1) -> list[Any]:
    """The job and its moments: every `step`-th, from the one that the seed gives, so that several runs try all."""
    found = [(name, row) for name, job in JOBS.items() for row in getattr(job, moments)]
    found = [(name, *row) if isinstance(row, tuple) else (name, row) for name, row in found]
    return [pytest.param(*row, id="-".join(map(_word, row))) for row in seeds.some_of(found, step)]


def _word(value: Any) -> str:
    return getattr(value, "name", getattr(value, "__name__", str(value)))


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Case]:
    """Each job's case is made once: a parametrised fixture would be made for each row."""
    return cache(lambda job: JOBS[job].make(tmp_path_factory.mktemp(job)))


@pytest.fixture
def case(request: pytest.FixtureRequest, cases: Callable[[str], Case]) -> Case:
    return cases(request.param)


on_jobs = partial(pytest.mark.parametrize, indirect=["case"])


@on_jobs(("case", "victim", "steps", "world_size"), rows("kills", 2))
def test_a_killed_run(
    case: Case, victim: Victim, steps: int, world_size: int, draw: random.Random, tmp_path: Path
) -> None:
    """Kill the main process or a worker; continue with `world_size` ranks."""
    out = case.new_place(tmp_path)
    process = case.start(out)
    wait_for(case, out, steps, process)
    if case.is_job:
        time.sleep(draw.random() * 0.1)
    workers = children(process.pid)
    victim(process, draw)
    _, err = process.communicate(timeout=HANG_SECONDS)
    if victim is kill_a_worker and process.returncode != 0:
        assert process.returncode == 4
        assert "SIGKILL" in err
        assert f"Continue with: prepcli {case.command}" in err
    wait_until_gone([process.pid, *workers])
    assert case.half(out) == []
    resume(case, out, world_size)


@on_jobs(("case", "world_size"), rows("world_sizes"))
def test_one_of_two_ranks_is_killed(case: Case, world_size: int, draw: random.Random, tmp_path: Path) -> None:
    """The other goes on; then `world_size` ranks continue."""
    out = case.new_place(tmp_path)
    ranks = [case.start(out, "--rank", rank, "--world-size", 2) for rank in range(2)]
    wait_for(case, out, draw.randrange(case.num_units // 2), ranks[0])
    ranks[1].kill()
    ranks[1].communicate(timeout=HANG_SECONDS)
    end(ranks[0])
    resume(case, out, world_size)


@on_jobs(("case", "number", "steps"), rows("signals"))
def test_signals_end_a_run_in_good_order(case: Case, number: signal.Signals, steps: int, tmp_path: Path) -> None:
    """With exit code 4, tidily; the same command continues it."""
    for _ in range(ATTEMPTS):
        out = case.new_place(tmp_path)
        if stop_amid(case, out, number, steps):
            break
    else:
        raise AssertionError(f"{ATTEMPTS} times all was done before the signal")
    resume(case, out, 1)


@on_jobs(("case", "victim", "steps"), rows("launches"))
def test_ranks_of_a_launch_do_the_work_of_a_killed_one(
    case: Case, victim: Victim, steps: int, draw: random.Random, tmp_path: Path
) -> None:
    """Of three ranks one is disturbed for good; the others do its units, and finish."""
    out = case.new_place(tmp_path)
    ranks = [case.start(out, "--rank", rank, "--world-size", 3, "--launch-id", "first") for rank in range(3)]
    disturbed = draw.choice(ranks)
    wait_for(case, out, steps, disturbed)
    victim(disturbed, draw)
    for process in ranks:
        _, err = process.communicate(timeout=HANG_SECONDS)
        assert process.returncode == 0 or process is disturbed, err
    check(case, out)


@on_jobs("case", ["tarred"])
def test_rank_processes_of_one_machine(case: Case, tmp_path: Path) -> None:
    """The launcher of GPU commands: one rank process per device, ended with their parent, restartable."""
    out = tmp_path / "out"
    code = (
        "import sys; from prepcli.engine.ranks.launch import spawn_ranks\n"
        "sys.exit(spawn_ranks(sys.argv[2:], int(sys.argv[1])))"
    )

    def start() -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", code, "3", *map(str, case.arguments(out))]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    first = start()
    wait_for(case, out, 1, first)
    ranks = children(first.pid)
    assert len(ranks) == 3
    first.kill()
    first.communicate(timeout=HANG_SECONDS)
    wait_until_gone(ranks)
    second = start()
    wait_for(case, out, 5, second)
    second.terminate()
    end(second, 0, 4, -signal.SIGTERM)  # the last if it was too early for any handler
    end(start())
    assert tree(out) == case.undisturbed


@on_jobs("case", ["codes"])
def test_started_twice_by_mistake(case: Case, tmp_path: Path) -> None:
    """The first waits in the middle of its work; the second says so, does all of it, and neither harms the other."""
    out, go = tmp_path / "out", tmp_path / "go"
    first = case.start(out, environ={HOLD: str(go)})
    wait_for(case, out, 0, first)
    while not (case.state(out).progress / "rank_00000.json").exists():
        assert first.poll() is None
    err = end(case.start(out))
    assert f"note: rank 0 seems to be running already (process {first.pid} on" in err
    assert tree(out) == case.undisturbed
    go.touch()
    end(first)
    check(case, out)


SHARING: dict[str, tuple[object, ...]] = {
    "manifest-to-tarred": ("--num-shards", 8, "--shuffle"),
    "manifest-to-shar": ("--shard-size", 6, "--shuffle"),
    "manifest-to-wenet": ("--shard-size", 6, "--shuffle"),
    "manifest-to-parquet": ("--shard-size", 6),
    "manifest-to-mels": ("--devices", "cpu"),
    "convert-audio": (),
    "extend-context-audio": ("--speaker-model", "toy", "--context-min-ssim", 0, "--context-min-duration", 1),
    "extend-codec-codes": ("--codec-model", "toy", "--pool-duration", 5),
}
"""Every command whose ranks share an index."""
READERS = ("manifest-to-tarred", "extend-context-audio", "extend-codec-codes")
"""Commands with reading or planning of their own; for the others one moment is tried."""
UNPLANNED = ("extend-codec-codes", "planned")
"""Its units follow from the index so quickly that they are not kept."""
SHARED_KILLS = [
    *((command, 2, moment) for command in READERS for moment in MOMENTS if (command, moment) != UNPLANNED),
    *((command, 1, MOMENTS[(number + 1) % len(MOMENTS)]) for number, command in enumerate(SHARING)),
    *(("manifest-to-tarred", 5, moment) for moment in ("reading", "at work")),
]


class SharingCase(Case):
    """Ranks that share an index; all runs are in one place, which some outputs name."""

    def arguments(self, out: Path) -> list[object]:
        return [*super().arguments(out), "--num-workers", 1, "--max-rejects", 0.9]

    def workspace(self, out: Path) -> Path:
        """Where the rejects lie."""
        return next(out.with_name("out.prepcli").glob("**/rejects.jsonl")).parent

    def tree(self, out: Path) -> dict[str, str]:
        return tree(out) | {"rejects": (self.workspace(out) / "rejects.jsonl").read_text()}


def sharing_case(command: str, folder: Path) -> Case:
    """A plain manifest and a compressed one, with a line that cannot be read and a missing file."""
    records = read_lines(MINI_CORPUS / "manifest_with_context.json")
    for record in records:
        for name in ("audio_filepath", "context_audio_filepath"):
            record[name] = str(MINI_CORPUS / record[name])
    records[20]["audio_filepath"] = "missing.wav"
    lines = [*map(json.dumps, records[:30]), "{oops", *map(json.dumps, records[30:])]
    (folder / "a.json").write_text("\n".join(lines[:32]) + "\n")
    (folder / "b.json.gz").write_bytes(gzip.compress(("\n".join(lines[32:]) + "\n").encode(), 1))
    manifests = f"{folder}/a.json,{folder}/b.json.gz"
    option = "--output-dir" if command == "extend-codec-codes" else None
    more: dict[str, Any] = {"module": "tests.support.sharing_ranks", "out_option": option, "place": folder / "out"}
    case = SharingCase(command, manifests, SHARING[command], 0, 0, **more)
    end(case.start(folder / "out"))
    assert any(folder.glob("out.prepcli/**/index/*/index.json"))
    assert case.rejects(folder / "out") >= 2
    return replace(case, num_rejects=case.rejects(folder / "out"), undisturbed=case.tree(folder / "out"))


@pytest.fixture(scope="module")
def sharing_cases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Case]:
    return cache(lambda command: sharing_case(command, tmp_path_factory.mktemp("sharing")))


@pytest.mark.parametrize(("command", "world_size", "moment"), SHARED_KILLS)
def test_killed_ranks_that_share_an_index(
    command: str, world_size: int, moment: str, sharing_cases: Callable[[str], Case], tmp_path: Path
) -> None:
    """The first rank is killed while it reads, between the stages, or at work: the others go on, or two new ones do.

    If it dies before the first unit, the others start when it has begun to read, so that they wait for it.
    """
    sharing = sharing_cases(command)
    out = sharing.new_place(tmp_path)

    def launch(name: str, ranks: Sequence[int], number: int, environ: Environ = None) -> list[Process]:
        places = [("--rank", rank, "--world-size", number, "--launch-id", name) for rank in ranks]
        return [sharing.start(out, *place, environ=environ) for place in places]

    [victim] = launch("first", [0], world_size, {KILL_AT: moment})
    while moment != "at work" and victim.poll() is None and not any(out.parent.glob("out.prepcli/**/stage.json")):
        time.sleep(0.002)
    for process in launch("first", range(1, world_size), world_size):
        end(process)
    # At work, all may be done by others before the victim comes to where it dies.
    end(victim, -9, *([0] if world_size > 1 and moment == "at work" else []))
    told = prepcli("status", out, "--json")
    if told.code or told.json["state"] != "finished":
        for process in launch("second", range(2), 2):
            end(process)
    check(sharing, out)
    assert not list(out.parent.glob("out.prepcli/**/index/*/parts"))


@dataclass(frozen=True)
class StoredCase(Case):
    """A run into a bucket, with small parts of uploads; its state lies in a folder of the test."""

    bucket: Bucket | None = None
    work: Path = Path()

    def start(self, out: Path, *more: object, environ: Environ = None) -> Process:
        place = ("--work-dir", self.work) if self.bucket else ()
        known = {"CUDA_VISIBLE_DEVICES": "", **(self.bucket.store.environ if self.bucket else {}), **(environ or {})}
        return super().start(out, *place, *more, environ=known)

    def workspace(self, out: Path) -> Path:
        folder = work_folder(out, self.work) if self.bucket else out.with_name("out.prepcli")
        return folder / self.records

    def tree(self, out: Path) -> dict[str, str]:
        if self.bucket is None:
            return tree(out)
        shutil.rmtree(self.work / "down", ignore_errors=True)
        return tree(self.bucket.download(str(out).rpartition("/")[2], self.work / "down"))

    def status(self, out: Path) -> dict[str, Any]:
        assert self.bucket is not None
        environ = self.bucket.store.environ
        return prepcli("status", out, "--work-dir", self.work, "--json", environ=environ).json


def stored_case(job: str, store: ObjectStore, folder: Path) -> StoredCase:
    """A case whose input is in the store, with what a run on a disk gives."""
    bucket = Bucket(store, f"killed-{job}")
    more: dict[str, Any] = {"module": "tests.support.small_parts", "verified": False}
    corpus = bucket.upload(MINI_CORPUS, "corpus")
    if job == "tarred":
        manifest = write_lines(folder / "manifest.json", with_relative_paths())
        options = ("--num-shards", 6, "--slice-with-offset", "--target-sample-rate", 16000, "--shuffle")
        case = StoredCase("manifest-to-tarred", manifest, (*options, "--audio-base-dir", MINI_CORPUS), 6, 1, **more)
        made = undisturbed(case, folder)
        return replace(made, options=(*options, "--audio-base-dir", corpus), bucket=bucket)
    toy = ("--codec-model", "toy", "--pool-duration", 1, "--max-rejects", 2, "--devices", "cpu")
    source = noisy_shar(folder, 12, 2, 2)
    more |= {"units": "shards_*", "out_option": "--output-dir", "records": "codes_toy"}
    made = undisturbed(StoredCase("extend-codec-codes", source, toy, 4, 2, **more), folder)
    return replace(made, manifest=bucket.upload(source, "shar"), bucket=bucket)


@pytest.fixture(scope="module")
def stored_cases(object_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], StoredCase]:
    return cache(lambda job: stored_case(job, object_store, tmp_path_factory.mktemp("stored")))


def with_relative_paths() -> list[dict[str, Any]]:
    """Segments whose audio is looked for below --audio-base-dir, and one whose audio is missing."""
    records = segments(2, 0, 0)
    for record in records:
        record["audio_filepath"] = str(Path(record["audio_filepath"]).relative_to(MINI_CORPUS))
    records.insert(30, records[0] | {"audio_filepath": "missing.wav"})
    return records


STORED_KILLS = [
    ("tarred", "main", None, 3),
    ("tarred", "worker", None, 1),
    ("tarred", "SIGTERM", None, 3),
    ("tarred", "store", None, 2),
    ("codes", "main", 0, 2),
    ("codes", "worker", 2, 3),
    ("codes", "store", 1, 2),
]


@pytest.mark.parametrize(("job", "victim", "steps", "world_size"), STORED_KILLS)
def test_a_killed_run_into_a_store(
    job: str,
    victim: str,
    steps: int | None,
    world_size: int,
    stored_cases: Callable[[str], StoredCase],
    draw: random.Random,
    tmp_path: Path,
) -> None:
    """The run, a worker (or the process that talks to the store) or the store is killed."""
    stored = stored_cases(job)
    assert stored.bucket is not None
    case, out = replace(stored, work=tmp_path), cast("Path", StorePath(stored.bucket / tmp_path.name))
    process = case.start(out)
    wait_for(case, out, draw.randrange(3) if steps is None else steps, process)
    stored.bucket.wait_for_upload(tmp_path.name, process)
    if victim == "store":
        kill_for_a_while(stored.bucket)
    elif victim == "worker":
        kill_a_worker(process, draw)
    else:
        process.send_signal(signal.SIGTERM if victim == "SIGTERM" else signal.SIGKILL)
    end(process, 0, -9 if victim == "main" else 4)
    resume(case, out, world_size)


def kill_for_a_while(bucket: Bucket) -> None:
    """A command that begins while there is no store starts while its first requests are repeated."""
    bucket.store.kill()
    begun = start_prepcli("inspect", bucket / "corpus/manifest.json", "--json", environ=bucket.store.environ)
    time.sleep(1.0)
    assert begun.poll() is None
    bucket.store.start()
    out, err = begun.communicate(timeout=HANG_SECONDS)
    assert (begun.returncode, json.loads(out)["records"]) == (0, 48), err
