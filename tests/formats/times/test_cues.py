"""SRT and WebVTT: the traps of people's files, and the same cues as the packages srt and webvtt-py read."""

import random
from datetime import timedelta
from pathlib import Path

import pytest

from prepcli.errors import RecordRejected
from prepcli.formats.times.cues import note_on_repeated, read_cues
from prepcli.formats.times.timed import Timed
from tests.support.seeds import draw_for

srt = pytest.importorskip("srt")
webvtt = pytest.importorskip("webvtt")
WORDS = ("hello", "world,", "42", "don't", "größer", "你好", "Ünï", "a", "-", "é", "1984.")


def cues(text: str, *, is_vtt: bool = False) -> list[tuple[float, float, str | None]]:
    return [timed[:3] for timed in read_cues(text, "talk.srt", is_vtt=is_vtt).lines]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1\n00:00:01,000 --> 00:00:02,500\none\ntwo\n", [(1, 2.5, "one two")]),
        ("1\n00:00:01.000 --> 00:00:02.500\none\n", [(1, 2.5, "one")]),
        ("00:00:01,000 --> 00:00:02,500\none\n\n00:00:03,000 --> 00:00:04,000\ntwo", [(1, 2.5, "one"), (3, 4, "two")]),
        ("\n\n1\n00:00:01,000-->00:00:02,500 X1:10 X2:20\none\n", [(1, 2.5, "one")]),
        ("1\n100:00:01,000 --> 100:00:02,000\none\n", [(360001, 360002, "one")]),
        ("1\n00:00:01 --> 00:00:02\none\n", [(1, 2, "one")]),
        (
            "1\n00:00:01,000 --> 00:00:02,000\none\n\nmore\n\n2\n00:00:03,000 --> 00:00:04,000\ntwo\n",
            [(1, 2, "one more"), (3, 4, "two")],
        ),
        (
            "1\n00:00:01,000 --> 00:00:02,000\none\n2\n00:00:03,000 --> 00:00:04,000\ntwo\n",
            [(1, 2, "one"), (3, 4, "two")],
        ),
        (
            "00:00:01,000 --> 00:00:02,000\nin\n1984\n\n00:00:03,000 --> 00:00:04,000\ntwo\n",
            [(1, 2, "in 1984"), (3, 4, "two")],
        ),
        (
            "1\n00:00:01,000 --> 00:00:02,000\nin\n1984\n00:00:03,000 --> 00:00:04,000\ntwo\n",
            [(1, 2, "in 1984"), (3, 4, "two")],
        ),
        (
            "00:00:01,000 --> 00:00:02,000\none\n\nmore\n00:00:03,000 --> 00:00:04,000\ntwo\n",
            [(1, 2, "one more"), (3, 4, "two")],
        ),
        (
            "00:00:01,000 --> 00:00:02,000\n1984\n00:00:03,000 --> 00:00:04,000\ntwo\n",
            [(1, 2, "1984"), (3, 4, "two")],
        ),
        ("1\n00:00:01,000 --> 00:00:02,000\n\n2\n00:00:03,000 --> 00:00:04,000\n<i> </i>\n", []),
        (
            '1\n00:00:01,000 --> 00:00:02,000\n{\\an8}<i>a</i> <font color="#fff">b</font> <unk> 1 < 2 &amp;\n',
            [(1, 2, "a b <unk> 1 < 2 &amp;")],
        ),
        # A number without end, and one that is text.
        (f"1\n00:00:01,000 --> 00:00:02,000\none\n\n{'9' * 5000}\n", [(1, 2, f"one {'9' * 5000}")]),
        ("1\n00:00:01,000 --> 00:00:02,000\none\n\n1984\n", [(1, 2, "one 1984")]),
        ("1\n00:00:05,000 --> 00:00:07,000\nb\n\n2\n00:00:01,000 --> 00:00:06,000\na\n", [(5, 7, "b"), (1, 6, "a")]),
    ],
)
def test_srt(text: str, expected: list[tuple[float, float, str]]) -> None:
    assert cues(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WEBVTT\n\n00:01.000 --> 00:02.500\none\n", [(1, 2.5, "one")]),
        (
            "WEBVTT - title\nKind: captions\nLanguage: en\n\nintro\n01:00:01.000 --> 01:00:02.000 align:start\none\n",
            [(3601, 3602, "one")],
        ),
        ("WEBVTT\n00:01.000 --> 00:02.500\none\n", [(1, 2.5, "one")]),
        (
            "WEBVTT\n\nNOTE a\nb\n\nSTYLE\n::cue {}\n\nREGION\nid:x\n\n00:01.000 --> 00:02.000\none\n\nNOTE\nno\n",
            [(1, 2, "one")],
        ),
        (
            "WEBVTT\n\n00:01.000 --> 00:02.000\na &amp; b&nbsp;&lt;c&gt; <00:01.500><c.x> d</c>\n",
            [(1, 2, "a & b <c> d")],
        ),
        (
            "WEBVTT\n\n00:01.000 --> 00:02.000\none\n\nlast words\n\nid 2\n00:03.000 --> 00:04.000\ntwo\n",
            [(1, 2, "one last words"), (3, 4, "two")],
        ),
        # The text of a cue without a blank line after it was taken for the name of the next one.
        (
            "WEBVTT\n\n00:01.000 --> 00:02.000\none\n00:03.000 --> 00:04.000\ntwo\n3\n00:05.000 --> 00:06.000\nend\n",
            [(1, 2, "one"), (3, 4, "two 3"), (5, 6, "end")],
        ),
    ],
)
def test_vtt(text: str, expected: list[tuple[float, float, str]]) -> None:
    assert cues(text, is_vtt=True) == expected


