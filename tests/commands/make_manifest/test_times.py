"""`--times`: a record for each line of the texts with times of each recording."""

from pathlib import Path

import pytest
import soundfile

from tests.commands.make_manifest.test_formats import make, rejects, write_lines_of
from tests.conftest import read_lines
from tests.support.running import prepcli

SRT = "1\n00:00:00,100 --> 00:00:00,400\n{0} one\n\n2\n00:00:00,300 --> 00:00:00,500\n<i>{0}</i> two\n"


@pytest.fixture
def times(audio: Path) -> Path:
    """Subtitles for a/x.wav (0.5 s), b/x.wav (0.75 s) and b/y.flac (1 s)."""
    for name in ("a/x", "b/x", "b/y"):
        write_lines_of(audio.parent / f"times/{name}.srt", SRT.format(name))
    return audio.parent / "times"


def test_a_record_for_each_cue(audio: Path, times: Path, tmp_path: Path) -> None:
    (audio / "notes.txt").write_text("x")
    done = make(audio, tmp_path / "m.json", "--times", times, "--set", "lang=en")
    assert "1 file is not audio by its name (1 .txt)" in done.out
    records = read_lines(tmp_path / "m.json")
    assert records[:2] == [
        {"audio_filepath": "audio/a/x.wav", "duration": 0.3, "offset": 0.1, "text": "a/x one", "lang": "en"},
        {"audio_filepath": "audio/a/x.wav", "duration": 0.2, "offset": 0.3, "text": "a/x two", "lang": "en"},
    ]
    assert [record["text"] for record in records[2:]] == ["b/x one", "b/x two", "b/y one", "b/y two"]
    assert soundfile.info(tmp_path / records[0]["audio_filepath"]).duration == 0.5
    listed = write_lines_of(tmp_path / "list.txt", "audio/b/y.flac", "audio/a/x.wav")
    make(listed, tmp_path / "l.json", "--times", times / "b/y.srt")
    assert [record["text"] for record in read_lines(tmp_path / "l.json")] == ["b/y one", "b/y two"]


def test_lines_outside_of_the_audio_follow_the_gate(audio: Path, tmp_path: Path) -> None:
    labels = (
        "-0.005\t0.2\tbefore",
        "0.3\t0.508\tend",
        "0.3\t0.6\tpast",
        "0.6\t0.7\tbehind",
        "-1\t0.2\tearly",
        "0.2\t0.2\tpoint",
    )
    write_lines_of(tmp_path / "times/a/x.txt", *labels)
    done = make(audio / "a", tmp_path / "m.json", "--times", tmp_path / "times")
    assert [(record["offset"], record["duration"], record["text"]) for record in read_lines(tmp_path / "m.json")] == [
        (0.0, 0.195 + 0.005, "before"),
        (0.3, 0.2, "end"),
    ]
    details = {reject["text"]: reject["reject_detail"] for reject in rejects(tmp_path / "m.json")}
    assert set(details) == {"past", "behind", "early"}
    assert details["early"] == "the line 'early' begins 1.000 s before its recording"
    assert "1 segment lay up to 10 ms outside of their recordings" in done.out
    assert "1 segment lay up to 10 ms outside of their files" in done.out


def test_speakers_without_texts_and_segments_to_the_end(audio: Path, tmp_path: Path) -> None:
    write_lines_of(
        tmp_path / "t.rttm",
        "SPEAKER y 1 0.5 0.25 <NA> <NA> ann <NA> <NA>",
        "SPEAKER no 1 0 1 <NA> <NA> bob <NA>",
        "SPEAKER another 1 0 1 <NA> <NA> bob <NA>",
    )
    done = make(audio, tmp_path / "m.json", "--times", tmp_path / "t.rttm")
    assert read_lines(tmp_path / "m.json") == [
        {"audio_filepath": "audio/b/y.flac", "duration": 0.25, "offset": 0.5, "speaker": "ann"}
    ]
    assert f"2 names in {tmp_path / 't.rttm'} match no audio, the first is another" in done.out
    assert "no record has a text" not in done.out
    reasons = [(reject["audio_filepath"], reject["reject_reason"]) for reject in rejects(tmp_path / "m.json")]
    assert reasons == [("audio/a/x.wav", "missing_field"), ("audio/b/x.wav", "missing_field")]
    write_lines_of(tmp_path / "data/segments", "u1 y 0.75 -1", "u2 y 0 0.5")
    write_lines_of(tmp_path / "data/text", "u1 end", "u2 begin")
    make(audio, tmp_path / "k.json", "--times", tmp_path / "data")
    assert [(record["offset"], record["duration"], record["text"]) for record in read_lines(tmp_path / "k.json")] == [
        (0, 0.5, "begin"),
        (0.75, 0.25, "end"),
    ]


