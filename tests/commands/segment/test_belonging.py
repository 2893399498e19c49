"""A segment has the text of its own audio: of its channel, of its recording, and all of it."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

from tests.commands.segment.test_command import error_of, rejected, segmented, srt, talk
from tests.conftest import write_lines
from tests.support.running import prepcli

TELEPHONE = "call {} 0.5 0.8 hello\ncall {} 4.0 0.8 hi\n"


@pytest.mark.parametrize("channels", ["12", "AB", "01"])
@pytest.mark.parametrize("form", ["all.ctm", "ctm/call.ctm"])
def test_a_channel_has_its_own_words(tmp_path: Path, channels: str, form: str) -> None:
    """Both sides of a telephone call are in one file; each of two records had the words of both."""
    talk(tmp_path / "call.wav", channels=2)
    times = srt(tmp_path / form, TELEPHONE.format(*channels))
    times = times if form == "all.ctm" else times.parent
    records = [{"audio_filepath": "call.wav", "duration": 12.0, "channel": number} for number in range(2)]
    write_lines(tmp_path / "m.json", records)
    by_times = ("--by", "times", "--times", times)
    _, lines = segmented(tmp_path / "m.json", tmp_path / "out.json", *by_times)
    assert [(line["channel"], line["offset"], line["text"]) for line in lines] == [(0, 0.3, "hello"), (1, 3.8, "hi")]
    _, lines = segmented(tmp_path / "call.wav", tmp_path / "second.json", *by_times, "--channel", 1)
    assert [line["text"] for line in lines] == ["hi"]
    _, lines = segmented(tmp_path / "call.wav", tmp_path / "both.json", *by_times)
    assert [(line["text"], line["speaker"]) for line in lines] == [("hello", channels[0]), ("hi", channels[1])]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("all.ctm", "call 2 4.0 0.8 hi\n"),
        ("all.ctm", "call 1 4.0 0.8 hi\nother 0 4.0 0.8 hi\n"),
        ("data/segments", "u1 call 4.0 4.8 1\n"),
        ("data/segments", "u1 call 4.0 4.8 1\nu2 call 0.5 1.3 0\n"),
    ],
)
def test_a_channel_without_words_has_not_those_of_another(tmp_path: Path, name: str, text: str) -> None:
    """Both records had the words of the one channel; of `segments`, also if there were several channels."""
    talk(tmp_path / "call.wav", channels=2)
    times = srt(tmp_path / name, text)
    srt(tmp_path / "data/text", "u1 hi\nu2 hello\n")
    records = [{"audio_filepath": "call.wav", "duration": 12.0, "channel": number} for number in range(2)]
    write_lines(tmp_path / "m.json", records)
    call = (tmp_path / "m.json", tmp_path / "out.json", "--by", "times", "--times", times, "--max-rejects", 1)
    _, lines = segmented(*call)
    wanted = [(0, "hello"), (1, "hi")] if "hello" in text or "u2" in text else [(1, "hi")]
    assert [(line["channel"], line["text"]) for line in lines] == wanted
    assert [line["channel"] for line in rejected(tmp_path / "out.json")] == ([] if len(wanted) == 2 else [0])


def test_turns_of_two_channels(tmp_path: Path) -> None:
    talk(tmp_path / "call.wav", channels=2)
    turn = "SPEAKER call {} {} 2.0 <NA> <NA> {} <NA> <NA>\n"
    times = srt(tmp_path / "all.rttm", turn.format(1, 0.5, "ann") + turn.format(2, 4.0, "bob"))
    by_times = ("--by", "times", "--times", times)
    for channel, who in enumerate(("ann", "bob")):
        _, lines = segmented(tmp_path / "call.wav", tmp_path / f"{who}.json", *by_times, "--channel", channel)
        assert [line["speaker"] for line in lines] == [who]
    _, lines = segmented(tmp_path / "call.wav", tmp_path / "both.json", *by_times)
    assert [line["speaker"] for line in lines] == ["ann", "bob"]


def test_a_channel_whose_words_are_not_known(tmp_path: Path) -> None:
    talk(tmp_path / "call.wav", channels=2)
    times = srt(tmp_path / "all.ctm", TELEPHONE.format("left", "right"))
    call = (tmp_path / "call.wav", tmp_path / "out.json", "--by", "times", "--times", times, "--channel", 1)
    segmented(*call, "--max-rejects", 1)
    (line,) = rejected(tmp_path / "out.json")
    assert line["reject_reason"] == "bad_field"
    assert "the channel 'left' is neither a number nor a letter" in line["reject_detail"]


def test_ids_that_number_records_are_not_names_of_other_recordings(tmp_path: Path) -> None:
    """Numbers of records from 0, and of files from 1: each record had the words of the file before it."""
    for number in (1, 2, 3):
        talk(tmp_path / f"{number}.wav")
    records = [{"audio_filepath": f"{number}.wav", "duration": 12.0, "id": number - 1} for number in (1, 2, 3)]
    write_lines(tmp_path / "m.json", records)
    times = srt(tmp_path / "all.ctm", "".join(f"{number} 1 0.5 0.8 word{number}\n" for number in (1, 2, 3)))
    _, lines = segmented(tmp_path / "m.json", tmp_path / "out.json", "--by", "times", "--times", times, "--min", 0)
    assert [line["text"] for line in lines] == ["word1", "word2", "word3"]


def test_an_id_and_an_audio_with_different_times(tmp_path: Path) -> None:
    """The recording that is called as the id may not be in the input."""
    talk(tmp_path / "2.wav")
    write_lines(tmp_path / "m.json", [{"audio_filepath": "2.wav", "duration": 12.0, "id": "1"}])
    times = srt(tmp_path / "all.ctm", "1 1 0.5 0.8 one\n2 1 0.5 0.8 two\n")
    call = (tmp_path / "m.json", tmp_path / "out.json", "--by", "times", "--times", times)
    segmented(*call, "--max-rejects", 1)
    (line,) = rejected(tmp_path / "out.json")
    assert "1, the id, and 2, the audio, have times, and one is needed" in line["reject_detail"]


def test_speech_without_its_text_is_in_no_segment(tmp_path: Path) -> None:
    """`text` of a data directory lacks an utterance: a segment had its audio, and the texts around it."""
    talk(tmp_path / "call.wav")
    srt(tmp_path / "data/segments", "u1 call 0.5 2.0\nu2 call 2.2 4.0\nu3 call 4.2 6.0\n")
    srt(tmp_path / "data/text", "u1 hello\nu3 bye\n")
    call = (tmp_path / "call.wav", tmp_path / "out.json", "--by", "times", "--times", tmp_path / "data")
    _, lines = segmented(*call, "--max-rejects", 1)
    assert [(line["offset"], line["duration"], line["text"]) for line in lines] == [
        (0.3, 1.8, "hello"),
        (4.1, 2.1, "bye"),
    ]
    (line,) = rejected(tmp_path / "out.json")
    assert (line["offset"], line["duration"], line["reject_reason"]) == (2.2, 1.8, "missing_transcript")


def test_lengths_at_their_limits(tmp_path: Path) -> None:
    """A window of less than a sample ended in a crash, and with texts never; one that is infinite in a crash."""
    talk(tmp_path / "call.wav", seconds=0.01)
    tiny = ("--by", "windows", "--window", 1e-9, "--min", 0)
    _, lines = segmented(tmp_path / "call.wav", tmp_path / "out.json", *tiny)
    assert len(lines) == 80
    for name in ("min", "max", "join-pause", "pad"):
        why = error_of(tmp_path / "call.wav", tmp_path / "x.json", "--by", "times", f"--{name}", "inf")
        assert f"--{name} inf is above 1e+09 s: lower it" in why
    assert "--window 10000000000.0 is above 1e+09 s" in error_of(
        *(tmp_path / "call.wav", tmp_path / "x.json"), *tiny[:3], 1e10
    )


def test_a_line_beyond_the_end_that_overlaps_another_is_kept_in_no_segment(tmp_path: Path) -> None:
    """With --overlap keep its text was in a segment that has a part of its audio."""
    talk(tmp_path / "call.wav")
    cue = "1\n00:00:0{},000 --> 00:00:{},000\n{}\n\n"
    times = srt(
        tmp_path / "call.srt", cue.format(1, "03", "In.") + cue.format(8, "11", "Too.") + cue.format(9, 14, "Out.")
    )
    call = (tmp_path / "call.wav", tmp_path / "out.json", "--by", "times", "--times", times, "--overlap", "keep")
    _, lines = segmented(*call, "--max-rejects", 1)
    assert [line["text"] for line in lines] == ["In."]
    (line,) = rejected(tmp_path / "out.json")
    assert (line["reject_reason"], line["offset"], line["duration"]) == ("bad_offset", 8.0, 4.0)


def test_a_short_last_window_for_whisper_with_a_line_beyond_the_end(tmp_path: Path) -> None:
    """It ended in a crash: the window that was left out, and the line that was, shared samples."""
    talk(tmp_path / "call.wav", seconds=30.5)
    cues = "1\n00:00:01,000 --> 00:00:02,000\nIn.\n\n2\n00:00:30,200 --> 00:00:33,000\nOut.\n"
    times = srt(tmp_path / "call.srt", cues)
    call = ("--by", "windows", "--whisper-times", "--times", times, "--max-rejects", 1)
    report, lines = segmented(tmp_path / "call.wav", tmp_path / "out.json", *call)
    assert [line["text"] for line in lines] == ["<|1.00|> In.<|2.00|>"]
    assert [(line["offset"], line["duration"]) for line in rejected(tmp_path / "out.json")] == [
        (30.0, 0.2),
        (30.2, 0.3),
    ]
    assert report["details"]["seconds"]["rejects"] == 0.5


def test_a_turn_whose_middle_is_in_the_next_window(tmp_path: Path) -> None:
    """It came last, and lost what it has before another turn of its speaker."""
    talk(tmp_path / "call.wav")
    turn = "SPEAKER call 1 {} {} <NA> <NA> {} <NA> <NA>\n"
    turns = turn.format("5.000", "0.500", "a") + turn.format("5.200", "0.400", "b") + turn.format("4.000", "5.000", "a")
    options = ("--times", srt(tmp_path / "all.rttm", turns), "--window", 6, "--rttm-out", tmp_path / "rttm")
    _, lines = segmented(tmp_path / "call.wav", tmp_path / "out.json", "--by", "windows", *options)
    assert (tmp_path / lines[0]["rttm_filepath"]).read_text() == (
        turn.format("4.000", "2.000", "a") + turn.format("5.200", "0.400", "b")
    )


MILLISECONDS = [
    {"text": word, "start": at, "end": at + 900} for at, word in ((0, "Hello"), (1000, "there."), (9900, "Bye."))
]
"""Words as AssemblyAI has them."""


@pytest.mark.parametrize("where", ["file", "field"])
def test_times_in_milliseconds(tmp_path: Path, where: str) -> None:
    """The first word was 12 s of audio: its end lay beyond the end of the recording, and it was cut there."""
    talk(tmp_path / "call.wav", seconds=1100)
    write_lines(tmp_path / "m.json", [{"audio_filepath": "call.wav", "duration": 1100.0, "words": MILLISECONDS}])
    times = srt(tmp_path / "call.json", json.dumps({"words": MILLISECONDS}))
    more = ("--times", times) if where == "file" else ()
    call = (tmp_path / "m.json", tmp_path / "out.json", "--by", "times", *more)
    segmented(*call, "--max-rejects", 1)
    (line,) = rejected(tmp_path / "out.json")
    assert line["reject_reason"] == "bad_field"
    assert "whole numbers up to 10800, and the audio lasts 1100 s: milliseconds?" in line["reject_detail"]
    srt(times, json.dumps({"words": MILLISECONDS, "audio_duration": 11}))
    talk(tmp_path / "call.wav", seconds=11)
    _, lines = segmented(tmp_path / "call.wav", tmp_path / "read.json", "--by", "times", "--times", times)
    assert [(line["offset"], line["duration"], line["text"]) for line in lines] == [
        (0.0, 2.1, "Hello there."),
        (9.7, 1.3, "Bye."),
    ]


@pytest.mark.parametrize("name", ["all.ctm", "times/call.ctm"])
def test_the_channel_1_alone_is_the_first(tmp_path: Path, name: str) -> None:
    """Both records of a telephone call had the same words."""
    talk(tmp_path / "call.wav", channels=2)
    times = srt(tmp_path / name, "call 1 0.5 1.8 hello\n")
    records = [{"audio_filepath": "call.wav", "duration": 12.0, "channel": number} for number in range(2)]
    write_lines(tmp_path / "m.json", records)
    times = times if name == "all.ctm" else times.parent
    call = (tmp_path / "m.json", tmp_path / "out.json", "--by", "times", "--times", times)
    _, lines = segmented(*call, "--max-rejects", 1)
    assert [(line["channel"], line["text"]) for line in lines] == [(0, "hello")]
    (line,) = rejected(tmp_path / "out.json")
    assert (line["channel"], line["reject_reason"]) == (1, "missing_field")
    why = "has times of one channel, 1, which counted from 0 is 0, and the channel of the record is 1: leave it out"
    assert why in line["reject_detail"]
    _, lines = segmented(tmp_path / "call.wav", tmp_path / "both.json", *call[2:])
    assert [line["text"] for line in lines] == ["hello"], "a record of all channels"


def test_a_textgrid_of_a_part_of_a_longer_recording(tmp_path: Path) -> None:
    talk(tmp_path / "part.wav", seconds=3.5)
    text = 'File type = "ooTextFile"\nObject class = "TextGrid"\n\n5\n8.5\n<exists>\n1\n'
    times = srt(tmp_path / "part.TextGrid", f'{text}"IntervalTier"\n"a"\n5\n8.5\n1\n6\n7.1\n"hi"\n')
    by_times = ("--by", "times", "--times", times)
    _, lines = segmented(tmp_path / "part.wav", tmp_path / "out.json", *by_times)
    assert [(line["offset"], line["duration"]) for line in lines] == [(0.8, 1.5)]
    talk(tmp_path / "part.wav", seconds=9.5)
    segmented(tmp_path / "part.wav", tmp_path / "no.json", *by_times, "--max-rejects", 1)
    assert "neither its end nor its length" in rejected(tmp_path / "no.json")[0]["reject_detail"]


def test_cues_that_are_read_once_are_counted(tmp_path: Path) -> None:
    """Five equal cues that touch were one, and nothing said so."""
    talk(tmp_path / "call.wav")
    cue = "{0}\n00:00:0{0},000 --> 00:00:0{1},000\nNo.\n"
    times = srt(tmp_path / "call.srt", "\n".join(cue.format(at, at + 1) for at in range(5)))
    call = (tmp_path / "call.wav", tmp_path / "out.json", "--by", "times", "--times", times)
    report, lines = segmented(*call)
    assert [(line["duration"], line["text"]) for line in lines] == [(5.2, "No.")]
    note = "4 cues of subtitles show lines of the cue before, as captions that roll up do: they are read once"
    assert report["details"]["repetitions"] == note
    assert note in prepcli("segment", *call, "--dry-run").out
    srt(times, "\n".join(cue.format(at, at).replace("000\n", "950\n") for at in range(5)))
    report, lines = segmented(call[0], tmp_path / "other.json", *call[2:])
    assert [line["text"] for line in lines] == ["No. No. No. No. No."]
    assert "repetitions" not in report["details"]


def test_rows_of_another_recording_in_a_file_of_one_are_counted(tmp_path: Path) -> None:
    """They were left out without a word, because the file also had rows of its own recording."""
    (audio := tmp_path / "audio").mkdir()
    (times := tmp_path / "times").mkdir()
    for name in "ab":
        talk(audio / f"{name}.wav")
        (times / f"{name}.ctm").write_text(f"{name} 1 0.5 2.5 own\n")
    with (times / "a.ctm").open("a") as file:
        file.write("b 1 0.5 2.5 other\n")
    report, lines = segmented(audio, tmp_path / "out.json", "--by", "times", "--times", times)
    assert [line["text"] for line in lines] == ["own", "own"]
    assert report["details"]["rows_of_others"] == "1 row names another recording than the file: left out"


def test_texts_that_cover_little_of_a_recording_are_named(tmp_path: Path) -> None:
    """They are often those of another recording; all but 6 % of one of three hours was left out as pauses."""
    (audio := tmp_path / "audio").mkdir()
    for name, seconds in (("a", 70.0), ("b", 20.0), ("c", 70.0)):
        sf.write(audio / f"{name}.wav", np.zeros(int(seconds * 8000)), 8000)
        end = "00:50,000" if name == "c" else "00:03,000"
        srt(audio / f"{name}.srt", f"1\n00:00:01,000 --> 00:{end}\nWords.\n")
    call = (audio, tmp_path / "out.json", "--by", "times", "--times", audio, "--max", 60)
    report, _ = segmented(*call)
    few = f"it is {audio}/a.wav, with the texts of {audio}/a.srt"
    covers = "the texts of 1 recording cover less than a fifth of it: check that they are its own; "
    assert report["details"]["few texts"] == covers + few, "b is short, and texts cover c"
    assert few in prepcli("segment", *call, "--dry-run").out
    report, _ = segmented(audio / "c.wav", tmp_path / "c.json", *call[2:])
    assert "few texts" not in report["details"]
    srt(audio / "c.srt", "1\n00:00:01,000 --> 00:00:02,000\nWords.\n")
    (audio / "d.wav").write_bytes(b"RIFF")
    report, _ = segmented(audio, tmp_path / "two.json", *call[2:], code=3)
    many = "the texts of 2 recordings cover less than a fifth of them: check that they are their own; the first is "
    assert report["details"]["few texts"] == many + few.removeprefix("it is ")
    assert report["details"]["accounted"].startswith("160.00 s in = ")
    assert report["details"]["accounted"].endswith(" rejects, without 1 record that cannot be read")