def test_a_voice_is_the_speaker_unless_there_are_several() -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v.loud Esme  Smith>Hi</v>\n\n00:03.000 --> 00:04.000\n<v A>Hi <v B>Ho\n"
    assert read_cues(text, "talk.vtt", is_vtt=True).lines == [Timed(1, 2, "Hi", "Esme Smith"), Timed(3, 4, "Hi Ho")]


def test_lines_that_roll_up_are_read_once() -> None:
    """As YouTube's captions are, and the same as SRT."""
    shown = (
        ("00:00.160", "00:02.629", " \nhello<00:00:00.480><c> and</c><00:00:00.880><c> welcome</c>"),
        ("00:02.629", "00:02.639", "hello and welcome\n "),
        ("00:02.639", "00:04.950", "hello and welcome\nto<00:00:03.000><c> the</c><00:00:03.500><c> show</c>"),
        ("00:04.950", "00:04.960", "to the show\n "),
        ("00:04.960", "00:06.000", "to the show\n[Music]"),
    )
    expected = [(0.16, 2.639, "hello and welcome"), (2.639, 4.96, "to the show"), (4.96, 6.0, "[Music]")]
    blocks = [f"{start} --> {end} align:start position:0%\n{text}\n" for start, end, text in shown]
    assert cues("WEBVTT\nKind: captions\nLanguage: en\n\n" + "\n".join(blocks), is_vtt=True) == expected
    blocks = [
        f"{number}\n00:{start} --> 00:{end}\n{text}\n".replace(".", ",")
        for number, (start, end, text) in enumerate(shown)
    ]
    assert cues("\n".join(blocks)) == expected


def test_words_that_are_highlighted_in_turn_are_one_cue() -> None:
    """As Whisper and whisperX write subtitles with --highlight_words."""
    words = ["the", "long", "way", "home"]
    blocks = []
    for index in range(len(words)):
        text = " ".join(f"<u>{word}</u>" if place == index else word for place, word in enumerate(words))
        blocks.append(f"{index + 1}\n00:00:0{index},000 --> 00:00:0{index + 1},000\n[SPEAKER_01]: {text}\n")
    blocks.append("5\n00:00:05,000 --> 00:00:06,000\nyes\n")
    read = read_cues("\n".join(blocks), "talk.srt", is_vtt=False)
    assert read == ([Timed(0, 4, "the long way home", "SPEAKER_01"), Timed(5, 6, "yes")], 3)


def test_what_is_said_again_stays() -> None:
    for said in (["no", "no", "no", "yes", "yes", "well", "let us see", "good", "good"], ["no", "no", "no"]):
        blocks = [f"{at}\n00:00:0{at},000 --> 00:00:0{at + 1},000\n{text}\n" for at, text in enumerate(said)]
        assert [text for _, _, text in cues("\n".join(blocks))] == said
    for end in ("500", "950", "998"):
        blocks = [f"{at}\n00:00:0{at},000 --> 00:00:0{at},{end}\nno\n" for at in range(9)]
        assert len(cues("\n".join(blocks))) == 9, "with pauses between them"


