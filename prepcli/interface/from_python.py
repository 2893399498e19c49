"""Calls of the functions of the API: their arguments become options, and messages name the arguments."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from prepcli.errors import PrepcliError
from prepcli.interface.calls import called
from prepcli.interface.commands import BY_PYTHON_NAME
from prepcli.interface.options import Declared, declared, words_of
from prepcli.interface.printing import printable_command
from prepcli.interface.values import check_effects, make_options

Returned = TypeVar("Returned")
_FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*)(?: \(-\w\))?(?:( )(-?[\w.+-]*\w))?")


def call(name: str, arguments: Mapping[str, Any]) -> Returned:  # type: ignore[type-var]  # each caller says what it is
    """Run the command of a function of `prepcli.functions`.

    Args:
        name: the name of the function.
        arguments: all of its arguments; those with their default are left out.

    Raises:
        PrepcliError: the message names Python arguments.
    """
    command = BY_PYTHON_NAME[name]
    defaults = {one.name: one.default for one in declared(command.load_options())}
    given = {name: value for name, value in arguments.items() if value is not defaults[name]}
    options = make_options(command.load_options(), given)
    try:
        check_effects(options)
        with called([*command.name.split(), *words_of(options)], progress=getattr(options, "progress", False)):
            report: Returned = command.load_function()(options)
            return report
    except PrepcliError as error:
        # `continue_with` stays a command for a shell.
        shell = printable_command(getattr(error, "continue_with", None) or "")
        shell = shell if str(error).endswith(shell) else ""
        error.args = (in_python(str(error).removesuffix(shell), type(options)) + shell, *error.args[1:])
        raise


def in_python(text: str, options: type, *, only_names: bool = False) -> str:
    """Replace the options of the command line in a message or a help text by Python arguments.

    `--num-shards` becomes `num_shards`, `--overwrite` becomes `overwrite=True`, `--remainder drop` becomes
    `remainder='drop'`; with `only_names`, values are left out. Options that the dataclass does not have are not
    replaced.
    """
    by_flag = dict(_flags(options))

    def replaced(found: re.Match[str]) -> str:
        if found[1] not in by_flag:
            return found[0]
        one, is_on = by_flag[found[1]]
        space, word = found[2] or "", found[3] or ""
        if only_names:
            return f"{one.name}{space}{word}"
        if one.type is bool:
            return f"{one.name}={is_on}{space}{word}"
        if word in one.choices:
            return f"{one.name}={word!r}"
        is_number = one.type in (int, float) and re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?|nan|inf", word)
        return f"{one.name}={word}" if is_number else f"{one.name}{space}{word}"

    return _FLAG.sub(replaced, text).replace("un the same command again", "un the same call again")


def _flags(options: type) -> Iterator[tuple[str, tuple[Declared, bool]]]:
    for one in declared(options):
        for name in one.names if one.option.only != "command line" else ():
            on, _, off = name.partition("/")
            yield on, (one, not one.switches_off)
            yield off, (one, False)
