"""Parses the expressions of `filter` into trees, by Python's parser; nothing is evaluated as Python."""

import ast
import difflib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

from prepcli.errors import UsageError

Kind: TypeAlias = Literal["number", "text", "flag", "list"]
"""The type of a value; `flag` is true or false."""
Operator: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]
Scalar: TypeAlias = float | int | str | bool

DERIVED = {"chars_per_second": "characters of text per second", "words_per_second": "words of text per second"}
"""Values that are computed from `text` and `duration`; they hide fields of the record with these names."""
_MAX_DEPTH = 50
_SIGNS: dict[type[ast.cmpop], Operator] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_FUNCTIONS = {
    "len": "a field with a text",
    "lower": "a field with a text",
    "matches": 'a text, and a regular expression between "',
    "missing": "a field",
    "number": "a field with a number, or with a text that holds one",
    "quantile": "a field with a number, and a share from 0 to 1",
}
"""The functions, and what they take."""
_TOKEN = re.compile(
    r"(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])"
    r"|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"|(?P<flag>(?:true|false)\b)"
    r"|(?P<sign>(?:and|or|not|in)\b|==|!=|<=|>=|[<>()\[\],])"
    r"|(?P<name>[A-Za-z_]\w*|`[^`]+`)|(?P<blank>\s+)|(?P<other>.)",
    re.DOTALL,
)
_OPEN = re.compile(r"'([(\[])'( was never closed)?$")
"""Matches the messages of Python's parser about brackets."""
_NO_VALUE = "a field or a value is missing"
_WIDTH = 4
"""The characters of each token in the text for Python's parser: those of the longest word, and a blank."""
_ESCAPE = re.compile(r"""\\([\\"'])""")
_OTHER_SPELLINGS = {
    "=": "==",
    "&&": "and",
    "&": "and",
    "||": "or",
    "|": "or",
    "!": "not",
    "<>": "!=",
    "=>": ">=",
    "=<": "<=",
}


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
    """`len(x)`, `lower(x)` or `number(x)`."""

    function: Literal["len", "lower", "number"]
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
    return _Reader(text, named).whole()


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


