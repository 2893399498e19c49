"""What make-manifest reads: odd names, links, ambiguous names, broken lines, and what it refuses."""

import csv
import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from prepcli.commands.make_manifest import formats
from tests.conftest import Lines, read_lines
from tests.support.audio_files import write_audio
from tests.support.running import Outcome, prepcli


def make(source: Path, out: Path, *options: object, code: int = 0) -> Outcome:
    """Run make-manifest, with any number of rejects allowed."""
    done = prepcli("make-manifest", source, out, "--max-rejects", 1000, *options)
    assert done.code == code, done.err
    return done


def rejects(out: Path) -> Lines:
    return read_lines(out.with_name(out.name + ".prepcli") / "rejects.jsonl")


def paths(out: Path) -> list[str]:
    return [record["audio_filepath"] for record in read_lines(out)]


def write_lines_of(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def audio(tmp_path: Path) -> Path:
    """Two files with one stem, and a third."""
    for number, name in enumerate(("a/x.wav", "b/x.wav", "b/y.flac")):
        write_audio(tmp_path / "audio" / name, 0.5 + number / 4, seed=number)
    return tmp_path / "audio"


class TestFolders:
    def test_order_and_paths(self, audio: Path) -> None:
        write_audio(audio / "a-b/z.wav", 0.1)  # "-" comes before "/"
        make(audio, audio / "manifest.json")
        assert paths(audio / "manifest.json") == ["a-b/z.wav", "a/x.wav", "b/x.wav", "b/y.flac"]
        assert read_lines(audio / "manifest.json")[3] == {"audio_filepath": "b/y.flac", "duration": 1.0}
        foreign = audio.parent / "lists/manifest.json"
        write_lines_of(foreign, "of somebody else")
        refused = make(audio, foreign, code=2).error_line
        assert f"{foreign} exists, and may be yours: " in refused
        assert "Choose another file, or move this one away, and run the same command again" in refused
        assert foreign.read_text() == "of somebody else\n"
        foreign.unlink()
        make(audio, foreign)
        assert paths(audio.parent / "lists/manifest.json")[0] == "../audio/a-b/z.wav"
        make(audio, audio.parent / "absolute.json", "--absolute-paths")
        assert paths(audio.parent / "absolute.json")[0] == str(audio / "a-b/z.wav")

    def test_a_folder_too_large_to_sort_in_memory(self, audio: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        names = sorted(f"{number * 7 % 23}.wav" for number in range(23))
        for name in names:
            write_audio(audio / "many" / name, 0.01)
        monkeypatch.setattr(formats, "SORTED_IN_MEMORY", 4)
        assert list(formats.Walk(str(audio / "many")).files()) == names

    def test_names_and_other_files(self, audio: Path) -> None:
        odd = ["naïve\n目录.wav", 'it\'s "odd", 100%.wav', " blank .WAV", "[0..3].wav", "-rf.wav"]
        for name in odd:
            (audio / name).write_bytes((audio / "a/x.wav").read_bytes())
        for name in ("._x.wav", ".hidden/x.wav", "notes.txt", "out.json.prepcli/x.wav"):
            (audio / name).parent.mkdir(exist_ok=True)
            (audio / name).write_bytes((audio / "a/x.wav").read_bytes())
        done = make(audio, audio / "out.json")
        assert set(paths(audio / "out.json")) == {*odd, "a/x.wav", "b/x.wav", "b/y.flac"}
        assert "1 files are not audio by their name (1 .txt)" in done.out

    def test_a_name_that_is_not_utf8(self, audio: Path) -> None:
        (audio / os.fsdecode(b"\xff.wav")).write_bytes((audio / "a/x.wav").read_bytes())
        make(audio, audio.parent / "m.json")
        assert len(read_lines(audio.parent / "m.json")) == 3
        assert [(r["reject_reason"], r["source_text"]) for r in rejects(audio.parent / "m.json")] == [
            ("not_utf8", "\\xff.wav")
        ]

    def test_links_are_followed_and_loops_are_not(self, audio: Path) -> None:
        (audio / "a/up").symlink_to(audio)
        (audio / "b/self").symlink_to(".")
        (audio / "other").symlink_to(audio / "a")
        (audio / "gone.wav").symlink_to(audio / "nowhere.wav")
        (audio / "loop.wav").symlink_to("loop.wav")
        (audio / "loop").symlink_to("loop")
        done = make(audio, audio / "m.json")
        assert paths(audio / "m.json") == ["a/x.wav", "b/x.wav", "b/y.flac", "other/x.wav"]
        assert "3 links to a folder above themselves were not followed" in done.out
        assert [r["reject_reason"] for r in rejects(audio / "m.json")] == ["missing_audio", "unreadable_audio"]

    def test_paths_hold_through_a_linked_output_folder(self, audio: Path, tmp_path: Path) -> None:
        (tmp_path / "deep/down").mkdir(parents=True)
        (tmp_path / "link").symlink_to(tmp_path / "deep/down")
        make(audio, tmp_path / "link/m.json")
        assert all((tmp_path / "link" / path).exists() for path in paths(tmp_path / "link/m.json"))

    def test_unusable_audio_is_a_reject(self, audio: Path) -> None:
        (audio / "a/cut.wav").write_bytes((audio / "a/x.wav").read_bytes()[:-100])
        (audio / "a/empty.wav").write_bytes(b"")
        make(audio, audio / "m.json")
        found = {r["audio_filepath"]: r["reject_reason"] for r in rejects(audio / "m.json")}
        assert found == {"a/cut.wav": "unreadable_audio", "a/empty.wav": "unreadable_audio"}

    def test_a_base_folder_has_no_effect(self, audio: Path) -> None:
        done = make(audio, audio / "m.json", "--audio-base-dir", audio, code=2)
        assert "--audio-base-dir is for sources that name their audio" in done.error_line

    def test_no_audio(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("x")
        done = make(tmp_path, tmp_path / "m.json", code=2)
        assert "names no audio (1 files are not audio by their name (1 .txt))" in done.error_line


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
            ("b/y.flac", "missing_field"),
        ]

    def test_two_files_beside_one_transcript(self, audio: Path) -> None:
        write_audio(audio / "a/x.flac", 0.5)
        (audio / "a/x.txt").write_text("whose?")
        (audio / "b/x.txt").write_text("mine")
        (audio / "b/y.txt").write_text("mine too")
        make(audio, audio / "m.json", "--text-suffix", ".txt")
        assert paths(audio / "m.json") == ["b/x.wav", "b/y.flac"]
        assert [r["audio_filepath"] for r in rejects(audio / "m.json")] == ["a/x.flac", "a/x.wav"]

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

    @pytest.mark.parametrize("line", ["y the text", "y\tthe text", "y|the text", "y.flac|the text"])
    def test_one_stem_twice_is_a_reject(self, line: str, audio: Path, tmp_path: Path) -> None:
        separator = "|" if "|" in line else " "
        table = write_lines_of(tmp_path / "t.txt", f"x{separator}whose?", line, f"unused{separator}text")
        done = make(audio, audio / "m.json", "--transcripts", table)
        assert [record["text"] for record in read_lines(audio / "m.json")] == ["the text"]
        found = rejects(audio / "m.json")
        assert [r["audio_filepath"] for r in found] == ["a/x.wav", "b/x.wav"]
        assert "several records are called x" in found[0]["reject_detail"]
        assert f"1 of 3 lines of {table} match no audio" in done.out

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


class TestLists:
    def test_a_list_of_paths(self, audio: Path) -> None:
        listed = write_lines_of(audio / "list.txt", "b/y.flac", "", str(audio / "a/x.wav"), "b/x y.wav")
        write_audio(audio / "b/x y.wav", 0.25)
        done = make(listed, audio / "m.json")
        assert paths(audio / "m.json") == ["b/y.flac", "a/x.wav", "b/x y.wav"]
        assert "is read as list: it has one path per line" in done.out

    def test_compressed(self, audio: Path) -> None:
        (audio / "list.txt.gz").write_bytes(gzip.compress(b"b/y.flac\na/x.wav\n"))
        make(audio / "list.txt.gz", audio / "m.json")
        assert paths(audio / "m.json") == ["b/y.flac", "a/x.wav"]

    def test_a_file_list(self, audio: Path) -> None:
        listed = write_lines_of(audio / "list.txt", "b/y.flac|one", "a/x.wav|two|me", "a|b|c|d", "gone.wav|three")
        make(listed, audio / "m.json")
        assert [(r.get("text"), r.get("speaker")) for r in read_lines(audio / "m.json")] == [
            ("one", None),
            ("two", "me"),
        ]
        assert [(r["manifest_line"], r["reject_reason"]) for r in rejects(audio / "m.json")] == [
            (3, "bad_field"),
            (4, "missing_audio"),
        ]

    def test_where_relative_paths_are(self, audio: Path, tmp_path: Path) -> None:
        listed = write_lines_of(audio / "lists/list.txt", "b/y.flac", "a/x.wav")
        done = make(listed, tmp_path / "m.json", code=2)
        assert f"give --audio-base-dir {audio}" in done.error_line
        make(listed, tmp_path / "m.json", "--audio-base-dir", audio)
        assert paths(tmp_path / "m.json") == ["audio/b/y.flac", "audio/a/x.wav"]


class TestKaldi:
    def folder(self, tmp_path: Path, **files: str) -> Path:
        for name, text in files.items():
            write_lines_of(tmp_path / "data/train" / name.replace("_", "."), text)
        return tmp_path / "data/train"

    def test_segments(self, audio: Path, tmp_path: Path) -> None:
        segments = "u1 r 0.25 0.75\nu2 r 0.5 -1\nu3 r 0.9 1.2\nu4 gone 0 1\nu5 r 0.5\nu6 r 0.5 0.1\nu7 r 0 0.1\n"
        segments += "u8 r 0.1 0.3\nu9 r 0.5 0.5"
        text = "u1 one\nu2\nu3 x\nu4 x\nu8 8\nu9 9"
        folder = self.folder(tmp_path, wav_scp=f"r {audio}/b/y.flac", segments=segments, text=text)
        make(folder, tmp_path / "m.json")
        assert read_lines(tmp_path / "m.json") == [
            {"audio_filepath": "audio/b/y.flac", "duration": 0.5, "offset": 0.25, "text": "one", "id": "u1"},
            {"audio_filepath": "audio/b/y.flac", "duration": 0.5, "offset": 0.5, "text": "", "id": "u2"},
            # 0.3 - 0.1 is less
            {"audio_filepath": "audio/b/y.flac", "duration": 0.2, "offset": 0.1, "text": "8", "id": "u8"},
        ]
        reasons = ["beyond_audio", "missing_field", "bad_field", "bad_offset", "missing_field", "bad_offset"]
        found = rejects(tmp_path / "m.json")
        assert [reject["reject_reason"] for reject in found] == reasons
        assert [reject.get("id") for reject in found] == ["u3", "u4", None, None, "u7", None]

    def test_segments_of_a_file_with_two_channels(self, audio: Path, tmp_path: Path) -> None:
        segments = "u1 r 0.25 0.75 1\nu2 r 0.5 -1 0\nu3 r 0 1 left\nu4 r 0 1 0 0"
        folder = self.folder(tmp_path, wav_scp=f"r {audio}/b/y.flac", segments=segments)
        make(folder, tmp_path / "m.json")
        assert [(line["id"], line["channel"]) for line in read_lines(tmp_path / "m.json")] == [("u1", 1), ("u2", 0)]
        details = [reject["reject_detail"] for reject in rejects(tmp_path / "m.json")]
        wanted = "must be: utterance recording start end [channel from 0]"
        assert details == [f"the line has {words} words; it {wanted}" for words in (5, 6)]

    def test_an_utterance_twice(self, audio: Path, tmp_path: Path) -> None:
        folder = self.folder(tmp_path, wav_scp=f"u {audio}/a/x.wav\nu {audio}/b/x.wav\nv {audio}/b/y.flac")
        make(folder, tmp_path / "m.json")
        assert paths(tmp_path / "m.json") == ["audio/b/y.flac"]
        assert len(rejects(tmp_path / "m.json")) == 2

    def test_relative_paths(self, audio: Path, tmp_path: Path) -> None:
        folder = self.folder(tmp_path, wav_scp="u audio/a/x.wav\nv audio/gone.wav")
        done = prepcli("make-manifest", folder, tmp_path / "m.json", cwd=audio)
        assert f"give --audio-base-dir {tmp_path}" in done.error_line
        done = prepcli("make-manifest", folder, tmp_path / "m.json", "--max-rejects", 9, cwd=tmp_path)
        assert paths(tmp_path / "m.json") == ["audio/a/x.wav"]
        assert "Kaldi's relative paths start from" in rejects(tmp_path / "m.json")[0]["reject_detail"]

    def test_commands_are_run_only_if_asked_for(self, audio: Path, tmp_path: Path) -> None:
        scp = f"u/1 cat {audio}/a/x.wav |\nu_1 cat {audio}/b/x.wav |\nu3 cat gone.wav |\nu4 {audio}/x.ark:17"
        folder = self.folder(tmp_path, wav_scp=scp)
        done = make(folder, tmp_path / "m.json", code=2)
        assert "wav.scp:1 is a command, not a file: cat " in done.error_line
        assert "give --run-commands if you trust this file" in done.error_line
        assert not (tmp_path / "m.json.prepcli").exists()
        make(folder, tmp_path / "m.json", "--run-commands")
        made = paths(tmp_path / "m.json")
        assert len(set(made)) == 2
        assert (tmp_path / made[0]).read_bytes() == (audio / "a/x.wav").read_bytes()
        assert made[1] == "m_audio/u_1.wav"
        found = rejects(tmp_path / "m.json")
        assert "cannot be made: `cat gone.wav` ended with 1" in found[0]["reject_detail"]
        assert "archive of Kaldi" in found[1]["reject_detail"]


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


def cut(path: Path, **changes: Any) -> dict[str, Any]:
    source = {"type": "file", "channels": [0], "source": str(path)}
    recording = {"id": "r", "sources": [source], "sampling_rate": 8000, "num_samples": 8000, "duration": 1.0}
    return {"id": "c", "type": "MonoCut", "start": 0, "duration": 1.0, "channel": 0, "recording": recording} | changes


def test_cuts(audio: Path, tmp_path: Path) -> None:
    path = audio / "b/y.flac"
    whole = cut(path)
    speech = {"id": "s", "text": "hi", "speaker": "me", "language": "en", "custom": {"id": "utt7", "snr": 9}}
    part = cut(path, start=0.25, duration=0.5, supervisions=[speech])
    source = {"type": "command", "channels": [0], "source": "cat x |"}
    two = whole["recording"]["sources"] * 2
    bad = [
        cut(path, recording=whole["recording"] | {"sources": [source]}),
        cut(path, recording=whole["recording"] | {"sources": two}),
        cut(path, recording=whole["recording"] | {"transforms": [{"name": "Speed"}]}),
        cut(path, supervisions=[speech, speech]),
        {"type": "MixedCut", "id": "m", "tracks": []},
        {"type": "MonoCut", "id": "n"},
    ]
    lines = [json.dumps(one) for one in (whole, part, *bad)]
    make(write_lines_of(tmp_path / "cuts.jsonl", *lines), tmp_path / "m.json")
    segment = {"audio_filepath": "audio/b/y.flac", "duration": 0.5, "offset": 0.25, "text": "hi", "speaker": "me"}
    assert read_lines(tmp_path / "m.json") == [
        {"audio_filepath": "audio/b/y.flac", "duration": 1.0, "id": "c"},
        segment | {"lang": "en", "id": "utt7", "snr": 9},
    ]
    details = [r["reject_detail"] for r in rejects(tmp_path / "m.json")]
    wanted = ["of type command", "in 2 of the 2 files", "transforms", "2 supervisions", "is a MixedCut", "no recording"]
    assert len(details) == len(wanted)
    assert all(part in detail for part, detail in zip(wanted, details, strict=True))


def test_cuts_of_telephone_calls(tmp_path: Path) -> None:
    """One file with both sides, or one for each; a recording of which no channel is chosen stays whole."""
    left, right = (write_audio(tmp_path / f"{name}.wav", 1.0, seed=seed)[:, None] for seed, name in enumerate("ab"))
    soundfile.write(tmp_path / "both.flac", np.hstack([left, right]), 8000)
    both = cut(tmp_path / "both.flac")["recording"]
    both["sources"][0]["channels"] = [0, 1]
    sides = [
        cut(tmp_path / f"{name}.wav")["recording"]["sources"][0] | {"channels": [c]} for c, name in enumerate("ab")
    ]
    apart = both | {"sources": sides}
    lines = [
        *(cut(tmp_path, recording=one, channel=channel) for one in (both, apart) for channel in (0, 1, 2)),
        cut(tmp_path, recording=both, channel=1, start=0.25, duration=0.5, supervisions=[{"id": "s", "text": "hi"}]),
        both | {"id": "call"},
        apart,
    ]
    make(write_lines_of(tmp_path / "cuts.jsonl", *map(json.dumps, lines)), tmp_path / "m.json")
    named = [
        (line["audio_filepath"], line.get("channel"), line.get("offset")) for line in read_lines(tmp_path / "m.json")
    ]
    whole = [("both.flac", 0, None), ("both.flac", 1, None), ("a.wav", None, None), ("b.wav", None, None)]
    assert named == [*whole, ("both.flac", 1, 0.25), ("both.flac", None, None)]
    details = [reject["reject_detail"] for reject in rejects(tmp_path / "m.json")]
    counts = [(0, 1), (0, 2), (2, 2)]
    assert details == [f"its audio is in {a} of the {b} files of its recording, not in one" for a, b in counts]


def test_a_table_without_a_known_text_column(audio: Path, tmp_path: Path) -> None:
    write_lines_of(audio / "t.csv", "clip,words,who", "a/x.wav,hello,me", "b/y.flac,,me")
    done = make(audio / "t.csv", tmp_path / "m.json", "--audio-column", "clip")
    assert "no record has a text: name its column with --text-column; left over are words, who" in done.out
    done = make(audio / "t.csv", tmp_path / "m2.json", "--audio-column", "clip", "--text-column", "words")
    assert "warning" not in done.out


def test_refused_outputs(audio: Path) -> None:
    assert "is a folder; name a file" in make(audio, audio / "a", code=2).error_line
    swapped = make(audio / "own 9.json", audio / "a", code=2).error_line
    assert f"SOURCE comes first: prepcli make-manifest {audio}/a '{audio}/own 9.json'" in swapped
    listed = write_lines_of(audio / "list.txt", "a/x.wav")
    assert "would replace it" in make(listed, listed, code=2).error_line
    assert "there is no file or folder" in make(audio / "gone", audio / "m.json", code=2).error_line
    for name in ("x.amr", "x.GSM", "x.aac", "x.pcm"):
        (audio / name).write_bytes(b"a recording")
        refused = make(listed, audio / name, "--overwrite", code=2).error_line
        assert "this is a name of audio" in refused
        assert (audio / name).read_bytes() == b"a recording"


def test_a_folder_of_audio_without_headers(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x.pcm").write_bytes(bytes(100))
    words = make(tmp_path / "a", tmp_path / "m.json", code=2).error_line
    assert "1 files are not audio by their name (1 .pcm); audio without a header is not read: convert it" in words


@pytest.mark.parametrize("name", ["list.txt", "table.csv"])
def test_texts_that_are_not_utf8(name: str, audio: Path) -> None:
    rows = {
        "list.txt": [b"a/x.wav|\xff", b"b/x.wav|fine", b"\xff.wav|x"],
        "table.csv": [b"path,te\xffxt", b"a/x.wav,1"],
    }
    (audio / name).write_bytes(b"\n".join(rows[name]))
    make(audio / name, audio / "m.json")
    good = 1 if name == "list.txt" else 0
    assert len(read_lines(audio / "m.json")) == good
    assert {r["reject_reason"] for r in rejects(audio / "m.json")} <= {"not_utf8", "missing_audio"}
    assert len(rejects(audio / "m.json")) == len(rows[name]) - 1 - good + (name == "list.txt")
