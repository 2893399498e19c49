"""The times of recordings are found by name, in folders and in files of one or many."""

import gzip
import json
from pathlib import Path

import pytest

from prepcli.errors import InputChangedError, RecordRejected, UsageError
from prepcli.formats.times.timed import Timed
from prepcli.formats.times.times import Times, notes_on_left_out

SRT = "1\n00:00:03,000 --> 00:00:04,000\nlater\n\n2\n00:00:01,000 --> 00:00:02,000\n{}\n"
VTT = "WEBVTT\n\n00:01.000 --> 00:02.000\n{}\n"
CTM = ";; words\ntalk 1 1.0 0.5 two\nother 1 0.0 0.5 x\ntalk 1 0.0 0.5 one\n"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, text: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")
    return path


def texts(times: Times, path: str, id: str | None = None) -> list[str | None]:
    return [timed.text for timed in times.of(path, id)]


def rejected(times: Times, path: str, id: str | None = None, channel: int | None = None, seconds: float = 9.0) -> str:
    with pytest.raises(RecordRejected) as error:
        times.of(path, id, channel, lambda: seconds)
    return str(error.value)


def test_a_folder_with_a_file_for_each_recording() -> None:
    """By the path below the folder; else by the name alone, if no other file has it."""
    for name in ("a/talk", "b/talk", "c/deep/one"):
        write(f"times/{name}.srt", SRT.format(name))
    write("times/four.wav.vtt", VTT.format("four"))
    write("times/a/talk.wav", "audio")
    write("times/five.wav", "audio")
    write("times/a/talk.txt", "a plain text has no times")
    audio = ["a/talk.wav", "b/talk.wav", "c/talk.wav", "x/one.flac", "four.wav", "five.wav"]
    times = Times("times", "auto", audio)
    assert list(times.unused()) == ["four.wav.vtt", "a/talk.srt", "b/talk.srt", "c/deep/one.srt"]
    before = times.inputs
    assert texts(times, "a/talk.wav") == ["a/talk", "later"]
    assert texts(times, "b/talk.wav") == ["b/talk", "later"]
    assert texts(times, "x/one.flac") == ["c/deep/one", "later"]
    assert texts(times, "four.wav") == ["four"]
    assert (
        rejected(times, "c/talk.wav") == "missing_field: there are no times for c/talk, c/talk.wav: looked for in times"
    )
    assert rejected(times, "five.wav") == "missing_field: there are no times for five, five.wav: looked for in times"
    assert list(times.unused()) == []
    read = times.inputs
    assert read != before
    write("times/a/talk.srt", SRT.format("changed"))
    again = Times("times", "auto", audio)
    for path in ("a/talk.wav", "b/talk.wav", "x/one.flac", "four.wav"):
        again.of(path)
    assert again.inputs[0].sha256 != read[0].sha256


def test_folders_are_walked_as_those_of_audio_are() -> None:
    """Links are followed, but no loops; hidden files and the state of runs are left out."""
    write("elsewhere/deep/talk.srt", SRT.format("linked"))
    write("times/.hidden.srt", SRT.format("x"))
    write("times/m.json.prepcli/report.json", "{}")
    Path("times/link").symlink_to("../elsewhere")
    Path("elsewhere/loop").symlink_to("../times")
    times = Times("times", "auto", ["talk.wav"])
    assert list(times.unused()) == ["link/deep/talk.srt"]
    assert texts(times, "talk.wav") == ["linked", "later"]


def test_a_file_that_changes_during_the_run_stops_it() -> None:
    path = write("times/talk.srt", SRT.format("a"))
    times = Times("times", "auto", ["talk.wav"])
    times.of("talk.wav")
    write(path, SRT.format("b"))
    with pytest.raises(InputChangedError, match=r"times/talk.srt was changed during the run"):
        times.of("talk.wav")


def test_a_file_in_no_known_form_is_named() -> None:
    write("times/talk.srt", "")
    write("times/talk.tsv", "start\tend\ttext\n0\t1500\thello\n")
    detail = rejected(Times("times", "auto", ["talk.wav"]), "talk.wav")
    assert "talk.srt has no times in a form that is known; talk.tsv has no times in" in detail
    write("times/talk.vtt", VTT.format("a"))
    assert "talk.vtt has no times in the form json" in rejected(Times("times", "json", ["talk.wav"]), "talk.wav")


