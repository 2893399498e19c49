"""What all reports share."""

from typing import Any


def brief(report: Any, *names: str) -> str:
    """A `repr` of one line with these attributes, for notebooks and logs."""
    shown = ", ".join(f"{name}={getattr(report, name)!r}" for name in names)
    return f"{type(report).__name__}({shown})"
