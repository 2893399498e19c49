"""Transcripts: beside the audio or in files of their own, repeated, long, changed, or not UTF-8."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.commands.make_manifest.test_formats import make, paths, rejects, write_lines_of
from tests.conftest import read_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli


class TestTexts:
    def test_beside_the_audio(self, audio: Path) -> None:
        (audio / "a/x.txt").write_bytes("\ufeff naïve\r\ntext \n".encode())
        (audio / "b/x.txt").write_bytes(b"\xff\xfe")
        done = make(audio, audio / "m.json", "--text-suffix", ".txt", "--set", "corpus=mine", "--lang", "en")
        assert "warning" not in done.out
        assert "not audio" not in done.out  # the transcripts are not told of
        assert read_lines(audio / "m.json") == [
            {"audio_filepath": "a/x.wav", "duration": 0.5, "text": "naïve text", "lang": "en", "corpus": "mine"}
        ]
        assert [(r["audio_filepath"], r["reject_reason"]) for r in rejects(audio / "m.json")] == [
            ("b/x.wav", "not_utf8"),
            ("b/y.flac", "missing_transcript"),
        ]

    def test_none_beside_the_audio(self, audio: Path) -> None:
        """Most likely the suffix is wrong, so no manifest without a record is made."""
        words = (audio, audio / "m.json", "--text-suffix", ".lab")
        done = make(*words, "--max-rejects", 0.05, code=2)
        assert f"none of the 3 transcripts looked for exists, such as {audio}/a/x.lab; give" in done.error_line
        assert not (audio / "m.json").exists()
        make(*words)
        assert len(rejects(audio / "m.json")) == 3

    def test_two_files_beside_one_transcript(self, audio: Path) -> None:
        write_audio(audio / "a/x.flac", 0.5)
        (audio / "a/x.txt").write_text("whose?")
        (audio / "b/x.txt").write_text("mine")
        (audio / "b/y.txt").write_text("mine too")
        make(audio, audio / "m.json", "--text-suffix", ".txt")
        assert paths(audio / "m.json") == ["b/x.wav", "b/y.flac"]
        assert [r["audio_filepath"] for r in rejects(audio / "m.json")] == ["a/x.flac", "a/x.wav"]
        assert "give them different names, or a CSV" in rejects(audio / "m.json")[0]["reject_detail"]

    def test_three_columns(self, audio: Path, tmp_path: Path) -> None:
        """As in LJSpeech: without a header, and with the text as it is written and as it is read."""
        (audio / "b/x.wav").unlink()
        metadata = write_lines_of(tmp_path / "metadata.csv", 'x|"in 1455," & co|in fourteen fifty-five', "y||and co")
        done = make(audio, tmp_path / "m.json", "--transcripts", metadata, "--lang", "en")
        assert "has two texts for each id: text and normalized_text" in done.out
        assert [{name: record[name] for name in list(record)[2:]} for record in read_lines(tmp_path / "m.json")] == [
            {"text": '"in 1455," & co', "lang": "en", "normalized_text": "in fourteen fifty-five"},
            {"text": "", "lang": "en", "normalized_text": "and co"},
        ]
        for source in (metadata, tmp_path):
            assert f"--transcripts {metadata}" in make(source, tmp_path / "other.json", code=2).error_line

    def test_three_columns_with_a_speaker(self, audio: Path, tmp_path: Path) -> None:
        """As in Piper: the speaker was the text, and the text the normalized one."""
        (audio / "b/x.wav").unlink()
        rows = ["x|ann|a text", "y|ann|b text", "z|ann|c|text"]
        metadata = write_lines_of(audio / "metadata.csv", *rows)
        for source in (metadata, audio):
            advice = make(source, tmp_path / "m.json", code=2).error_line
            assert (
                f"{metadata} is not a source (a list of ids and texts, as in LJSpeech, such as 'x|ann|a text')"
                in advice
            )
        make(audio, tmp_path / "m.json", "--transcripts", metadata)
        assert [(r["text"], r["speaker"]) for r in read_lines(tmp_path / "m.json")] == [
            ("a text", "ann"),
            ("b text", "ann"),
        ]
        write_audio(audio / "z.wav", 0.25)
        make(audio, tmp_path / "m.json", "--transcripts", metadata, "--columns", "id,-,text", "--overwrite")
        assert [record.get("speaker") for record in read_lines(tmp_path / "m.json")] == [None] * 2
        [reject] = rejects(tmp_path / "m.json")
        assert reject["reject_detail"] == "the line 'z|ann|c|text' has 4 columns, the table has 3"

    def test_columns_that_cannot_be_told(self, audio: Path, tmp_path: Path) -> None:
        (audio / "b/x.wav").unlink()
        metadata = write_lines_of(tmp_path / "metadata.csv", "x|yes|ann", "y|yes|ann")
        line = make(audio, tmp_path / "m.json", "--transcripts", metadata, code=2).error_line
        for names in re.findall(r"--columns (\S+)", line):
            make(audio, tmp_path / "m.json", "--transcripts", metadata, "--columns", names, "--overwrite")
            record = read_lines(tmp_path / "m.json")[0]
            assert [record[name] for name in names.split(",")[1:]] == ["yes", "ann"]

    @pytest.mark.parametrize("folder", ["wavs", "wav", "."])
    def test_the_advice_on_ljspeech(self, tmp_path: Path, folder: str) -> None:
        """Its metadata are next to the folder of the recordings, or among them."""
        top = tmp_path / "LJSpeech-1.1"
        for number in range(3):
            write_audio(top / folder / f"LJ001-000{number}.wav", 0.25, seed=number)
        rows = [f"LJ001-000{number}|Text, {number}.|Text, number {number}." for number in range(3)]
        metadata = write_lines_of(top / "metadata.csv", *rows)
        for source in (metadata, top):
            line = make(source, tmp_path / "m.json", code=2).error_line
            command = shlex.split(line[line.index("prepcli make-manifest") :])
            assert prepcli(*command[1:], cwd=tmp_path).code == 0
            assert [(r["text"], r["normalized_text"]) for r in read_lines(tmp_path / "OUT.json")] == [
                tuple(row.split("|")[1:]) for row in rows
            ]

    def test_utf16(self, audio: Path, tmp_path: Path) -> None:
        (tmp_path / "t.txt").write_bytes("x text\ny text\n".encode("utf-16"))
        done = make(audio, tmp_path / "m.json", "--transcripts", tmp_path / "t.txt", code=2)
        assert "t.txt is not lines of text (UTF-16 text); convert it: iconv" in done.error_line

    @pytest.mark.parametrize("line", ["y the text", "y\tthe text", "y|the text", "y.flac|the text"])
    def test_one_stem_twice_is_a_reject(self, line: str, audio: Path, tmp_path: Path) -> None:
        separator = "|" if "|" in line else " "
        table = write_lines_of(tmp_path / "t.txt", f"x{separator}whose?", line, f"unused{separator}text")
        done = make(audio, audio / "m.json", "--transcripts", table)
        assert [record["text"] for record in read_lines(audio / "m.json")] == ["the text"]
        found = rejects(audio / "m.json")
        assert [r["audio_filepath"] for r in found] == ["a/x.wav", "b/x.wav"]
        assert "several records are called x" in found[0]["reject_detail"]
        assert f"1 of 3 lines of {table} matches no audio" in done.out

    def test_two_transcripts_of_one_stem(self, audio: Path, tmp_path: Path) -> None:
        table = write_lines_of(tmp_path / "t.txt", "y one", "y two")
        make(audio / "b", tmp_path / "m.json", "--transcripts", table)
        assert [r["reject_detail"] for r in rejects(tmp_path / "m.json")] == [
            f"there is no line for x in {table}",
            f"{table} has 2 lines for y",
        ]

    def test_long_transcripts(self, audio: Path, tmp_path: Path) -> None:
        table = write_lines_of(tmp_path / "t.txt", f"x {'long ' * 3000}", "y short")
        make(audio / "b", tmp_path / "m.json", "--transcripts", table)
        assert [len(record["text"]) for record in read_lines(tmp_path / "m.json")] == [14999, 5]

    @pytest.mark.parametrize("text", ["of\u2028two lines", "z" * ((1 << 16) - 4)])
    def test_lines_with_bars_end_where_they_end(self, text: str, audio: Path, tmp_path: Path) -> None:
        """Not at other characters that end lines in Unicode, nor where what is looked at ends."""
        table = write_lines_of(tmp_path / "t.txt", f"y|{text}", f"x|{text}")
        make(audio / "b", tmp_path / "m.json", "--transcripts", table)
        records = (tmp_path / "m.json").read_bytes().removesuffix(b"\n").split(b"\n")
        assert [json.loads(record)["text"] for record in records] == [text] * 2

    def test_no_text_at_all_is_said(self, audio: Path) -> None:
        assert "no record has a text: give --text-suffix or --transcripts" in make(audio, audio / "m.json").out

    def test_speakers_by_pattern(self, audio: Path) -> None:
        make(audio, audio / "m.json", "--speaker-pattern", "^(b)/(.)")
        assert [record["speaker"] for record in read_lines(audio / "m.json")] == ["b_x", "b_y"]
        (reject,) = rejects(audio / "m.json")
        assert (reject["audio_filepath"], reject["duration"], reject["reject_reason"]) == (
            "a/x.wav",
            0.5,
            "bad_speaker",
        )


def test_transcripts_that_have_changed(audio: Path) -> None:
    """They are inputs: the run was complete, and the old texts stayed."""
    for name in ("a/x", "b/x"):
        (audio / f"{name}.txt").write_text(f"text of {name}\n")
    words = (audio, audio / "m.json", "--text-suffix", ".txt")
    make(*words)
    (audio / "a/x.txt").touch()
    assert "nothing to do" in make(*words).out
    (audio / "a/x.txt").write_text("another text\n")
    assert f"the transcript {audio}/a/x.txt has changed since" in make(*words, code=2).error_line
    make(*words, "--overwrite")
    assert [record["text"] for record in read_lines(audio / "m.json")] == ["another text", "text of b/x"]
    (audio / "a/x.txt").unlink()
    assert "nothing to do" in make(*words).out


def test_a_missing_transcript_is_tried_again(audio: Path) -> None:
    (audio / "a/x.txt").write_text(" \n")
    (audio / "b/x.txt").write_text("text")
    words = (audio, audio / "m.json", "--text-suffix", ".txt")
    assert "empty_text    transcripts without a word: 1" in make(*words).out
    (audio / "b/y.txt").write_text("late")
    hint = f"when the transcript is there, retry with: prepcli make-manifest {audio} {audio}/m.json --text-suffix .txt"
    again = make(*words).out
    assert again.startswith("make-manifest: nothing to do, ")
    assert f"the transcript {audio}/b/y.txt does not exist" in again
    assert hint in again
    assert hint.partition(",")[0] in prepcli("status", audio / "m.json").out
    done = make(*words, "--retry-rejects")
    assert "retry with" not in done.out
    assert [record["text"] for record in read_lines(audio / "m.json")] == ["", "text", "late"]
    (audio / "b/y.txt").unlink()
    (audio / "b/x.wav").write_bytes(b"")
    make(*words, "--overwrite")
    assert "when the audio or the transcript is repaired or there, retry with: " in make(*words).out


@pytest.mark.parametrize("name", ["list.txt", "table.csv"])
def test_texts_that_are_not_utf8(name: str, audio: Path) -> None:
    rows = {
        "list.txt": [b"a/x.wav|\xff", b"b/x.wav|fine", b"\xff.wav|x"],
        "table.csv": [b"path,text", b"a/x.wav,1\xff", b"b/x.wav,fine", b"\xff.wav,x"],
    }
    (audio / name).write_bytes(b"\n".join(rows[name]))
    make(audio / name, audio / "m.json")
    assert [record["text"] for record in read_lines(audio / "m.json")] == ["fine"]
    assert [r["reject_reason"] for r in rejects(audio / "m.json")] == ["not_utf8"] * 2


def test_names_of_columns_that_are_not_utf8(audio: Path) -> None:
    (audio / "table.csv").write_bytes(b"path,text,te\xff\na/x.wav,1,2\n")
    assert "the header of" in make(audio / "table.csv", audio / "m.json", code=2).error_line
