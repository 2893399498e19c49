"""Submitting without a cluster: the sbatch lines that are made, the step of a job, and what is refused."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import HANG_SECONDS, Outcome, clean_environment
from tests.slurm.conftest import REPOSITORY, SCRIPTS

COMMANDS = {
    "download": ("cpu", 1),
    "manifest-to-tarred": ("cpu", 4),
    "manifest-to-shar": ("cpu", 4),
    "extend-context-audio": ("gpu", 8),
    "extend-codec-codes": ("gpu", 8),
    "estimate-bins": ("cpu", 1),
    "estimate-token-bins": ("cpu", 1),
    "verify": ("cpu", 1),
}
"""Each with its partition and number of tasks in cluster.env."""


def run(*command: object, **environ: str) -> Outcome:
    done = subprocess.run(
        [str(word) for word in command],
        env=clean_environment(**environ),
        cwd="/tmp",
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def sbatch_line(command: str, *arguments: object, **environ: str) -> list[str]:
    done = run(SCRIPTS / "submit.sh", command, "--dry-run", *arguments, **environ)
    assert done.code == 0, done.err
    (line,) = done.out.splitlines()
    return shlex.split(line)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_submitted(command: str) -> None:
    kind, tasks = COMMANDS[command]
    line = sbatch_line(command, "--", "/data/train set.json", "out dir")
    assert line[0] == "sbatch"
    assert f"--partition={kind}" in line
    assert ("--gpus-per-task=1" in line) == (kind == "gpu")
    assert {"--signal=USR1@120", "--open-mode=append", "--no-requeue"} < set(line)
    assert f"--job-name=train_set.{command}" in line
    assert f"--output=/tmp/slurm_logs/train_set.{command}-%j.log" in line
    assert line[-4:] == ["prepcli", command, "/data/train set.json", "out dir"]
    assert f"--ntasks={tasks}" in line


@pytest.mark.parametrize(
    "words", [("train.json", "out"), ("--ntasks=2", "--", "a"), ("manifest-to-shar",), ("verify", "--")]
)
def test_what_is_not_a_command(words: tuple[str, ...]) -> None:
    done = run(SCRIPTS / "submit.sh", *words)
    assert done.code == 2
    assert "is not a command of prepcli" in done.error_line or "needs arguments" in done.error_line


@pytest.mark.parametrize("words", [(), ("--help",)])
def test_help(words: tuple[str, ...]) -> None:
    done = run(SCRIPTS / "submit.sh", *words)
    assert done.code == 0
    assert "submit.sh COMMAND [--dry-run] [SBATCH OPTIONS --] ARGUMENTS" in done.out.splitlines()[0]
    assert "cluster.env" in done.out


def test_options_of_sbatch_come_before_the_dashes_and_win() -> None:
    line = sbatch_line("manifest-to-tarred", "--ntasks=32", "--time=9:00:00", "--", "a.json", "out", "--num-shards", 8)
    assert line.index("--ntasks=32") > line.index("--ntasks=4")
    assert line.index("--time=9:00:00") > line.index("--time=4:00:00")
    assert line[-6:] == ["prepcli", "manifest-to-tarred", "a.json", "out", "--num-shards", "8"]


def test_requeue_is_asked_for() -> None:
    assert "--requeue" in sbatch_line("manifest-to-shar", "--", "a.json", "out", REQUEUE="1")


def test_the_line_that_continues_does_not_start_again() -> None:
    line = sbatch_line("manifest-to-shar", "--ntasks=2", "--", "a b.json", "out", "--overwrite", DATA_SET="x")
    again = shlex.split(line[line.index("prepcli") - 1])
    assert again == [
        "DATA_SET=x",
        str(SCRIPTS / "submit.sh"),
        "manifest-to-shar",
        "--ntasks=2",
        "--",
        "a b.json",
        "out",
    ]


def test_array_says_the_world_size() -> None:
    line = sbatch_line("manifest-to-shar", "--array=0-15%4", "--", "a.json", "out")
    assert {"--array=0-15%4", "--ntasks=1"} < set(line)
    assert line[-2:] == ["--world-size", "16"]
    assert any(word.endswith("manifest-to-shar-%A_%a.log") for word in line)
    line = sbatch_line("manifest-to-shar", "--array=1,3", "--", "a.json", "out", "--world-size", 16)
    assert line[-2:] == ["--world-size", "16"]


@pytest.mark.parametrize("array", ["1,3", "0-15:2", "4-7"])
def test_part_of_an_array_needs_a_world_size(array: str) -> None:
    done = run(SCRIPTS / "submit.sh", "manifest-to-shar", f"--array={array}", "--", "a.json", "out")
    assert done.code == 2
    assert "with --world-size N" in done.error_line


def test_no_slurm_here(tmp_path: Path) -> None:
    for program in ("bash", "dirname", "basename", "realpath"):
        (tmp_path / program).symlink_to(f"/usr/bin/{program}")
    done = run(SCRIPTS / "submit.sh", "download", "an4", PATH=str(tmp_path))
    assert done.code == 2
    assert "there is no sbatch here" in done.error_line


def test_step_in_a_container(tmp_path: Path) -> None:
    """pyxis is not at hand: a stand-in for srun shows what it would be asked for."""
    srun = tmp_path / "bin/srun"
    srun.parent.mkdir()
    srun.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\necho "continue: $PREPCLI_CONTINUE_WITH"\nexit 3\n')
    srun.chmod(0o755)
    settings = tmp_path / "cluster.env"
    settings.write_text(
        f"source {SCRIPTS}/cluster.env\nPREPCLI=(prepcli)\nCONTAINER_IMAGE='a b.sqsh'\nCONTAINER_MOUNTS=/x:/x\n"
        "activate() { echo activated; }\n"
    )
    log = tmp_path / "log"
    job = {"SLURM_JOB_ID": "9", "SLURM_NTASKS": "4", "SLURM_JOB_NODELIST": "n1", "SLURM_CPUS_PER_TASK": "2"}
    array = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
    words = [SCRIPTS / "batch.sh", SCRIPTS, settings, log, "1", "again", "prepcli", "verify", "out dir"]
    path = f"{srun.parent}:{os.environ['PATH']}"
    done = run(*words, PATH=path, **job)
    assert done.code == 3
    lines = done.out.splitlines()
    assert lines[0] == "activated"
    step = lines[3 : lines.index("continue: again")]
    assert {"--container-image=a b.sqsh", "--container-mounts=/x:/x", "--ntasks=4", "--cpus-per-task=2"} < set(step)
    assert f"--output={log}-9-rank%t.log" in step
    assert step[-3:] == ["prepcli", "verify", "out dir"]
    of_array = run(*words, PATH=path, **job, **array).out
    assert f"--output={log}-7_3-rank3.log" in of_array


def test_pipeline_prints_its_lines(tmp_path: Path) -> None:
    settings = tmp_path / "cluster.env"
    settings.write_text(f"source {SCRIPTS}/cluster.env\nSUBMIT_PYTHON=({shlex.quote(sys.executable)})\n")
    config = REPOSITORY / "recipes/magpietts/config.yaml"
    done = run(SCRIPTS / "submit_pipeline.sh", "--dry-run", config, "mine", CLUSTER_ENV=str(settings))
    assert done.code == 0, done.err
    lines = [shlex.split(line) for line in done.out.splitlines()]
    names = [next(word for word in line if word.startswith("--job-name=")) for line in lines]
    assert names == [f"--job-name=mine.{step}" for step in ("prepare", "context", "shar", "codes")]
    assert ["--partition=gpu" in line for line in lines] == [False, True, False, True]
    after = [[word for word in line if word.startswith("--dependency=")] for line in lines]
    assert after == [[], ["--dependency=afterok:JOB_OF_prepare"]] + [
        [f"--dependency=afterok:JOB_OF_{step}"] for step in ("context", "shar")
    ]
    again = shlex.split(lines[0][lines[0].index("python") - 1])
    assert again[-3:] == [str(SCRIPTS / "submit_pipeline.sh"), str(config), "mine"]
