"""Evaluates expressions over blocks of records, as NumPy arrays.

Logic has three values: a comparison with a value that is missing (absent, null or NaN) is neither true nor false.
"""

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from prepcli.commands.filter.grammar import (
    DERIVED,
    Both,
    Comparison,
    Condition,
    Field,
    FunctionCall,
    IsTrue,
    Kind,
    Literals,
    Matches,
    Membership,
    Missing,
    Not,
    Operand,
    Quantile,
    kind_of,
    static_kind,
)
from prepcli.errors import RecordRejected, RejectReason

Flags = npt.NDArray[np.bool_]
Quantiles: TypeAlias = Mapping[Quantile, float]

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NONE = type(None)
_LARGE = 2**53
_NUMBER = re.compile(r"[-+]?(?:[0-9]{1,400}\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_NO_NUMBER = frozenset({"", "nan", "na", "n/a", "null", "none"})
"""The texts that tables have in place of a number, in lower case."""
_KINDS: dict[type, Kind] = {int: "number", float: "number", str: "text", bool: "flag", list: "list"}
_WORDS = {"number": "a number", "text": "a text", "flag": "true or false", "list": "a list"}


class Logical(NamedTuple):
    """For each record, whether a condition is true, and whether it is false; shape (records,)."""

    true: Flags
    false: Flags


@dataclass
class Values:
    """The value of an operand for each record; None if it is missing. `name`: the operand's field, for messages."""

    name: str
    items: Sequence[Any]

    @cached_property
    def _types(self) -> set[type]:
        return set(map(type, self.items))

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of all values that are not missing; `object` for a JSON object."""
        return frozenset(_KINDS.get(one, "object") for one in self._types - {_NONE})

    @cached_property
    def numbers(self) -> npt.NDArray[np.float64]:
        """The values, which must be numbers, as an array; NaN for a missing value."""
        try:
            return np.array(self.items, np.float64)  # None becomes NaN
        except OverflowError:
            return np.array([_as_float(one) for one in self.items], np.float64)

    @cached_property
    def has_none(self) -> bool:
        """Whether any value is missing; NaN does not count."""
        return _NONE in self._types

    @cached_property
    def has_nan(self) -> bool:
        """Whether any value is NaN."""
        if float not in self._types:
            return False
        if self.kinds == {"number"}:
            num_nan = int(np.count_nonzero(np.isnan(self.numbers)))
            return bool(num_nan) and num_nan > self.items.count(None)
        return any(map(operator.ne, self.items, self.items))

    @cached_property
    def has_large(self) -> bool:
        """Whether any number has an absolute value of at least 2**53: float64 cannot hold all integers above that."""
        return bool(np.any(np.abs(self.numbers) >= _LARGE))

    @cached_property
    def there(self) -> Flags:
        """For each record, whether it has a value: neither None nor NaN."""
        if self.kinds <= {"number"}:
            return ~np.isnan(self.numbers)
        if _NONE not in self._types and float not in self._types:
            return np.ones(len(self.items), bool)
        return np.array([one is not None and one == one for one in self.items], bool)

    def check(self, kinds: Collection[str], use: str) -> None:
        """Check that all values are of `kinds`; `use` names the function or comparison that needs them.

        Raises:
            RecordRejected: a value is of another kind; the detail has `use` and the first such value.
        """
        if self.kinds <= set(kinds):
            return
        shown = next(one for one in self.items if one is not None and _KINDS.get(type(one), "object") not in kinds)
        text = msgspec.json.encode(shown).decode()
        text = text if len(text) <= 40 else f"{text[:37]}..."
        if "number" in kinds and "text" not in kinds and isinstance(shown, str) and _NUMBER.fullmatch(shown):
            text += f" (number({self.name if self.name.isidentifier() else f'`{self.name}`'}) reads it)"
        wanted = " or ".join(_WORDS.get(kind, kind) for kind in sorted(kinds))
        raise RecordRejected(RejectReason.BAD_FIELD, f"{self.name} is {text}, and {use} needs {wanted}")


def _number_in(text: str) -> float | int | str | None:
    """The number that a text holds; None for one that says that there is none; any other text as it is."""
    plain = text.strip()
    if _NUMBER.fullmatch(plain) is None:
        return None if plain.lower() in _NO_NUMBER else text
    return int(plain) if plain.lstrip("+-").isdecimal() else float(plain)


class NumberColumn(Values):
    """A number for each record, from a constant of the expression or computed from fields; NaN if a field is missing.

    `items`: the numbers before the conversion to float64, which rounds large integers.
    """

    kinds = frozenset({"number"})

    def __init__(self, name: str, numbers: npt.NDArray[np.float64], items: Sequence[float] | None = None) -> None:
        self.name, self.numbers = name, numbers
        if items is not None:
            self.items = items

    @cached_property
    def items(self) -> Sequence[Any]:  # type: ignore[override]
        """The numbers as Python's, which few operands need."""
        numbers: list[float] = self.numbers.tolist()
        return numbers


def _as_float(value: int | float | None) -> float:
    """The number as float64: NaN for None, and infinity, with its sign, for an integer beyond the range of float64."""
    try:
        return np.nan if value is None else float(value)
    except OverflowError:
        return np.inf if value is not None and value > 0 else -np.inf


_TEXTS, _FLAGS, _LISTS = (frozenset({kind}) for kind in ("text", "flag", "list"))
_ORDERED = frozenset({"number", "text"})
_EQUAL = _ORDERED | _FLAGS


class Block:
    """Evaluates operands and conditions for a block of records, from the values of their fields."""

    def __init__(self, fields: Mapping[str, Sequence[Any]], quantiles: Quantiles) -> None:
        """`fields`: for each field that is read, its value in each record; None if it is missing or null."""
        self._fields = fields
        self._quantiles = quantiles
        self._values: dict[Operand, Values] = {}
        self._size = len(next(iter(fields.values())))

    def holds(self, condition: Condition) -> Logical:
        """Evaluate a condition for each record; raises `RecordRejected` if a value has a type that does not compare."""
        match condition:
            case Not(below):
                found = self.holds(below)
                return Logical(found.false, found.true)
            case Both(left, right):
                one, other = self.holds(left), self.holds(right)
                return Logical(one.true & other.true, one.false | other.false)
            case Missing(field):
                there = self.values(field).there
                return Logical(~there, there)
            case IsTrue(field):
                values = self.values(field)
                values.check(_FLAGS, "a condition")
                return _logical(values.there, np.array([one is True for one in values.items], bool))
            case Matches(argument, pattern):
                values = self.values(argument)
                values.check(_TEXTS, "matches")
                found_in = [one is not None and pattern.search(one) is not None for one in values.items]
                return _logical(values.there, np.array(found_in, bool))
            case Membership(left, right):
                return self._member(left, right)
            case Comparison(sign, left, right):
                return self._compare(sign, left, right)

    def num_present(self, name: str) -> int:
        """The number of records that have the field `name`."""
        values = None if name in DERIVED else self._values.get(Field(name, 0))
        items = self._fields[name]
        return len(items) - (items.count(None) if values is None or values.has_none else 0)

    def values(self, operand: Operand) -> Values:
        """The value of an operand for each record."""
        if isinstance(operand, Literals):  # 1 and true are equal in Python
            return self._computed(operand)
        if operand not in self._values:
            self._values[operand] = self._computed(operand)
        return self._values[operand]

    def _computed(self, operand: Operand) -> Values:
        match operand:
            case Literals(value):
                if static_kind(operand) == "number" and isinstance(value, int | float):
                    return NumberColumn("", np.full(self._size, value, np.float64), [value] * self._size)
                return Values("", [value] * self._size)
            case Quantile():
                return NumberColumn("quantile", np.full(self._size, self._quantiles[operand]))
            case Field(name) if name in DERIVED:
                return self._rate(name)
            case Field(name):
                values = Values(name, self._fields[name])
                if values.has_nan:  # tables write NaN also for a missing text
                    values = Values(name, [one if one == one else None for one in values.items])
                return values
            case FunctionCall("lower", argument):
                values = self.values(argument)
                values.check(_TEXTS, "lower")
                return Values(values.name, [None if one is None else one.lower() for one in values.items])
            case FunctionCall("number", argument):
                return self._number(self.values(argument))
            case FunctionCall(_, argument):
                values = self.values(argument)
                values.check(_TEXTS | _LISTS, "len")
                return Values(values.name, [None if one is None else len(one) for one in values.items])

    @staticmethod
    def _number(values: Values) -> Values:
        values.check(_ORDERED, "number")
        found = Values(values.name, [_number_in(one) if isinstance(one, str) else one for one in values.items])
        found.check(("number",), "number")
        return found

    def _rate(self, name: str) -> Values:
        texts, durations = self.values(Field("text", 0)), self.values(Field("duration", 0))
        texts.check(_TEXTS, name)
        counts: list[int | None]
        if name == "words_per_second":
            counts = [None if text is None else len(text.split()) for text in texts.items]
        elif texts.has_none:
            counts = [None if text is None else len(text) for text in texts.items]
        else:
            counts = list(map(len, texts.items))
        return NumberColumn(name, np.array(counts, np.float64) / durations.numbers)

    def _compare(self, sign: str, left: Operand, right: Operand) -> Logical:
        one, other = self.values(left), self.values(right)
        if not one.kinds or not other.kinds:
            return self._unknown()
        wanted = static_kind(left) or static_kind(right) or min(one.kinds)
        allowed = _EQUAL if sign in ("==", "!=") else _ORDERED
        kinds = frozenset({wanted}) if wanted in allowed else allowed
        for values in (one, other):
            values.check(kinds, f"the comparison by {sign}")
        compare, there = _COMPARE[sign], one.there & other.there
        if wanted == "number" and not (one.has_large and other.has_large):
            with np.errstate(invalid="ignore"):
                return _logical(there, compare(one.numbers, other.numbers))
        pairs = zip(one.items, other.items, strict=True)
        return _logical(there, np.array([a is not None and b is not None and compare(a, b) for a, b in pairs], bool))

    def _member(self, left: Operand, right: Operand) -> Logical:
        one = self.values(left)
        if isinstance(right, Literals) and isinstance(right.value, tuple):
            items = frozenset(right.value)
            one.check(frozenset(map(kind_of, right.value)), "the list")
            return _logical(one.there, np.array([value in items for value in one.items], bool))
        other = self.values(right)
        if not one.kinds or not other.kinds:
            return self._unknown()
        other.check(_TEXTS | _LISTS, "in")
        if "text" in other.kinds:
            one.check(_TEXTS, "in a text")
        there = one.there & other.there
        pairs = zip(one.items, other.items, strict=True)
        return _logical(there, np.array([a is not None and b is not None and a in b for a, b in pairs], bool))

    def _unknown(self) -> Logical:
        nothing = np.zeros(self._size, bool)
        return Logical(nothing, nothing)


def _logical(there: Flags, true: Flags) -> Logical:
    """Make the result of a test from its outcomes `true`; shape (records,).

    `there`: whether a record has all values that are tested. A record without one of them is neither true nor false.
    """
    true = true & there
    return Logical(true, there & ~true)
