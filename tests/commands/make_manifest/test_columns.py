"""Tables of records: CSV, TSV, lists with |, JSON lines and audiofolders, their columns, and quotes not closed."""

import csv
import json
import re
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from tests.commands.make_manifest.test_formats import make, rejects, write_lines_of
from tests.conftest import read_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli


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
        assert "columns sentence and transcript; say with --text-column" in done.error_line

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


def texts(out: Path) -> list[tuple[object, ...]]:
    names = ("audio_filepath", "text", "speaker", "lang")
    return [tuple(record.get(name) for name in names) for record in read_lines(out)]


class TestLists:
    @pytest.mark.parametrize("name", ["metadata.csv", "list.txt"])
    def test_the_speaker_in_the_middle(self, audio: Path, name: str) -> None:
        """As in Piper, Coqui and VITS: the speaker was the text of all records, and the text their speaker."""
        rows = ["a/x.wav|0|first text", "b/x.wav|1|second text", "b/y.flac|1|third, text", "a/x.wav|0|fourth text"]
        done = make(write_lines_of(audio / name, *rows), audio / "m.json")
        assert texts(audio / "m.json") == [(*row.split("|")[::2], row.split("|")[1], None) for row in rows]
        assert "column 2 is the speaker, with 2 names in 4 lines" in done.out
        if name == "metadata.csv":
            assert "metadata.csv: column 2 is the speaker, " in make(audio, audio / "m2.json").out

    def test_a_header(self, audio: Path) -> None:
        """It was a reject, and names were fields of the wrong name."""
        rows = ["audio_file|text|speaker_name|emotion_name", "a/x.wav|a text|Ann Smith|calm", "b/x.wav|b"]
        make(write_lines_of(audio / "metadata.csv", *rows), audio / "m.json")
        assert texts(audio / "m.json") == [("a/x.wav", "a text", "Ann Smith", None)]
        assert read_lines(audio / "m.json")[0]["emotion_name"] == "calm"
        [reject] = rejects(audio / "m.json")
        assert reject["reject_detail"] == "the row has 2 columns, the header has 4"

    def test_a_question_and_its_answers(self, audio: Path) -> None:
        rows = ["a/x.wav|yes|ann", "b/x.wav|no|bob"]
        listed = write_lines_of(audio / "list.txt", *rows)
        line = make(listed, audio / "m.json", code=2).error_line
        answers = re.findall(r"--columns (\S+)", line)
        assert answers == ["path,text,speaker", "path,speaker,text"]
        for number, names in enumerate(answers):
            make(listed, audio / f"m{number}.json", "--columns", names)
        assert [texts(audio / f"m{number}.json")[0][1:3] for number in range(2)] == [("yes", "ann"), ("ann", "yes")]

    def test_four_columns(self, audio: Path) -> None:
        listed = write_lines_of(audio / "list.txt", "a/x.wav|ann|EN|a text|7", "b/x.wav|bob|DE|b text|8")
        line = make(listed, audio / "m.json", code=2).error_line
        [names] = re.findall(r"--columns (\S+)", line)
        make(listed, audio / "m.json", "--columns", names)
        assert texts(audio / "m.json")[1] == ("b/x.wav", "b text", None, None)
        make(listed, audio / "m.json", "--columns", "path,speaker,lang,text,take", "--overwrite")
        assert read_lines(audio / "m.json")[1] == {
            "audio_filepath": "b/x.wav",
            "duration": 0.75,
            "text": "b text",
            "speaker": "bob",
            "lang": "DE",
            "take": "8",
        }

    @pytest.mark.parametrize("suffix", ["csv", "tsv"])
    def test_csv_and_tsv_without_a_header(self, audio: Path, suffix: str) -> None:
        """Their first row was the header, and its record was lost or the table refused for its columns."""
        mark = "," if suffix == "csv" else "\t"
        table = write_lines_of(audio / f"t.{suffix}", f"a/x.wav{mark}one", f"b/x.wav{mark}two{mark}three")
        line = make(table, audio / "m.json", code=2).error_line
        [names] = re.findall(r"--columns (\S+)", line)
        make(table, audio / "m.json", "--columns", names)
        assert texts(audio / "m.json") == [("a/x.wav", "one", None, None)]
        assert "has 3 columns, the table has 2" in rejects(audio / "m.json")[0]["reject_detail"]

    def test_columns_where_they_mean_nothing(self, audio: Path) -> None:
        done = make(audio, audio / "m.json", "--columns", "path,text", code=2)
        assert "--columns is for tables without a header" in done.error_line
        table = write_lines_of(audio / "t.csv", "path,text", "a/x.wav,one")
        line = make(table, audio / "m.json", "--columns", "path,text", code=2).error_line
        assert "has a header (path, text); leave out --columns" in line
        listed = write_lines_of(audio / "l.txt", "a/x.wav|b")
        line = make(listed, audio / "m.json", "--columns", "text,text", code=2).error_line
        assert "2 columns with the name text" in line


