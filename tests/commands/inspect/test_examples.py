"""Which records stand out, and in which lines they are; the table of languages and speakers."""

import csv
import gzip
import io
from pathlib import Path

import pytest

from prepcli.manifest import scan
from tests.commands.inspect.conftest import look
from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.running import prepcli


@pytest.fixture
def manifests(tmp_path: Path) -> str:
    """Two manifests with blank lines, skipped and unusable ones, of which one line is long."""
    every = [{"audio_filepath": f"{n}.wav", "duration": 5 + n / 100, "text": "a" * 50} for n in range(400)]
    every[250] |= {"duration": 0.1, "text": ""}
    every[251] |= {"duration": 90, "text": "x" * 1000}
    every[300] |= {"text": "b" * 400}
    every[301] |= {"text": "b"}
    every[302] |= {"context_speaker_similarity": 0.1}
    every[303] |= {"context_speaker_similarity": 0.9}
    write_lines(tmp_path / "a.json", every[:100])
    write_lines(tmp_path / "b.json", every[100:])
    text = (tmp_path / "b.json").read_text().splitlines(keepends=True)
    odd = ["\n", '{"audio_filepath": "s", "duration": 0.01, "_skipme": true}\n', "broken\n"]
    (tmp_path / "b.json").write_text("".join(text[:20] + odd + text[20:]))
    return f"{tmp_path}/a.json,{tmp_path}/b.json"


EXPECTED = {
    "shortest": 250,
    "longest": 251,
    "fastest speech": 300,
    "slowest speech": 301,
    "least similar context": 302,
}


@pytest.mark.parametrize("range_bytes", [1000, 1 << 20], ids=["many parts", "one part"])
def test_outliers_are_named_by_file_and_line(range_bytes: int, manifests: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "RANGE_BYTES", range_bytes)
    found = look(manifests, num_audio_files=0)
    named = {(why.partition(":")[0], Path(one.file).name, one.line) for one in found.outliers for why in one.why}
    assert len(named) == 2 * len(EXPECTED)
    assert named >= {(what, "b.json", number - 100 + 1 + 3) for what, number in EXPECTED.items()}
    longest = next(one for one in found.outliers if one.fields["duration"] == 90)
    assert longest.why[0] == "longest: 90.00 s"
    for one in [*found.outliers, *found.sample]:
        line = Path(one.file).read_text().splitlines()[one.line - 1]
        assert f'"{one.fields["audio_filepath"]}"' in line
    assert len(found.sample) == 10
    assert len({one.file for one in found.sample}) == 2


def test_the_same_in_json_and_compressed(tmp_path: Path) -> None:
    manifest = tmp_path / "m.json.gz"
    manifest.write_bytes(gzip.compress((MINI_CORPUS / "manifest.json").read_bytes()))
    found = prepcli("inspect", manifest, "--num-audio-files", 0, "--json").json
    plain = look(MINI_CORPUS / "manifest.json", num_audio_files=0)
    assert [one["line"] for one in found["outliers"]] == [one.line for one in plain.outliers]
    assert found["outliers"][0]["why"] == plain.outliers[0].why
    assert not {"groups", "sample", "columns"} & set(found)


def test_nothing_stands_out_among_few(tmp_path: Path) -> None:
    found = look(write_lines(tmp_path / "m.json", read_lines(MINI_CORPUS / "manifest.json")[:9]), num_audio_files=0)
    assert (found.outliers, len(found.sample)) == ([], 9)


def test_the_table_of_languages_and_speakers(tmp_path: Path) -> None:
    """Names are quoted, the sums are those of the manifest, and records that name nobody have a line."""
    records = [
        {"audio_filepath": "a", "duration": 3600, "speaker": 'Ann, "the" first\nof us', "lang": "en"},
        {"audio_filepath": "b", "duration": 1800, "speaker": 'Ann, "the" first\nof us', "lang": "de"},
        {"audio_filepath": "c", "duration": 5400, "speaker": "=1+1", "lang": "en"},
        {"audio_filepath": "d", "duration": 5400, "speaker": "=1+1", "lang": "en"},
        {"audio_filepath": "e", "duration": 1.5},
    ]
    manifest, table = write_lines(tmp_path / "m.json", records), tmp_path / "table.csv"
    words = ("inspect", manifest, "--num-audio-files", 0, "--csv", table)
    assert prepcli(*words).code == 0
    rows = list(csv.DictReader(io.StringIO(table.read_bytes().decode())))
    assert [(row["language"], row["speaker"], row["records"], row["hours"], row["mean_seconds"]) for row in rows] == [
        ("en", "'=1+1", "2", "3.000000", "5400.000"),
        ("en", 'Ann, "the" first\nof us', "1", "1.000000", "3600.000"),
        ("de", 'Ann, "the" first\nof us', "1", "0.500000", "1800.000"),
        ("", "", "1", "0.000417", "1.500"),
    ]
    before = table.read_bytes()
    assert prepcli(*words).code == 0  # it may replace its own
    assert table.read_bytes() == before


def test_names_that_a_spreadsheet_would_run(tmp_path: Path) -> None:
    names = ["=1+1", "+1", "-1", "@x", "\tx", "a=1"]
    lines = [{"audio_filepath": "a", "duration": 1.0, "speaker": name, "lang": f"{name}"} for name in names]
    assert prepcli("inspect", write_lines(tmp_path / "m.json", lines), "--csv", tmp_path / "t.csv").code == 0
    rows = list(csv.DictReader((tmp_path / "t.csv").open(encoding="utf-8", newline="")))
    assert {row["speaker"] for row in rows} == {row["language"] for row in rows}
    assert {row["speaker"] for row in rows} == {"'=1+1", "'+1", "'-1", "'@x", "'\tx", "a=1"}


def test_languages_in_names_of_speakers(tmp_path: Path) -> None:
    records = read_lines(MINI_CORPUS / "manifest.json")
    for record in records:
        del record["lang"]
    assert prepcli("inspect", write_lines(tmp_path / "m.json", records), "--csv", tmp_path / "t.csv").code == 0
    rows = list(csv.DictReader((tmp_path / "t.csv").open(encoding="utf-8")))
    assert len(rows) == 8
    assert {row["language"] for row in rows} == {"en", "it", "es", "de", "fr"}
    assert sum(int(row["records"]) for row in rows) == 48


def test_a_table_replaces_nothing_else(tmp_path: Path) -> None:
    manifest = write_lines(tmp_path / "m.json", read_lines(MINI_CORPUS / "manifest.json"))
    before = manifest.read_bytes()
    for words, why in (
        ((manifest, "--csv", manifest), "a file that is not such a table is there"),
        ((manifest, "--csv", tmp_path), "that is a directory"),
        ((manifest, "--csv", tmp_path / "no/t.csv"), "there is no folder"),
        ((manifest, "--record", 1, "--csv", tmp_path / "t.csv"), "--csv has no effect with --record"),
        ((MINI_CORPUS / "s01/s01_u1.flac", "--csv", tmp_path / "t.csv"), "has no records of manifests or cuts"),
    ):
        done = prepcli("inspect", *words)
        assert (done.code, done.out) == (2, "")
        assert why in done.error_line
    assert manifest.read_bytes() == before
    assert list(tmp_path.iterdir()) == [manifest]
