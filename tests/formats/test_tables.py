"""The columns of tables: which delimiter, a header or none, and which column of a list with | is the speaker."""

from collections.abc import Sequence

import pytest

from prepcli.errors import UsageError
from prepcli.formats.tables import Layout, layout_of

TEXTS = [f"this is the text number {number} of many" for number in range(12)]
SPEAKERS = [f"spk{number % 3}" for number in range(12)]
PATHS = [f"wavs/u{number}.wav" for number in range(12)]


def layout(*columns: Sequence[str], path: str = "list.txt", names: str | None = None) -> Layout:
    return layout_of(path, ["|".join(cells) for cells in zip(*columns, strict=True)], names)


def test_two_columns() -> None:
    assert layout(PATHS, TEXTS).names == ("path", "text")
    found = layout([f"u{number}" for number in range(12)], TEXTS)
    assert (found.names, found.has_ids) == (("id", "text"), True)
    assert layout(PATHS, TEXTS, [""] * 12).names == ("path", "text", "")


@pytest.mark.parametrize(
    "speakers",
    [SPEAKERS, [str(number % 4) for number in range(12)], ["one"] * 12, ["张三", "李四"] * 6, [*SPEAKERS[:11], ""]],
)
def test_the_speaker_comes_second_or_third(speakers: list[str]) -> None:
    """As in Piper, Coqui and VITS, and as in lists of prepcli."""
    found = layout(PATHS, speakers, TEXTS)
    assert found.names == ("path", "speaker", "text")
    assert "column 2 is the speaker" in found.how
    assert layout(PATHS, TEXTS, speakers).names == ("path", "text", "speaker")
    chinese = [f"这是第{number}句话" for number in range(12)]
    assert layout(PATHS, chinese, speakers).names == ("path", "text", "speaker")


@pytest.mark.parametrize(
    ("second", "third"),
    [
        (SPEAKERS, ["yes", "no", "stop"] * 4),  # both repeat: words of commands, and speakers
        (["yes", "no", "stop"] * 4, PATHS),  # the speakers do not repeat, and the text does
        (TEXTS, ["en", "de"] * 6),  # languages
        (TEXTS, ["train", "dev", "test"] * 4),
        (TEXTS, ["1.5", "2.5"] * 6),  # seconds
        (TEXTS, ["male", "female"] * 6),
        (TEXTS, [text.upper() for text in TEXTS]),  # which text is meant?
        (TEXTS, [f"s{number}" for number in range(12)]),  # nobody speaks twice
        (TEXTS, ["Ann Smith", "Bob Jones"] * 6),  # a name with blanks may be a text
    ],
)
def test_what_content_does_not_decide(second: list[str], third: list[str]) -> None:
    found = layout(PATHS, second, third)
    assert found.names == ()
    assert found.suggestions == ("path,text,speaker", "path,speaker,text")
    assert "give --columns path,text,speaker or --columns path,speaker,text" in found.question("l.txt")
    for names in found.suggestions:
        assert layout(PATHS, second, third, names=names).names == tuple(names.split(","))


def test_the_texts_of_ljspeech() -> None:
    spoken = [text.replace("number 3", "number three") for text in TEXTS]
    assert layout(PATHS, TEXTS, spoken).names == ("path", "text", "normalized_text")
    found = layout([f"LJ{number}" for number in range(12)], TEXTS, [text.upper() for text in TEXTS])
    assert (found.names, found.has_ids) == (("id", "text", "normalized_text"), True)


def test_more_columns_need_names() -> None:
    """As in Bert-VITS2 and GPT-SoVITS."""
    found = layout(PATHS, SPEAKERS, ["en"] * 12, TEXTS)
    assert (found.names, found.suggestions) == ((), ("path,-,-,text",))
    named = layout(PATHS, SPEAKERS, ["en"] * 12, TEXTS, names="path,speaker,-,text")
    assert named.names == ("path", "speaker", "", "text")
    with pytest.raises(UsageError, match="have 4 columns, and --columns path,text names 2"):
        layout(PATHS, SPEAKERS, ["en"] * 12, TEXTS, names="path,text")
    assert layout(SPEAKERS, PATHS, TEXTS).suggestions == ("text,path,speaker", "speaker,path,text")


@pytest.mark.parametrize(
    ("path", "lines", "delimiter", "has_header"),
    [
        ("t.csv", ["path,text", "a.wav,b|c", "d.wav,e|f"], ",", True),
        ("t.csv", ["audio_file|text|speaker_name", "a.wav|b, c|d"], "|", True),
        ("t.csv", ["path;text", "a.wav;b"], ";", True),
        ("t.csv", ["sound,words", "a.wav,b"], ",", True),
        ("t.csv", ["LJ001|Printing, in the only sense", "LJ002|is, b"], "|", False),
        ("t.tsv", ["path\ttext, so", "a.wav\tb"], "\t", True),
        ("t.csv", ["path\ttext", "a.wav\tb"], "\t", True),
    ],
)
def test_delimiters(path: str, lines: list[str], delimiter: str, has_header: bool) -> None:
    found = layout_of(path, lines)
    assert (found.delimiter, found.has_header) == (delimiter, has_header)


def test_csv_without_a_header() -> None:
    found = layout_of("t.csv", ["a.wav,hello", "b.wav,you"])
    assert (found.names, found.suggestions) == ((), ("path,text",))
    assert layout_of("t.csv", ["a.wav,hello"], "path,text") == Layout(",", ("path", "text"), how="--columns")
    with pytest.raises(UsageError, match="has a header"):
        layout_of("t.csv", ["path,text", "a.wav,hello"], "path,text")
