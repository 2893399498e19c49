"""Tables of corpora: rows by their columns, and the quotation marks of CSV."""

from pathlib import Path
from typing import Any

import pytest

from prepcli.commands.download.tables import rows_of, unquoted
from prepcli.errors import UsageError
from tests.commands.download.miniatures import CV_COLUMNS, Files, common_voice, libritts, ljspeech, mls, write_files
from tests.conftest import read_lines
from tests.support.running import prepcli


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('"""Come in,"" she said, ""and sit down."""', '"Come in," she said, "and sit down."'),
        ('""', ""),
        ('"Hello."', "Hello."),
        ('""""', '"'),
        ('"An unmatched mark is text.', '"An unmatched mark is text.'),
        ('"Come in," she said, "and sit down."', '"Come in," she said, "and sit down."'),
        ('She said: ""Come in.""', 'She said: ""Come in.""'),
        ('"', '"'),
        ("", ""),
    ],
)
def test_quotation_marks_of_csv(written: str, meant: str) -> None:
    assert unquoted(written) == meant


def test_rows_are_counted_by_columns(tmp_path: Path) -> None:
    """White space at the end of a row is columns; a value does not have the line end."""
    (tmp_path / "t.tsv").write_bytes(b"\xef\xbb\xbfa\tb\r\n1\t2\r\n\r\n3\t\n4\n5\t6\t7\n\xe9\t\x85\n")
    rows = list(rows_of(tmp_path, "t.tsv", "\t"))
    assert [(row.where, row["a"], row["b"]) for row in rows] == [
        *(("t.tsv:2", "1", "2"), ("t.tsv:4", "3", ""), ("t.tsv:5", "4", ""), ("t.tsv:6", "5", "6")),
        ("t.tsv:7", "\ufffd", "\ufffd"),
    ]
    assert [row.problem.partition(";")[0] for row in rows] == [
        *("", "", "the row has 1 column, not 2", "the row has 3 columns, not 2", "")
    ]
    named = list(rows_of(tmp_path, "t.tsv", "\t", ("x", "y")))
    assert (named[0].where, named[0]["x"], named[0]["z"]) == ("t.tsv:1", "a", "")
    with pytest.raises(UsageError, match=r"t\.tsv:1: there is no column c; this is not a table of this corpus"):
        list(rows_of(tmp_path, "t.tsv", "\t", needed=("a", "c")))


def _with(files: Files, name: str, old: bytes, new: bytes) -> Files:
    assert old in files[name]
    return files | {name: files[name].replace(old, new, 1)}


CV = "cv-corpus-25.0-2026-03-09/en"
BOOK = "LibriTTS/dev-clean/101/1011/101_1011"
CORPORA: dict[str, tuple[Files, list[Any], tuple[str, int, int]]] = {
    "common-voice": (
        _with(common_voice(), f"{CV}/test.tsv", b'\t"', b'\t"A\t'),
        ["--language", "en", "--data-sets", "test"],
        (f"{CV}/test.tsv:2", len(CV_COLUMNS) + 1, len(CV_COLUMNS)),
    ),
    "libritts": (
        _with(libritts("dev-clean", ["s01"]), f"{BOOK}.trans.tsv", b"in 1455\t", b"in\t1455\t"),
        ["--data-sets", "dev_clean"],
        (f"{BOOK}.trans.tsv:1", 4, 3),
    ),
    "ljspeech": (
        _with(ljspeech(), "LJSpeech-1.1/metadata.csv", b" in 1455,|", b" in 1455,| | "),
        ["--val-size", 2, "--test-size", 2],
        ("LJSpeech-1.1/metadata.csv:1", 4, 3),
    ),
    "mls": (
        _with(mls("mls_polish"), "mls_polish/test/transcripts.txt", b"\t", b"\tA\t"),
        ["--language", "polish", "--archive-format", "flac"],
        ("mls_polish/test/transcripts.txt:1", 3, 2),
    ),
}


@pytest.mark.parametrize("corpus", CORPORA)
def test_a_row_with_other_columns_is_a_reject(corpus: str, tmp_path: Path) -> None:
    """It says both numbers, names its recording, and shows the row; the recording is not listed as one without text."""
    files, options, (where, number, expected) = CORPORA[corpus]
    copy = write_files(files, tmp_path / "copy")
    words = ("--data-root", tmp_path / "data", "--extracted", copy, "--max-rejects", 20)
    done = prepcli("download", corpus, *options, *words)
    assert done.code == 0, done.err
    (path,) = (tmp_path / "data.prepcli/sets").glob("*/rejects.jsonl")
    rejects = [one for one in read_lines(path) if "the row has" in one["reject_detail"]]
    detail = f"{where}: the row has {number} columns, not {expected}; correct it in the table"
    assert [(one["reject_reason"], one["reject_detail"]) for one in rejects] == [("bad_field", detail)]
    assert Path(rejects[0]["audio_filepath"]).is_file()
    assert rejects[0]["row"].count("|" if corpus == "ljspeech" else "\t") == number - 1
    assert "text" not in rejects[0]
    assert not [one for one in read_lines(path) if one["reject_reason"] == "missing_transcript"]
