"""The rules of a call of `filter`, and the collector that applies them to the records in a range of a manifest."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prepcli.commands.filter.evaluation import Block, Quantiles
from prepcli.commands.filter.grammar import (
    DERIVED,
    Condition,
    Field,
    Operand,
    Quantile,
    fields_of,
    mistake,
    needed_fields,
    nodes,
    parse,
    read_fields,
)
from prepcli.commands.filter.presets import PRESETS, UNMEASURED
from prepcli.commands.score.command import FIELDS
from prepcli.errors import RejectReason, UsageError, option
from prepcli.jobs.selection import did_you_mean
from prepcli.manifest.columns import key_bytes
from prepcli.manifest.parts import Part

MAX_RULES = 64
NEEDS_A_NUMBER = ", and quantile needs a number"
"""The last words of the message about a record whose value `quantile` cannot use."""
GROUPS = ("lang", "speaker")
"""The fields by which the report divides the dropped hours and records."""


@dataclass(frozen=True, slots=True)
class Rule:
    """An expression by which records are kept or dropped.

    Attributes:
        name: the option or the preset that has the expression, for messages.
        text: the expression.
        condition: the parsed expression.
        keeps: True: drops all records for which the expression is not true; False: drops those for which it is true.
        of_preset: whether the rule is from a preset; each manifest must have all fields of such a rule.
    """

    name: str
    text: str
    condition: Condition
    keeps: bool
    of_preset: bool = False

    def __str__(self) -> str:
        return f"{'keep' if self.keeps else 'drop'} {self.text}"


def rules_of(presets: Sequence[str], kept: Sequence[str], dropped: Sequence[str]) -> list[Rule]:
    """The expressions of a call: presets, then `--keep`, then `--drop`.

    Raises:
        UsageError: an expression is wrong, or there are too many.
    """
    of_presets = [
        Rule(named, text, parse(text, named), keeps=True, of_preset=True)
        for name in dict.fromkeys(presets)
        for named, texts in [(f"preset {name}", PRESETS[name].keep)]
        for text in texts
    ]
    keep, drop = option("--keep"), option("--drop")
    rules = [*of_presets, *(Rule(keep, text, parse(text, keep), keeps=True) for text in kept)]
    rules += [Rule(drop, text, parse(text, drop), keeps=False) for text in dropped]
    if len(rules) > MAX_RULES - 3:  # --drop-listed, --unique, --sample
        raise UsageError(f"{len(rules)} expressions are too many; combine some with `or` or `and`")
    return rules


def unique_fields(unique: str | None) -> tuple[str, ...]:
    """The fields of `--unique`; empty without the option. Raises `UsageError` if it names no field."""
    names = tuple(name.strip() for name in (unique or "").split(",") if name.strip())
    if unique is not None and not names:
        raise UsageError(f"{option('--unique')} takes names of fields, such as audio_filepath,offset")
    return names


class Collected(NamedTuple):
    """The results of the rules for the records in a range of a manifest.

    Attributes:
        drops: for each record a bit per rule that drops it.
        groups: for each of `GROUPS`, the different values in the range, as texts; empty in the pass that collects the
            values for quantiles.
        group_of: for each of `GROUPS` and each record, the number of its value in `groups`, or -1 if it is missing;
            shape (groups, records); empty in that pass, too.
        unique: for each record, a hash of the fields of `--unique`, or 0 if all are missing; empty without the option.
        present: for each field, the number of records that have it.
        numbers: for each operand of a `quantile(...)` that is to be computed, its values in the records that have one.
    """

    drops: NDArray[np.uint64]
    groups: list[list[str]]
    group_of: NDArray[np.int32]
    unique: NDArray[np.uint64]
    present: dict[str, int]
    numbers: list[NDArray[np.float64]]


class RuleCollector:
    """Applies the rules to the records of a range, block by block."""

    def __init__(
        self,
        rules: Sequence[Rule],
        unique: Sequence[str] = (),
        quantiles: Quantiles = MappingProxyType({}),
        wanted: Sequence[Operand] = (),
    ) -> None:
        """Start without records.

        Args:
            rules: the expressions to evaluate; empty if only values are `wanted`.
            unique: the fields of `--unique`.
            quantiles: the values of the quantiles in the rules.
            wanted: operands whose values are collected, for computing quantiles.
        """
        self._rules, self._of_key, self._quantiles, self._wanted = rules, unique, quantiles, wanted
        of_rules = {name for rule in rules for name in read_fields(rule.condition)}
        of_numbers = {name for operand in wanted for name in read_fields(operand)}
        more = () if wanted else GROUPS
        self.fields: Sequence[str] = tuple(dict.fromkeys(["duration", *sorted(of_rules | of_numbers), *unique, *more]))
        self._drops: list[NDArray[np.uint64]] = []
        self._names: list[dict[Any, int]] = [{None: -1} for _ in more]
        self._group_of: list[list[NDArray[np.int32]]] = [[] for _ in more]
        self._unique: list[bytes] = []
        self._present = dict.fromkeys(self.fields, 0)
        self._numbers: list[list[NDArray[np.float64]]] = [[] for _ in wanted]

    def add(self, values: Sequence[list[Any]]) -> None:
        """Apply the rules to a block of records; `values`: for each of `fields`, its value in each record."""
        fields = dict(zip(self.fields, values, strict=True))
        block = Block(fields, self._quantiles)
        numbers = []
        for operand in self._wanted:
            of_all = block.values(operand)
            of_all.check(("number",), "quantile")  # the detail of its reject ends with `NEEDS_A_NUMBER`
            numbers.append(of_all.numbers[of_all.there])
        drops = np.zeros(len(values[0]), np.uint64)
        for bit, rule in enumerate(self._rules):
            found = block.holds(rule.condition)
            drops |= (~found.true if rule.keeps else found.true).astype(np.uint64) << np.uint64(bit)
        keys = [key_bytes(_key(one)) for one in zip(*(fields[name] for name in self._of_key), strict=True)]
        # Nothing below can fail.
        self._drops.append(drops)
        self._unique += keys
        for kept, more in zip(self._numbers, numbers, strict=True):
            kept.append(more)
        present = {}
        for names, group_of, name in zip(self._names, self._group_of, GROUPS, strict=False):
            group_of.append(_numbered(names, fields[name]))
            present[name] = int(np.count_nonzero(group_of[-1] >= 0))
        for name in fields:
            self._present[name] += present[name] if name in present else block.num_present(name)

    def result(self) -> Collected:
        """The results of the rules for all records that were passed to `add`."""
        return Collected(
            np.concatenate([np.empty(0, np.uint64), *self._drops]),
            [[str(name) for name in names if name is not None] for names in self._names],
            np.array([np.concatenate([np.empty(0, np.int32), *numbers]) for numbers in self._group_of], np.int32),
            np.frombuffer(b"".join(self._unique), "<u8"),
            self._present,
            [np.concatenate([np.empty(0), *kept]) for kept in self._numbers],
        )


def _numbered(names: dict[Any, int], values: Sequence[Any]) -> NDArray[np.int32]:
    """Look up the number of each value in `names`; a new value is added with the next number, None has -1."""
    with contextlib.suppress(KeyError, TypeError):  # in most blocks no name is new
        return np.fromiter(map(names.__getitem__, values), np.int32, len(values))
    try:
        new = set(values).difference(names)
    except TypeError:  # a list, which has no hash
        values = [None if one is None else str(one) for one in values]
        new = set(values).difference(names)
    for one in sorted(new, key=str):
        names[one] = len(names) - 1
    return np.fromiter(map(names.__getitem__, values), np.int32, len(values))


def _key(values: tuple[Any, ...]) -> str:
    """A text that is equal for equal values; empty if all are missing."""
    return "" if values.count(None) == len(values) else repr(values)


class FieldCheck:
    """Counts the records that have each field. Finds fields that no record has, or that a rule cannot compare."""

    def __init__(self, rules: Sequence[Rule], unique: Sequence[str]) -> None:
        self._rules, self._unique = rules, unique
        self._present: dict[int, dict[str, int]] = {}
        self._misfits: dict[str, str] = {}

    def add(self, source: int, part: Part) -> None:
        """Add the counts of a part; `source` is the number of its manifest."""
        counts = self._present.setdefault(source, {})
        for name, count in part.collected.present.items():
            counts[name] = counts.get(name, 0) + count
        for problem in part.problems if len(self._misfits) < MAX_RULES else ():
            if problem.reason is RejectReason.BAD_FIELD:
                self._misfits.setdefault(problem.detail.partition(" is ")[0], problem.detail)

    def check_types(self) -> None:
        """Raise `UsageError` if a field of a rule has a value whose type the rule cannot compare.

        Called only while no usable record has been found; after that, a record with such a value is rejected.
        """
        for rule in self._rules:
            for one in needed_fields(rule.condition):
                for name in sorted(read_fields(one) & self._misfits.keys()):
                    raise self._misfit(rule, one, name)

    def _misfit(self, rule: Rule, one: Field, name: str) -> UsageError:
        return mistake(rule.name, rule.text, one.at, f"the types do not compare: {self._misfits[name]}")

    def notes(self) -> list[str]:
        """A note for each field in the rules that no record has.

        After `check`, each of these fields occurs only in `missing(x)`.
        """
        asked = {one.name for rule in self._rules for one in fields_of(rule.condition)}
        return [
            f"no record has the field {name}"
            for name in sorted(asked - DERIVED.keys())
            if not any(counts.get(name) for counts in self._present.values())
        ]

    def check(self, manifests: Sequence[str]) -> None:
        """Check the names and types of the fields.

        Raises:
            UsageError: no record has a field, or all its values have a type that the rule cannot compare. For a preset,
                each manifest must have the field.
        """
        for rule in self._rules:
            for one in needed_fields(rule.condition):
                for name in sorted(read_fields(one)):
                    self._check_field(rule, one, name, manifests)
        for name in self._unique:
            if not any(counts.get(name) for counts in self._present.values()):
                hint = did_you_mean(name, manifests, DERIVED)
                raise UsageError(f"{option('--unique')}: no record has the field {name}{hint}")

    def _check_field(self, rule: Rule, one: Field, name: str, manifests: Sequence[str]) -> None:
        lacking = [path for number, path in enumerate(manifests) if not self._present.get(number, {}).get(name)]
        if not lacking or (len(lacking) < len(manifests) and not rule.of_preset):
            return
        if name in self._misfits:
            raise self._misfit(rule, one, name)
        measured_by = next((f"score --fields {group}" for group, names in FIELDS.items() if name in names), None)
        if name == "context_speaker_similarity":
            measured_by = "extend-context-audio"
        hint = f"; prepcli {measured_by} measures it" if measured_by else did_you_mean(name, lacking, DERIVED)
        if rule.of_preset and name in UNMEASURED:
            hint += "; no command of prepcli measures it, so it must be in the manifest already"
        if rule.of_preset:
            raise UsageError(f"{rule.name} needs the field {name}, and no record of {lacking[0]} has it{hint}")
        raise mistake(rule.name, rule.text, one.at, f"no record has the field {name}{hint}")


def quantiles_of(rules: Sequence[Rule]) -> list[Quantile]:
    """The quantiles in the rules, each once."""
    found = (node for rule in rules for node in nodes(rule.condition) if isinstance(node, Quantile))
    return list(dict.fromkeys(found))


def shown_quantiles(values: Mapping[Quantile, float], rule: Rule) -> str:
    """The values of a rule's quantiles in parentheses, for the table; empty if the rule has none."""
    found = [f"{values[one]:.6g}" for one in quantiles_of([rule])]
    return f" ({', '.join(found)})" if found else ""
