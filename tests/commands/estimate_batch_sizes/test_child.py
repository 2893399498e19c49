"""The process that makes training steps may die, be killed, or hang: each costs a try, or is the result."""

import json
import os
import sys
from contextlib import closing
from pathlib import Path

import pytest

import prepcli as library
from prepcli.commands.estimate_batch_sizes import child
from tests.commands.estimate_batch_sizes import fake_child
from tests.commands.estimate_batch_sizes.asking import settings
from tests.commands.estimate_batch_sizes.test_job import asked, expected, run
from tests.support.running import run_process
from tests.support.tools import slow

BINS = [8.0, 16.0]
"""Few, because each failure costs the start of another process."""
COMMAND = ("estimate-batch-sizes", "--model-class", "toys.Toy", "--config", "toy.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("failure", ["kill", slow("hang"), "cuda_error"])
def test_a_step_that_ends_the_process_is_a_result(failure: str, toy: Path) -> None:
    more = ("--probe-timeout", 1) if failure == "hang" else ()
    done = run("--json", *more, bins=BINS, failure=failure)
    assert done.code == 0, done.err
    details = done.json["details"]
    assert details["bucket_batch_size"] == expected(BINS)
    outcome = {"kill": "killed", "hang": "hung"}.get(failure, failure)
    assert {how for row in details["buckets"] for _, how in row["failed"]} == {outcome}
    assert "count as not fitting" in details["advice"][0]
    assert len({line.split()[-1] for line in asked()}) > 1  # the process was replaced


@pytest.mark.slow
def test_a_kill_of_the_process_costs_a_try(toy: Path) -> None:
    """Also of one that is killed before its second request, and one that ends without a signal."""
    for failure, words in (("kill", "ended by SIGKILL"), ("exit", "ended with code 3")):
        done = run("--json", bins=BINS, work=failure, failure=failure)
        assert done.code == 0, done.err
        assert done.json["details"]["bucket_batch_size"] == expected(BINS)
        parts = [
            json.loads(path.read_text()) for path in sorted(Path(f"{failure}.prepcli").glob("*/units/*/parts/bucket_*"))
        ]
        failed = [one for part in parts for one in part["steps"] if one["outcome"] != "fits"]
        assert failed
        assert all(one["outcome"] == "killed" and words in one["detail"] for one in failed)


@pytest.mark.parametrize("times", [1, 2])
def test_a_process_that_dies_before_it_reads(times: int, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has not begun, so another one gets the message; the second is the end, in one line."""
    dying = (
        "import os, pathlib, select\n"
        f"if len(list(pathlib.Path('.').glob('died*'))) < {times}:\n"
        "    pathlib.Path('died' + str(os.getpid())).touch()\n"
        "    select.select([{0}], [], [])\n"
        "    os._exit(3)\n"
    )
    monkeypatch.setattr(child, "_CODE", dying + child._CODE.replace("{}", "{0}"))
    done = run("--json")
    assert len(list(toy.glob("died*"))) == times
    if times == 1:
        assert done.code == 0, done.err
        assert done.json["details"]["bucket_batch_size"] == expected()
    else:
        assert done.code == 1
        assert "the model cannot be loaded: it ended with code 3; see" in done.error_line


def test_a_process_that_dies_between_steps(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next step was not begun by it, so that its size may fit."""
    monkeypatch.setenv(fake_child.VARIABLE, "{}")
    options = settings(model_class="toys.Toy", config=Path("toy.yaml"))
    with closing(child.Child(fake_child.make, options, "cpu", toy / "log.txt", lambda facts: None)) as made:
        made.device_facts()
        number = made._process.pid
        made._process.kill()
        os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT)
        assert made.step(1.0, None, 1).outcome == "fits"
        assert made._process.pid != number


@pytest.mark.parametrize("failure", ["kill", "hang"])
def test_a_counted_step_that_does_not_end_well(failure: str, toy: Path) -> None:
    """Only a step that hangs may need more time."""
    done = run("--device", "cpu", "--gpu-memory", "1GiB", "--probe-timeout", 1, failure=failure)
    assert done.code == 1
    assert "steps with examples of 16 s cannot be made on this machine: " in done.error_line
    words = {
        "kill": "was ended by SIGKILL; use a machine with more memory",
        "hang": "no end after 1 s; give it more time",
    }
    assert words[failure] in done.error_line
    assert ("--probe-timeout" in done.error_line) == (failure == "hang")


@pytest.mark.slow
def test_a_script_without_a_guard(toy: Path) -> None:
    """A spawned process must not run the script again that has called the command."""
    Path("script.py").write_text(
        "import prepcli\n"
        "from prepcli.commands.estimate_batch_sizes import job\n"
        "from tests.commands.estimate_batch_sizes import fake_child\n"
        "job.ModelTrainer, job.check_device = fake_child.make, lambda device: None\n"
        "prepcli.estimate_batch_sizes(model_class='toys.Toy', config='toy.yaml', buckets='[1.0,2.0]', work='sizes')\n"
        "print('once')\n"
    )
    root = str(Path(library.__file__).parents[1])
    environ = {**os.environ, fake_child.VARIABLE: "{}", "PYTHONPATH": root}
    done = run_process([sys.executable, "script.py"], env=environ)
    assert (done.code, done.out) == (0, "once\n"), done.err
