"""Tables of records as lines of text: how a line is divided into columns, and which column holds what.

A table has a header, or the user names its columns (`--columns`), or its columns are those of a list `path|text`,
`path|text|speaker`, `path|speaker|text`, or `id|text|normalized text`, as content shows. If the content fits several of
these, nothing is guessed: the layout then has no names.
"""

import csv
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from prepcli.errors import UsageError, option
from prepcli.formats.audio_names import is_audio_name
from prepcli.interface.printing import number_of

AUDIO = (
    *("audio_filepath", "file_name", "audio", "path", "file", "filename", "filepath", "file_path"),
    *("wav", "wav_path", "wav_filename", "wav_file", "audio_path", "audio_file", "audio_file_name"),
)
"""Names of columns with the path of the audio, in NeMo, Hugging Face, Common Voice, DeepSpeech and others."""
TEXT = ("text", "sentence", "transcript", "transcription", "normalized_text", "raw_text", "raw_transcription", "txt")
"""Usual names of the column or field with the text: the first that a record has becomes `text`."""
SPEAKER = ("speaker", "speaker_id", "client_id", "spk", "spk_id", "speaker_name")
LANG = ("lang", "language", "locale")
SAMPLE_LINES = 4096
"""Maximum number of lines by which the layout of a table is decided."""
LEFT_OUT = ("", "-")
"""Names in `--columns` for a column that is left out."""
_MAX_NAME = 40
_NO_SPEAKER = re.compile(
    r"[A-Za-z]{2}|[a-z]{2,3}[-_][A-Za-z]{2,4}|[mfMF]|(fe)?male|man|woman|\d*[.,]\d+"
    r"|train(ing)?|dev|test|val(id(ation)?)?|eval"
)
"""Matches short values that repeat and are not speakers: languages, genders, seconds, splits."""


class Layout(NamedTuple):
    """The columns of a table.

    Attributes:
        delimiter: the character between columns.
        names: the name of each column, empty for one that is left out. No names at all: it cannot be decided.
        has_header: whether the first line has the names.
        how: why the columns have these names; empty if they are named.
        has_ids: whether the first column has ids, as in LJSpeech, and no column has paths of audio.
        suggestions: values of `--columns`, if it cannot be decided.
    """

    delimiter: str
    names: tuple[str, ...]
    has_header: bool = False
    how: str = ""
    has_ids: bool = False
    suggestions: tuple[str, ...] = ()

    @property
    def has_quotes(self) -> bool:
        """Whether a cell may be in quotation marks: in CSV, but neither in TSV nor in lists with |."""
        return self.delimiter in ",;"

    def audio_in(self, lines: Sequence[str]) -> list[str]:
        """The paths of audio in the first `lines` of the table."""
        column = next((self.names.index(name) for name in AUDIO if name in self.names), None)
        rows = split_rows(lines[self.has_header :], self.delimiter)
        return [] if column is None else [row[column].strip() for row in rows if len(row) > column]

    def question(self, path: str) -> str:
        """The message for a table whose columns cannot be decided."""
        given = " or ".join(option("--columns", names) for names in self.suggestions)
        return (
            f"{path} has no header, and its lines do not show which column holds what: give {given} (- leaves one out)"
        )


def layout_of(path: str, lines: Sequence[str], columns: str | None = None, delimiter: str | None = None) -> Layout:
    """The layout of the table that begins with `lines`, which are not blank.

    Args:
        path: the path of the table, whose suffix may decide on the delimiter.
        lines: the first lines, at most `SAMPLE_LINES`.
        columns: the names that the user gives, with commas between them (`--columns`).
        delimiter: the character between columns, if it is known.

    Raises:
        UsageError: `columns` does not fit the table.
    """
    mark = delimiter or _delimiter_of(path, lines)
    rows = split_rows(lines, mark)
    first = tuple(cell.strip() for cell in rows[0])
    if is_header(first):
        if columns is not None:
            raise UsageError(f"{path} has a header ({', '.join(first)}); leave out {option('--columns')}")
        return Layout(mark, first, has_header=True)
    count = Counter(map(len, rows)).most_common(1)[0][0]
    rows = [[cell.strip() for cell in row] for row in rows if len(row) == count]
    if columns is not None:
        names = tuple("" if name.strip() in LEFT_OUT else name.strip() for name in columns.split(","))
        if len(names) != count:
            raise UsageError(
                f"the lines of {path} have {number_of(count, 'column')}, and {option('--columns', columns)} names "
                f"{len(names)}; name each in order, - for one to leave out"
            )
        return Layout(mark, names, how=option("--columns"))
    if mark != "|":
        if not any(map(is_audio_name, first)):
            return Layout(mark, first, has_header=True)
        return Layout(mark, (), suggestions=_suggestions(rows, _place_of_audio(rows) or 0))
    return _of_list(rows)


