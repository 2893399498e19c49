"""Examples of records to read and to hear: an evenly spread sample, and records with extreme values.

The examples are chosen while lines are counted, so that memory does not grow with the number of lines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from prepcli.commands.inspect.sample import EvenSample
from prepcli.manifest.conversations import Turn

NUM_SAMPLED = 10
NUM_EXTREME = 2
"""Number of records that are kept with the smallest values of a measure; as many are kept with the largest values."""
MIN_RECORDS = 10
"""Data with fewer records than this have no list of outliers, because their sample shows all records."""


MAX_TURNS = 20
"""Maximum number of turns of a conversation that a page shows."""


class Measure(NamedTuple):
    """A number that records have, such as the duration.

    `low` is a text for the records with the smallest values, `high` for those with the largest values. If a text is
    empty, these records are not kept as examples.
    """

    name: str
    unit: str
    low: str
    high: str


MEASURES = (
    Measure("duration", "s", "shortest", "longest"),
    Measure("chars_per_second", "characters per second", "slowest speech", "fastest speech"),
    Measure("context_similarity", "similarity of the context", "least similar context", ""),
    Measure("bandwidth", "Hz", "lowest bandwidth", ""),
    Measure("snr", "dB of speech to noise", "most noise", ""),
    Measure("loudness", "LUFS", "least loud", "loudest"),
    Measure("speech_share", "of it speech", "least speech", ""),
)


class Example(msgspec.Struct):
    """A record in `line` (from 1) of `file`. `why` says what is unusual about the record; empty in a sample."""

    why: list[str]
    file: str
    line: int
    fields: dict[str, Any]


class Dialogue(NamedTuple):
    """A conversation in `line` (from 1) of `file`, with `duration` seconds of audio in all; `id` may be empty."""

    file: str
    line: int
    id: str
    duration: float
    turns: list[Turn]


Values = tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.floating[Any]]]
"""The positions of rows that have a measure, and the values of the measure."""


@dataclass
class Examples:
    """Records of some lines: an evenly spread sample, and the records with extreme values.

    `extremes` maps each end of a measure, such as "shortest", to pairs (value, record), the most extreme first.
    """

    sample: EvenSample[Example] = field(default_factory=lambda: EvenSample(NUM_SAMPLED))
    extremes: dict[str, list[tuple[float, Example]]] = field(default_factory=dict)

    def add(
        self, rows: Sequence[dict[str, Any]], lines: Sequence[int], measured: Mapping[str, Values], lines_before: int
    ) -> None:
        """Add the rows of a block of lines, and their measures by name.

        `lines` has the line number of each row within the block, from 1; `lines_before` lines precede the block.
        """

        def row(at: int) -> Example:
            return Example([], "", lines[at] + lines_before, rows[at])

        self.sample.add_lazily(len(rows), row)
        for measure in MEASURES:
            places, values = measured[measure.name]
            for end, sign in ((measure.low, 1), (measure.high, -1)):
                if end and len(values) and self._may_keep(end, sign, values):
                    first = np.argsort(sign * values, kind="stable")[:NUM_EXTREME].tolist()
                    self._keep(end, sign, [(float(values[at]), row(int(places[at]))) for at in first])

    def _may_keep(self, end: str, sign: int, values: npt.NDArray[np.floating[Any]]) -> bool:
        """Whether one of the values is extreme enough to be kept. Most blocks have none, and need not be sorted."""
        kept = self.extremes.get(end, [])
        most = values.min() if sign > 0 else values.max()
        return len(kept) < NUM_EXTREME or bool(sign * most < sign * kept[-1][0])

    def merge(self, later: "Examples", lines_before: int = 0, file: str = "") -> None:
        """Add the examples of lines that follow, for instance those of the next file.

        `lines_before` is added to their line numbers. `file`, if given, becomes the file of these examples.
        """

        def placed(example: Example) -> Example:
            name = str(file) or example.file  # msgspec takes no Catalogue
            return Example([], name, example.line + lines_before, example.fields)

        other = later.sample
        self.sample.merge(EvenSample(other.wanted, list(map(placed, other.items)), other.stride, other.num_seen))
        for measure in MEASURES:
            for end, sign in ((measure.low, 1), (measure.high, -1)):
                examples = [(value, placed(row)) for value, row in later.extremes.get(end, ())]
                self._keep(end, sign, examples)

    def _keep(self, end: str, sign: int, examples: list[tuple[float, Example]]) -> None:
        """Keep the `NUM_EXTREME` most extreme records at an end; among equal ones, the first."""
        if examples:
            every = [*self.extremes.get(end, ()), *examples]
            self.extremes[end] = sorted(every, key=lambda pair: sign * pair[0])[:NUM_EXTREME]

    def outliers(self) -> list[Example]:
        """Return the extreme records, each once with all its reasons; empty for fewer than `MIN_RECORDS` records."""
        by_line: dict[tuple[str, int], Example] = {}
        for measure in MEASURES if self.sample.num_seen >= MIN_RECORDS else ():
            for end in filter(None, (measure.low, measure.high)):
                for value, example in self.extremes.get(end, ()):
                    outlier = by_line.setdefault((example.file, example.line), example)
                    outlier.why.append(f"{end}: {value:,.2f} {measure.unit}")
        return list(by_line.values())
