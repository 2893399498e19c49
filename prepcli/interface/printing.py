"""Makes names and texts from data safe to print: the terminal shows control characters and does not execute them."""

import os
import shlex
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

_ESCAPED = ("Cc", "Cs", "Zl", "Zp")
"""Unicode categories: control characters, lone surrogates (which UTF-8 cannot encode), and separators of lines and of
paragraphs."""
_SINGULAR = {"are": "is", "have": "has", "were": "was", "do": "does"}
_REORDERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that reverse the order of the following ones, so that a name looks like another name."""
_BYTE_ORDER_MARK = "\ufeff"
"""An invisible character, which comes into names by mistake: some programs begin a file with it."""


def printable(text: str) -> str:
    r"""Return `text` as one line, with control characters as Python writes them: `\x1b`, `\n`, `\udcff`.

    Letters of all scripts stay, as do joiners and all kinds of spaces.
    """
    if text.isprintable():
        return text
    return "".join(ascii(char)[1:-1] if _is_escaped(char) else char for char in text)


def as_text(lines: Iterable[str]) -> str:
    """Join lines; control characters in them are escaped, so each stays one line."""
    return "\n".join(map(printable, lines))


def number_of(count: float, noun: str, verb: str = "") -> str:
    """A count with its noun in the singular or plural, and perhaps a verb: `1 record has`, `2,000 records have`.

    `verb`: a verb in the plural.
    """
    singular = count == 1
    verb = _SINGULAR.get(verb, f"{verb}s") if verb and singular else verb
    return f"{count:,.0f} {noun}{'' if singular else 's'} {verb}".rstrip()


def aligned(rows: Sequence[Sequence[str]], num_words: int = 1) -> list[str]:
    """Return the lines of a table. The first `num_words` columns are left-aligned, the others are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if number < num_words else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _is_escaped(char: str) -> bool:
    return unicodedata.category(char) in _ESCAPED or char in _REORDERING or char == _BYTE_ORDER_MARK


def first_line(error: BaseException) -> str:
    """Return the first line of the message of an error; the name of its class if it has no message."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip()


def short_path(path: str) -> str:
    """The path as it is named from the current folder, if it is in it; other paths and addresses stay as they are."""
    here = os.path.join(os.getcwd(), "")
    return path[len(here) :] if path.startswith(here) else path


def printable_command(command: str) -> str:
    """Return a command as one printable line, to paste into bash or zsh.

    `command` is a command line from `shlex.join`, or two of them with `&&` between them.
    """
    if printable(command) == command:
        return command
    return " ".join(word if word == "&&" else _quoted(word) for word in shlex.split(command))


def _quoted(word: str) -> str:
    if printable(word) == word:
        return shlex.quote(word)
    escapes = (f"\\u{ord(char):04x}" if _is_escaped(char) else f"\\{char}" if char in "\\'" else char for char in word)
    return f"$'{''.join(escapes)}'"


def encodable(value: Any) -> Any:
    """Return a JSON value whose texts UTF-8 can encode: question marks replace lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    return [encodable(item) for item in value] if isinstance(value, list) else value
