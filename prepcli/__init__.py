"""prepcli turns speech corpora into training data, at any scale.

Each command of the command line is a function here: `prepcli manifest-to-tarred` is `prepcli.manifest_to_tarred`, and
`prepcli download an4` is `prepcli.download_an4`. Nothing is imported before it is used.
"""

from typing import Any

from prepcli.version import __version__ as __version__

_ERRORS = ("IncompleteError", "PrepcliError", "TooManyRejectsError", "UsageError")
_REPORTS = {
    "Bins2dReport": "prepcli.bins.two_d",
    "BinsReport": "prepcli.bins.durations",
    "BlendReport": "prepcli.blending.report",
    "DownloadReport": "prepcli.corpora.running",
    "IndexReport": "prepcli.indexing.report",
    "Inspection": "prepcli.inspection.report",
    "Report": "prepcli.engine.report",
    "Status": "prepcli.engine.status",
    "TokenBinsReport": "prepcli.bins.tokens",
    "VerifyReport": "prepcli.verification.report",
}


def __getattr__(name: str) -> Any:
    if name in _ERRORS or name in _REPORTS:
        from importlib import import_module

        found = getattr(import_module(_REPORTS.get(name, "prepcli.errors")), name)
    elif name == "__all__":
        from prepcli.interface.commands import BY_PYTHON_NAME

        found = ["__version__", *_ERRORS, *sorted(BY_PYTHON_NAME), *_REPORTS]
    else:
        from prepcli.interface.commands import BY_PYTHON_NAME

        if name not in BY_PYTHON_NAME:
            raise AttributeError(f"module 'prepcli' has no attribute {name!r}")
        from prepcli import api

        found = api.function_of(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
