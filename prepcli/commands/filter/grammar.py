"""Parses the expressions of `filter` into trees. Nothing of an expression is evaluated as Python."""

import difflib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias, cast

from prepcli.errors import UsageError

Kind: TypeAlias = Literal["number", "text", "flag", "list"]
"""The type of a value; `flag` is true or false."""
Operator: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]
Scalar: TypeAlias = float | int | str | bool

DERIVED = {"chars_per_second": "characters of text per second", "words_per_second": "words of text per second"}
"""Values that are computed from `text` and `duration`; they hide fields of the record with these names."""
_MAX_DEPTH = 50
_WORDS = frozenset({"and", "or", "not", "in", "true", "false"})
_OPERATORS = ("==", "!=", "<=", ">=", "<", ">")
_TOKEN = re.compile(
    r"(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])"
    r"|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<name>[A-Za-z_]\w*|`[^`]+`)"
    r"|(?P<sign>==|!=|<=|>=|[<>()\[\],])",
    re.DOTALL,
)
_ESCAPE = re.compile(r"""\\([\\"'])""")
_OTHER_SPELLINGS = {"=": "==", "&&": "and", "&": "and", "||": "or", "|": "or", "!": "not", "<>": "!="}


@dataclass(frozen=True, slots=True)
class Literals:
    """A constant in an expression: a number, a text, a flag (true or false), or a list of these, stored as a tuple."""

    value: Scalar | tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the record, or one of `DERIVED`; `at` is the position of its name in the expression."""

    name: str
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """`len(x)` or `lower(x)`."""

    function: Literal["len", "lower"]
    argument: "Operand"


@dataclass(frozen=True, slots=True)
class Quantile:
    """`quantile(x, share)`: the quantile of the values of x in all records; `share` from 0 to 1."""

    argument: "Operand"
    share: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left operator right`."""

    operator: Operator
    left: "Operand"
    right: "Operand"


@dataclass(frozen=True, slots=True)
class Membership:
    """`left in right`; `right` is a list, or a field with a list or a text."""

    left: "Operand"
    right: "Operand"


@dataclass(frozen=True, slots=True)
class Missing:
    """`missing(x)`: the field is absent, null or NaN."""

    argument: Field


@dataclass(frozen=True, slots=True)
class Matches:
    """`matches(x, "regex")`: the regular expression is found anywhere in the text."""

    argument: "Operand"
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class IsTrue:
    """A field as a condition: its value must be true or false."""

    argument: Field


@dataclass(frozen=True, slots=True)
class Not:
    """`not x`. `x or y` is parsed as `not (not x and not y)`: the result is the same, also if a value is missing."""

    condition: "Condition"


@dataclass(frozen=True, slots=True)
class Both:
    """`left and right`."""

    left: "Condition"
    right: "Condition"


Operand: TypeAlias = Literals | Field | FunctionCall | Quantile
Condition: TypeAlias = Comparison | Membership | Missing | Matches | IsTrue | Not | Both
Node: TypeAlias = Operand | Condition


def parse(text: str, named: str) -> Condition:
    """Return the tree of an expression.

    Args:
        text: the expression.
        named: the option or preset that has the expression, for messages.

    Raises:
        UsageError: the expression is wrong; the message shows it with a `^` before the mistake.
    """
    return _Parser(text, named).whole()


def mistake(named: str, text: str, at: int, why: str) -> UsageError:
    """The error for a mistake in an expression: one line that shows `text` with a `^` at the position `at`."""
    return UsageError(f"{named}: {why}, at the ^ in: {text[:at]}^{text[at:]}")


def _all(conditions: Sequence[Condition]) -> Condition:
    """Join conditions by `and`, as a balanced tree, so that thousands of them stay within Python's recursion limit."""
    half = len(conditions) // 2
    return Both(_all(conditions[:half]), _all(conditions[half:])) if half else conditions[0]


