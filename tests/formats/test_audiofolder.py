"""Tables of an `audiofolder`: which files are tables, and what their rows name."""

import pytest

from prepcli.errors import RecordRejected, UsageError
from prepcli.formats.audiofolder import metadata_of, metadata_rows


def test_tables_are_found_at_any_depth() -> None:
    names = ["b/c/metadata.jsonl", "metadata.csv", "my_metadata.csv", "a/metadata.parquet", "metadata.csv.bak"]
    assert metadata_of(names, "x") == ["a/metadata.parquet", "b/c/metadata.jsonl", "metadata.csv"]
    with pytest.raises(UsageError, match=r"x has both a/metadata.csv and a/metadata.jsonl; keep one"):
        metadata_of(["a/metadata.jsonl", "a/metadata.csv"], "x")


def test_rows_name_files_relative_to_their_table() -> None:
    table = '\ufefffile_name,text,offset\n./a.wav,"x, ""y""",\n../b.wav,"two\nlines",1.5\n,no,\n'
    *rows, (_, last) = metadata_rows("t/metadata.csv", table.encode(), "x")
    assert rows == [("t/a.wav", {"text": 'x, "y"'}), ("b.wav", {"text": "two\nlines", "offset": 1.5})]
    assert isinstance(last, RecordRejected)
    assert last.detail == "t/metadata.csv: row 5 has no file_name"


def test_lines_of_json() -> None:
    (first, second, third) = metadata_rows("metadata.jsonl", b'{"audio_file_name": "a", "n": 1}\n\n{"n": 2}\n{', "x")
    assert first == ("a", {"n": 1})
    assert isinstance(second[1], RecordRejected)
    assert isinstance(third[1], RecordRejected)
    assert third[1].detail.startswith("metadata.jsonl:4: broken JSON")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (b"path,text\n", "has no column with the names of audio files"),
        (b"a_file_name,b_file_name\n", "has several columns with the names of audio files"),
    ],
)
def test_a_table_that_names_no_audio(table: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        list(metadata_rows("metadata.csv", table, "x"))