def split_rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """The cells of lines, without lines that have none; at least one row."""
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if delimiter in ",;" else csv.QUOTE_NONE
    text = (line.replace("\0", "") for line in lines)
    try:
        rows = list(csv.reader(text, delimiter=delimiter, quoting=quoting))
    except csv.Error:  # a mark that is not closed swallows the rows after it
        rows = [line.split(delimiter) for line in lines]
    return [row for row in rows if row] or [[""]]


def is_header(cells: Sequence[str]) -> bool:
    """Whether cells are names of columns, as known ones show: one of audio, and one of a text or a speaker."""
    names = {cell.strip() for cell in cells}
    return not names.isdisjoint(AUDIO) and not names.isdisjoint((*TEXT, *SPEAKER))


def _delimiter_of(path: str, lines: Sequence[str]) -> str:
    first = lines[0]
    if path.removesuffix(".gz").lower().endswith(".tsv"):
        return "\t"
    for mark in "\t,;|":
        if is_header(split_rows([first], mark)[0]):
            return mark
    if all("|" in line for line in lines):
        return "|"
    if "\t" in first and "," not in first:
        return "\t"
    return ";" if ";" in first and "," not in first else ","


def _of_list(rows: list[list[str]]) -> Layout:
    """The layout of a list with | and without a header; all rows have equally many columns."""
    count = len(rows[0])
    audio = _place_of_audio(rows)
    has_ids = audio is None
    key = "id" if has_ids else "path"
    used = [number for number in range(count) if number == (audio or 0) or any(row[number] for row in rows)]
    others = [number for number in used if number != (audio or 0)]
    undecided = Layout("|", (), has_ids=has_ids, suggestions=_suggestions(rows, audio or 0, key))
    if audio not in (None, 0):
        return undecided
    names, how = [""] * count, ""
    names[0] = key
    if len(others) == 1:
        names[others[0]] = "text"
    elif len(others) == 2:
        second, third = ([row[number] for row in rows] for number in others)
        columns = _of_two(second, third, has_ids)
        if columns is None:
            return undecided
        names[others[0]], names[others[1]] = columns
        if "speaker" in columns:
            number = names.index("speaker")
            distinct = len({row[number] for row in rows})
            how = f"column {number + 1} is the speaker, with {distinct:,} names in {len(rows):,} lines"
    elif others:
        return undecided
    return Layout("|", tuple(names), how=how, has_ids=has_ids)


def _of_two(second: list[str], third: list[str], has_ids: bool) -> tuple[str, str] | None:
    """The names of the two columns after that of the path or id; None if content does not decide.

    The speaker is the one column that has few, short values without blanks, if the other has texts. Two texts that are
    often equal, or that follow an id, are those of LJSpeech: as it is written, and as it is read.
    """
    speakers = [_may_be_speakers(values) for values in (second, third)]
    texts = [_are_texts(values) for values in (second, third)]
    if speakers == [False, True] and texts[0]:
        return "text", "speaker"
    if speakers == [True, False] and texts[1]:
        return "speaker", "text"
    same = sum(a == b for a, b in zip(second, third, strict=True))
    if not any(speakers) and any(texts) and (has_ids or 10 * same >= len(second)):
        return "text", "normalized_text"
    return None


def _may_be_speakers(values: Sequence[str]) -> bool:
    """Whether each value may name a speaker, and occurs twice on average."""
    present = [value for value in values if value]
    distinct = set(present)
    return (
        0 < 2 * len(distinct) <= len(present)
        and all(len(value) <= _MAX_NAME and not re.search(r"\s", value) for value in distinct)
        and not all(map(_NO_SPEAKER.fullmatch, distinct))
    )


def _are_texts(values: Sequence[str]) -> bool:
    """Whether most values have several words, or are in a writing that has no blanks between words."""
    present = [value for value in values if value]
    return 2 * sum(" " in value or not value.isascii() for value in present) > len(present)


def _place_of_audio(rows: Sequence[Sequence[str]]) -> int | None:
    """The number of the column in which most cells are paths of audio; None if there is none."""
    for number in range(len(rows[0])):
        if 2 * sum(is_audio_name(row[number]) for row in rows) > len(rows):
            return number
    return None


def _suggestions(rows: Sequence[Sequence[str]], audio: int, key: str = "path") -> tuple[str, ...]:
    """Values of `--columns` that fit: the order of text and speaker is open, further columns are left out."""
    count = len(rows[0])
    others = [number for number in range(count) if number != audio]
    longest = max(others, key=lambda number: sum(len(row[number]) for row in rows), default=audio)
    choices: list[dict[int, str]] = [{longest: "text"}]
    if len(others) == 2:
        choices = [dict(zip(others, names, strict=True)) for names in (("text", "speaker"), ("speaker", "text"))]
    return tuple(
        ",".join(key if number == audio else names.get(number, "-") for number in range(count)) for names in choices
    )