def test_segments_name_their_channels(tmp_path: Path) -> None:
    """Records of both sides of a call had no channel, and writers of mono take the first."""
    soundfile.write(tmp_path / "call.wav", [[0.0, 0.1]] * 8000, 8000)
    write_lines_of(tmp_path / "data/segments", "u1 call 0 0.5 0", "u2 call 0.5 1 1")
    write_lines_of(tmp_path / "data/text", "u1 hello", "u2 hi")
    write_lines_of(tmp_path / "list.txt", "call.wav")
    make(tmp_path / "list.txt", tmp_path / "m.json", "--times", tmp_path / "data")
    found = [(record["channel"], record["text"]) for record in read_lines(tmp_path / "m.json")]
    assert found == [(0, "hello"), (1, "hi")]
    turn = "SPEAKER call {0} 0.{0} 0.5 <NA> <NA> {1} <NA> <NA>"
    write_lines_of(tmp_path / "all.rttm", turn.format(1, "ann"), turn.format(2, "bob"))
    make(tmp_path / "list.txt", tmp_path / "r.json", "--times", tmp_path / "all.rttm")
    found = [(record["channel"], record["speaker"]) for record in read_lines(tmp_path / "r.json")]
    assert found == [(0, "ann"), (1, "bob")]


def test_a_line_without_its_text_among_others(audio: Path, tmp_path: Path) -> None:
    """`text` of a data directory lacks an utterance: its record had no text, and nothing said so."""
    write_lines_of(tmp_path / "data/segments", "u1 y 0 0.5", "u2 y 0.5 1")
    write_lines_of(tmp_path / "data/text", "u1 begin")
    make(audio / "b", tmp_path / "m.json", "--times", tmp_path / "data")
    assert [record["text"] for record in read_lines(tmp_path / "m.json")] == ["begin"]
    reject = next(reject for reject in rejects(tmp_path / "m.json") if reject.get("offset"))
    assert (reject["offset"], reject["reject_reason"]) == (0.5, "missing_transcript")
    assert reject["reject_detail"] == "it has times and no text; other lines have texts"


def test_damaged_and_empty_times_reject_their_recording(audio: Path, times: Path, tmp_path: Path) -> None:
    write_lines_of(times / "a/x.srt", "1", "00:00:00,1 --> 00:00:00,400", "text")
    write_lines_of(times / "b/x.srt", "1", "00:00:00,100 --> 00:00:00,400", "")
    make(audio, tmp_path / "m.json", "--times", times)
    assert [record["text"] for record in read_lines(tmp_path / "m.json")] == ["b/y one", "b/y two"]
    first, second = rejects(tmp_path / "m.json")
    assert (first["audio_filepath"], first["reject_reason"]) == ("audio/a/x.wav", "bad_field")
    assert "a/x.srt:2: '00:00:00,1 --> 00:00:00,400' is not like" in first["reject_detail"]
    assert second["reject_detail"] == "the times of b/x.wav have no line with a text"


def test_other_times_are_noticed_when_a_run_is_continued(audio: Path, times: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.json"
    make(audio, out, "--times", times)
    before = out.read_bytes()
    make(audio, out, "--times", times)
    write_lines_of(times / "b/y.srt", SRT.format("other"))
    assert f"{times} has another content" in make(audio, out, "--times", times, code=2).error_line
    assert out.read_bytes() == before


def test_wrong_calls(audio: Path, times: Path, tmp_path: Path) -> None:
    def refused(source: Path, *options: object) -> str:
        return make(source, tmp_path / "m.json", *options, code=2).error_line

    ctm = write_lines_of(tmp_path / "w.ctm", "y 1 0 0.5 word")
    message = refused(audio, "--times", ctm)
    assert f"{ctm} has words with times for b/y.flac" in message or "a/x.wav" in message
    assert "prepcli segment --by times --times" in message
    assert "give --times or --text-suffix, not both" in refused(audio, "--times", times, "--text-suffix", ".txt")
    assert "give --times or --set text=..., not both" in refused(audio, "--times", times, "--set", "text=x")
    assert "--times-format" in refused(audio, "--times-format", "srt")
    table = write_lines_of(tmp_path / "t.csv", "audio_filepath,text", "audio/a/x.wav,a b")
    assert "is read as csv; leave it out, or give the folder" in refused(table, "--times", times)
    assert "does not exist" in refused(audio, "--times", tmp_path / "absent")
    assert not (tmp_path / "m.json").exists()
    assert "--times" in prepcli("make-manifest", "--help").out


def test_times_of_another_unit_or_start_and_cues_that_are_read_once(audio: Path, tmp_path: Path) -> None:
    """As `segment` reads them: nothing is taken for seconds, moved or left out in silence."""
    cue = "{0}\n00:00:00,{0}00 --> 00:00:00,{1}00\nNo.\n"
    write_lines_of(tmp_path / "times/b/y.srt", *(cue.format(at, at + 1) for at in range(5)))
    write_lines_of(tmp_path / "times/b/x.txt", "0\t400\ta", "400\t700\tb")
    head = ('File type = "ooTextFile"', 'Object class = "TextGrid"', "", "5", "5.5", "<exists>", "1")
    write_lines_of(
        tmp_path / "times/a/x.TextGrid", *head, '"IntervalTier"', '"a"', "5", "5.5", "1", "5.1", "5.4", '"hi"'
    )
    done = make(audio, tmp_path / "m.json", "--times", tmp_path / "times")
    places = [(record["offset"], record["duration"], record["text"]) for record in read_lines(tmp_path / "m.json")]
    assert places == [(0.1, 0.3, "hi"), (0.0, 0.5, "No.")]
    (reject,) = rejects(tmp_path / "m.json")
    assert "b/x.txt: its times are whole numbers up to 700, and the audio lasts 0.75 s" in reject["reject_detail"]
    assert "4 cues of subtitles show lines of the cue before" in done.out