def test_two_files_of_a_recording_are_a_reject_that_names_both() -> None:
    write("times/talk.srt", SRT.format("a"))
    write("times/talk.vtt", VTT.format("a"))
    detail = rejected(Times("times", "auto", ["talk.wav"]), "talk.wav")
    assert "times/talk.srt and times/talk.vtt both have its times" in detail
    assert "give --times-format srt or --times-format vtt" in detail
    assert texts(Times("times", "vtt", ["talk.wav"]), "talk.wav") == ["a"]
    write("times/b/one.srt", SRT.format("a"))
    write("times/c/one.srt", SRT.format("a"))
    assert "move one away" in rejected(Times("times", "auto", ["one.wav"]), "one.wav")


def test_a_stem_of_several_recordings_matches_none_of_them() -> None:
    write("talk.ctm", CTM)
    times = Times("talk.ctm", "auto", ["a/talk.wav", "b/talk.wav", "a/talk.wav"])
    assert rejected(times, "a/talk.wav").startswith("missing_field")
    assert texts(times, "a/talk.wav", "talk") == [" one", " two"], "an id is the recording's own"
    assert texts(Times("talk.ctm", "auto", ["a/talk.wav", "a/talk.wav"]), "a/talk.wav") == [" one", " two"]


def test_two_encodings_of_a_recording_have_no_times() -> None:
    """As with transcripts beside the audio: it cannot be known whose they are. The whole name decides."""
    write("times/talk.srt", SRT.format("a"))
    times = Times("times", "auto", ["talk.wav", "talk.flac"])
    assert rejected(times, "talk.wav").startswith("missing_field")
    write("times/talk.flac.srt", SRT.format("b"))
    times = Times("times", "auto", ["talk.wav", "talk.flac"])
    assert texts(times, "talk.flac") == ["b", "later"]


def test_the_path_goes_before_a_name() -> None:
    write("all.ctm", CTM)
    times = Times("all.ctm", "auto", ["talk.wav", "a/talk.wav"])
    assert texts(times, "talk.wav") == [" one", " two"]
    assert rejected(times, "a/talk.wav").startswith("missing_field")


def test_a_file_of_many_recordings() -> None:
    write("all.ctm", CTM + "a/deep 1 0 1 path\nn1 1 0 1 id\nbad 1 0 1 fine\nbad 1 x 1 damaged\n")
    times = Times("all.ctm", "auto", ["talk.wav", "a/deep.wav", "y.wav", "bad.wav"])
    assert times.of("talk.wav") == [Timed(0, 0.5, " one", is_word=True), Timed(1, 1.5, " two", is_word=True)]
    assert texts(times, "a/deep.wav") == [" path"]
    assert texts(times, "y.wav", "n1") == [" id"]
    assert "bad_field: all.ctm:8: 'x' is not a number of seconds" in rejected(times, "bad.wav")
    assert "no times for z, y, y.wav: looked for in all.ctm" in rejected(times, "y.wav", "z")
    assert list(times.unused()) == ["other"]
    (file,) = times.inputs
    assert file.path == "all.ctm"
    assert file.state is not None


def test_a_data_directory_of_kaldi() -> None:
    write("data/segments", "u1 talk 1.0 2.0\nu2 talk 0.0 1.0\nu3 x 0 1\n")
    write("data/text", "u1 hello  world\nu2 yes\n")
    write("data/utt2spk", "u1 ann\nu2 bob\n")
    for path in ("data", "data/segments"):
        times = Times(path, "auto", ["talk.wav"])
        assert times.form == "kaldi"
        assert times.of("talk.wav") == [Timed(0, 1, "yes", "bob"), Timed(1, 2, "hello world", "ann")]
        assert [file.path for file in times.inputs] == ["data/segments", "data/text", "data/utt2spk"]
    assert Times("data", "auto", []).of("x.wav") == [Timed(0, 1)]


@pytest.mark.parametrize("is_list", [True, False])
def test_results_of_funasr_for_many_recordings(is_list: bool) -> None:
    results = [{"key": key, "text": f"{key} 好", "timestamp": [[0, 500], [500, 900]]} for key in ("talk", "b", "b")]
    write("all.json", json.dumps(results, indent=1) if is_list else "\n".join(map(json.dumps, results)))
    times = Times("all.json", "auto", ["talk.wav", "b.wav"])
    (line,) = times.of("talk.wav")
    assert line[:3] == (0, 0.9, "talk 好")
    assert len(line.words) == 2
    assert "several objects have the key b" in rejected(times, "b.wav")


def test_a_file_of_one_recording_is_for_its_name_or_for_the_only_one() -> None:
    write("talk.srt", SRT.format("a"))
    several = Times("talk.srt", "auto", ["talk.wav", "other.wav"])
    assert texts(several, "talk.wav") == ["a", "later"]
    assert "talk.srt has the times of one recording" in rejected(several, "other.wav")
    assert texts(Times("talk.srt", "auto", ["other.wav"] * 2), "other.wav") == ["a", "later"]