def test_the_column_of_the_language(audio: Path) -> None:
    table = write_lines_of(audio / "t.csv", "path,text,tongue", "a/x.wav,a,it")
    make(table, audio / "m.json", "--lang-column", "tongue")
    assert texts(audio / "m.json") == [("a/x.wav", "a", None, "it")]
    listed = write_lines_of(audio / "list.txt", "a/x.wav")
    done = make(listed, audio / "m.json", "--lang-column", "tongue", "--overwrite", code=2)
    assert "--lang-column are for tables" in done.error_line


def test_the_numbers_of_rows_that_pandas_writes(audio: Path) -> None:
    make(write_lines_of(audio / "t.csv", ",path,text", "0,a/x.wav,a"), audio / "m.json")
    assert read_lines(audio / "m.json") == [{"audio_filepath": "a/x.wav", "duration": 0.5, "text": "a"}]


def test_words_that_look_like_no_value(audio: Path) -> None:
    make(write_lines_of(audio / "t.csv", "path,text", *(f"a/x.wav,{w}" for w in ("nan", "null", ""))), audio / "m.json")
    assert [record.get("text") for record in read_lines(audio / "m.json")] == ["nan", "null", None]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "list.txt"])
def test_a_nul_character(audio: Path, name: str) -> None:
    mark = {"t.csv": ",", "t.tsv": "\t", "list.txt": "|"}[name]
    rows = ["path,text", "a/x.wav,one", "b/x.wav,t\0wo", "\ufeffb/y.flac,three"]
    write_lines_of(audio / name, *(row.replace(",", mark) for row in rows))
    (audio / name).write_bytes(b"\xef\xbb\xbf" + (audio / name).read_bytes())
    make(audio / name, audio / "m.json")
    assert [record["text"] for record in read_lines(audio / "m.json")] == ["one"]
    found = rejects(audio / "m.json")
    assert [r["reject_reason"] for r in found] == ["bad_field", "missing_audio"]
    assert "has a NUL character" in found[0]["reject_detail"]


class TestObjects:
    def test_values(self, audio: Path) -> None:
        rows = [
            '{"audio": "a/x.wav", "text": NaN, "speaker": null, "n": NaN}',
            '{"audio": {"path": "b/x.wav", "bytes": null}, "text": "b", "speaker": 7}',
            '{"audio": "b/y.flac", "text": 1984}',
            '{"audio": "b/y.flac", "text": ["a"]}',
            '{"audio": "b/y.flac", "text": "c", "speaker": 1.5}',
            '{"audio": null, "text": "d"}',
            '{"audio": NaN, "text": "d"}',
            '{"audio": 5, "text": "d"}',
            '{"audio": "b/y.flac", "text": "e", "duration": true, "offset": 0}',
            '{"audio": "b/y.flac", "text": "f", "duration": 0.5, "offset": 0.25}',
            '{"audio": ',
        ]
        make(write_lines_of(audio / "m.jsonl", *rows), audio / "m.json")
        assert read_lines(audio / "m.json") == [
            {"audio_filepath": "a/x.wav", "duration": 0.5},
            {"audio_filepath": "b/x.wav", "duration": 0.75, "text": "b", "speaker": 7},
            {"audio_filepath": "b/y.flac", "duration": 0.5, "offset": 0.25, "text": "f"},
        ]
        assert [(r["manifest_line"], r["reject_detail"]) for r in rejects(audio / "m.json")] == [
            (3, "text is 1984; it must be a string"),
            (4, 'text is ["a"]; it must be a string'),
            (5, "speaker is 1.5; it must be a string or an integer"),
            (6, "there is no audio"),
            (7, "there is no audio"),
            (8, "audio is 5; it must be a path"),
            (9, "duration is True; it must be a number of seconds"),
            (11, "broken JSON: the line ends too early"),
        ]

    def test_names_that_only_later_rows_have(self, audio: Path) -> None:
        """The first row alone decided, so that later texts had the name of their column."""
        rows = ['{"wav": "a/x.wav"}', '{"wav": "b/x.wav", "sentence": "b", "locale": "it"}']
        make(write_lines_of(audio / "m.jsonl", *rows), audio / "m.json")
        assert texts(audio / "m.json") == [("a/x.wav", None, None, None), ("b/x.wav", "b", None, "it")]

    def test_a_key_of_another_name(self, audio: Path) -> None:
        """As in FunASR."""
        listed = write_lines_of(audio / "m.jsonl", '{"key": "u", "source": "a/x.wav", "target": "a"}')
        line = make(listed, audio / "m.json", code=2).error_line
        assert "(keys key, source, target); name it with --audio-column" in line
        make(listed, audio / "m.json", "--audio-column", "source", "--text-column", "target")
        assert texts(audio / "m.json") == [("a/x.wav", "a", None, None)]


