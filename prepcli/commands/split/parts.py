"""The parts that `--part` of `split` asks for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prepcli.errors import UsageError, option

_PART = re.compile(r"(?P<name>[\w-]+)=(?:(?P<rest>rest)|(?P<number>\d+\.?\d*|\.\d+)(?P<unit>[hms]?))", re.ASCII)
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}
MAX_PARTS = 100


@dataclass(frozen=True, slots=True)
class Asked:
    """A part that `--part` asks for.

    Attributes:
        name: the name of the part; with `.json`, the name of its file.
        text: the amount as the user has written it.
        unit: the unit of the amount: share of all hours, seconds, records, or rest (all that the other parts leave).
        amount: the amount in this unit; 0 for the rest.
    """

    name: str
    text: str
    unit: Literal["share", "seconds", "records", "rest"]
    amount: float


def parts_of(texts: Sequence[str]) -> list[Asked]:
    """The parts that `--part` asks for, in order.

    Raises:
        UsageError: a part is not of the form NAME=AMOUNT, or the parts contradict each other; for instance, their
            shares add up to more than 1.
    """
    parts = [_asked(text) for text in texts]
    if not parts:
        raise UsageError(f"give the parts: {option('--part', 'train=0.9')} {option('--part', 'test=0.1')}")
    if len(parts) > MAX_PARTS:
        raise UsageError(f"{len(parts)} parts are more than {MAX_PARTS}")
    names = [part.name for part in parts]
    if twice := next((name for name in names if [*map(str.lower, names)].count(name.lower()) > 1), None):
        raise UsageError(f"{option('--part')}: {twice} is given twice")
    if "parts" in names:
        raise UsageError(f"{option('--part')}: no part can have the name parts; the report has it")
    if sum(part.unit == "rest" for part in parts) > 1:
        raise UsageError(f"{option('--part')}: only one part can take the rest")
    shares = sum(part.amount for part in parts if part.unit == "share")
    if shares > 1 + 1e-9:
        raise UsageError(f"{option('--part')}: the shares add up to {shares:g}, more than 1")
    return parts


def _asked(text: str) -> Asked:
    match = _PART.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{option('--part', repr(text))}: give NAME=AMOUNT with a share (0.9), a time (1h, 30m, 90s), a number of "
            "records (500) or rest"
        )
    name, amount = match["name"], text.strip().partition("=")[2]
    if match["rest"]:
        return Asked(name, amount, "rest", 0.0)
    number, unit = float(match["number"]), match["unit"]
    if not number:
        raise UsageError(f"{option('--part', repr(text))}: the amount must be above 0")
    if unit:
        return Asked(name, amount, "seconds", number * _SECONDS[unit])
    if number <= 1 and "." in match["number"]:
        return Asked(name, amount, "share", number)
    if number % 1:
        raise UsageError(f"{option('--part', repr(text))}: a share is at most 1, and records are whole numbers")
    return Asked(name, amount, "records", number)