def test_encodings() -> None:
    Path("talk.srt").write_bytes(SRT.format("größer").encode("utf-16"))
    assert texts(Times("talk.srt", "auto", ["talk.wav"]), "talk.wav") == ["größer", "later"]
    Path("talk.srt").write_bytes(SRT.format("größer").encode("latin-1"))
    assert "not_utf8" in rejected(Times("talk.srt", "srt", ["talk.wav"]), "talk.wav")
    Path("x.ctm").write_bytes(CTM.encode("utf-16"))
    with pytest.raises(UsageError, match=r"x.ctm is UTF-16; convert it: iconv -f UTF-16"):
        Times("x.ctm", "auto", ["talk.wav"])
    Path("x.ctm").write_bytes(b"talk 1 0 1 gr\xf6\xdfer\nother 1 0 1 x\n")
    times = Times("x.ctm", "ctm", ["talk.wav", "other.wav"])
    assert texts(times, "other.wav") == [" x"]
    assert "not_utf8" in rejected(times, "talk.wav")


def test_halves_of_characters_and_broken_json_are_rejects() -> None:
    write("talk.json", json.dumps({"segments": [{"start": 0, "end": 1, "text": "a\ud800"}]}))
    assert "talk.json: it is not JSON" in rejected(Times("talk.json", "auto", ["talk.wav"]), "talk.wav")
    write("talk.json", '{"segments": [')
    assert "talk.json: it is not JSON" in rejected(Times("talk.json", "auto", ["talk.wav"]), "talk.wav")
    write("talk.json", "[" * 100_000)
    assert "talk.json: it is not JSON" in rejected(Times("talk.json", "auto", ["talk.wav"]), "talk.wav")


def test_a_file_that_cannot_be_read_is_an_error_and_not_a_missing_file() -> None:
    """A reject would lose the recording because a disk failed for a moment."""
    Path("times").mkdir()
    Path("times/talk.srt").symlink_to("/proc/self/mem")  # to read it fails with EIO
    Path("times/other.srt").symlink_to("nowhere")
    times = Times("times", "auto", ["talk.wav", "other.wav"])
    with pytest.raises(OSError, match=r"Input/output error: 'times/talk\.srt'"):
        times.of("talk.wav")
    assert "there are no times for other" in rejected(times, "other.wav")
    assert list(times.unused()) == []


def test_another_encoding_is_named_and_not_a_missing_file() -> None:
    Path("times").mkdir()
    Path("times/talk.srt").write_bytes(SRT.format("größer\n" * 3).encode("latin-1"))
    for path in ("times", "times/talk.srt"):
        reject = rejected(Times(path, "auto", ["talk.wav"]), "talk.wav")
        assert "not_utf8: times/talk.srt is not UTF-8; convert it: iconv" in reject


@pytest.mark.parametrize(
    ("path", "format", "message"),
    [
        ("absent", "auto", "--times absent does not exist; give a folder or a file with times"),
        ("empty", "auto", "empty has no files with times"),
        ("plain.txt", "auto", "plain.txt has no times in a form that is known .*; name its form with --times-format"),
        ("talk.srt", "json", "talk.srt is srt, not json; leave out --times-format"),
        ("x.ctm.gz", "auto", "x.ctm.gz is compressed; unpack it first"),
        ("s3://bucket/talk.srt", "auto", "lies in a store; copy it"),
    ],
)
def test_wrong_calls(path: str, format: str, message: str) -> None:
    Path("empty").mkdir()
    Path("x.ctm.gz").write_bytes(gzip.compress(CTM.encode()))
    write("plain.txt", "a plain text\n")
    write("talk.srt", SRT.format("a"))
    with pytest.raises(UsageError, match=message):
        Times(path, format, ["talk.wav"])


FORMS_IN_MS = {
    "talk.json": json.dumps(
        {"words": [{"text": text, "start": at, "end": at + 400} for at, text in ((0, "a"), (8600, "b"))]}
    ),
    "talk.txt": "0\t400\ta\n8600\t9000\tb\n",
    "talk.ctm": "talk 1 0 400 a\ntalk 1 8600 400 b\n",
    "all.json": json.dumps([{"key": "talk", "segments": [{"start": 0, "end": 9000, "text": "a"}]}, {"key": "x"}]),
}


@pytest.mark.parametrize("name", FORMS_IN_MS)
def test_whole_numbers_far_beyond_the_end_may_be_milliseconds(name: str) -> None:
    """The first line was read as 400 s of audio."""
    times = Times(write(name, FORMS_IN_MS[name]), "auto", ["talk.wav"])
    detail = rejected(times, "talk.wav", seconds=9.0)
    assert "bad_field" in detail and f"{name}" in detail
    assert "its times are whole numbers up to 9000, and the audio lasts 9 s: milliseconds? Seconds are read;" in detail
    assert "" not in texts(times, "talk.wav"), "without the length of the audio"
    assert times.of("talk.wav", seconds=lambda: 4500.0), "lines beyond the end are rejects of their own"


