"""CTM, RTTM, Audacity's labels and Kaldi's segments: their traps, and the same rows as lhotse reads."""

import math
from pathlib import Path

import pytest

from prepcli.errors import RecordRejected
from prepcli.formats.times.rows import Row, by_channel, ctm_row, read_audacity, rttm_row, segments_row
from prepcli.formats.times.timed import Timed, text_of
from tests.support.seeds import draw_for


def test_ctm() -> None:
    assert ctm_row("talk 1 0.10 1.20 hello 0.98\n", "x:1") == Row("talk", Timed(0.1, 1.3, " hello", is_word=True), "1")
    assert ctm_row(";; a comment", "x:1") is None
    assert ctm_row("", "x:1") is None
    assert ctm_row("talk 1 0.10 1.20 <eps>", "x:1") is None
    assert ctm_row("talk 1 0.10 0.00 2024", "x:1") == Row("talk", Timed(0.1, 0.1, " 2024", is_word=True), "1")


def test_lines_of_the_nemo_forced_aligner_are_words_or_segments() -> None:
    words = [ctm_row(f"talk 1 {start} 0.50 {word}", "x") for start, word in ((0, "hello"), (1, "world"))]
    assert text_of(by_channel([row for row in words if row])) == "hello world"
    segments = [ctm_row(f"talk 1 {start} 0.50 {text}", "x") for start, text in ((0, "hello<space>world"), (1, "yes"))]
    assert list(by_channel([row for row in segments if row])) == [Timed(0, 0.5, "hello world"), Timed(1, 1.5, "yes")]


@pytest.mark.parametrize(
    ("channels", "taken"),
    [("1", 0), ("A", 0), ("a", 0), ("2", 1), ("B", 1), ("3", 2), ("0", 0), ("12", 0), ("AB", 0), ("01", 0)],
)
def test_a_channel_is_counted_in_one_way(channels: str, taken: int) -> None:
    """NIST counts from 1, or from A; a file with a channel 0 counts from 0. A channel alone was that of each record."""
    rows = [row for channel in channels if (row := ctm_row(f"talk {channel} 0 1 {channel}", "x"))]
    assert [timed.text for timed in by_channel(rows, taken, "x", set(channels))] == [f" {channels[0]}"]
    other = 1 - min(taken, 1)
    if len(channels) > 1:
        assert [timed.text for timed in by_channel(rows, other, "x")] == [f" {channels[1]}"]
        return
    with pytest.raises(RecordRejected, match="missing_field") as rejected:
        list(by_channel(rows, other, "x"))
    why = f"x has times of one channel, {channels}, which counted from 0 is {taken}, and the channel of the record is"
    assert f"{why} {other}: leave it out" in rejected.value.detail
    assert len(list(by_channel(rows, None, "x"))) == 1


@pytest.mark.parametrize("channel", ["<NA>", "-", "9" * 5000])
def test_a_channel_that_is_none_says_nothing(channel: str) -> None:
    rows = [row for row in [ctm_row(f"talk {channel} 0 1 a", "x")] if row]
    assert len(list(by_channel(rows, 1, "x"))) == 1


def test_words_of_two_channels_do_not_mix() -> None:
    rows = [ctm_row(f"talk {channel} 0 1 word", "x") for channel in "AB"]
    assert [timed.speaker for timed in by_channel([row for row in rows if row])] == ["A", "B"]
    assert [timed.speaker for timed in by_channel([row for row in rows[:1] if row])] == [None]


def test_rttm() -> None:
    row = rttm_row("SPEAKER talk 1 0.10 1.20 <NA> <NA> ann <NA> <NA>", "x:1")
    assert row == Row("talk", Timed(0.1, 1.3, None, "ann"), "1")
    assert rttm_row("SPKR-INFO talk 1 <NA> <NA> <NA> unknown ann <NA>", "x:1") is None
    assert rttm_row(";; x", "x:1") is None


def test_segments() -> None:
    values = {("text", "u1"): "hello", ("text", "u2"): "", ("utt2spk", "u1"): "ann"}
    find = lambda table, utterance: values.get((table, utterance))  # noqa: E731
    assert segments_row("u1 talk 0.5 1.5", "x", find) == Row("talk", Timed(0.5, 1.5, "hello", "ann"))
    assert segments_row("u1 talk 0.5 -1 1", "x") == Row("talk", Timed(0.5, math.inf, channel=1), 1)
    assert segments_row("u1 talk 0.5 -1 -1", "x") == Row("talk", Timed(0.5, math.inf))
    assert segments_row("u2 talk 0.5 1.5", "x", find) is None
    assert segments_row("u3 talk 0.5 1.5", "x", find) == Row("talk", Timed(0.5, 1.5))