def nodes(tree: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it."""
    yield tree
    match tree:
        case Comparison(_, left, right) | Membership(left, right) | Both(left, right):
            yield from nodes(left)
            yield from nodes(right)
        case FunctionCall(_, below) | Quantile(below) | Matches(below) | Missing(below) | IsTrue(below) | Not(below):
            yield from nodes(below)
        case _:
            pass


def fields_of(tree: Node) -> list[Field]:
    """The fields and derived values that an expression names, in order; one that it names twice comes twice."""
    return [one for one in nodes(tree) if isinstance(one, Field)]


def read_fields(tree: Node) -> set[str]:
    """The fields of a record that an expression needs.

    These are the fields that it names; if it names a value of `DERIVED`, also `text` and `duration`.
    """
    names = {one.name for one in fields_of(tree)}
    return (names - DERIVED.keys()) | ({"text", "duration"} if names & DERIVED.keys() else set())


def needed_fields(tree: Node) -> list[Field]:
    """The fields of an expression that at least one record must have: all except those in `missing(x)`."""
    only_asked = {id(one.argument) for one in nodes(tree) if isinstance(one, Missing)}
    return [one for one in fields_of(tree) if id(one) not in only_asked]


def kind_of(value: object) -> Kind:
    """The kind of a value of a record or an expression."""
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "list"


def static_kind(operand: Operand) -> Kind | None:
    """The kind of an operand if it is the same for all records; None for a field, whose kind its values decide."""
    match operand:
        case Literals(value):
            return kind_of(value)
        case Field(name):
            return "number" if name in DERIVED else None
        case FunctionCall("lower"):
            return "text"
        case _:
            return "number"


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


class _Parser:
    """Parses an expression by recursive descent; `not` binds most closely, then `and`, then `or`."""

    def __init__(self, text: str, named: str) -> None:
        self._text, self._named = text, named
        self._tokens = list(self._split())
        self._next = 0
        self._depth = 0

    def whole(self) -> Condition:
        if len(self._tokens) == 1:
            raise self._wrong(self._here, "the expression is empty")
        found = self._either()
        if self._here.kind != "end":
            raise self._wrong(self._here, "`and` or `or` is missing")
        if not fields_of(found):
            raise self._wrong(self._tokens[0], "the expression names no field")
        return found

    def _split(self) -> Iterator[_Token]:
        at = 0
        while True:
            while at < len(self._text) and self._text[at].isspace():
                at += 1
            if at == len(self._text):
                yield _Token("end", "", at)
                return
            found = _TOKEN.match(self._text, at)
            if found is None:
                raise mistake(self._named, self._text, at, self._unknown(self._text[at:]))
            kind = str(found.lastgroup)
            yield _Token("word" if kind == "name" and found[0] in _WORDS else kind, found[0], at)
            at = found.end()

    @staticmethod
    def _unknown(rest: str) -> str:
        if rest[0] in "\"'`":
            return f"the closing {rest[0]} is missing"
        for spelling in sorted(_OTHER_SPELLINGS, key=len, reverse=True):
            if rest.startswith(spelling):
                return f"write `{_OTHER_SPELLINGS[spelling]}`, not `{spelling}`"
        if rest[0] in "+-*/%":
            return "there is no arithmetic in expressions"
        return f"{rest.split()[0][:20]!r} is not understood; a name with other characters stands between ``"

    @property
    def _here(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, *texts: str) -> _Token | None:
        """Take the next token if it is a word or sign in `texts`, and return it; else return None."""
        token = self._here
        if token.kind in ("word", "sign") and token.text in texts:
            self._next += 1
            return token
        return None

    def _expect(self, sign: str) -> None:
        if self._take(sign) is None:
            raise self._wrong(self._here, f"`{sign}` is missing")

    def _wrong(self, token: _Token, why: str) -> UsageError:
        return mistake(self._named, self._text, token.at, why)

    def _either(self) -> Condition:
        found = [self._both()]
        while self._take("or"):
            found.append(self._both())
        return Not(_all([Not(one) for one in found])) if len(found) > 1 else found[0]

    def _both(self) -> Condition:
        found = [self._inverted()]
        while self._take("and"):
            found.append(self._inverted())
        return _all(found)

    def _inverted(self) -> Condition:
        token = self._here
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._wrong(token, f"more than {_MAX_DEPTH} conditions are within each other")
        found = Not(self._inverted()) if self._take("not") else self._condition()
        self._depth -= 1
        return found

    def _condition(self) -> Condition:
        if self._take("("):
            found = self._either()
            self._expect(")")
            return found
        token = self._here
        if token.kind == "name" and token.text in ("missing", "matches") and self._tokens[self._next + 1].text == "(":
            self._next += 2
            return self._missing() if token.text == "missing" else self._matches()
        left = self._operand()
        if self._here.text in _OPERATORS and self._here.kind == "sign":
            return self._chain(left)
        is_not = self._take("not")
        if self._take("in"):
            return Not(self._member(left, token)) if is_not else self._member(left, token)
        if is_not:
            raise self._wrong(self._here, "`in` is missing after `not`")
        if isinstance(left, Field) and left.name not in DERIVED:
            return IsTrue(left)
        raise self._wrong(self._here, "a comparison is missing")

    def _chain(self, left: Operand) -> Condition:
        """Parse a comparison, or several in a row, such as `3 <= duration <= 30`; `left` is already parsed."""
        found: Condition | None = None
        while (token := self._here).kind == "sign" and token.text in _OPERATORS:
            self._next += 1
            right = self._operand()
            kinds = static_kind(left), static_kind(right)
            if "list" in kinds:
                raise self._wrong(token, "a list is compared by `in`")
            if None not in kinds and kinds[0] != kinds[1]:
                raise self._wrong(token, f"a {kinds[0]} does not compare with a {kinds[1]}")
            if "flag" in kinds and token.text not in ("==", "!="):
                raise self._wrong(token, f"true and false do not compare by {token.text}")
            one = Comparison(cast(Operator, token.text), left, right)
            found = one if found is None else Both(found, one)
            left = right
        assert found is not None
        return found

    def _member(self, left: Operand, token: _Token) -> Condition:
        place = self._here
        right = self._operand()
        if static_kind(left) == "list":
            raise self._wrong(token, "a list cannot be in something")
        match right:
            case Literals(tuple() as items):
                kind = static_kind(left)
                if not items:
                    raise self._wrong(place, "the list is empty")
                if kind and kind not in set(map(kind_of, items)):
                    raise self._wrong(place, f"the list has no {kind}")
            case Field(name) if name not in DERIVED:
                pass
            case FunctionCall("lower"):
                pass
            case _:
                raise self._wrong(place, 'a list such as ["en", "de"], or a field, comes after `in`')
        return Membership(left, right)

    def _missing(self) -> Condition:
        token = self._here
        field = self._operand()
        if not isinstance(field, Field) or field.name in DERIVED:
            raise self._wrong(token, "`missing` takes a field")
        self._expect(")")
        return Missing(field)

    def _matches(self) -> Condition:
        token = self._here
        argument = self._operand()
        if static_kind(argument) not in (None, "text"):
            raise self._wrong(token, "`matches` takes a text")
        self._expect(",")
        token = self._here
        pattern = self._operand()
        if not isinstance(pattern, Literals) or not isinstance(pattern.value, str):
            raise self._wrong(token, 'a regular expression between " is missing')
        try:
            compiled = re.compile(pattern.value)
        except (re.error, OverflowError, RecursionError) as error:
            raise self._wrong(token, f"that is not a regular expression ({error})") from None
        self._expect(")")
        return Matches(argument, compiled)

    def _operand(self) -> Operand:
        token = self._here
        self._next += token.kind != "end"
        match token.kind:
            case "number":
                return Literals(self._number(token))
            case "text":
                return Literals(_ESCAPE.sub(r"\1", token.text[1:-1]))
            case "name":
                return self._call(token) if self._take("(") else self._field(token)
            case "word" if token.text in ("true", "false"):
                return Literals(token.text == "true")
            case "sign" if token.text == "[":
                return Literals(tuple(self._items()))
        raise self._wrong(token, "a field or a value is missing")

    def _number(self, token: _Token) -> float | int:
        try:
            value = float(token.text)
            exact = int(token.text) if token.text.lstrip("-").isdigit() else value
        except ValueError:  # more digits than Python reads
            value = exact = math.inf
        if not math.isfinite(value):
            raise self._wrong(token, "the number is too large")
        return exact

    def _field(self, token: _Token) -> Field:
        if token.text in ("null", "None", "nan"):
            raise self._wrong(token, "use `missing(x)`")
        if token.text in ("True", "False"):
            raise self._wrong(token, f"write `{token.text.lower()}`")
        return Field(token.text.strip("`"), token.at)

    def _call(self, token: _Token) -> Operand:
        place = self._here
        match token.text:
            case "len" | "lower":
                argument = self._operand()
                wanted: Sequence[Kind | None] = (None, "text", "list") if token.text == "len" else (None, "text")
                if static_kind(argument) not in wanted or isinstance(argument, Literals):
                    raise self._wrong(place, f"`{token.text}` takes a field with a text")
                found: Operand = FunctionCall(token.text, argument)
            case "quantile":
                found = self._quantile(place)
            case name:
                known = ("len", "lower", "matches", "missing", "quantile")
                close = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean `{close[0]}`?" if close else f"known are {', '.join(known)}"
                raise self._wrong(token, f"there is no function `{name}` that gives a value; {hint}")
        self._expect(")")
        return found

    def _quantile(self, place: _Token) -> Quantile:
        argument = self._operand()
        if static_kind(argument) not in (None, "number") or isinstance(argument, Literals | Quantile):
            raise self._wrong(place, "`quantile` takes a field with a number")
        self._expect(",")
        token = self._here
        share = self._operand()
        if (
            not isinstance(share, Literals)
            or kind_of(share.value) != "number"
            or not 0 <= cast(float, share.value) <= 1
        ):
            raise self._wrong(token, "a share from 0 to 1 is missing")
        return Quantile(argument, float(cast(float, share.value)))

    def _items(self) -> Iterator[Scalar]:
        while not self._take("]"):
            token = self._here
            item = self._operand()
            if not isinstance(item, Literals) or isinstance(item.value, tuple):
                raise self._wrong(token, "a list takes numbers, texts, true and false")
            yield item.value
            if not self._take(","):
                self._expect("]")
                return