def test_the_audio_is_measured_only_where_it_may_decide() -> None:
    def seconds() -> float:
        raise AssertionError

    write("talk.srt", SRT.format("a").replace(",000", ",500", 1).replace("00:00:04", "01:00:04"))
    assert len(Times("talk.srt", "auto", ["talk.wav"]).of("talk.wav", seconds=seconds)) == 2


def test_a_file_that_names_another_recording() -> None:
    """The words of b were those of a, because its file is called so."""
    write("times/a.ctm", "b 1 0.0 0.5 one\n")
    write("times/c.rttm", "SPEAKER b 1 0 1 <NA> <NA> ann <NA> <NA>\n")
    times = Times("times", "auto", ["a.wav", "c.wav"])
    assert rejected(times, "a.wav").endswith("there are no times for a, a.wav: times/a.ctm names b, and none of these")
    assert "c.rttm names b" in rejected(times, "c.wav")
    assert texts(times, "a.wav", "b") == [" one"], "the id of the record"


def test_rows_of_others_in_a_file_of_one_are_counted() -> None:
    write("times/a.ctm", "a 1 0.0 0.5 one\nb 1 0.0 0.5 two\nb 1 0.5 0.5 three\n")
    write("times/b.ctm", "b 1 0.0 0.5 four\n")
    times = Times("times", "auto", ["a.wav", "b.wav"])
    assert texts(times, "b.wav") == [" four"]
    assert notes_on_left_out(times.left_out) == {}
    assert texts(times, "a.wav") == [" one"]
    (note,) = notes_on_left_out(times.left_out).values()
    assert note == "2 rows name another recording than the file: left out"


@pytest.mark.parametrize("name", ["a b", "a_b", "a b.wav", "/data/x/a b.wav", "d/a b"])
def test_a_file_that_names_its_recording_in_some_way(name: str) -> None:
    """Rows have no blanks in names; `a b` exists twice, so that its stem does not name it."""
    write("times/d/a b.ctm", f"{name.replace(' ', '_')} 1 0.0 0.5 one\n")
    times = Times("times", "auto", ["d/a b.wav", "e/a b.wav"])
    assert texts(times, "d/a b.wav") == [" one"]


@pytest.mark.parametrize("table", ["segments", "text", "utt2spk"])
def test_an_utterance_twice_in_a_data_directory(table: str) -> None:
    """Both segments had the text of the first one."""
    write("data/segments", "u1 talk 1.0 2.5\nu2 talk 0.0 1.0\nu3 x 0 1.5\n")
    write("data/text", "u1 hello world\nu2 yes\nu3 no\n")
    write("data/utt2spk", "u1 ann\nu2 bob\nu3 ann\n")
    with Path("data", table).open("a") as file:
        file.write("u1 x 3.0 3.5\n")
    times = Times("data", "auto", ["talk.wav", "x.wav"])
    detail = rejected(times, "talk.wav")
    assert f"bad_field: data/{table}:4: the utterance u1 has a line before, 1, and one is needed" in detail
    if table == "segments":
        assert "data/segments:4: the utterance u1" in rejected(times, "x.wav")
    else:
        assert texts(times, "x.wav") == ["no"]


@pytest.mark.parametrize("form", ["all.rttm", "times/talk.rttm", "all.ctm"])
def test_items_have_the_channels_that_a_file_names(form: str) -> None:
    """Records of `make-manifest` of both sides of a call had no channel, as it was with `segments` of Kaldi."""
    row = "talk {0} {0} 1 <NA> <NA> {1} <NA> <NA>" if form.endswith("rttm") else "talk {0} {0} 1 {1}"
    kind = "SPEAKER " if form.endswith("rttm") else ""
    both = [kind + row.format(channel, who) + "\n" for channel, who in ((1, "ann"), (2, "bob"))]
    path = write(form, "".join(both))
    times = Times("times" if "/" in form else path, "auto", ["talk.wav", "other.wav"])
    assert [(timed.start, timed.channel) for timed in times.of("talk.wav")] == [(1, 0), (2, 1)]
    path = write(form, both[1])
    times = Times("times" if "/" in form else path, "auto", ["talk.wav", "other.wav"])
    assert [timed.channel for timed in times.of("talk.wav")] == [1]
    path = write(form, both[0])
    times = Times("times" if "/" in form else path, "auto", ["talk.wav", "other.wav"])
    assert [timed.channel for timed in times.of("talk.wav")] == [None], "each CTM has the channel 1"
