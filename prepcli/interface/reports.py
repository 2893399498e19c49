"""Functions that all reports share."""

import html
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

PERCENTILES = (0, 1, 5, 25, 50, 75, 95, 99, 100)


class ShownInNotebooks:
    """Base of the reports: a notebook shows the text that the command prints."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def brief(report: Any, *names: str) -> str:
    """Return a `repr` of one line with the attributes `names`, for notebooks and logs."""
    shown = ", ".join(f"{name}={getattr(report, name)!r}" for name in names)
    return f"{type(report).__name__}({shown})"


def percentiles(ascending: "NDArray[Any]") -> dict[str, float]:
    """Return percentiles of ascending values by name, `p0` to `p100`; an empty dict for no values.

    Each percentile is one of the values: if it falls between two values, the larger one is taken.
    """
    if not len(ascending):
        return {}
    ranks = [math.ceil(share / 100 * (len(ascending) - 1)) for share in PERCENTILES]
    # Conversion through text gives the shortest form of a 32-bit number: 2.8, not 2.799999952316284.
    return {f"p{share}": float(str(ascending[rank])) for share, rank in zip(PERCENTILES, ranks, strict=True)}