@pytest.mark.parametrize(
    ("row_of", "line", "message"),
    [
        (ctm_row, "talk 1 0.1 1.2", "x:7: it has 4 columns; a CTM has: recording channel start duration word"),
        (ctm_row, "talk 1 * * <ALT_BEGIN>", "x:7: '*' is not a number of seconds"),
        (ctm_row, "talk 1 nan 1 a", "cannot be times"),
        (ctm_row, "talk 1 1_0 1 a", "'1_0' is not a number"),
        (ctm_row, "talk 1 1.0 -0.5 a", "it ends at 0.5 s, before it begins at 1 s"),
        (rttm_row, "SPEAKER talk 1 0.1 x <NA> <NA> ann", "'x' is not a number"),
        (rttm_row, "SPEAKER talk 1 0.1 1.0", "it has 5 columns"),
        (rttm_row, "talk 1 0.1 1.2 word", "'talk' is not a type of an RTTM"),
        (segments_row, "u talk 2 1", "it ends at 1 s, before it begins at 2 s"),
        (segments_row, "u talk 2", "it has 3 columns"),
        (segments_row, "u talk 1 2 A", "'A' is not a channel, which count from 0"),
        (segments_row, "u talk inf -1", "cannot be times"),
    ],
)
def test_damaged_rows(row_of: object, line: str, message: str) -> None:
    with pytest.raises(RecordRejected) as rejected:
        row_of(line, "x:7")  # type: ignore[operator]
    assert message in rejected.value.detail


def test_audacity() -> None:
    text = "0.5\t1.5\thello\tworld\n\\\t100\t200\n2,5\t3,5\twords\n4\t4\tpoint\n5\t6\t\n7\t8\n"
    assert read_audacity(text, "x") == [Timed(0.5, 1.5, "hello world"), Timed(2.5, 3.5, "words")]
    assert read_audacity("0.5\t1.5\t[[SPEAKER_01]]hello\n", "x") == [Timed(0.5, 1.5, "hello", "SPEAKER_01")]
    for bad, message in (("0 1 text", "x:1: it has no tab"), ("1\t0\ta", "ends at 0"), ("a\t1\tb", "'a' is not")):
        with pytest.raises(RecordRejected) as rejected:
            read_audacity(bad, "x")
        assert message in rejected.value.detail


@pytest.mark.torch
def test_lhotse_reads_the_same_turns_and_words(tmp_path: Path) -> None:
    lhotse = pytest.importorskip("lhotse")
    draw = draw_for("test_lhotse_reads_the_same_turns_and_words")
    path = tmp_path / "x"
    for _ in range(100):
        rows = [
            (
                draw.choice("ab"),
                round(draw.uniform(0, 9000), 3),
                round(draw.uniform(0.01, 9), 2),
                draw.choice(("one", "2", "ö", "ann")),
            )
            for _ in range(draw.randrange(1, 30))
        ]
        lines = [f"SPEAKER {name} 1 {start} {lasts} <NA> <NA> {word} <NA> <NA>\n" for name, start, lasts, word in rows]
        path.write_text("".join(lines))
        read = lhotse.SupervisionSet.from_rttm(path)
        expected = sorted((turn.recording_id, turn.start, round(turn.end, 8), turn.speaker) for turn in read)
        turns = [row for line in lines if (row := rttm_row(line, "x"))]
        assert (
            sorted((row.recording, row.timed.start, round(row.timed.end, 8), row.timed.speaker) for row in turns)
            == expected
        )
        lines = [f"{name} 1 {start} {lasts} {word} 0.9\n" for name, start, lasts, word in rows]
        path.write_text("".join(lines))
        whole = lhotse.SupervisionSet.from_segments(
            lhotse.SupervisionSegment(id=name, recording_id=name, start=0, duration=10000, channel=1) for name in "ab"
        )
        aligned = whole.with_alignment_from_ctm(path)
        words = [
            (turn.recording_id, item.start, round(item.end, 6), item.symbol)
            for turn in aligned
            for item in (turn.alignment or {}).get("word", ())
        ]
        ours = [row for line in lines if (row := ctm_row(line, "x"))]
        assert sorted(
            (row.recording, row.timed.start, round(row.timed.end, 6), text_of([row.timed])) for row in ours
        ) == sorted(words)
