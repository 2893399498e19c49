"""Submitting without a cluster: the sbatch lines that are made, the step of a job, and what is refused."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.slurm.conftest import REPOSITORY, SCRIPTS
from tests.support.running import HANG_SECONDS, Outcome, clean_environment

COMMANDS = {
    "download": ("cpu", 1),
    "manifest-to-tarred": ("cpu", 4),
    "manifest-to-shar": ("cpu", 4),
    "extend-context-audio": ("gpu", 8),
    "extend-codec-codes": ("gpu", 8),
    "manifest-to-mels": ("gpu", 8),
    "estimate-batch-sizes": ("gpu", 1),
    "find-duplicates": ("cpu", 4),
    "estimate-bins": ("cpu", 1),
    "estimate-token-bins": ("cpu", 1),
    "verify": ("cpu", 1),
}
"""Each with its partition and number of tasks in cluster.env."""

pytestmark = pytest.mark.slow


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
    what = "an4" if command == "download" else "/data/train set.json"
    line = sbatch_line(command, "--", what, "out dir")
    name = f"{Path(what).stem.replace(' ', '_')}.{command}"
    assert line[0] == "sbatch"
    assert f"--partition={kind}" in line
    assert ("--gpus-per-task=1" in line) == (kind == "gpu")
    assert {"--signal=USR1@120", "--open-mode=append", "--no-requeue"} < set(line)
    assert f"--job-name={name}" in line
    assert f"--output=/tmp/slurm_logs/{name}-%j.log" in line
    assert line[-4:] == ["prepcli", command, what, "out dir"]
    assert f"--ntasks={tasks}" in line


@pytest.mark.parametrize("words", [["--speaker-model", "m.nemo"], ["--speaker-model=m.nemo"]])
def test_voices_are_compared_on_gpus(words: list[str]) -> None:
    assert "--partition=gpu" in sbatch_line("find-duplicates", "--", "a.json", "b.jsonl", "--by", "speaker", *words)


def test_an_option_does_not_name_the_data_set() -> None:
    assert "--job-name=data.estimate-batch-sizes" in sbatch_line("estimate-batch-sizes", "--", "-m", "a.nemo")


def test_settings_that_are_not_there(tmp_path: Path) -> None:
    for missing in (tmp_path / "nope.env", tmp_path / "no/folder.env", tmp_path):
        done = run(SCRIPTS / "submit.sh", "verify", "out", CLUSTER_ENV=str(missing))
        assert (done.code, done.out) == (2, "")
        assert f"submit.sh: cannot read {missing}: CLUSTER_ENV names" in done.error_line


@pytest.mark.parametrize(
    "words", [("train.json", "out"), ("--ntasks=2", "--", "a"), ("manifest-to-shar",), ("verify", "--")]
)
def test_what_is_not_a_command(words: tuple[str, ...]) -> None:
    done = run(SCRIPTS / "submit.sh", *words)
    assert done.code == 2
    known = ("is not a command of prepcli", "needs arguments", "COMMAND comes first: submit.sh COMMAND --ntasks=2 --")
    assert any(words in done.error_line for words in known)


@pytest.mark.parametrize("command", ["manifest-to-tared", "tarred", "engine", "downloa", "index.py"])
def test_a_misspelt_command_is_not_submitted(command: str) -> None:
    done = run(SCRIPTS / "submit.sh", command, "train.json", "out")
    assert (done.code, done.out) == (2, "")
    assert f"'{command}' is not a command of prepcli (prepcli --help lists them)" in done.error_line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train.json", "out", "--num-shard", 3], "there is no option --num-shard: did you mean --num-shards?"),
        (["--ntasks=2", "--", "train.json", "out", "--bogus-thing", 3], "no such option: --bogus-thing"),
    ],
)
def test_a_misspelt_option_is_not_submitted(words: list[object], message: str) -> None:
    done = run(SCRIPTS / "submit.sh", "manifest-to-tarred", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.error_line


def test_a_dry_run_needs_no_dashes() -> None:
    line = sbatch_line("manifest-to-shar", "a.json", "out", "--shard-size", 8)  # `--dry-run a.json out ...`
    assert line[-6:] == ["prepcli", "manifest-to-shar", "a.json", "out", "--shard-size", "8"]
    last = run(SCRIPTS / "submit.sh", "manifest-to-shar", "a.json", "out", "--shard-size", 8, "--dry-run")
    assert (last.code, shlex.split(last.out)[-6:]) == (0, line[-6:])


def test_a_dry_run_says_that_prepcli_is_not_here(tmp_path: Path) -> None:
    settings = tmp_path / "cluster.env"
    settings.write_text(
        f"source {SCRIPTS}/cluster.env\nPREPCLI=(/nowhere/prepcli)\nSUBMIT_PYTHON=({shlex.quote(sys.executable)})\n"
    )
    config = REPOSITORY / "recipes/magpietts/config.yaml"
    for words in (["submit.sh", "verify", "--dry-run", "--", "."], ["submit_pipeline.sh", "--dry-run", config]):
        done = run(SCRIPTS / str(words[0]), *words[1:], CLUSTER_ENV=str(settings))
        assert done.code == 0
        (note,) = [line for line in done.err.splitlines() if line.startswith("note:")]
        assert f"prepcli does not run on this machine (/nowhere/prepcli, from {settings})" in note
        settings.write_text(settings.read_text() + "CONTAINER_IMAGE=x\n")
        assert "note:" not in run(SCRIPTS / str(words[0]), *words[1:], CLUSTER_ENV=str(settings)).err
        settings.write_text(settings.read_text() + "CONTAINER_IMAGE=\n")


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


def test_a_dry_run_says_that_the_input_is_not_here(tmp_path: Path) -> None:
    words = ("--dry-run", "--")
    missing = run(SCRIPTS / "submit.sh", "score", *words, tmp_path / "m.json", "out.json")
    assert missing.code == 0
    assert missing.error_line.startswith(f"note: {tmp_path}/m.json is not there, as seen from /tmp on this machine; ")
    for known in (
        ("score", *words, tmp_path, "o"),
        ("score", *words, "m_{0..3}.json", "o"),
        ("download", *words, "an4"),
    ):
        assert run(SCRIPTS / "submit.sh", *known).err == ""


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


def table(*lines: str) -> list[str]:
    """The lines of the table, without those that say what its columns mean."""
    command = [sys.executable, str(SCRIPTS / "pipeline_table.py"), "4", "8"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [line for line in done.stdout.splitlines() if not line.startswith(("audio (h):", "unknown:"))]


def test_the_table_of_a_pipeline(tmp_path: Path) -> None:
    manifests = tmp_path / "a b"
    manifests.mkdir()
    for number in range(2):
        (manifests / f"m{number}.json").write_text('{"audio_filepath": "x", "duration": 1800.0}\n' * 3)
    spec = shlex.quote(f"{manifests}/m{{0..1}}.json")
    out = tmp_path / "out"
    rows = table(
        f"one prepare cpu --ntasks=32 -- prepcli manifest-to-shar {spec} {out}/shar --shard-size=8",
        f"one codes gpu -- prepcli extend-codec-codes {out}/shar --codec-model=pretrained",
        f"one bins cpu -- prepcli estimate-bins {out}/shar",
        f"two first cpu --array=0-15 -- prepcli manifest-to-tarred {tmp_path}/none.json,{spec} {out}/two",
    )
    assert [row.split("  ")[0] for row in rows[:5]] == ["data set", "one", "one", "one", "two"]
    assert [re.split(r" {2,}", row)[1:] for row in rows[:5]] == [
        ["step", "on", "ranks", "audio (h)", "after"],
        ["prepare", "cpu", "32", "3.0", "-"],
        ["codes", "gpu", "8", "3.0", "prepare"],
        ["bins", "cpu", "1", "3.0", "codes"],
        ["first", "cpu", "array 0-15", "unknown", "-"],
    ]
    assert rows[5:] == [
        "Not found on this machine (the jobs need it on their nodes, or in the container):",
        f"  two.first: there is no {tmp_path}/none.json",
    ]


def test_outputs_that_others_write_or_read(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text("{}\n")
    rows = table(
        f"one a cpu -- prepcli filter {tmp_path}/m.json {tmp_path}/m.json --sample 3",
        f"one b cpu -- prepcli manifest-to-tarred {tmp_path}/m.json {tmp_path}/set --num-shards 4",
        f"two b cpu -- prepcli manifest-to-tarred {tmp_path}/m.json {tmp_path}/./set --num-shards 4",
        f"two c cpu -- prepcli manifest-to-tarred {tmp_path}/m.json {tmp_path}/set --concat-to",
    )
    assert rows[-3:] == [
        "These jobs would be refused when they run:",
        f"  one.a: it would write over its input {tmp_path}/m.json",
        f"  two.b: one.b writes {tmp_path}/./set, too: give each its own",
    ]


def test_hours_of_a_long_manifest_are_estimated(tmp_path: Path) -> None:
    line = '{"audio_filepath": "x", "duration": 3600.0, "text": "' + "x" * 1000 + '"}\n'
    (tmp_path / "m.json").write_text(line * 10_000)
    row = table(f"one first cpu -- prepcli manifest-to-shar {tmp_path}/m.json out")[1]
    hours = float(re.split(r" {2,}", row)[4].removeprefix("~").replace(",", ""))
    assert "~" in row
    assert 9_900 < hours < 10_100


def test_files_scripts_and_commands_that_are_not_here(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text("{}\n")
    known = f"prepcli extend-context-audio {tmp_path}/m.json {tmp_path}/out"
    problems = table(
        "one a cpu -- prepcli manifest-to-sharr x y",
        "one b cpu -- python none.py",
        f"one c gpu -- {known} --speaker-model {tmp_path}/s.nemo --audio-base-dir={tmp_path}/wavs",
        f"one d gpu -- {known}2 --speaker-model=titanet_large --audio-base-dir={tmp_path}/wavs",
        f"one e gpu -- prepcli extend-codec-codes {tmp_path}/out/shar --codec-model {tmp_path}/c.nemo",
        "two a cpu -- prepcli download librispeech --data-root=x",
    )[8:]
    assert problems[0].startswith(
        "  one.a: prepcli has no command 'manifest-to-sharr'; it has blend, compare, conversations-to-tarred,"
    )
    assert problems[1:] == [
        "  one.a: there is no x",
        "  one.b: there is no script none.py",
        f"  one.c: --speaker-model: there is no {tmp_path}/s.nemo",
        f"  one.c: --audio-base-dir: there is no {tmp_path}/wavs",
        f"  one.e: --codec-model: there is no {tmp_path}/c.nemo",
    ]


def test_a_dry_run_shows_the_table_beside_the_lines(tmp_path: Path) -> None:
    settings = tmp_path / "cluster.env"
    settings.write_text(f"source {SCRIPTS}/cluster.env\nSUBMIT_PYTHON=({shlex.quote(sys.executable)})\nGPU_TASKS=5\n")
    config = REPOSITORY / "recipes/magpietts/config.yaml"
    done = run(SCRIPTS / "submit_pipeline.sh", "--dry-run", config, "mine", CLUSTER_ENV=str(settings))
    assert done.code == 0
    assert [line.split() for line in done.err.splitlines()[:3]] == [
        ["data", "set", "step", "on", "ranks", "audio", "(h)", "after"],
        ["mine", "prepare", "cpu", "4", "unknown", "-"],
        ["mine", "context", "gpu", "5", "unknown", "prepare"],
    ]
    assert "mine.prepare: there is no /corpora/mine/train.json" in done.err
    assert all(line.startswith("sbatch ") for line in done.out.splitlines())


CONFIG = """\
data_sets: [{name: a, manifest: a.json, size: 8}, {name: b, manifest: b.json, size: 8k}]
steps:
  - {name: first, command: "prepcli extend-context-audio {manifest} out --group-by=x"}
  - {name: second, sbatch: --ntasks=2, command: "prepcli manifest-to-shar {manifest} {name} --shard-sise=8"}
  - {name: third, command: "prepcli download an4 --data-rot={name}"}
  - {name: fourth, command: "python {repository}/recipes/magpietts/prepare_manifest.py {manifest} out --langauge=en"}
  - {name: fifth, command: "python own.py --any-option"}
  - {name: sixth, command: "prepcli manifest-to-shar {manifest} {name} --shard-size={size}"}
  - {name: seventh, sbatch: --ntaks=2, command: "prepcli verify {name}"}
