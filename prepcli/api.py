"""The functions of the API, built from the list of commands: names, signatures and docstrings.

`prepcli/__init__.py` gets a function here on first access. Editors and type checkers read
`prepcli/__init__.pyi`, which `scripts/update_generated.py` writes from the same declarations.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

from prepcli.engine.run.options import JobOptions
from prepcli.errors import PrepcliError
from prepcli.interface.calls import called
from prepcli.interface.commands import BY_PYTHON_NAME, Command
from prepcli.interface.options import Declared, declared, words_of
from prepcli.interface.python_names import in_python
from prepcli.interface.values import check_effects, make_options

WIDTH = 112
"""Maximum length of a line of a docstring."""

RAISED_BY_JOBS = """\
IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.
TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run."""
"""What every command with a job can raise, after what is listed in its own docstring."""


@lru_cache
def function_of(name: str) -> Callable[..., Any]:
    """The function of the API with this name, e.g. `manifest_to_tarred`."""
    command = BY_PYTHON_NAME[name]
    signature = signature_of(command)

    def function(*arguments: Any, **keywords: Any) -> Any:
        try:
            values = signature.bind(*arguments, **keywords).arguments
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        return call(command, values)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "prepcli"
    function.__doc__ = docstring_of(command)
    function.__dict__["__signature__"] = signature
    function.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
    return function


def call(command: Command, values: dict[str, Any]) -> Any:
    """Run a command with values from Python.

    Raises:
        PrepcliError: the message names Python arguments.
    """
    options = make_options(command.load_options(), values)
    try:
        check_effects(options)
        with called([*command.name.split(), *words_of(options)], progress=getattr(options, "progress", False)):
            return command.load_function()(options)
    except PrepcliError as error:
        error.args = (in_python(str(error), type(options)), *error.args[1:])
        raise


def parameters_of(command: Command) -> list[Declared]:
    """The options that exist in Python, in the order of the signature."""
    return [one for one in declared(command.load_options()) if one.option.only != "command line"]


def is_positional(one: Declared) -> bool:
    """Whether an argument may be given without its name."""
    return one.option.is_argument or one.is_required


def takes_path(one: Declared) -> bool:
    """Whether an argument may be a `Path`."""
    return one.type is Path or one.option.is_argument or one.option.may_be_path


def signature_of(command: Command) -> inspect.Signature:
    """The signature with the types that a caller may give."""
    parameters = []
    for one in parameters_of(command):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if is_positional(one) else inspect.Parameter.KEYWORD_ONLY
        default = inspect.Parameter.empty if one.is_required else one.default
        parameters.append(inspect.Parameter(one.name, kind, default=default, annotation=_annotation(one)))
    # Parameters with a default come after those without.
    parameters.sort(key=lambda one: (one.kind, one.default is not inspect.Parameter.empty))
    return inspect.Signature(parameters)


def _annotation(one: Declared) -> Any:
    value: Any = str | PathLike[str] if takes_path(one) else one.type
    if one.is_list or one.option.several_paths:
        value = value | tuple[value, ...] | list[value]
    return value | None if one.is_optional else value


def docstring_of(command: Command) -> str:
    """The docstring: the help text, all arguments, and the sections of the function's own docstring."""
    options = command.load_options()
    description = re.sub(r"\n\nExample: prepcli .*", "", inspect.getdoc(options) or "", flags=re.DOTALL)
    own = inspect.getdoc(command.load_function()) or ""
    summary, _, rest = own.partition("\n\n")
    assert rest.startswith("Returns:"), f"{command.python_name} has a docstring without Returns: {summary}"
    if issubclass(options, JobOptions) and "IncompleteError:" not in rest:
        raised, example, shown = rest.partition("\n\nExample:")
        rest = f"{raised}\n{textwrap.indent(RAISED_BY_JOBS, ' ' * 4)}{example}{shown}"
    arguments = "\n".join(line for one in parameters_of(command) for line in _argument_lines(one, options))
    description = _rewrapped(in_python(description, options, only_names=True))
    return f"{description}\n\nArgs:\n{arguments}\n\n{rest}\n"


def _rewrapped(text: str) -> str:
    return "\n\n".join(textwrap.fill(part, WIDTH) for part in text.split("\n\n"))


def _argument_lines(one: Declared, options: type) -> Iterator[str]:
    text = one.option.help_in_python or in_python(one.option.help, options, only_names=True)
    if one.option.several_paths:
        text += " Or a list of paths."
    if one.option.shown_default:
        text += f" Default: {one.option.shown_default}."
    yield from textwrap.wrap(f"{one.name}: {text}", WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8)
