"""The result of `compare`."""

from typing import Any

import msgspec

from prepcli.interface.printing import aligned, as_text, number_of
from prepcli.interface.reports import ShownInNotebooks

NUM_EXAMPLES = 5


class SetFacts(msgspec.Struct):
    """One side of a comparison; lines that are `unusable`, or have a true `_skipme` (`skipped`), are not compared."""

    path: str
    records: int
    hours: float
    unusable: int
    skipped: int = 0


class Records(msgspec.Struct):
    """Records of one kind: their number, hours, and the names of the first."""

    records: int = 0
    hours: float = 0.0
    examples: list[str] = []


class FieldChange(msgspec.Struct):
    """A field that differs: in how many records it was changed, added or removed, and the first of them.

    `before` and `after` are JSON texts, None if the record lacks the field.
    """

    field: str
    changed: int = 0
    added: int = 0
    removed: int = 0
    record: str = ""
    before: str | None = None
    after: str | None = None

    @property
    def records(self) -> int:
        """The number of records in which the field differs."""
        return self.changed + self.added + self.removed


class AudioChange(msgspec.Struct):
    """Numbers of matched records by the difference of their audio.

    `same_place`: the same part of the same file. `same_samples`: another file with the same samples, rate and channels,
    so that only its form differs. `other_rate`: another sampling rate, or number of channels. `other`: other samples.
    `unreadable`: one of both cannot be decoded. `not_compared`: at another place, and not read.
    """

    same_place: int = 0
    same_samples: int = 0
    other_rate: int = 0
    other: int = 0
    unreadable: int = 0
    not_compared: int = 0
    examples: list[str] = []


class Comparison(ShownInNotebooks, msgspec.Struct):
    """The differences of two sets. `matched` records are in both; `changed` of them differ in `fields` or audio.

    `matched_by` names what was compared to match them. `by_order` counts the records of both sets for which that is
    the same as for an earlier one of their set: the order decides. Examples are names of audio files.
    """

    before: SetFacts
    after: SetFacts
    matched_by: str
    matched: int
    changed: int
    added: Records
    gone: Records
    fields: list[FieldChange]
    audio: AudioChange
    by_order: int = 0

    @property
    def is_same(self) -> bool:
        """Whether no difference was found, also none of form, and all lines and all audio were compared."""
        audio = self.audio
        more = audio.same_samples + audio.other_rate + audio.other + audio.unreadable + audio.not_compared
        more += self.before.unusable + self.after.unusable
        return not (self.added.records or self.gone.records or self.changed or more)

    @property
    def title(self) -> str:
        """The result in a few words."""
        if self.is_same:
            return "no differences"
        audio = self.audio
        unlike = audio.other_rate + audio.other + audio.unreadable + audio.not_compared
        unusable = self.before.unusable, self.after.unusable
        if self.added.records or self.gone.records or self.changed or unlike or unusable[0] != unusable[1]:
            return "the sets differ"
        if any(unusable):
            return "no differences among the lines that can be used"
        return "the same records and samples, in other files"

    def rows(self) -> list[tuple[str, str]]:
        """The result as names and texts."""
        both = (("A", self.before), ("B", self.after))
        rows = [
            (name, f"{one.path}: {number_of(one.records, 'record')}, {one.hours:,.2f} h" + _unusable(one))
            for name, one in both
        ]
        matched = f"{number_of(self.matched, 'record')}, by {self.matched_by}; {self.changed:,} of them changed"
        if self.by_order:
            matched += f"; where these occur several times, by their order: {number_of(self.by_order, 'record')}"
        rows.append(("matched", matched))
        for name, found in (("gone", self.gone), ("added", self.added)):
            examples = f": {', '.join(found.examples)}" if found.examples else ""
            more = ", ..." if found.records > len(found.examples) else ""
            rows.append((name, f"{number_of(found.records, 'record')}, {found.hours:,.2f} h{examples}{more}"))
        words = {
            "same_place": "in the same place",
            "same_samples": "in another file, with the same samples",
            "other_rate": "with another rate or number of channels",
            "other": "with other samples",
            "unreadable": "cannot be decoded",
            "not_compared": "at another place, not read",
        }
        counts = [f"{count:,} {text}" for name, text in words.items() if (count := getattr(self.audio, name))]
        examples = f" ({', '.join(self.audio.examples)})" if self.audio.examples else ""
        rows.append(("audio", f"{', '.join(counts) or 'none'}{examples}"))
        return rows

    def field_rows(self) -> list[list[str]]:
        """A table of the fields that differ, with its head; empty if there are none."""
        head = ["field", "for example", "before", "after", "changed", "added", "removed"]
        rows = [
            [one.field, one.record, *_short(one.before, one.after)]
            + [f"{count:,}" for count in (one.changed, one.added, one.removed)]
            for one in self.fields
        ]
        return [head, *rows] if rows else []

    def __str__(self) -> str:
        """The text that `compare` prints: a line for each kind of difference, and a table of fields."""
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        lines = [f"compare: {self.title}", *(f"  {name:<{width}}  {text}" for name, text in rows)]
        return as_text([*lines, *(f"  {line}" for line in aligned(self.field_rows() or [[""]], 4) if line)])

    def document(self) -> Any:
        """The document for `--json`."""
        return msgspec.to_builtins(self) | {"is_same": self.is_same}


def _unusable(facts: SetFacts) -> str:
    counts = {"unusable lines": facts.unusable, "lines with _skipme": facts.skipped}
    texts = [f"{count:,} {what}" for what, count in counts.items() if count]
    return f", and {' and '.join(texts)}, which are not compared" if texts else ""


def _short(before: str | None, after: str | None, most: int = 40) -> list[str]:
    """Two values in a few characters each, among which is the first that differs."""
    texts = ["-" if value is None else value for value in (before, after)]
    pairs = enumerate(zip(*texts, strict=False))
    start = next((at for at, (one, other) in pairs if one != other), min(map(len, texts))) - most // 3
    if start > 0 and max(map(len, texts)) > most:
        texts = [f"...{text[start:]}" for text in texts]
    return [text if len(text) <= most else f"{text[: most - 3]}..." for text in texts]
