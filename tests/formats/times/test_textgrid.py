"""TextGrid: the traps, and the same intervals as the packages praatio and textgrid read."""

from itertools import pairwise
from pathlib import Path

import pytest

from prepcli.errors import RecordRejected
from prepcli.formats.times.recognition import decoded
from prepcli.formats.times.textgrid import read_textgrid
from prepcli.formats.times.timed import Timed
from tests.support.seeds import draw_for

praatio = pytest.importorskip("praatio.textgrid")
textgrid = pytest.importorskip("textgrid")
LABELS = ("", "hello", 'say "hi"', "größer", "你好", "[1]", "x = 3", "! no comment", "two words", "12", "<exists>")
SHORT = """File type = "ooTextFile"
Object class = "TextGrid"

0
2
<exists>
{size}
{tiers}"""


def short(*tiers: str) -> str:
    return SHORT.format(size=len(tiers), tiers="\n".join(tiers))


def tier(name: str, *labels: str, kind: str = "IntervalTier") -> str:
    rows = [f'{number}\n{number + 1}\n"{label}"' for number, label in enumerate(labels)]
    return f'"{kind}"\n"{name}"\n0\n{len(labels)}\n{len(labels)}\n' + "\n".join(rows)


def test_tiers_of_words_give_words_and_those_of_phones_nothing() -> None:
    """As the Montreal Forced Aligner writes them, with one speaker and with several."""
    text = short(tier("words", "hello", "<eps>", "world"), tier("phones", "HH", "AH", "L"))
    assert read_textgrid(text, "x") == [
        Timed(0, 1, " hello", is_word=True),
        Timed(2, 3, " world", is_word=True),
    ]
    text = short(
        tier("ann - words", "a"), tier("ann - phones", "A"), tier("bob - words", "", "b"), tier("bob - phones")
    )
    assert read_textgrid(text, "x") == [
        Timed(0, 1, " a", "ann", is_word=True),
        Timed(1, 2, " b", "bob", is_word=True),
    ]


def test_each_tier_is_a_speaker_if_there_are_several() -> None:
    assert read_textgrid(short(tier("ann", "a", "")), "x") == [Timed(0, 1, "a")]
    assert read_textgrid(short(tier("ann", "a"), tier("bob", "b")), "x") == [
        Timed(0, 1, "a", "ann"),
        Timed(0, 1, "b", "bob"),
    ]


def test_points_and_comments_are_left_out() -> None:
    points = '"TextTier" ! of clicks "not a text"\n"clicks"\n0\n2\n2\n0.5\n"x"\n1.5\n"y"'
    assert read_textgrid(short(points, tier("ann", "a")), "x") == [Timed(0, 1, "a")]
    assert read_textgrid(SHORT.format(size="", tiers="").replace("<exists>", "<absent>"), "x") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (short(tier("ann", "a"))[:-4], "x:14: the TextGrid ends too early"),
        (short(tier("ann", "a")).replace('\n1\n"a"', '\nx\n"a"'), "there is 'a' where a number must be"),
        (short(tier("ann", "a")).replace('0\n1\n"a"', '3\n1\n"a"'), "it ends at 1 s, before it begins at 3 s"),
        (short(tier("ann", "a")).replace("0\n1\n1\n0", "0\n1\n1.5\n0"), "1.5 is not a number of intervals"),
        (short(tier("phones", "a")), "no tier of words or texts, only phones"),
    ],
)
def test_damaged(text: str, message: str) -> None:
    with pytest.raises(RecordRejected) as rejected:
        read_textgrid(text, "x")
    assert message in rejected.value.detail


@pytest.mark.parametrize("form", ["short_textgrid", "long_textgrid"])
def test_praatio_and_textgrid_read_the_same_intervals(tmp_path: Path, form: str) -> None:
    draw = draw_for(f"test_praatio_and_textgrid_read_the_same_intervals {form}")
    path = tmp_path / "talk.TextGrid"
    for _ in range(150):
        grid = praatio.Textgrid()
        for name in draw.sample(("ann", "bob", "utterances"), draw.randrange(1, 4)):
            bounds = sorted({round(draw.uniform(0, 100), draw.randrange(1, 12)) for _ in range(draw.randrange(2, 9))})
            rows = [(a, b, draw.choice(LABELS)) for a, b in pairwise(bounds)]
            if not rows:
                continue
            grid.addTier(praatio.IntervalTier(name, rows, 0, 101))
        if draw.random() < 0.5:
            grid.addTier(praatio.PointTier("clicks", [(1.0, "x"), (2.5, 'y "z"')], 0, 101))
        if not any(isinstance(grid.getTier(name), praatio.IntervalTier) for name in grid.tierNames):
            continue
        grid.save(str(path), form, includeBlankSpaces=True)
        encoding = draw.choice(("utf-8", "utf-8-sig", "utf-16", "utf-16-be"))
        data = path.read_text(encoding="utf-8")
        path.write_bytes(("\ufeff" * (encoding == "utf-16-be") + data).encode(encoding))
        tiers = [tier for tier in map(grid.getTier, grid.tierNames) if isinstance(tier, praatio.IntervalTier)]
        expected = [
            (entry.start, entry.end, entry.label, tier.name if len(tiers) > 1 else None)
            for tier in tiers
            for entry in tier.entries
            if entry.label
        ]
        assert [timed[:4] for timed in read_textgrid(decoded(path.read_bytes(), "x"), "x")] == expected
        path.write_text(data, encoding="utf-8")
        read = praatio.openTextgrid(str(path), includeEmptyIntervals=False)
        other = textgrid.TextGrid.fromFile(str(path)) if form == "long_textgrid" else None
        for name in [tier.name for tier in tiers]:
            ours = [row[:3] for row in expected if row[3] in (name, None)]
            assert [tuple(entry) for entry in read.getTier(name).entries] == ours
            if other is not None:
                (same,) = (tier for tier in other.tiers if tier.name == name)
                rounded = [(round(start, 5), round(end, 5), label) for start, end, label in ours]
                assert [(float(row.minTime), float(row.maxTime), row.mark) for row in same if row.mark] == rounded


PART = SHORT.replace("\n0\n2\n", "\n5\n8.5\n").format(size=1, tiers='"IntervalTier"\n"a"\n5\n8.5\n1\n6\n7.1\n"hi"')


@pytest.mark.parametrize(("seconds", "start"), [(8.5, 6), (8.46, 6), (3.5, 1), (3.55, 1)])
def test_a_part_of_a_recording_counts_from_its_start_or_that_of_the_recording(seconds: float, start: float) -> None:
    """The length of the audio shows it: times were always those of the recording."""
    assert read_textgrid(PART, "x", lambda: seconds) == [Timed(start, round(start + 1.1, 9), "hi")]
    assert read_textgrid(PART, "x") == [Timed(6, 7.1, "hi")]


@pytest.mark.parametrize("seconds", [3.7, 5, 8.3, 60])
def test_a_part_of_a_recording_of_another_length_is_refused(seconds: float) -> None:
    with pytest.raises(RecordRejected, match="bad_field") as rejected:
        read_textgrid(PART, "x", lambda: seconds)
    assert f"x: it lies from 5 to 8.5 s, and its audio lasts {seconds:g} s" in rejected.value.detail
