"""The units of a plan are in a file beside `plan.json`, which stays small and tells by which version it was written."""

import json
import shutil
from pathlib import Path

import pytest

from prepcli.engine.state.plan import PLAN_FORMAT, StoredPlan, Unit
from prepcli.engine.state.stored_units import find_plan, read_units, write_units
from prepcli.engine.state.workspace import Workspace, write_json
from prepcli.errors import UsageError
from tests.conftest import SHORT_CORPUS, tree
from tests.engine.folder_runs import begun_workspace
from tests.support.running import Outcome, prepcli

MANIFEST = SHORT_CORPUS / "manifest.json"


def test_many_units(tmp_path: Path) -> None:
    workspace = begun_workspace(tmp_path / "out")
    units = [Unit(f"shard_{number:06d}", number / 7, number) for number in range(50_000)]
    size = write_units(workspace, "d" * 64, units)
    plan = StoredPlan("test", "d" * 64, {}, [], 0, 0, {}, 0.0, "", "", len(units), size, format=PLAN_FORMAT)
    write_json(workspace.plan_file, plan)
    assert workspace.plan_file.stat().st_size < 1000
    found = find_plan(workspace)
    assert found is not None
    assert read_units(workspace, found) == units
    file = workspace.run / "units.jsonl"
    line = file.read_bytes().partition(b"\n")[0]
    without_first = b" " * len(line) + file.read_bytes()[len(line) :]
    for damaged in (b"x" * size, without_first):  # as long as before, so that only reading them can tell
        file.write_bytes(damaged)
        with pytest.raises(UsageError, match="is damaged; remove it"):
            read_units(workspace, found)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "out"
    assert run(out).code == 0
    return out


def run(out: Path, *more: object) -> Outcome:
    return prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", 3, *more)


def copied(made: Path, folder: Path) -> Path:
    out = folder / "out"
    shutil.copytree(made, out)
    shutil.copytree(made.with_name(f"{made.name}.prepcli"), folder / "out.prepcli")
    return out


@pytest.mark.parametrize("content", [None, b"", b"[1]\n"], ids=["missing", "empty", "other"])
def test_lost_units_are_written_again(made: Path, tmp_path: Path, content: bytes | None) -> None:
    out = copied(made, tmp_path)
    (file,) = tmp_path.glob("out.prepcli/*/units.jsonl")
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    for command in ("status", "verify", "inspect"):  # a part of an output must not be taken for the whole
        done = prepcli(command, out)
        assert (done.code, done.out) == (2, "")
        assert "is missing or damaged; run manifest-to-tarred again" in done.err
    again = run(out)
    assert (again.code, "nothing to do" in again.out) == (0, True), again.err
    assert prepcli("status", out, "--json").json["state"] == "finished"
    assert tree(out) == tree(made)


def test_a_plan_of_another_version(made: Path, tmp_path: Path) -> None:
    """One line says what to do; only --overwrite starts again."""
    out = copied(made, tmp_path)
    file = Workspace(out).plan_file
    plan = json.loads(file.read_text())
    del plan["format"], plan["num_units"], plan["units_bytes"]
    units = [{"id": "shard_000000", "cost": 1.0, "num_records": 1}]
    file.write_text(json.dumps(plan | {"digest": "0" * 64, "units": units}))
    for command in ("status", "verify", "inspect"):
        done = prepcli(command, out)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"prepcli: another version of prepcli has made {out}: ")
        assert done.err.count("\n") == 1
    again = run(out)  # `owner.json` has the digest as well
    assert (again.code, "nothing to do" in again.out) == (0, True)
    assert tree(out) == tree(made)
    assert run(out, "--overwrite").code == 0
    assert tree(out) == tree(made)
    assert prepcli("status", out, "--json").json["state"] == "finished"
