"""`estimate-batch-sizes` on the command line, with a toy that has a limit of memory in the child process."""

import json
import os
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from prepcli.commands.estimate_batch_sizes import job
from prepcli.errors import UsageError
from prepcli.models import devices
from tests.commands.estimate_batch_sizes import fake_child
from tests.commands.estimate_batch_sizes.fake_child import FakeModel
from tests.commands.estimate_batch_sizes.nemo_search import nemo_profile
from tests.conftest import read_lines
from tests.support.running import HANG_SECONDS, Outcome, prepcli, start_prepcli
from tests.support.tools import need_package

BINS = [1.0, 2.5, 4.0, 8.0, 16.0]
COMMAND = ("estimate-batch-sizes", "--model-class", "toys.Toy", "--config", "toy.yaml")


def run(*arguments: object, bins: object = BINS, work: str = "sizes", **model: Any) -> Outcome:
    environ = {fake_child.VARIABLE: json.dumps({"log": "log.txt", **model})}
    return prepcli(*COMMAND, "--buckets", json.dumps(bins), "--work", work, *arguments, environ=environ)


def asked() -> list[str]:
    return Path("log.txt").read_text().splitlines() if Path("log.txt").exists() else []


def expected(bins: list[float] = BINS, **model: Any) -> list[int]:
    toy = FakeModel(model)
    return nemo_profile(len(bins), lambda bucket, size: toy.fits(bins[bucket], None, size), 32, 0.05)[0]


def test_the_lists(toy: Path) -> None:
    done = run("--write-config", "train.yaml", "--verify")
    assert done.code == 0, done.err
    sizes = ",".join(map(str, expected()))
    assert f"\tbucket_duration_bins=[1.0,2.5,4.0,8.0,16.0]\n\tbucket_batch_size=[{sizes}]\n" in done.out
    assert "speech into text, also:\n\tmax_tps=12\n\tmax_duration=16\n\n" in done.out
    assert "Verified by 7 steps" in done.out
    config = yaml.safe_load((toy / "train.yaml").read_text())
    assert config["bucket_batch_size"] == expected()
    assert config["bucket_duration_bins"] == BINS
    assert config["batch_duration"] is None
    assert yaml.safe_load((toy / "sizes/batch_sizes.yaml").read_text()) == config


def test_the_default_buckets_are_those_of_nemo(toy: Path) -> None:
    environ = {fake_child.VARIABLE: "{}"}
    bins = [5.0, 10.0, 15.0, 20.0, 25.0, 30.0]
    for status in ("done", "nothing_to_do"):
        document = prepcli(*COMMAND, "--work", "sizes", "--json", environ=environ).json
        assert (document["status"], document["details"]["bucket_duration_bins"]) == (status, bins)
        assert document["details"]["bucket_batch_size"] == expected(bins)
        assert "the buckets are NeMo's default ones" in document["details"]["advice"][-1]


def test_sizes_that_the_data_do_not_have(toy: Path, mini_corpus: Path) -> None:
    config = toy / "train.yaml"
    config.write_text(f"train_ds:\n  manifest_filepath: {mini_corpus}/manifest.json\n")
    assert prepcli("estimate-bins", config, "-b", 3, "-q", "--write-config", config).code == 0
    environ = {fake_child.VARIABLE: json.dumps({"limit": 10**9})}
    done = prepcli(*COMMAND, "--buckets-from", config, "--json", environ=environ)
    assert done.code == 0, done.err
    details = done.json["details"]
    sizes, bins = details["bucket_batch_size"], details["bucket_duration_bins"]
    durations = [record["duration"] for record in read_lines(mini_corpus / "manifest.json")]
    first = sum(duration <= bins[0] for duration in durations)
    assert (
        f"3 of 3 batch sizes are larger than the bucket's number of records ({sizes[0]:,} for {first} records up to "
        in (details["advice"][0])
    )
    assert "3 of 3 batch sizes are above 10,000, the examples that NeMo's sampler holds" in details["advice"][1]
    assert run("--json").json["details"]["advice"] == []  # sizes below 10,000, and no data named


