"""The names of options as arguments of Python functions, for messages and docstrings."""

from functools import lru_cache

from prepcli.interface.options import Declared, declared


def argument(options: type, name: str, value: object = None) -> str:
    """Return an option of the command line as a Python argument, as text for `prepcli.errors.option`.

    `--num-shards` becomes `num_shards`, `--overwrite` becomes `overwrite=True`, `--remainder` with the value `drop`
    becomes `remainder='drop'`. Options that the dataclass does not have keep their name.
    """
    found = arguments_of(options).get(name)
    if found is None:
        return name if value is None else f"{name} {value}"
    one, is_on = found
    if one.type is bool:
        return f"{one.name}={is_on}"
    if value is None:
        return one.name
    return f"{one.name}={value if one.type in (int, float) else repr(str(value))}"


@lru_cache
def arguments_of(options: type) -> dict[str, tuple[Declared, bool]]:
    """Return for each option name on the command line the declaration, and the value to which the name sets a flag."""
    found: dict[str, tuple[Declared, bool]] = {}
    for one in declared(options):
        for name in one.names if one.option.only != "command line" else ():
            on, _, off = name.partition("/")
            found |= {on: (one, not one.switches_off), off: (one, False)}
    return found
