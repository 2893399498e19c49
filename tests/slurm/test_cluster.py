"""prepcli on a real Slurm cluster: killed, stopped, preempted, in arrays, and with the same bytes in the end."""

import json
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MINI_CORPUS, read_lines, tree, write_lines
from tests.slurm.cluster import Cluster, wait_until
from tests.slurm.conftest import SCRIPTS
from tests.slurm.slow_disk import published
from tests.support.running import prepcli

pytestmark = [pytest.mark.slow, pytest.mark.slurm]

NUM_SHARDS = 12
OPTIONS = ("--num-shards", NUM_SHARDS, "--shuffle", "--num-workers", 1)


class Tarring:
    """A tarring job in a folder of its own, on a disk that can be made to stand still."""

    def __init__(self, cluster: Cluster, manifest: Path, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.out = folder / "out"
        self.arguments = [manifest, self.out, *OPTIONS]
        self.hold = folder / "hold"

    def submit(
        self, *options: object, more: tuple[object, ...] = (), stuck_after: int | None = None, **env: str
    ) -> str:
        """Submit by submit.sh; the job's number. `stuck_after`: the disk stands still after so many units."""
        if stuck_after is not None:
            self.hold.touch()
            env |= {"SLOW_DISK": f"{self.hold}:{self.out}:{stuck_after}", "PREPCLI_MODULE": "tests.slurm.slow_disk"}
        words = [SCRIPTS / "submit.sh", "manifest-to-tarred", *options, "--", *self.arguments, *more]
        said = self.cluster.run(*words, cwd=self.folder, environ=env)
        found = re.search(r"manifest\.manifest-to-tarred: job (\d+), logs (\S+)-\1\*\.log", said)
        assert found, said
        return found[1]

    def log(self, job: str) -> str:
        """The job's own log."""
        return (self.cluster.folder / f"logs/manifest.manifest-to-tarred-{job}.log").read_text()

    def wait_until_stuck(self, count: int, ranks: int) -> None:
        """Until so many units are done, and all ranks are so far that they heed signals."""
        wait_until(lambda: published(self.out) >= count, f"{count} units are not done")
        wait_until(lambda: len(self.progress("rank_*.json")) == ranks, f"{ranks} ranks do not run")

    def progress(self, pattern: str) -> list[Path]:
        """The progress files of the run."""
        return list(self.out.with_name("out.prepcli").glob(f"*/progress/{pattern}"))

    def status(self) -> dict[str, Any]:
        """The status of the run, where `squeue` knows the cluster."""
        said = self.cluster.run(sys.executable, "-m", "prepcli", "status", str(self.out), "--json")
        return dict(json.loads(said))

    def documents(self) -> dict[str, int]:
        """The units that are done, each with the time of its document."""
        documents = self.out.with_name("out.prepcli").glob("*/units/*/unit.json")
        return {path.parent.name: path.stat().st_mtime_ns for path in documents}


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini corpus twice over, with one record that cannot be used."""
    records = read_lines(MINI_CORPUS / "manifest.json")
    records = [record | {"audio_filepath": str(MINI_CORPUS / record["audio_filepath"])} for record in records * 2]
    records.insert(7, {"audio_filepath": "missing.wav", "duration": 1.0, "text": ""})
    return write_lines(tmp_path_factory.mktemp("corpus") / "manifest.json", records)


@pytest.fixture(scope="module")
def undisturbed(manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    done = prepcli("manifest-to-tarred", manifest, out, *OPTIONS)
    assert done.code == 0, done.err
    return tree(out)


@pytest.fixture
def tarring(cluster: Cluster, manifest: Path, tmp_path: Path) -> Tarring:
    return Tarring(cluster, manifest, tmp_path)


def test_killed_step_is_continued_by_another_number_of_tasks(tarring: Tarring, undisturbed: dict[str, str]) -> None:
    job = tarring.submit("--ntasks=3", stuck_after=2)
    tarring.wait_until_stuck(2, ranks=3)
    tarring.cluster.run("scancel", "--signal=KILL", job)
    assert tarring.cluster.wait(job) == ["CANCELLED"]
    assert 2 <= published(tarring.out) < NUM_SHARDS
    tarring.hold.unlink()
    status = tarring.status()
    assert (status["state"], status["waits_for"]) == ("stopped", "")
    assert "submit.sh manifest-to-tarred --ntasks=3 -- " in status["continue_with"]
    again = tarring.submit("--ntasks=2", "--nodes=2")
    assert tarring.cluster.wait(again) == ["COMPLETED"], tarring.log(again)
    assert tree(tarring.out) == undisturbed


def test_the_others_finish_when_one_rank_is_killed_for_good(tarring: Tarring, undisturbed: dict[str, str]) -> None:
    job = tarring.submit("--ntasks=4", stuck_after=2)
    tarring.wait_until_stuck(2, ranks=4)
    (progress,) = tarring.progress("rank_00003.json")
    os.kill(json.loads(progress.read_text())["pid"], signal.SIGKILL)
    tarring.hold.unlink()
    tarring.cluster.wait(job)
    assert prepcli("status", tarring.out, "--json").json["state"] == "finished", tarring.log(job)
    assert tree(tarring.out) == undisturbed
    assert len(read_lines(tarring.out.with_name("out.prepcli") / "rejects.jsonl")) == 1


def test_the_line_that_continues_can_be_pasted(tarring: Tarring, undisturbed: dict[str, str]) -> None:
    job = tarring.submit("--ntasks=2", stuck_after=1)
    tarring.wait_until_stuck(1, ranks=2)
    tarring.cluster.run("scancel", "--signal=TERM", job)
    tarring.cluster.wait(job)
    tarring.hold.unlink()
    line = prepcli("status", tarring.out, "--json").json["continue_with"]
    assert "sbatch" not in line
    said = tarring.cluster.run("bash", "-c", line, cwd=Path("/"))
    again = said.split("job ")[1].split(",")[0]
    assert tarring.cluster.wait(again) == ["COMPLETED"], tarring.log(again)
    assert tree(tarring.out) == undisturbed


def test_time_limit_gives_exit_code_4_and_a_job_that_continues(tarring: Tarring, undisturbed: dict[str, str]) -> None:
    """Slurm itself sends USR1, up to a minute before the 25 s that are asked for, and then the job starts again."""
    job = tarring.submit("--ntasks=2", "--time=1", stuck_after=3, REQUEUE="1")
    tarring.wait_until_stuck(3, ranks=2)
    wait_until(lambda: "back into the queue" in tarring.log(job), "no signal before the time limit")
    assert "ended with exit code 4" in tarring.log(job)
    assert published(tarring.out) < NUM_SHARDS
    wait_until(lambda: tarring.cluster.states(job) == ["PENDING"], "the job is not in the queue")
    status = tarring.status()
    assert (status["state"], status["continue_with"]) == ("waiting", None)
    assert status["waits_for"].startswith(f"job {job} of Slurm is PENDING")
    tarring.hold.unlink()
    assert tarring.cluster.wait(job) == ["COMPLETED"], tarring.log(job)
    assert tarring.cluster.jobs(job)[0]["Restarts"] == "1"
    assert "start 2 on" in tarring.log(job)  # appended to the log of the first start
    ranks = "".join(path.read_text() for path in (tarring.cluster.folder / "logs").glob(f"*-{job}-rank*.log"))
    assert "stopped by SIGUSR1" in ranks
    assert "manifest-to-tarred: done" in ranks
    assert tree(tarring.out) == undisturbed


def test_stopped_job_does_not_continue_unasked(tarring: Tarring) -> None:
    job = tarring.submit("--ntasks=2", stuck_after=1)
    tarring.wait_until_stuck(1, ranks=2)
    tarring.cluster.run("scancel", "--signal=USR1", job)
    assert tarring.cluster.wait(job) == ["FAILED"]
    assert tarring.cluster.jobs(job)[0]["ExitCode"] == "4:0"
    assert "queue" not in tarring.log(job)


def test_a_step_that_has_ended_in_a_shell_of_the_cluster_has_stopped(tarring: Tarring) -> None:
    """The allocation goes on, but nothing in it makes the run continue."""
    tarring.hold.touch()
    command = shlex.join(map(str, [sys.executable, "-m", "tests.slurm.slow_disk", "manifest-to-tarred"]))
    words = shlex.join(map(str, tarring.arguments))
    script = f"srun --ntasks=1 {command} {words}; sleep 600"
    environ = {"SLOW_DISK": f"{tarring.hold}:{tarring.out}:1"}
    job = tarring.cluster.run("sbatch", "--parsable", "--ntasks=1", f"--wrap={script}", environ=environ).strip()
    tarring.wait_until_stuck(1, ranks=1)
    (progress,) = tarring.progress("rank_*.json")
    assert json.loads(progress.read_text())["launch_id"].startswith(f"slurm-{job}.")
    os.kill(json.loads(progress.read_text())["pid"], signal.SIGKILL)
    wait_until(lambda: tarring.status()["state"] != "running", "the rank still runs")
    status = tarring.status()
    assert tarring.cluster.states(job) == ["RUNNING"]
    assert (status["state"], status["waits_for"]) == ("stopped", "")
    assert status["continue_with"]
    tarring.cluster.run("scancel", job)


def test_batch_script_without_srun_is_refused(tarring: Tarring) -> None:
    log = tarring.folder / "log"
    command = " ".join(map(str, [sys.executable, "-m", "prepcli", "manifest-to-tarred", *tarring.arguments]))
    job = tarring.cluster.run("sbatch", "--parsable", "--ntasks=4", f"--output={log}", f"--wrap={command}").strip()
    assert tarring.cluster.wait(job) == ["FAILED"]
    assert tarring.cluster.jobs(job)[0]["ExitCode"] == "2:0"
    assert "this Slurm job has 4 tasks, but the command was started without srun" in log.read_text()
    assert not tarring.out.exists()


def test_array_fills_exactly_the_holes(tarring: Tarring, undisturbed: dict[str, str]) -> None:
    """Of an array of four, tasks 1 and 3 never run; they are submitted again, alone."""
    cluster = tarring.cluster
    first = tarring.submit("--array=0-3", "--hold")
    cluster.run("scancel", f"{first}_1", f"{first}_3")
    cluster.run("scontrol", "release", first)
    assert cluster.wait(first) == ["COMPLETED"] * 2  # the controller forgets tasks that never began
    before = tarring.documents()
    assert len(before) == NUM_SHARDS // 2
    refused = cluster.run("bash", "-c", f"{SCRIPTS}/submit.sh manifest-to-tarred --array=1,3 -- a b 2>&1; true")
    assert "with --world-size N" in refused
    second = tarring.submit("--array=1,3", more=("--world-size", 4))
    assert cluster.wait(second) == ["COMPLETED", "COMPLETED"]
    after = tarring.documents()
    assert after.items() >= before.items()
    assert tree(tarring.out) == undisturbed


def test_requeue_of_the_last_array_task_leaves_the_others_alone(tarring: Tarring, undisturbed: dict[str, str]) -> None:
    cluster = tarring.cluster
    job = tarring.submit("--array=0-2", stuck_after=1, REQUEUE="1")
    tarring.wait_until_stuck(1, ranks=3)
    wait_until(lambda: cluster.states(job) == ["RUNNING"] * 3, "not all tasks run")
    cluster.run("scancel", "--signal=USR1", f"{job}_2")
    wait_until(lambda: "back into the queue" in tarring.log(f"{job}_2"), "task 2 does not requeue itself")
    others = [one for one in cluster.jobs(job) if one["ArrayTaskId"] != "2"]
    assert [one["JobState"] for one in others] == ["RUNNING"] * 2
    tarring.hold.unlink()
    assert cluster.wait(job) == ["COMPLETED"] * 3
    assert {one["ArrayTaskId"]: one["Restarts"] for one in cluster.jobs(job)} == {"0": "0", "1": "0", "2": "1"}
    assert tree(tarring.out) == undisturbed


def test_srun_with_pmi2_is_a_step(cluster: Cluster) -> None:
    """It sets PMI's variables for the ranks of the step."""
    program = (
        "import os; from prepcli.processes.ranks import detect_rank; rank = detect_rank(os.environ);"
        "print(os.environ['PMI_RANK'] + '/' + os.environ['PMI_SIZE'], rank.launcher, rank.rank, rank.world_size)"
    )
    said = cluster.run("srun", "--mpi=pmi2", "--ntasks=2", sys.executable, "-c", program)
    assert sorted(said.splitlines()) == ["0/2 Slurm step 0 2", "1/2 Slurm step 1 2"]