class _Reader:
    """Reads an expression: Python's parser finds its structure, in a text with `_` in place of each name and value.

    So a field may be called `class`, and texts and numbers have forms of their own. Each token has `_WIDTH` characters
    of that text, so that the column of a node gives the token. `not` binds most closely, then `and`, then `or`.
    """

    def __init__(self, text: str, named: str) -> None:
        self._text, self._named = text, named
        self._tokens = list(self._split())

    def whole(self) -> Condition:
        first = self._tokens[0]
        if first.kind == "end":
            raise self._wrong(first, "the expression is empty")
        words = (one.text if one.kind in ("sign", "end") else "_" for one in self._tokens)
        opened = accumulate((one.text in ("(", "[")) - (one.text in (")", "]")) for one in self._tokens)
        try:
            if max(opened) >= _MAX_DEPTH:
                raise RecursionError
            found = self._condition(ast.parse("".join(word.ljust(_WIDTH) for word in words), mode="eval").body)
        except SyntaxError as error:
            raise self._misplaced(error) from None
        except (RecursionError, MemoryError):  # Python's parser raises either for thousands of `not`
            raise self._wrong(first, f"more than {_MAX_DEPTH} conditions are within each other") from None
        if not fields_of(found):
            raise self._wrong(first, "the expression names no field")
        return found

    def _split(self) -> Iterator[_Token]:
        for found in _TOKEN.finditer(self._text):
            if found.lastgroup == "other":
                raise mistake(self._named, self._text, found.start(), self._unknown(self._text[found.start() :]))
            if found.lastgroup != "blank":
                yield _Token(str(found.lastgroup), found[0], found.start())
        yield _Token("end", "", len(self._text))

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

    def _wrong(self, token: _Token, why: str) -> UsageError:
        return mistake(self._named, self._text, token.at, why)

    def _misplaced(self, error: SyntaxError) -> UsageError:
        """The error for an expression that Python's parser refuses, at the token at which the parser stops."""
        at = ((error.offset or 0) - 1) // _WIDTH  # -1: the end
        if bracket := _OPEN.search(error.msg):
            return self._wrong(self._tokens[at], f"`{')' if bracket[1] == '(' else ']'}` is missing")
        if "forgot a comma" in error.msg:  # the place is that of two values in a row
            return self._wrong(self._tokens[((error.end_offset or 0) - 2) // _WIDTH], "`and` or `or` is missing")
        *others, last = [False, False, *(one.kind != "sign" or one.text in (")", "]") for one in self._tokens[:at])]
        if last:
            why = "`and` or `or` is missing"
        else:
            why = "`in` is missing after `not`" if others[-1] and self._tokens[at - 1].text == "not" else _NO_VALUE
        return self._wrong(self._tokens[at], why)

    def _token(self, node: ast.expr) -> _Token:
        return self._tokens[node.col_offset // _WIDTH]

    def _after(self, node: ast.expr) -> _Token:
        return self._tokens[(node.end_col_offset or 0) // _WIDTH + 1]

    def _condition(self, node: ast.expr) -> Condition:
        match node:
            case ast.BoolOp(ast.And(), below):
                return _all([self._condition(one) for one in below])
            case ast.BoolOp(_, below):
                return Not(_all([Not(self._condition(one)) for one in below]))
            case ast.UnaryOp(_, negated):
                found = self._condition(negated)
                return found.condition if isinstance(found, Not) else Not(found)
            case ast.Compare():
                return self._comparisons(node)
            case ast.Call(ast.Name()) if self._token(node).text in ("missing", "matches"):
                return self._test(node)
        operand = self._operand(node)
        if isinstance(operand, Field) and operand.name not in DERIVED:
            return IsTrue(operand)
        raise self._wrong(self._after(node), "a comparison is missing")

    def _comparisons(self, node: ast.Compare) -> Condition:
        """Read a comparison, or several in a row, such as `3 <= duration <= 30`; `in` stands alone."""
        found: list[Condition] = []
        for sign, one, other in zip(node.ops, [node.left, *node.comparators], node.comparators, strict=False):
            place, spelling = self._after(one), _SIGNS.get(type(sign))
            if found and not (spelling and isinstance(found[0], Comparison)):
                raise self._wrong(place, "`and` or `or` is missing")
            left, right = self._operand(one), self._operand(other)
            if spelling is not None:
                found.append(self._comparison(spelling, left, right, place))
            else:
                member = self._member(left, right, self._token(one), self._token(other))
                found.append(member if isinstance(sign, ast.In) else Not(member))
        return _all(found)

    def _comparison(self, sign: Operator, left: Operand, right: Operand, place: _Token) -> Comparison:
        kinds = static_kind(left), static_kind(right)
        if "list" in kinds:
            raise self._wrong(place, "a list is compared by `in`")
        if None not in kinds and kinds[0] != kinds[1]:
            raise self._wrong(place, f"a {kinds[0]} does not compare with a {kinds[1]}")
        if "flag" in kinds and sign not in ("==", "!="):
            raise self._wrong(place, f"true and false do not compare by {sign}")
        return Comparison(sign, left, right)

    def _member(self, left: Operand, right: Operand, token: _Token, place: _Token) -> Membership:
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

    def _operand(self, node: ast.expr) -> Operand:
        token = self._token(node)
        match node:
            case ast.Call(ast.Name()):
                return self._call(node)
            case ast.List(items):
                return Literals(tuple(map(self._item, items)))
            case ast.Name() if token.kind == "number":
                return Literals(self._number(token))
            case ast.Name() if token.kind == "text":
                return Literals(_ESCAPE.sub(r"\1", token.text[1:-1]))
            case ast.Name() if token.kind == "flag":
                return Literals(token.text == "true")
            case ast.Name() if token.text in ("null", "None", "nan"):
                raise self._wrong(token, "use `missing(x)`")
            case ast.Name() if token.text in ("True", "False"):
                raise self._wrong(token, f"write `{token.text.lower()}`")
            case ast.Subscript(before) | ast.Call(before):
                raise self._wrong(self._after(before), "`and` or `or` is missing")
            case ast.Name():
                return Field(token.text.strip("`"), token.at)
        raise self._wrong(token, _NO_VALUE)

    def _number(self, token: _Token) -> float | int:
        try:
            value = float(token.text)
            exact = int(token.text) if token.text.lstrip("-").isdigit() else value
        except ValueError:  # more digits than Python reads
            value = exact = math.inf
        if not math.isfinite(value):
            raise self._wrong(token, "the number is too large")
        return exact

    def _item(self, node: ast.expr) -> Scalar:
        found = self._operand(node)
        if not isinstance(found, Literals) or isinstance(found.value, tuple):
            raise self._wrong(self._token(node), "a list takes numbers, texts, true and false")
        return found.value

    def _test(self, node: ast.Call) -> Missing | Matches:
        match self._token(node).text, list(map(self._operand, node.args)):
            case "missing", [Field(name) as field] if name not in DERIVED:
                return Missing(field)
            case "matches", [argument, pattern] if static_kind(argument) in (None, "text"):
                place = self._token(node.args[1])
                if not isinstance(pattern, Literals) or not isinstance(pattern.value, str):
                    raise self._wrong(place, 'a regular expression between " is missing')
                try:
                    return Matches(argument, re.compile(pattern.value))
                except (re.error, OverflowError, RecursionError) as error:
                    raise self._wrong(place, f"that is not a regular expression ({error})") from None
        raise self._misused(node)

    def _call(self, node: ast.Call) -> FunctionCall | Quantile:
        token = self._token(node)
        if token.text in ("matches", "missing"):
            raise self._wrong(token, f"`{token.text}` is a condition, not a value")
        if token.text not in _FUNCTIONS:
            close = difflib.get_close_matches(token.text, _FUNCTIONS, 1)
            hint = f"did you mean `{close[0]}`?" if close else f"known are {', '.join(_FUNCTIONS)}"
            raise self._wrong(token, f"there is no function `{token.text}` that gives a value; {hint}")
        match token.text, list(map(self._operand, node.args)):
            case ("len" | "lower" | "number") as name, [Field() | FunctionCall() as argument]:
                if static_kind(argument) != "number":
                    return FunctionCall(name, argument)
            case "quantile", [Field() | FunctionCall("len" | "number") as argument, share]:
                value = share.value if isinstance(share, Literals) else None
                if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                    raise self._wrong(self._token(node.args[1]), "a share from 0 to 1 is missing")
                return Quantile(argument, float(value))
        raise self._misused(node)

    def _misused(self, node: ast.Call) -> UsageError:
        name = self._token(node).text
        return self._wrong(self._token(node.args[0] if node.args else node), f"`{name}` takes {_FUNCTIONS[name]}")
