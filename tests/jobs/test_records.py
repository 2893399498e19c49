"""Records over compressed manifests, with and without a place to unpack them."""

import gzip
import json
import tempfile
from pathlib import Path

import pytest

from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError
from prepcli.jobs.records import Records
from tests.conftest import MINI_CORPUS, make_set, read_lines, write_lines
from tests.support.running import prepcli

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


def test_other_audio_of_a_set_is_found_from_elsewhere(tmp_path: Path) -> None:
    """Its paths are relative to the manifest that was read, and the set lies in another folder."""
    pyarrow_parquet = pytest.importorskip("pyarrow.parquet")
    records = [
        record | {"ref_audio": record["audio_filepath"]}
        for record in read_lines(MINI_CORPUS / "manifest_with_context.json")
    ]
    (tmp_path / "corpus").mkdir()
    manifest = write_lines(tmp_path / "corpus/m.json", records)
    for folder in MINI_CORPUS.glob("s0*"):
        (tmp_path / "corpus" / folder.name).symlink_to(folder)
    names = ("context_audio_filepath", "ref_audio")
    expected = [[str(tmp_path / "corpus" / record[name]) for name in names] for record in records]
    make_set("manifest-to-tarred", manifest, tmp_path / "tarred", "--num-shards", 1, "--no-shuffle")
    lines = read_lines(tmp_path / "tarred/tarred_audio_manifest.json")
    assert [[line[name] for name in names] for line in lines] == expected
    make_set("manifest-to-parquet", manifest, tmp_path / "parquet")
    (file,) = (tmp_path / "parquet").glob("*.parquet")
    rows = pyarrow_parquet.read_table(file, columns=list(names)).to_pylist()
    assert [[row[name] for name in names] for row in rows] == expected
    assert prepcli("manifest-to-shar", tmp_path / "tarred", tmp_path / "shar", "--max-rejects", 0).code == 0
