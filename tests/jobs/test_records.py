"""Records over compressed manifests, with and without a place to unpack them."""

import gzip
import json
import tempfile
from pathlib import Path

import pytest

from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError
from prepcli.jobs.records import Records

LINES = [json.dumps({"audio_filepath": f"{n}.wav", "duration": 1.5}).encode() for n in range(3)]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_dry_run_over_a_damaged_manifest_leaves_nothing(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "good.json.gz").write_bytes(gzip.compress(b"\n".join(LINES)))
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b"\n".join(LINES))[:-9])
    with pytest.raises(UsageError, match=r"cut\.json\.gz is cut short"):
        Records([str(tmp_path / "good.json.gz"), str(tmp_path / "cut.json.gz")])
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("has_work", [True, False])
def test_lines_can_be_read_wherever_they_are_unpacked(tmp_path: Path, scratch: Path, has_work: bool) -> None:
    (tmp_path / "m.json.gz").write_bytes(gzip.compress(b"\n".join(LINES)))
    records = Records([str(tmp_path / "m.json.gz")], workspace=Workspace(tmp_path / "out") if has_work else None)
    assert [records.line(n) for n in range(3)] == LINES
    assert has_work != any(scratch.iterdir())
    del records
    assert not list(scratch.iterdir())
