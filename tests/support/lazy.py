"""Modules that take seconds to import, imported when a test first uses them: collecting tests must be quick.

Below `if TYPE_CHECKING: import torch`, in a file with `from __future__ import annotations`:

    else:
        torch = lazy("torch")
"""

import importlib
from typing import Any


class _LazyModule:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        # pytest looks at all names of a test's file for its own attributes.
        if attribute.startswith(("_", "pytest")):
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)


def lazy(name: str) -> Any:
    """Stands for the module until one of its attributes is used, and then passes on what it has."""
    return _LazyModule(name)
