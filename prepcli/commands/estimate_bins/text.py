"""The text of the reports of bins: lines to paste into a config, tables, and the document for `--json`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from prepcli.interface.printing import number_of
from prepcli.interface.reports import ShownInNotebooks


class BinsText(ShownInNotebooks, ABC):
    """Base of the reports on bins: the text that commands print, and the JSON document.

    `format(report, "quiet")` is the text for `--quiet`, which is the bins alone.
    """

    num_examples: int
    num_discarded: int
    num_skipped: int
    num_rejected: int
    first_rejected: str | None
    notes: list[str]

    @abstractmethod
    def lines(self) -> list[str]:
        """The lines that the command prints."""

    @abstractmethod
    def bins_alone(self) -> str:
        """The bins as NeMo's scripts print them."""

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __format__(self, spec: str) -> str:
        return self.bins_alone() if spec == "quiet" else format(str(self), spec)

    def document(self) -> dict[str, Any]:
        """The document for `--json`: all fields except the arrays with a number for each example."""
        report: Any = self
        arrays = [field.name for field in fields(report) if not field.repr]
        values = asdict(replace(report, **{name: getattr(report, name)[:0] for name in arrays}))
        return {name: value for name, value in values.items() if name not in arrays}

    def first_lines(self, left_out_by: str) -> list[str]:
        """The lines above the bins: notes, the number of examples, and a heading.

        `left_out_by`: what the filter that left out examples measures, as a note names it, such as `token count`.
        """
        lines = []
        if self.num_discarded:
            total = self.num_examples + self.num_discarded
            lines.append(
                f"Note: we discarded {self.num_discarded}/{total} ({self.num_discarded / total:.2%}) utterances "
                f"due to {left_out_by} filtering."
            )
        if self.num_skipped:
            lines.append(f"Note: we skipped {number_of(self.num_skipped, 'line')} with a true _skipme.")
        if self.num_rejected:
            lines.append(
                f"Note: {number_of(self.num_rejected, 'line')} cannot be used; the first is {self.first_rejected}"
            )
        return [
            *lines,
            *(f"Note: {note}." for note in self.notes),
            f"Used {self.num_examples} examples for the estimation.",
            "Use the following options in your config:",
        ]


def plain_list(values: Sequence[object]) -> str:
    """Bins as NeMo's scripts print them, without blanks: `[1.74,3.26]`."""
    return f"[{','.join(map(str, values))}]"


def percentiles_text(percentiles: Mapping[str, float], spec: str = ".2f") -> str:
    """The percentiles in one line, such as `p50 3.20  p100 9.00`."""
    return "  ".join(f"{name} {value:{spec}}" for name, value in percentiles.items())