def test_other_columns_that_name_audio_name_the_same_file(audio: Path) -> None:
    """The reference of a voice, from which Qwen3-TTS would take another one, or none."""
    row = {"audio": "a/x.wav", "text": "one", "ref_audio": "b/x.wav", "context_audio_filepath": str(audio / "b/y.flac")}
    write_lines_of(audio / "t.csv", ",".join(row), ",".join(row.values()))
    write_lines_of(audio / "t.jsonl", json.dumps(row), json.dumps(row | {"ref_audio": None}))
    for name in ("t.csv", "t.jsonl"):
        out = audio.parent / "other" / f"{name}.json"
        make(audio / name, out)
        first, *others = read_lines(out)
        assert (first["audio_filepath"], first["ref_audio"]) == ("../audio/a/x.wav", "../audio/b/x.wav")
        assert (out.parent / first["context_audio_filepath"]).samefile(audio / "b/y.flac")
        assert not any("ref_audio" in one for one in others)
        make(audio / name, out.with_name(f"absolute_{name}.json"), "--absolute-paths")
        assert read_lines(out.with_name(f"absolute_{name}.json"))[0]["ref_audio"] == str(audio / "b/x.wav")


class TestAudiofolders:
    def test_splits_at_any_depth(self, audio: Path) -> None:
        write_audio(audio / "data/en/test/deep/z.wav", 0.25)
        write_lines_of(audio / "data/en/test/metadata.csv", "file_name,text", "deep\\z.wav,deep")
        write_lines_of(audio / "a/metadata.csv", "file_name,text", "x.wav,one")
        write_lines_of(audio / "notes/metadata.csv", "author,year", "me,2020")
        (audio / "a/loop").symlink_to(audio)
        done = make(audio, audio.parent / "m.json")
        assert texts(audio.parent / "m.json") == [
            ("audio/a/x.wav", "one", None, None),
            ("audio/data/en/test/deep/z.wav", "deep", None, None),
        ]
        assert "2 metadata files are read (a/metadata.csv, data/en/test/metadata.csv)" in done.out
        make(audio / "data/en/test/metadata.csv", audio.parent / "one.json")
        assert len(read_lines(audio.parent / "one.json")) == 1

    def test_parquet(self, audio: Path) -> None:
        columns = {
            "file_name": ["a/x.wav", None, "b/x.wav"],
            "path": ["/elsewhere/x.wav"] * 3,
            "text": ["one", "two", "three"],
            "score": [1.5, 2.0, float("nan")],
        }
        pyarrow.parquet.write_table(pyarrow.table(columns), audio / "metadata.parquet")
        for source in (audio, audio / "metadata.parquet"):
            out = audio.parent / f"{source.name}.json"
            done = make(source, out)
            assert "is read as audiofolder: " in done.out
            assert [(r["text"], r.get("score"), r["path"]) for r in read_lines(out)] == [
                ("one", 1.5, "/elsewhere/x.wav"),
                ("three", None, "/elsewhere/x.wav"),
            ]
            assert [r["reject_detail"] for r in rejects(out)] == ["there is no file_name"]

    def test_as_hugging_face_datasets_reads_it(self, audio: Path) -> None:
        rows = [{"file_name": "x.wav", "text": "one"}, {"file_name": "../b/y.flac", "text": None}]
        write_lines_of(audio / "a/metadata.jsonl", *map(json.dumps, rows))
        done = make(audio / "a/metadata.jsonl", audio / "m.json")
        assert texts(audio / "m.json") == [("a/x.wav", "one", None, None), ("b/y.flac", None, None, None)]
        assert "is read as audiofolder" in done.out

    def test_two_of_one_folder(self, audio: Path) -> None:
        table = write_lines_of(audio / "metadata.csv", "file_name,text", "a/x.wav,one")
        rows = write_lines_of(audio / "metadata.jsonl", '{"file_name": "b/x.wav"}')
        line = make(audio, audio / "m.json", code=2).error_line
        assert "has both metadata.csv and metadata.jsonl; keep one of them, or name it as SOURCE" in line
        for source in (table, rows):
            make(source, audio / f"{source.suffix[1:]}.json")
        assert texts(audio / "jsonl.json") == [("b/x.wav", None, None, None)]


def test_lines_that_name_no_audio(audio: Path) -> None:
    """They were a list of paths, none of which exists."""
    (audio / "b/x.wav").unlink()
    table = write_lines_of(audio / "texts", "x the text of it", "y another text")
    line = make(table, audio / "m.json", code=2).error_line
    assert "is not a source (lines such as 'x the text of it'); if they are transcripts" in line
    command = re.findall("`(.*?)`", line)[0].replace("FOLDER", str(audio)).split()
    assert prepcli(*command[1:], cwd=audio).code == 0
    assert [record["text"] for record in read_lines(audio / "OUT.json")] == ["the text of it", "another text"]
