"""prepcli turns speech corpora into training data, at any scale.

Each command of the command line is a function here: `prepcli manifest-to-tarred` is `prepcli.manifest_to_tarred`, and
`prepcli download an4` is `prepcli.download_an4`. Nothing is imported before it is used.
"""

from typing import Any

from prepcli.version import __version__ as __version__

_FUNCTIONS = (
    "download_aishell",
    "download_aishell2",
    "download_an4",
    "download_fisher",
    "download_hub5",
    "download_librispeech",
    "download_ljspeech",
    "estimate_bins",
    "estimate_bins_2d",
    "estimate_token_bins",
    "extend_codec_codes",
    "extend_context_audio",
    "inspect",
    "manifest_to_shar",
    "manifest_to_tarred",
    "status",
    "verify",
)
_ERRORS = ("IncompleteError", "PrepcliError", "TooManyRejectsError", "UsageError")
_REPORTS = {
    "Bins2dReport": "prepcli.bins.two_d",
    "BinsReport": "prepcli.bins.durations",
    "DownloadReport": "prepcli.corpora.running",
    "Inspection": "prepcli.inspection.report",
    "Report": "prepcli.engine.report",
    "Status": "prepcli.engine.status",
    "TokenBinsReport": "prepcli.bins.tokens",
    "VerifyReport": "prepcli.verification.verify",
}
__all__ = ["__version__", *_ERRORS, *_FUNCTIONS, *_REPORTS]


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        from prepcli import api

        found: Any = api.function_of(name)
    elif name in _ERRORS or name in _REPORTS:
        from importlib import import_module

        found = getattr(import_module(_REPORTS.get(name, "prepcli.errors")), name)
    else:
        raise AttributeError(f"module 'prepcli' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
