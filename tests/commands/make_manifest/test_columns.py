"""Tables of records: CSV, TSV and audiofolder, their columns, and quotes that are not closed."""

import csv
import json
from pathlib import Path

from tests.commands.make_manifest.test_formats import make, rejects, write_lines_of
from tests.conftest import read_lines


class TestTables:
    def test_csv(self, audio: Path, tmp_path: Path) -> None:
        rows = ["path,text,offset,duration,id", '"b/y.flac","a, ""b""\nc",,9,7', "b/y.flac,d,0.25,0.5,8", "a/x.wav,e"]
        table = write_lines_of(audio / "t.csv", *rows, "b/x.wav,f,-1,,9")
        make(table, audio / "m.json")
        assert read_lines(audio / "m.json") == [
            {"audio_filepath": "b/y.flac", "duration": 1.0, "text": 'a, "b"\nc', "id": "7"},
            {"audio_filepath": "b/y.flac", "duration": 0.5, "offset": 0.25, "text": "d", "id": "8"},
        ]
        assert [(r["manifest_line"], r["reject_reason"]) for r in rejects(audio / "m.json")] == [
            (5, "bad_field"),
            (6, "bad_offset"),
        ]

    def test_a_quotation_mark_that_is_not_closed(self, audio: Path) -> None:
        """The rows behind it, or up to the next mark, were one text, and nobody was told."""
        for last in ("b/y.flac,c", 'b/y.flac,"c"'):
            table = write_lines_of(audio / "t.csv", "path,text", "a/x.wav,a", 'b/x.wav,"b', last)
            done = make(table, audio / "m.json", code=2)
            assert "t.csv:3 has a quotation mark that is not closed" in done.error_line
        table.write_text('path,text\na/x.wav,a "quote\nb/y.flac,"c\n"')
        make(table, audio / "m.json")
        assert [record["text"] for record in read_lines(audio / "m.json")] == ['a "quote', "c\n"]

    def test_tsv_has_no_quotes(self, audio: Path) -> None:
        table = write_lines_of(audio / "t.tsv", "client_id\tpath\tsentence\tlocale", 's\ta/x.wav\t"Well," he said\tit')
        make(table, audio / "m.json")
        assert read_lines(audio / "m.json") == [
            {"audio_filepath": "a/x.wav", "duration": 0.5, "text": '"Well," he said', "speaker": "s", "lang": "it"}
        ]

    def test_columns(self, audio: Path) -> None:
        table = write_lines_of(audio / "t.csv", "sound,words,who", "a/x.wav,hello,me")
        done = make(table, audio / "m.json", code=2)
        assert "no column that is known to name audio (its columns are sound, words, who)" in done.error_line
        done = make(table, audio / "m.json", "--audio-column", "wave", code=2)
        assert "has no column wave (--audio-column)" in done.error_line
        named = ("--audio-column", "sound", "--text-column", "words", "--speaker-column", "who")
        make(table, audio / "m.json", *named)
        assert read_lines(audio / "m.json")[0]["text"] == "hello"

    def test_two_columns_with_text(self, audio: Path) -> None:
        table = write_lines_of(audio / "t.csv", "path,sentence,transcript", "a/x.wav,a,b")
        done = make(table, audio / "m.json", code=2)
        assert "columns transcript and sentence; say with --text-column" in done.error_line

    def test_two_columns_of_one_name(self, audio: Path) -> None:
        """The last one would be taken, and nobody be told."""
        table = write_lines_of(audio / "t.csv", "path,text, text", "a/x.wav,a,b")
        done = make(table, audio / "m.json", code=2)
        assert "t.csv has 2 columns with the name text; rename or remove one" in done.error_line
        table = write_lines_of(audio / "t.csv", "path,text,,", "a/x.wav,a,,", "b/y.flac,b,c,", "b/x.wav,c,d,e")
        limit = csv.field_size_limit()
        make(table, audio / "m.json")
        assert csv.field_size_limit() == limit
        assert [record["text"] for record in read_lines(audio / "m.json")] == ["a", "b"]
        assert ["columns without a name" in r["reject_detail"] for r in rejects(audio / "m.json")] == [True]

    def test_audiofolder_with_splits(self, audio: Path) -> None:
        write_lines_of(audio / "a/metadata.csv", "file_name,transcription", "x.wav,one")
        write_lines_of(audio / "b/metadata.jsonl", json.dumps({"file_name": "x.wav", "n": 3}), "{", '{"n": 4}')
        done = make(audio, audio / "m.json")
        assert read_lines(audio / "m.json") == [
            {"audio_filepath": "a/x.wav", "duration": 0.5, "text": "one"},
            {"audio_filepath": "b/x.wav", "duration": 0.75, "n": 3},
        ]
        assert [r["reject_reason"] for r in rejects(audio / "m.json")] == ["broken_json", "missing_field"]
        assert "is read as audiofolder: it holds a/metadata.csv" in done.out

    def test_audio_that_metadata_do_not_name(self, audio: Path) -> None:
        write_lines_of(audio / "metadata.csv", "file_name,text", "b/x.wav,one")
        assert "2 audio files in the folder are left out" in make(audio, audio / "m.json").out


def test_a_table_without_a_known_text_column(audio: Path, tmp_path: Path) -> None:
    write_lines_of(audio / "t.csv", "clip,words,who", "a/x.wav,hello,me", "b/y.flac,,me")
    done = make(audio / "t.csv", tmp_path / "m.json", "--audio-column", "clip")
    assert "no record has a text: name its column with --text-column; left over are words, who" in done.out
    done = make(audio / "t.csv", tmp_path / "m2.json", "--audio-column", "clip", "--text-column", "words")
    assert "warning" not in done.out
