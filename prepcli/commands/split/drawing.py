"""Divides groups of records at random among parts of given sizes; a group is never divided."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prepcli.commands.split.parts import Asked
from prepcli.errors import UsageError, option
from prepcli.interface.printing import number_of
from prepcli.planning.hashing import GOLDEN, Hashes, mix64

NO_PART = -1
_MAX_OFF = 0.5
"""A part is refused if its size differs from the requested amount by more than this share of the amount."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of records that stay together; arrays of shape (groups,).

    Attributes:
        keys: a hash of the value that the records of the group share, such as the speaker.
        seconds: seconds of audio.
        records: number of records.
        stratum: the number of one combination of `--balance` values: the combination with the most seconds in the
            group; 0 without `--balance`.
        kept: the number of the part in which the group was in an earlier split, or `NO_PART`.
        name: the word for a group in messages, such as `speaker`.
    """

    keys: Hashes
    seconds: NDArray[np.float64]
    records: NDArray[np.int64]
    stratum: NDArray[np.int64]
    kept: NDArray[np.int64]
    name: str


def draw(groups: Groups, parts: Sequence[Asked], seed: int) -> NDArray[np.int64]:
    """Draw groups for all parts; returns the number of the part of each group, or `NO_PART`.

    Smaller parts are drawn first. The part that takes the rest, or the largest one if the shares add up to 1, gets all
    groups that are left. Groups come in the order of a seeded hash. A group that does not fit into a part any more is
    skipped (`_fill`). Groups that were in a part in an earlier split stay in it.

    Raises:
        UsageError: the drawn groups miss the requested size of a part by far, a part is empty, or the parts ask for
            more than there is.
    """
    sizes = [_sizes(groups, part) for part in parts]
    targets = [_target(groups, part) for part in parts]
    _check_total(groups, parts)
    part_of: NDArray[np.int64] = groups.kept.copy()
    with np.errstate(over="ignore"):
        order = np.argsort(mix64(groups.keys + np.uint64(seed % 2**64) * GOLDEN), kind="stable")
    mean = float(groups.seconds.sum()) / float(groups.records.sum())
    in_hours = [target * (mean if part.unit == "records" else 1) for target, part in zip(targets, parts, strict=True)]
    last = _takes_rest(parts, in_hours)
    drawn = sorted((number for number in range(len(parts)) if number != last), key=lambda number: in_hours[number])
    strata = range(int(groups.stratum.max(initial=0)) + 1)
    for number in drawn:
        size, whole = sizes[number], float(sizes[number].sum())
        for stratum in strata:
            here = groups.stratum == stratum
            target = targets[number] * (float(size[here].sum()) / whole)
            target -= float(size[here & (part_of == number)].sum())
            free = order[(part_of[order] == NO_PART) & here[order]]
            part_of[_fill(size, free, target, may_exceed=False)] = number
        target = targets[number] - float(size[part_of == number].sum())
        part_of[_fill(size, order[part_of[order] == NO_PART], target, may_exceed=True)] = number
        _check(groups, number, parts[number], float(size[part_of == number].sum()), targets[number], size)
    if last is not None:
        part_of[part_of == NO_PART] = last
        if not (part_of == last).any():
            raise UsageError(f"nothing is left for {parts[last].name}; ask for less in the other parts")
    return part_of


def _fill(size: NDArray[np.float64], free: NDArray[np.int64], target: float, may_exceed: bool) -> NDArray[np.int64]:
    """Choose groups whose sizes add up to about `target`; returns their numbers.

    Args:
        size: the size of each group.
        free: the numbers of the groups to choose from. In this order, each group is taken that still fits.
        target: the sum that the sizes of the taken groups do not exceed.
        may_exceed: also take the smallest group left if the sum, then above the target, is nearer to it.
    """
    taken: list[NDArray[np.int64]] = []
    gap, left = target, free
    while len(left := left[size[left] <= gap * (1 + 1e-12)]):
        count = max(1, int(np.searchsorted(np.cumsum(size[left]), gap * (1 + 1e-12), side="right")))
        taken.append(left[:count])
        gap -= float(size[left[:count]].sum())
        left = left[count:]
    drawn = np.concatenate([np.empty(0, np.int64), *taken])
    beyond = np.setdiff1d(free, drawn, assume_unique=True)
    if may_exceed and gap > 0 and len(beyond):  # take one more group if the part is then nearer to its target
        best = beyond[np.argmin(size[beyond])]
        if size[best] - gap < gap:
            drawn = np.append(drawn, best)
    return drawn


def _sizes(groups: Groups, part: Asked) -> NDArray[np.float64]:
    return groups.records.astype(np.float64) if part.unit == "records" else groups.seconds


def _target(groups: Groups, part: Asked) -> float:
    return part.amount * float(groups.seconds.sum()) if part.unit == "share" else part.amount


def _takes_rest(parts: Sequence[Asked], seconds: Sequence[float]) -> int | None:
    """The number of the part that takes all records that the other parts leave; None if no part does."""
    rest = next((number for number, part in enumerate(parts) if part.unit == "rest"), None)
    shares = sum(part.amount for part in parts if part.unit == "share")
    if rest is None and abs(shares - 1) < 1e-9 and all(part.unit == "share" for part in parts):
        return max(range(len(parts)), key=lambda number: seconds[number])
    return rest


def _check_total(groups: Groups, parts: Sequence[Asked]) -> None:
    """Raise `UsageError` if the parts ask for more audio or more records than there are."""
    whole, records = float(groups.seconds.sum()), int(groups.records.sum())
    asked = sum(_target(groups, part) for part in parts if part.unit in ("share", "seconds"))
    if asked > whole * (1 + 1e-9):
        raise UsageError(f"the parts ask for {_hours(asked)}, and there are {_hours(whole)}; ask for less")
    counted = sum(part.amount for part in parts if part.unit == "records")
    if counted > records:
        raise UsageError(f"the parts ask for {number_of(counted, 'record')}, and there are {records:,}; ask for less")


def _check(groups: Groups, number: int, part: Asked, total: float, target: float, size: NDArray[np.float64]) -> None:
    """Raise `UsageError` if a part is empty, or if its size `total` is too far from its target (`_MAX_OFF`)."""
    if abs(total - target) <= _MAX_OFF * target and total:
        return

    def text(amount: float) -> str:
        return number_of(amount, "record") if part.unit == "records" else _hours(amount)

    divide = (
        f"divide by another field ({option('--by')} FIELD), or draw each record for itself ({option('--by', 'none')})"
    )
    has_groups = groups.name != "record"  # else each record is drawn for itself already
    if len(size) == 1:
        only = f"there is only one {groups.name}, which cannot be in two parts"
        raise UsageError(f"{only}; {divide}" if has_groups else only)
    is_kept = groups.kept != NO_PART
    if is_kept.any():
        here = groups.kept == number
        why = (
            f"it gets {text(total)}: {option('--keep-parts')} keeps {text(float(size[here].sum()))} in it, and "
            f"{text(float(size[is_kept & ~here].sum()))} in other parts"
        )
    else:
        why = (
            f"whole {groups.name}s give {text(total)}: the smallest of {len(size):,} has {text(float(size.min()))}, "
            f"the largest {text(float(size.max()))}"
        )
    others = [f"leave {option('--keep-parts')} out"] if is_kept.any() else []
    advice = ", or ".join(["ask for another amount", *others, *([divide] if has_groups else [])])
    raise UsageError(f"part {part.name} asks for {text(target)}, and {why}; {advice}")


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.2f} h" if seconds >= 360 else f"{seconds:,.1f} s"
