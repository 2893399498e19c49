"""prepcli turns speech corpora into training data, at any scale.

Each command of the command line is a function here: `prepcli manifest-to-tarred` is `prepcli.manifest_to_tarred`, and
`prepcli download an4` is `prepcli.download_an4`. Nothing is imported before it is used.
"""

from typing import Any

from prepcli.version import __version__ as __version__

_ERRORS = ("IncompleteError", "PrepcliError", "TooManyRejectsError", "UsageError")


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _ERRORS:
        found = getattr(import_module("prepcli.errors"), name)
    else:
        from prepcli.interface.commands import BY_PYTHON_NAME

        classes = [one for command in BY_PYTHON_NAME.values() for one in (command.report, command.items) if one]
        reports = {name_of_class: module for module, _, name_of_class in (one.rpartition(".") for one in classes)}
        if name == "__all__":
            found = ["__version__", *_ERRORS, *sorted(BY_PYTHON_NAME), *sorted(reports)]
        elif name in reports:
            found = getattr(import_module(f"prepcli.{reports[name]}"), name)
        elif name in BY_PYTHON_NAME:
            from prepcli import api

            found = api.function_of(name)
        else:
            raise AttributeError(f"module 'prepcli' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
