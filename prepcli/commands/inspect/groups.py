"""Records and hours by language and speaker, for the page and for a CSV file."""

import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from prepcli.commands.inspect.tally import Share

HEADING = ("language", "speaker", "records", "hours", "mean_seconds")
_LANGUAGE = re.compile(r"\| Language:(\w+) ")


class Group(msgspec.Struct):
    """The records of a speaker in a language; either name may be empty."""

    language: str
    speaker: str
    records: int
    seconds: float


def groups_of(shares: Mapping[tuple[str, str], Share]) -> list[Group]:
    """Return a group for each language and speaker, those with the most audio first.

    If no record has a language field, the language is read from names of speakers, such as
    `| Language:en Dataset:X Speaker:Y |`.
    """
    has_languages = any(language for language, _ in shares)
    groups = []
    for (language, speaker), share in shares.items():
        named = None if has_languages else _LANGUAGE.match(speaker)
        groups.append(Group(named[1] if named else language, speaker, share.records, share.seconds))
    return sorted(groups, key=lambda group: (-group.seconds, group.language, group.speaker))


def shares_by(groups: Iterable[Group], name: Literal["language", "speaker"]) -> dict[str, Share]:
    """Return the share of each language or speaker; records without one are left out."""
    shares: dict[str, Share] = {}
    for group in groups:
        if key := getattr(group, name):
            shares.setdefault(key, Share()).add(Share(group.records, group.seconds))
    return shares


def _plain(name: str) -> str:
    """A name as a cell of a table; spreadsheets would run one that begins like a formula."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name


def csv_of(groups: Iterable[Group]) -> str:
    """Return a table as CSV text: a heading, then one line per group."""
    import csv  # only for this file
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADING)
    for group in groups:
        row = (
            _plain(group.language),
            _plain(group.speaker),
            group.records,
            f"{group.seconds / 3600:.6f}",
            f"{group.seconds / group.records:.3f}",
        )
        writer.writerow(row)
    return text.getvalue()