def test_a_finished_search_makes_no_step(toy: Path) -> None:
    first = run("--json").json
    count = len(asked())
    again = run("--json").json
    assert (again["status"], len(asked())) == ("nothing_to_do", count)
    assert again["details"] == first["details"]
    assert first["details"]["steps"] == count
    assert first["details"]["steps_of_nemo"] == count + len(BINS)  # NeMo makes one more for each bucket
    other = run("--threshold", 0.1)
    assert other.code == 2
    assert "--threshold was 0.05, now 0.1. Choose another directory with --work, or" in other.error_line


def test_other_ranks_see_life_during_a_step(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The progress of the rank is written while it waits for the process that makes steps."""
    real = job.BatchSizesJob.execute
    steps_at_ticks = []

    def execute(self: Any, plan: Any, units: Any, execution: Any) -> Any:
        return real(self, plan, units, replace(execution, tick=lambda: steps_at_ticks.append(len(asked()))))

    monkeypatch.setattr(job.BatchSizesJob, "execute", execute)
    assert run(bins=[1.0]).code == 0
    assert len(asked()) > 1
    assert set(range(1, len(asked()) + 1)) <= set(steps_at_ticks)


def test_a_stopped_search_continues(toy: Path) -> None:
    """Killed in the middle of a bucket: larger ones that are done are not tried again, and the result is the same."""
    whole = run("--json").json["details"]
    file = Path("sizes/batch_sizes.yaml").read_bytes()
    for number, kept in ((1, (3, 4)), (2, (4,)), (3, (0, 2))):
        Path("log.txt").unlink()
        left = Path(f"left{number}")
        shutil.copytree("sizes.prepcli", f"{left}.prepcli")
        for path in Path(f"{left}.prepcli").glob("*/units/*"):
            if path.name not in {f"bucket_{number:04d}" for number in kept}:
                shutil.rmtree(path)
        for name in ("owner.json", "report.json"):
            Path(f"{left}.prepcli/{name}").unlink()
        done = run("--json", work=str(left))
        assert done.code == 0, done.err
        assert done.json["details"]["bucket_batch_size"] == whole["bucket_batch_size"]
        assert Path(f"{left}/batch_sizes.yaml").read_bytes() == file
        assert not {str(BINS[one]) for one in kept} & {line.split()[0] for line in asked()}


@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_try_different_buckets(world_size: int, toy: Path) -> None:
    alone = run("--json", work="alone").json["details"]
    for rank in range(world_size):
        done = run("--rank", rank, "--world-size", world_size, "--launch-id", "one", "--json")
        assert done.code == 0, done.err
        assert done.json["status"] == ("done" if rank == world_size - 1 else "incomplete")
    details = done.json["details"]
    assert details["bucket_batch_size"] == alone["bucket_batch_size"] == expected()
    assert Path("sizes/batch_sizes.yaml").read_bytes() == Path("alone/batch_sizes.yaml").read_bytes()


def test_ranks_of_a_machine_do_not_share_a_gpu(toy: Path) -> None:
    ranks = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "one"}
    done = prepcli(*COMMAND, "--buckets", "[1.0]", "--device", "cuda:0", environ=ranks)
    assert done.code == 2
    assert "the ranks of a machine have a GPU each; leave --device out" in done.error_line


SLURM = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_JOB_ID": "7", "SLURM_PROCID": "3", "SLURM_LOCALID": "3"}
WITH_ITS_OWN = SLURM | {"SLURM_GPUS_ON_NODE": "4"}
ARRAY = {"SLURM_ARRAY_TASK_ID": "1", "SLURM_JOB_ID": "7", "SLURM_LOCALID": "0"}


@pytest.mark.parametrize(
    ("environ", "given", "visible", "device"),
    [
        (WITH_ITS_OWN, (), 1, "cuda0"),  # srun --gpus-per-task=1
        (SLURM, (), 4, "cuda3"),
        ({}, ("--rank", 1, "--world-size", 2), 2, "cuda1"),
        (ARRAY, ("--world-size", 2), 2, "cuda1"),
    ],
    ids=["gpus-per-task", "step", "rank", "array"],
)
def test_the_gpu_of_a_rank(
    environ: dict[str, str],
    given: tuple[object, ...],
    visible: int,
    device: str,
    toy: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ranks of `--rank` and of arrays take the GPUs in turn, as in all commands with models."""
    monkeypatch.setattr(devices, "_num_gpus", lambda: visible)
    environ = environ | {fake_child.VARIABLE: "{}"}
    done = prepcli(*COMMAND, "--buckets", "[1.0,2.0,4.0,8.0]", "--work", "sizes", *given, environ=environ)
    assert (done.code, done.err) == (0, "")
    assert [path.name for path in Path("sizes.prepcli").glob("steps-*")] == [f"steps-{device}.log"]


def test_without_its_gpu_nothing_is_written(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(toy)
    before = sorted(toy.rglob("*"))
    monkeypatch.setattr(devices, "_num_gpus", lambda: 0)
    done = prepcli(*COMMAND, "--buckets", "[1.0]")
    assert done.code == 2
    assert done.error_line.endswith("finds no GPU here; for an estimate give --device cpu --gpu-memory 80GiB")
    monkeypatch.setattr(devices, "_num_gpus", lambda: 1)
    done = prepcli(*COMMAND, "--buckets", "[1.0]", "--device", "cuda:1")
    assert (done.code, done.error_line) == (2, "prepcli: --device cuda:1: this machine has 1 GPU")
    assert sorted(toy.rglob("*")) == before


def test_a_gpu_of_two_ranks_is_refused(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_num_gpus", lambda: 2)
    done = prepcli(*COMMAND, "--buckets", "[1.0]", environ=SLURM)
    assert done.code == 2
    assert "rank 3 is number 3 on this machine and shares cuda:1" in done.error_line
    assert done.error_line.endswith("batch sizes of ranks that share a GPU would be too small")


def test_memory_that_others_use_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 80 GiB, 72 are for the step; another rank on the same GPU has taken its part of them, or only its context."""
    from prepcli.commands.estimate_batch_sizes import steps

    gib, free = 2**30, [36]
    state = SimpleNamespace(
        mem_get_info=lambda device: (free[0] * gib, 80 * gib), memory_reserved=lambda device: 40 * gib
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=state))
    steps._refuse_shared("cuda:0", 72 * gib)
    free[0] = 9
    with pytest.raises(UsageError, match=r"other processes use 31.0 GiB of the 80.0 GiB of cuda:0"):
        steps._refuse_shared("cuda:0", 72 * gib)


def test_a_device_that_fails_ends_the_search(toy: Path) -> None:
    done = run(failure="device")
    assert done.code == 4
    assert "the device has failed: cuda:0: uncorrectable ECC" in done.error_line
    assert "Continue with: prepcli estimate-batch-sizes" in done.error_line
    again = run("--json").json["details"]
    assert again["bucket_batch_size"] == expected()


def test_a_model_that_cannot_make_a_step(toy: Path) -> None:
    done = run(failure="bug", limit=1_000_001)
    assert done.code == 1
    assert "ValueError: a model that cannot do this (traceback in" in done.err
    assert "a bug in prepcli" not in done.err


def test_the_chain(toy: Path, mini_corpus: Path) -> None:
    """estimate-bins, estimate-batch-sizes and the config, as the documentation has it."""
    config = toy / "train.yaml"
    config.write_text("model:\n  train_ds:\n    # the data\n    batch_duration: 360\n    shuffle: true\n")
    assert prepcli("estimate-bins", mini_corpus / "manifest.json", "-b", 4, "--write-config", config).code == 0
    bins = yaml.safe_load(config.read_text())["model"]["train_ds"]
    environ = {fake_child.VARIABLE: "{}"}
    done = prepcli(*COMMAND, "--buckets-from", config, "--write-config", config, environ=environ)
    assert done.code == 0, done.err
    text = config.read_text()
    section = yaml.safe_load(text)["model"]["train_ds"]
    assert section["bucket_duration_bins"] == [*bins["bucket_duration_bins"], bins["max_duration"]]
    assert len(section["bucket_batch_size"]) == len(section["bucket_duration_bins"]) == section["num_buckets"]
    assert section["batch_duration"] is None
    assert "# the data" in text
    again = prepcli(*COMMAND, "--buckets-from", config, "--write-config", config, environ=environ)
    assert again.code == 0, again.err
    assert config.read_text() == text


def test_the_chain_in_a_part_of_a_multi_config(toy: Path, mini_corpus: Path) -> None:
    config, part = toy / "train.yaml", f"{toy / 'train.yaml'}:speech"
    others = "  texts: {bucket_duration_bins: [10, 20], input_cfg: [{type: txt, paths: a.txt}]}\n"
    speech = f"  speech:\n    manifest_filepath: {mini_corpus / 'manifest.json'}\n"
    config.write_text(f"train_ds:\n  multi_config: true\n{others}{speech}")
    assert prepcli("estimate-bins", part, "-b", 4, "--write-config", config).code == 0
    words = [*COMMAND, "--buckets-from", part, "--write-config", config]
    done = prepcli(*words, environ={fake_child.VARIABLE: "{}"})
    assert done.code == 0, done.err
    assert others in config.read_text()
    section = yaml.safe_load(config.read_text())["train_ds"]["speech"]
    assert len(section["bucket_batch_size"]) == len(section["bucket_duration_bins"]) == section["num_buckets"] > 1


@pytest.mark.slow
def test_plot(toy: Path) -> None:
    need_package("matplotlib")
    assert run("--plot", "memory.png").code == 0
    assert run("--plot", "estimate.svg", "--device", "cpu", "--gpu-memory", "1GiB", work="other").code == 0
    assert Path("memory.png").read_bytes().startswith(b"\x89PNG")
    assert "estimated on a CPU" in Path("estimate.svg").read_text() or Path("estimate.svg").stat().st_size > 1000


def test_dry_run(toy: Path) -> None:
    done = run("--dry-run")
    assert done.code == 0, done.err
    assert "  model    toys.Toy of toy.yaml\n  buckets  5, from 16.0 to 1.0\n" in done.out
    assert "  steps    on cuda, from a batch of 32 in the longest bucket\n" in done.out
    counted = run("--dry-run", "--device", "cpu", "--gpu-memory", "1GiB")
    assert "  steps    batches of 2 and 3 of each bucket, whose bytes are counted on the CPU\n" in counted.out
    assert asked() == []
    assert not Path("sizes").exists()


def test_interrupted(toy: Path) -> None:
    """SIGTERM in the middle of a step that hangs: exit code 4, no process stays, and the same command continues."""
    environ = {fake_child.VARIABLE: json.dumps({"log": "log.txt", "failure": "hang"})}
    words = [*COMMAND, "--buckets", "[1.0,2.0]", "--work", "sizes"]
    process = start_prepcli(*words, module="tests.commands.estimate_batch_sizes.fake_cli", environ=environ)
    deadline = time.monotonic() + HANG_SECONDS
    while len(asked()) <= 1 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 4, err
    assert "Continue with: prepcli estimate-batch-sizes" in err
    with pytest.raises(ProcessLookupError):
        os.kill(int(asked()[-1].split()[-1]), 0)
    done = run("--json", bins=[1.0, 2.0])
    assert done.code == 0, done.err
    assert done.json["details"]["bucket_batch_size"] == expected([1.0, 2.0])


def test_a_model_and_a_class_are_refused() -> None:
    done = prepcli("estimate-batch-sizes", "--model", "small.nemo", "--model-class", "toys.Toy", "--buckets", "[5,10]")
    assert (done.code, "--model and --model-class exclude each other" in done.error_line) == (2, True)
