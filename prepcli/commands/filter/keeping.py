"""The option `--keep` of commands that only count: it selects the records for which expressions are true."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from prepcli.commands.filter.grammar import parse
from prepcli.commands.filter.rules import FieldCheck, Rule, RuleCollector, quantiles_of
from prepcli.errors import UsageError, option
from prepcli.interface.printing import number_of
from prepcli.manifest.parts import Collector, Part


class Keeping:
    """Selects records by the expressions of `--keep`, as a `Selection` of `prepcli.manifest.durations`."""

    def __init__(self, expressions: Sequence[str]) -> None:
        """Parse the expressions.

        Raises:
            UsageError: an expression is wrong, or has a quantile, which needs two passes.
        """
        keep = option("--keep")
        rules = [Rule(keep, text, parse(text, keep), keeps=True) for text in expressions]
        if quantiles_of(rules):
            raise UsageError(f"{keep} takes no quantile(...) here; prepcli filter IN OUT.json shows its value")
        self.collector: Callable[[], Collector] = partial(RuleCollector, rules)
        self._fields = FieldCheck(rules, ())
        self._numbers: dict[str, int] = {}
        self.num_seen = self.num_kept = 0

    def kept(self, path: str, part: Part) -> NDArray[np.bool_]:
        """Whether each record of a part of the manifest `path` is kept: all expressions are true."""
        self._fields.add(self._numbers.setdefault(path, len(self._numbers)), part)
        found: NDArray[np.bool_] = part.collected.drops == 0
        self.num_seen += len(found)
        self.num_kept += int(np.count_nonzero(found))
        return found

    def note(self) -> str:
        """A message with the number of records that `--keep` keeps; called after the last part.

        Raises:
            UsageError: no record is kept, no record has a field, or all values of a field have the wrong type.
        """
        self._fields.check(list(self._numbers))
        if self.num_seen and not self.num_kept:
            raise UsageError(f"{option('--keep')}: no record of {next(iter(self._numbers))} passes")
        verb = "passes" if self.num_kept == 1 else "pass"
        return f"{self.num_kept:,} of {number_of(self.num_seen, 'record')} {verb} {option('--keep')}"
