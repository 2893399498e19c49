"""prepcli turns speech corpora into training data, at any scale.

Each command of the command line is a function here: `prepcli manifest-to-tarred` is `prepcli.manifest_to_tarred`, and
`prepcli download an4` is `prepcli.download_an4`. Nothing is imported before it is used.
"""

from typing import TYPE_CHECKING, Any

from prepcli.version import __version__ as __version__

if TYPE_CHECKING:
    from prepcli.functions import *  # noqa: F403 - the functions, their reports and the errors

    __all__: list[str]
else:  # a type checker that saw `__getattr__` would accept every name

    def __getattr__(name: str) -> Any:
        import builtins
        from importlib import import_module

        from prepcli.interface.commands import PUBLIC_NAMES

        if name == "__all__":  # `from prepcli import *` hides no built-in function
            value = [name for name in ("__version__", *PUBLIC_NAMES) if not hasattr(builtins, name)]
        elif name in PUBLIC_NAMES:
            value = getattr(import_module(f"prepcli.{PUBLIC_NAMES[name]}"), name)
            if hasattr(value, "__prepcli_command__"):
                from prepcli.interface.command import document

                document(value)
        else:
            raise AttributeError(f"module 'prepcli' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        from prepcli.interface.commands import PUBLIC_NAMES

        return sorted({*globals(), "__all__", *PUBLIC_NAMES})
