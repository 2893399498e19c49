"""submit_pipeline.sh on a real cluster: the Magpie-TTS recipe for two data sets, and a data set that fails."""

import json
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import MINI_CORPUS, read_lines, tree, write_lines
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import REPOSITORY, SCRIPTS
from tests.support.running import HANG_SECONDS, clean_environment, prepcli
from tests.support.toy_models import toy_python

pytestmark = [pytest.mark.slow, pytest.mark.slurm]

RECIPE = REPOSITORY / "recipes/magpietts"


def recipe(folder: Path, output: Path, data_sets: list[dict[str, Any]], **defaults: Any) -> dict[str, Any]:
    """The recipe's own config for other data sets, without the last step, written to `folder`."""
    config: dict[str, Any] = yaml.safe_load((RECIPE / "config.yaml").read_text())
    config["defaults"] |= {"output": str(output), "shard_size": 8} | defaults
    config["data_sets"] = data_sets
    return config


def write_config(path: Path, config: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def submit(cluster: Cluster, *arguments: object) -> dict[str, str]:
    """Submit a pipeline; the job of each `<data set>.<step>`, in the order of submission."""
    environ = {"PREPCLI_MODULE": "tests.support.toy_models", "PREPCLI_WITH": sys.executable}
    said = cluster.run(SCRIPTS / "submit_pipeline.sh", *arguments, cwd=cluster.folder, environ=environ)
    jobs = dict(re.findall(r"^(\S+): job (\d+), logs \S+$", said, re.MULTILINE))
    assert len(jobs) == len(said.splitlines()), said
    return jobs


def logs(cluster: Cluster) -> str:
    return "\n".join(f"{log.name}: {log.read_text()[-800:]}" for log in sorted((cluster.folder / "logs").iterdir()))


def sacct(cluster: Cluster, output: Path) -> list[str]:
    """What `sacct` would tell of the jobs (there is no accounting here), with the records of their reports."""
    rows = [f"{'job':<5} {'step':<18} {'state':<10} {'ranks':>5} {'seconds':>8} {'records':>8} {'rejects':>8}"]
    folders = {"prepare": "clean.prepcli", "context": "context.prepcli", "shar": "shar.prepcli"}
    for line in (cluster.folder / "completed.txt").read_text().splitlines():
        job = dict(re.findall(r"(\w+)=(\S*)", line))
        name, _, step = job["Name"].partition(".")
        folder = folders.get(step) or "shar.prepcli/codes_random"
        report = json.loads((output / name / folder / "report.json").read_text())
        begin, end = (datetime.fromisoformat(job[key]) for key in ("StartTime", "EndTime"))
        rows.append(
            f"{job['JobId']:<5} {job['Name']:<18} {job['JobState']:<10} {job['ProcCnt']:>5} "
            f"{(end - begin).total_seconds():>8.0f} {report['records_out']:>8} {report['rejects']:>8}"
        )
    return rows


def test_whole_recipe_for_two_data_sets(cluster: Cluster, tmp_path: Path) -> None:
    """On the cluster with several ranks, and once more here: the same bytes."""
    records = read_lines(MINI_CORPUS / "manifest.json")
    plain = [record | {"speaker": record["audio_filepath"].partition("/")[0]} for record in records[:24]]
    plain.append(plain[0] | {"audio_filepath": "s01/nowhere.flac"})
    base = {"audio_base_dir": str(MINI_CORPUS)}
    data_sets = [
        base | {"name": "mini", "manifest": str(MINI_CORPUS / "manifest.json")},
        base
        | {"name": "plain", "manifest": str(write_lines(tmp_path / "plain.json", plain))}
        | {"language": "en", "dataset": "Plain", "group_by": "regex:audio_filepath:^([^/]+)/"},
    ]
    codec = {"codec_model": "toy", "codec_name": "random", "speaker_model": "toy"}
    output = tmp_path / "on the cluster"
    config = recipe(tmp_path, output, data_sets, **codec)
    jobs = submit(cluster, write_config(tmp_path / "config.yaml", config))
    steps = ("prepare", "context", "shar", "codes")
    assert list(jobs) == [f"{name}.{step}" for name in ("mini", "plain") for step in steps]
    for name, job in jobs.items():
        assert cluster.wait(job) == ["COMPLETED"], f"{name}\n{logs(cluster)}"
        partition = "gpu" if name.endswith((".context", ".codes")) else "cpu"
        assert cluster.jobs(job)[0]["Partition"] == partition
    print("\n" + "\n".join(sacct(cluster, output)))
    for name, records_out in (("mini", 48), ("plain", 24)):
        checked = prepcli("verify", output / name / "shar", "--json")
        assert checked.code == 0, checked.out
        clean = read_lines(output / name / "clean/manifest.json")
        assert len(clean) == records_out
    assert clean[0]["speaker"] == "| Language:en Dataset:Plain Speaker:s01 |"
    assert len(read_lines(output / "plain/clean/rejects/missing_audio.jsonl")) == 1
    finished = prepcli("status", *sorted(output.glob("*/*")))
    assert finished.out.count("finished") == 8, finished.out

    here = tmp_path / "here"
    config["defaults"]["output"] = str(here)
    done = subprocess.run(
        [RECIPE / "run.sh", write_config(tmp_path / "here.yaml", config)],
        env=clean_environment(PREPCLI_PYTHON=str(toy_python(tmp_path)), PYTHONPATH=str(REPOSITORY)),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("mini", "plain"):
        for step in ("clean", "context"):
            assert tree(here / name / step) == tree(output / name / step)
        assert tree(here / name / "shar") == tree(output / name / "shar")


def test_data_set_that_fails_stops_no_other(cluster: Cluster, tmp_path: Path) -> None:
    steps = recipe(tmp_path, tmp_path / "out", [])["steps"]
    shar = "prepcli manifest-to-shar {output}/{name}/clean/manifest.json {output}/{name}/shar --audio-base-dir={audio}"
    config: dict[str, Any] = {
        "defaults": {"output": str(tmp_path / "out"), "audio": str(MINI_CORPUS)}
        | {"audio_base_dir": str(MINI_CORPUS), "language": None, "dataset": None},
        "data_sets": [
            {"name": "broken", "manifest": str(tmp_path / "nowhere.json")},
            {"name": "good", "manifest": str(MINI_CORPUS / "manifest.json")},
        ],
        "steps": [steps[1], {"name": "shar", "command": shar, "sbatch": "--ntasks=2"}],
    }
    file = write_config(tmp_path / "config.yaml", config)
    jobs = submit(cluster, file)
    states = {name: cluster.wait(job)[0] for name, job in jobs.items()}
    assert states == {
        "broken.prepare": "FAILED",
        "broken.shar": "CANCELLED",
        "good.prepare": "COMPLETED",
        "good.shar": "COMPLETED",
    }, logs(cluster)
    assert prepcli("verify", tmp_path / "out/good/shar").code == 0
    # What is mended is submitted again, alone or with all: what is finished is a quiet no-op.
    config["data_sets"][0]["manifest"] = str(MINI_CORPUS / "manifest.json")
    jobs = submit(cluster, write_config(file, config))
    assert {cluster.wait(job)[0] for job in jobs.values()} == {"COMPLETED"}, logs(cluster)
    assert tree(tmp_path / "out/broken/shar") == tree(tmp_path / "out/good/shar")
    log = cluster.folder / f"logs/good.shar-{jobs['good.shar']}-rank0.log"
    assert log.read_text().strip() == f"manifest-to-shar: nothing to do, {tmp_path}/out/good/shar is complete"