def test_equal_cues_that_touch_are_one_and_are_counted() -> None:
    """They were one, and nothing said so, also if there were pauses of up to 0.1 s between them."""
    for end in ("000", "001", "999"):
        second = [at + (end != "999") for at in range(5)]
        blocks = [f"{at}\n00:00:0{at},000 --> 00:00:0{second[at]},{end}\nno\n" for at in range(5)]
        read = read_cues("\n".join(blocks), "talk.srt", is_vtt=False)
        assert (len(read.lines), read.num_repeated) == (1, 4)
    assert note_on_repeated(1).startswith("1 cue of subtitles shows lines")
    assert note_on_repeated(1200).startswith("1,200 cues of subtitles show lines of the cue before")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n00:00:01,000 --> 00:00:0x,000\none\n", "talk.srt:2: '00:00:01,000 --> 00:00:0x,000' is not like"),
        ("1\n00:00:01,5 --> 00:00:02,000\none\n", "talk.srt:2"),
        ("1\n00:00:61,000 --> 00:01:02,000\none\n", "talk.srt:2"),
        ("\n1\n00:00:03,000 --> 00:00:02,000\none\n", "talk.srt:3: it ends at 2 s, before it begins at 3 s"),
        (
            "subtitles by x\n\n1\n00:00:01,000 --> 00:00:02,000\none\n",
            "talk.srt:4: there is a text before the first cue",
        ),
        ("no cue at all\n", "it has no cue"),
        ("1\n00:00:01,000 --> 00:00:02,000\none\n\n2\n00:00:0", "it ends within cue 2"),
        ("1\n00:00:01,000 --> 00:00:02,000\none\n\n2\n", "it ends within cue 2"),
    ],
)
def test_damaged_times_are_never_guessed(text: str, message: str) -> None:
    with pytest.raises(RecordRejected, match="bad_field") as rejected:
        cues(text)
    assert message in rejected.value.detail


def random_cues(draw: random.Random) -> list[tuple[int, int, list[str]]]:
    """Cues with a start and an end in milliseconds and lines of text; they may overlap."""
    starts = sorted(
        draw.randrange(0, 400_000_000 if draw.random() < 0.2 else 4_000_000) for _ in range(draw.randrange(1, 8))
    )
    return [
        (
            start,
            start + draw.randrange(1, 9000),
            [" ".join(draw.choices(WORDS, k=draw.randrange(1, 5))) for _ in range(draw.randrange(1, 4))],
        )
        for start in starts
    ]


def test_srt_reads_the_same_cues() -> None:
    draw = draw_for("test_srt_reads_the_same_cues")
    for _ in range(500):
        made = [
            srt.Subtitle(number, timedelta(milliseconds=start), timedelta(milliseconds=end), "\n".join(lines))
            for number, (start, end, lines) in enumerate(random_cues(draw), start=draw.randrange(3))
        ]
        text = srt.compose(made, reindex=False)
        if draw.random() < 0.3:
            text = text.replace(",", ".") if "," not in "".join(cue.content for cue in made) else text
        read = [
            (cue.start.total_seconds(), cue.end.total_seconds(), " ".join(cue.content.split()))
            for cue in srt.parse(text)
        ]
        assert cues(text) == read


def test_webvtt_reads_the_same_cues(tmp_path: Path) -> None:
    draw = draw_for("test_webvtt_reads_the_same_cues")
    path = tmp_path / "talk.vtt"
    for _ in range(300):
        file = webvtt.WebVTT()
        for start, end, lines in random_cues(draw):
            times = [
                f"{at // 3600000:02}:{at // 60000 % 60:02}:{at // 1000 % 60:02}.{at % 1000:03}" for at in (start, end)
            ]
            voice = draw.choice(("", "<v Ann>", "<c.red>"))
            file.captions.append(webvtt.Caption(*times, [voice + lines[0], *lines[1:]]))
        file.save(str(path))
        text = path.read_text()
        for hidden in ("NOTE a comment\nof lines\n\n", "STYLE\n::cue {}\n\n"):
            if draw.random() < 0.5:
                text = text.replace("WEBVTT\n\n", f"WEBVTT\n\n{hidden}", 1)
        path.write_text(text)
        read = [
            (cue.start_in_seconds, cue.end_in_seconds, " ".join(cue.text.split()), cue.voice)
            for cue in webvtt.read(str(path))
        ]
        ours = [timed[:4] for timed in read_cues(text, "talk.vtt", is_vtt=True).lines]
        assert [(int(start), int(end), *rest) for start, end, *rest in ours] == [
            (int(start), int(end), *rest) for start, end, *rest in read
        ]
