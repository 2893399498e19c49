"""The names of options as arguments of Python functions, for messages and docstrings."""

from functools import lru_cache

from prepcli.interface.options import Declared, declared


def argument(options: type, name: str, value: object = None) -> str:
    """Return an option of the command line as a Python argument, as text for `prepcli.errors.option`.

    `--num-shards` becomes `num_shards`, `--overwrite` becomes `overwrite=True`, `--remainder` with the value `drop`
    becomes `remainder='drop'`. Options that the dataclass does not have keep their name.
    """
    declared_argument = arguments_of(options).get(name)
    if declared_argument is None:
        return name if value is None else f"{name} {value}"
    parameter, is_on = declared_argument
    if parameter.type is bool:
        return f"{parameter.name}={is_on}"
    if value is None:
        return parameter.name
    return f"{parameter.name}={value if parameter.type in (int, float) else repr(str(value))}"


@lru_cache
def arguments_of(options: type) -> dict[str, tuple[Declared, bool]]:
    """Return for each option name on the command line the declaration, and the value to which the name sets a flag."""
    arguments: dict[str, tuple[Declared, bool]] = {}
    for parameter in declared(options):
        for name in parameter.names if parameter.option.only != "command line" else ():
            on, _, off = name.partition("/")
            arguments |= {on: (parameter, not parameter.switches_off), off: (parameter, False)}
    return arguments
