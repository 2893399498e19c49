"""Calls of the functions of the API: their arguments become options, and messages name the arguments."""

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

from prepcli.errors import arguments_named_by
from prepcli.interface.arguments import argument
from prepcli.interface.calls import called
from prepcli.interface.commands import BY_PYTHON_NAME
from prepcli.interface.options import declared, words_of
from prepcli.interface.values import check_together, make_options

Returned = TypeVar("Returned")


def call(name: str, arguments: Mapping[str, Any]) -> Returned:  # type: ignore[type-var]  # each caller says what it is
    """Run the command of a function of `prepcli.functions`.

    Args:
        name: the name of the function.
        arguments: all arguments of the function; one with its default value counts as not given.

    Raises:
        PrepcliError: the message names Python arguments.
    """
    command = BY_PYTHON_NAME[name]
    defaults = {one.name: one.default for one in declared(command.load_options())}
    given = {name: value for name, value in arguments.items() if value is not defaults[name]}
    with arguments_named_by(partial(argument, command.load_options())):
        options = make_options(command.load_options(), given)
        check_together(options)
        words, progress = [*command.name.split(), *words_of(options)], getattr(options, "progress", False)
        with called(words, progress=progress, command=command.name, options=options):
            report: Returned = command.load_function()(options)
            return report


def in_full(functions: Mapping[str, Any], reference: str, arguments: str, errors: str) -> None:
    """Insert the shared arguments and errors into the docstrings of functions, so that Python's `help` shows them.

    Args:
        functions: all functions by name.
        reference: a placeholder line in the docstrings; docstrings without it are not changed. `arguments` replaces it.
        arguments: lines for the end of the section `Args:`.
        errors: lines for the end of the section `Raises:`. They are left out if the section already names the first of
            these errors.
    """
    for name in BY_PYTHON_NAME.keys() & functions.keys():
        above, found, below = (functions[name].__doc__ or "").partition(reference)
        if found:
            indent = "\n" + " " * (len(above) - len(above.rstrip(" ")))  # none since Python 3.13
            raised, examples, shown = below.partition(f"\n{indent}Examples:")
            has_errors = errors.partition(":")[0].strip() in raised
            new = indent.join(["", *([] if has_errors else errors.splitlines())])
            above = indent.join([above.rstrip(), *arguments.splitlines()])
            functions[name].__doc__ = f"{above}{raised}{new}{examples}{shown}"
