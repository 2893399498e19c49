"""CONFIG.yaml of a pipeline: which commands it means, and what is said of one that cannot be meant so."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from prepcli.interface.commands import COMMANDS
from tests.slurm.conftest import REPOSITORY, SCRIPTS
from tests.support.running import Outcome

CONFIG = {
    "defaults": {"out": "/o", "language": None},
    "data_sets": [{"name": "one", "manifest": "/a b/{x}.json"}, {"name": "two", "manifest": "'$(rm)'", "out": "p q"}],
    "steps": [
        {"name": "first", "command": "prepcli manifest-to-shar {manifest} {out}/{name} --lang={language}"},
        {
            "name": "second",
            "command": "prepcli extend-codec-codes {out}/{name}",
            "sbatch": "--ntasks=2 --comment={name}",
        },
        {"name": "third", "command": "python {repository}/x.py 'a b'", "on": "gpu"},
    ],
}


def steps(folder: Path, config: object, *data_sets: str) -> Outcome:
    file = folder / "config.yaml"
    file.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    command = [sys.executable, str(SCRIPTS / "pipeline_steps.py"), str(file), *data_sets]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)


def test_steps_of_each_data_set(tmp_path: Path) -> None:
    lines = [shlex.split(line) for line in steps(tmp_path, CONFIG).out.splitlines()]
    assert lines == [
        ["one", "first", "cpu", "--", "prepcli", "manifest-to-shar", "/a b/{x}.json", "/o/one"],
        ["one", "second", "gpu", "--ntasks=2", "--comment=one", "--", "prepcli", "extend-codec-codes", "/o/one"],
        ["one", "third", "gpu", "--", "python", f"{REPOSITORY}/x.py", "a b"],
        ["two", "first", "cpu", "--", "prepcli", "manifest-to-shar", "'$(rm)'", "p q/two"],
        ["two", "second", "gpu", "--ntasks=2", "--comment=two", "--", "prepcli", "extend-codec-codes", "p q/two"],
        ["two", "third", "gpu", "--", "python", f"{REPOSITORY}/x.py", "a b"],
    ]
    assert [line.split()[0] for line in steps(tmp_path, CONFIG, "two").out.splitlines()] == ["two"] * 3


def test_the_word_on_needs_no_quotes(tmp_path: Path) -> None:
    """YAML reads it as true, and dumps it with quotes, as nobody writes it."""
    config = "data_sets:\n- name: one\nsteps:\n- name: s\n  command: prepcli extend-codec-codes a\n  on: {}\n"
    assert steps(tmp_path, config.format("cpu")).out.split()[:3] == ["one", "s", "cpu"]
    wrong = steps(tmp_path, config.format("tpu\n  off: 3"))
    assert (wrong.code, "unknown keys: False" in wrong.err) == (1, True)


def test_commands_that_use_gpus_run_there(tmp_path: Path) -> None:
    """Also those of submit.sh, which has a list of its own; find-duplicates uses them only for a model."""
    names = [command.name for command in COMMANDS if command.name != "find-duplicates"]
    compare = "prepcli find-duplicates a.json b.jsonl --by speaker"
    commands = [*(f"prepcli {name} a b" for name in names), compare, f"{compare} --speaker-model=m.nemo"]
    config = {
        "data_sets": [{"name": "one"}],
        "steps": [{"name": f"s{at}", "command": one} for at, one in enumerate(commands)],
    }
    kinds = [line.split()[2] for line in steps(tmp_path, config).out.splitlines()]
    on_gpus = {command.name for command in COMMANDS if command.runs_models()}
    assert kinds == [*("gpu" if name in on_gpus else "cpu" for name in names), "cpu", "gpu"]
    listed = re.search(r"^ *(\S+(?: \| \S+)*)\) kind=gpu", (SCRIPTS / "submit.sh").read_text(), re.MULTILINE)
    assert listed is not None
    assert {*listed[1].split(" | "), "find-duplicates"} == on_gpus


def test_a_step_for_some_data_sets(tmp_path: Path) -> None:
    """Those that have the field; a field of defaults counts, an empty one does not, and nothing else is needed."""
    step = {"name": "fetch", "if": "corpus", "command": "prepcli download {corpus} --data-root={root}"}
    config: dict[str, Any] = {**CONFIG, "steps": [step, {"name": "third", "command": "python x.py"}]}
    config["data_sets"] = [
        {"name": "one", "corpus": "an4", "root": "/c"},
        {"name": "two"},
        {"name": "no", "corpus": None},
    ]
    found = [shlex.split(line) for line in steps(tmp_path, config).out.splitlines()]
    assert [line[:2] for line in found] == [["one", "fetch"], ["one", "third"], ["two", "third"], ["no", "third"]]
    assert found[0][4:] == ["prepcli", "download", "an4", "--data-root=/c"]
    config["defaults"] = {"corpus": "an4", "root": "/d"}
    assert steps(tmp_path, config, "two").out.splitlines()[0] == "two fetch cpu -- prepcli download an4 --data-root=/d"


@pytest.mark.parametrize(
    ("changes", "data_sets", "words"),
    [
        ({}, ["three"], "has no data set three; there are one, two"),
        ({"data_sets": []}, [], "needs data_sets: and steps:"),
        ({"data_sets": [{"name": "a/b"}]}, [], "a name of letters, digits"),
        ({"data_sets": [{"name": "a"}, {"name": "a"}]}, [], "two data sets have the same name"),
        ({"steps": [{"name": "s", "command": "prepcli verify {nowhere}"}]}, [], "step s needs the field nowhere"),
        ({"steps": [{"name": "s", "command": "prepcli verify {"}]}, [], "is not a template"),
        ({"steps": [{"name": "s", "command": "rm -r x"}]}, [], "must begin with prepcli or python"),
        ({"steps": [{"name": "s", "command": "prepcli", "gpus": 3}]}, [], "unknown keys: gpus"),
        ({"steps": [{"name": "s", "command": "prepcli", "on": "tpu"}]}, [], "on: cpu or on: gpu"),
        ({"steps": [{"name": "s", "command": "prepcli 'x"}]}, [], "command of step s: No closing quotation"),
        (
            {"steps": [{"name": "s", "command": "prepcli", "sbatch": {"ntasks": 2}}]},
            [],
            "sbatch: of step s is not one text, such as --ntasks=2",
        ),
        ({"steps": [{"name": "s", "command": ["prepcli"]}]}, [], "command: of step s is not one text"),
        ({"steps": [{"name": "s", "command": "prepcli"}] * 2}, [], "two steps of one have the name s"),
    ],
)
def test_what_cannot_be_meant_so_is_said(tmp_path: Path, changes: dict, data_sets: list[str], words: str) -> None:
    done = steps(tmp_path, CONFIG | changes, *data_sets)
    assert done.code == 1
    assert done.out == ""
    assert words in done.error_line


def test_no_yaml(tmp_path: Path) -> None:
    assert "is not YAML" in steps(tmp_path, "a: [").error_line
