"""States (`OUT.prepcli`) of earlier versions: what is finished is read as any other, the rest is refused."""

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from tests.conftest import DATA, tree
from tests.jobs.old_states import JOBS, ROOT
from tests.support.running import prepcli

STATES = sorted(path.name.removesuffix(".tar.gz") for path in (DATA / "old_states").glob("*.tar.gz"))

REFUSED = {
    ("2026-11-20_324d7ee", "texts.json"),  # prepare-texts has more settings since
    ("2026-11-20_324d7ee", "made.json"),  # make-manifest cuts its units at other lines since
    ("2026-11-24_0d57e09", "made.json"),
}
"""The outputs that this version refuses to continue; the message names the remedy."""


def unpacked(state: str, folder: Path) -> Path:
    """The state as if it had been made in `folder`: with its path, and with the digest that follows from it."""
    with tarfile.open(DATA / f"old_states/{state}.tar.gz") as tar:
        tar.extractall(folder)
    for root in folder.glob("*.prepcli"):
        plan = json.loads((root / "plan.json").read_text().replace(str(ROOT), str(folder)))
        (units,) = (root / "units").iterdir()
        new = digest_of(plan, units)
        units.rename(units.with_name(f"{new[:16]}.jsonl"))
        for path in root.rglob("*"):
            if path.suffix in (".json", ".yaml"):
                text = path.read_text().replace(str(ROOT), str(folder))
                path.write_text(text.replace(plan["digest"], new))
    return folder


def digest_of(plan: dict[str, object], file: Path) -> str:
    """The digest of a plan of format 2 with the units of a file, whose lines are `[id, cost, records]`."""
    assert plan["format"] == 2
    inputs = plan["inputs"]
    assert isinstance(inputs, list)
    content = {name: plan[name] for name in ("format", "command", "settings")} | {
        "inputs": [file["sha256"] for file in inputs]
    }
    units = [[unit, records] for unit, _, records in map(json.loads, file.read_text().splitlines())]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256((text + json.dumps(units, separators=(",", ":"))).encode()).hexdigest()


@pytest.mark.parametrize("state", STATES)
def test_states_of_earlier_versions(state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = unpacked(state, tmp_path)
    monkeypatch.chdir(folder)
    for out, words in JOBS.items():
        made = tree(folder)
        done = prepcli(*(word.format(out) for word in words))
        if (state, out) in REFUSED:
            assert (done.code, "give --overwrite to start again" in done.error_line) == (2, True)
        else:
            assert "nothing to do" in done.out, done.err
        assert tree(folder) == made
        assert prepcli("verify", out).code == 0
        if (folder / f"half_{out}").exists():
            done = prepcli(*(word.format(f"half_{out}") for word in words))
            assert (done.code, "finish it with that version" in done.error_line) == (2, True)
            assert tree(folder) == made
        again = prepcli(*(word.format(out) for word in words), "--overwrite")
        assert again.code == 0, again.err
        # A Shar without contexts has its audio in another field since.
        assert {name for name in tree(folder) if name.startswith(f"{out}/")} == {
            name.replace("/target_audio/", "/recording/") for name in made if name.startswith(f"{out}/")
        }
