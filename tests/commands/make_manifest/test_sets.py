"""Data sets as sources of make-manifest."""

import os
from pathlib import Path

import pytest

from prepcli.commands.make_manifest.formats import holds_set
from tests.conftest import MINI_CORPUS, read_lines
from tests.support.audio_files import write_short_corpus
from tests.support.containers import SOURCES, write_rows
from tests.support.running import prepcli


@pytest.mark.parametrize("source", SOURCES)
def test_make_manifest_names_members(source: str, tmp_path: Path) -> None:
    manifest = write_short_corpus(tmp_path / "corpus", 4)
    (tmp_path / "source").mkdir()
    made = SOURCES[source](manifest, tmp_path / "source")
    words = ["--format", "set"] if source.startswith("parquet of") else []
    done = prepcli("make-manifest", made, tmp_path / "out" / "m.json", *words)
    assert done.code == 0, done.err
    lines = read_lines(tmp_path / "out" / "m.json")
    assert sorted(one["text"] for one in lines) == sorted(one["text"] for one in read_lines(manifest))
    assert all(one["duration"] > 0 for one in lines)
    again = prepcli("manifest-to-wenet", tmp_path / "out" / "m.json", tmp_path / "wenet", "--json")
    assert (again.json["records_out"], again.json["rejects"]) == (4, 0)


def test_folders_of_audio_are_not_sets() -> None:
    assert not holds_set(os.listdir(MINI_CORPUS))
    assert holds_set(["cuts"])


def test_a_row_without_audio_is_a_reject(tmp_path: Path) -> None:
    import pyarrow as pa

    audio = pa.array([{"bytes": (MINI_CORPUS / "s01/s01_u1.flac").read_bytes(), "path": None}, None])
    write_rows(tmp_path / "a.parquet", audio, {"text": ["one", "two"]})
    done = prepcli("make-manifest", tmp_path / "a.parquet", tmp_path / "m.json", "--max-rejects", 1)
    assert done.code == 0, done.err
    assert [one["audio_filepath"] for one in read_lines(tmp_path / "m.json")] == ["a.parquet::0"]
    [reject] = read_lines(tmp_path / "m.json.prepcli" / "rejects.jsonl")
    assert "a.parquet::1 is not embedded" in reject["reject_detail"]


def test_the_column_of_the_language(tmp_path: Path) -> None:
    import pyarrow as pa

    audio = pa.array([{"bytes": (MINI_CORPUS / "s01/s01_u1.flac").read_bytes(), "path": None}])
    table = write_rows(tmp_path / "a.parquet", audio, {"text": ["one"], "tongue": ["it"]})
    done = prepcli("make-manifest", table, tmp_path / "m.json", "--lang-column", "tongue")
    assert (done.code, [one["lang"] for one in read_lines(tmp_path / "m.json")]) == (0, ["it"])
    done = prepcli("manifest-to-wenet", table, tmp_path / "out", "--lang-column", "language")
    assert (done.code, "has no column language; its columns are" in done.error_line) == (2, True)


def test_of_another_column_the_content_is_the_same(tmp_path: Path) -> None:
    import pyarrow as pa

    audio = pa.array([{"bytes": (MINI_CORPUS / "s01/s01_u1.flac").read_bytes(), "path": None}])
    table = write_rows(tmp_path / "a.parquet", audio, {"text": ["one"], "raw": ["ONE"]})
    assert prepcli("make-manifest", table, tmp_path / "m.json").code == 0
    refused = prepcli("make-manifest", table, tmp_path / "m.json", "--text-column", "raw")
    assert "--text-column was not given (by its name: text, sentence, ...), now raw. Choose" in refused.error_line
    assert "content" not in refused.error_line