"""
"""A pipeline with a wrong option in four steps, and a wrong value in one that only the second data set has."""


@pytest.mark.parametrize("words", [["--dry-run"], []])
def test_wrong_options_of_all_steps_are_found_before_a_step_is_submitted(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(CONFIG.replace("own.py", f"{tmp_path}/own.py"))
    (tmp_path / "sbatch").write_text(f"#!/bin/sh\ntouch {tmp_path}/submitted\necho 1\n")
    (tmp_path / "sbatch").chmod(0o755)
    (tmp_path / "own.py").write_text(f"open('{tmp_path}/ran', 'w')\n")
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = run(SCRIPTS / "submit_pipeline.sh", *words, tmp_path / "pipeline.yaml", PATH=path)
    assert (done.code, done.out) == (2, "")
    wrong = [line.removeprefix("submit_pipeline.sh: ") for line in done.err.splitlines() if "submit_pipe" in line]
    assert wrong == [
        "step second of a: there is no option --shard-sise: did you mean --shard-size?",
        "step third of a: there is no option --data-rot: did you mean --data-root?",
        "step fourth of a: there is no option --langauge: did you mean --language?",
        "step seventh of a: sbatch has no option --ntaks (did you mean --ntasks?); one of a newer Slurm belongs in "
        f"SBATCH_EXTRA of {SCRIPTS / 'cluster.env'}",
        "step sixth of b: invalid value for '--shard-size': '8k' is not a whole number "
        "(see prepcli manifest-to-shar --help)",
    ]
    assert not (tmp_path / "submitted").exists() and not (tmp_path / "ran").exists()


def without_prepcli(path: str) -> str:
    """The folders of PATH without those that have prepcli."""
    return os.pathsep.join(one for one in path.split(os.pathsep) if not os.path.exists(f"{one}/prepcli"))


def test_without_venv_the_prepcli_on_path_is_used(tmp_path: Path) -> None:
    scripts = fresh_clone(tmp_path / "clone")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words in (("prepcli", "-m prepcli"), ("python", ""), ("srun", "-c 'import sys; print(sys.argv[1:])'")):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
        (programs / name).chmod(0o755)
    path = f"{programs}:{without_prepcli(os.environ['PATH'])}"
    config = REPOSITORY / "recipes/magpietts/config.yaml"
    planned = run(scripts / "submit_pipeline.sh", "--dry-run", config, "mine", PATH=path, PYTHONPATH=str(REPOSITORY))
    assert planned.code == 0, planned.err
    assert "note: prepcli does not run" not in planned.err
    job = {"SLURM_JOB_ID": "9", "SLURM_NTASKS": "4", "SLURM_JOB_NODELIST": "n1", "SLURM_CPUS_PER_TASK": "2"}
    for word, program in (("prepcli", "prepcli"), ("python", "python")):
        of_job = [scripts, scripts / "cluster.env", tmp_path / "log", "1", "again"]
        step = run(scripts / "batch.sh", *of_job, word, "verify", PATH=path, **job).out
        assert f"'{programs}/{program}', 'verify']" in step


def fresh_clone(folder: Path) -> Path:
    """The scripts in a repository without .venv."""
    shutil.copytree(SCRIPTS, folder / "scripts/slurm", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "scripts/slurm"


def test_a_fresh_clone_names_the_set_up(tmp_path: Path) -> None:
    scripts = fresh_clone(tmp_path)
    path = without_prepcli(os.environ["PATH"])
    done = run(scripts / "submit_pipeline.sh", "--dry-run", REPOSITORY / "recipes/magpietts/config.yaml", PATH=path)
    assert (done.code, done.out) == (2, "")
    assert done.error_line == (
        f"submit_pipeline.sh: there is no {tmp_path}/.venv/bin/python (SUBMIT_PYTHON of cluster.env): "
        f"run {tmp_path}/scripts/setup.sh, or name another one in {scripts}/cluster.env"
    )
    (tmp_path / "sbatch").write_text("#!/bin/sh\necho 1\n")
    (tmp_path / "sbatch").chmod(0o755)
    done = run(scripts / "submit.sh", "manifest-to-shar", "--", "a.json", "out", PATH=f"{tmp_path}:{path}")
    assert (done.code, done.out) == (2, "")
    assert f"there is no {tmp_path}/.venv/bin/python (PYTHON of cluster.env): run" in done.error_line


def test_a_python_without_yaml(tmp_path: Path) -> None:
    settings = tmp_path / "cluster.env"
    python = f"{shlex.quote(sys.executable)} -S -s"
    settings.write_text(f"source {SCRIPTS}/cluster.env\nSUBMIT_PYTHON=({python})\n")
    done = run(SCRIPTS / "submit_pipeline.sh", REPOSITORY / "recipes/magpietts/config.yaml", CLUSTER_ENV=str(settings))
    assert done.code == 2
    assert "has no PyYAML: name a Python that has it as SUBMIT_PYTHON in cluster.env" in done.error_line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ntaks=3"], "sbatch has no option --ntaks (did you mean --ntasks?)"),
        (["--ntask=3"], "sbatch has no option --ntask (did you mean --ntasks?)"),
        (["--tmie=1:00"], "sbatch has no option --tmie; "),
        (["--time=half"], "--time=half is not a time of sbatch: write minutes, H:MM:SS or DAYS-HH:MM:SS"),
        (["ntasks=2"], "ntasks=2 is not an option of sbatch: write --NAME=VALUE"),
        (["--ntasks=2", "3"], "3 is not an option of sbatch"),
    ],
)
def test_a_wrong_option_of_sbatch(options: list[str], message: str) -> None:
    """sbatch refuses it only when the job is submitted: of a pipeline after other jobs are queued."""
    done = run(SCRIPTS / "submit.sh", "filter", "--dry-run", *options, "--", "a.json", "b.json", "--drop", "a < 1")
    assert (done.code, done.out) == (2, "")
    (error,) = [line for line in done.err.splitlines() if not line.startswith("note: ")]
    assert error.startswith(f"submit.sh: {message}")


@pytest.mark.parametrize(
    "options", ["--ntasks 2", "-n 2", "-n2", "--time=1-02:00:00 --mem-per-cpu=3G", "--time=UNLIMITED"]
)
def test_options_of_sbatch_in_all_forms(options: str) -> None:
    words = options.split()
    line = sbatch_line("filter", *words, "--", "a.json", "b.json", "--drop", "a < 1")
    assert [word for word in line if word in words] == words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unset CPU_PARTITION", "does not set CPU_PARTITION; "),
        ("CPU_TASKS=six", "CPU_TASKS=six is not a number of 1 or more"),
        ("GPU_CPUS_PER_TASK=0", "GPU_CPUS_PER_TASK=0 is not a number of 1 or more"),
        ("ACCOUNT= speech7", "is wrong, see the line above: it is shell code"),
    ],
)
def test_a_wrong_cluster_env(text: str, message: str, tmp_path: Path) -> None:
    site = tmp_path / "site.env"
    site.write_text(f"source {SCRIPTS / 'cluster.env'}\n{text}\n")
    done = run(SCRIPTS / "submit.sh", "filter", "--dry-run", "--", "a.json", "b.json", CLUSTER_ENV=str(site))
    assert (done.code, done.out) == (2, "")
    last = done.err.splitlines()[-1]
    assert last.startswith(f"submit.sh: {site}")
    assert message in last


def test_what_sbatch_refuses_names_the_setting_of_the_site(tmp_path: Path) -> None:
    """It says only that there is no such partition."""
    (sbatch := tmp_path / "sbatch").write_text("#!/bin/bash\necho 'invalid partition specified' >&2\nexit 1\n")
    sbatch.chmod(0o755)
    paths = f"{tmp_path}:{os.environ['PATH']}"
    own = f"\nPYTHON=({sys.executable})\nLOG_DIR={tmp_path}\n"
    (tmp_path / "site.env").write_text((SCRIPTS / "cluster.env").read_text() + own)
    for command, setting in (
        ("filter", "CPU_PARTITION=cpu of "),
        ("manifest-to-mels", "GPU_PARTITION=gpu GPU_OPTIONS="),
    ):
        done = run(
            SCRIPTS / "submit.sh", command, "--", "m.json", "k", PATH=paths, CLUSTER_ENV=str(tmp_path / "site.env")
        )
        assert done.code != 0
        assert f"m.{command}: sbatch took no job; it was asked with {setting}" in done.err
        assert done.err.rstrip().endswith(f" of {tmp_path}/site.env")
