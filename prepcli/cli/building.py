"""Builds a typer command from a dataclass of options: names, types, defaults and help follow from it."""

import contextlib
import gc
import inspect
import os
import sys
import time
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from prepcli.errors import IncompleteError, TooManyRejectsError, UsageError, arguments_named_by
from prepcli.interface.arguments import argument
from prepcli.interface.calls import called
from prepcli.interface.command import declaration
from prepcli.interface.options import Declared, declared, words_of
from prepcli.interface.printing import aligned, as_text, encodable
from prepcli.interface.values import Options, check_together, from_command_line
from prepcli.processes.workers import CALLED_FROM_PYTHON, is_own_rank
from prepcli.storage.addresses import is_address, other_scheme, parse_address

if TYPE_CHECKING:
    from prepcli.engine.run.status import Status

_OBJECTS_BETWEEN_COLLECTIONS = 100_000


def show(options: Any, report: Any) -> None:
    """Print a report: as text, which `--verbose` makes longer and `--quiet` shorter, or with `--json` as a JSON object.

    Raises:
        typer.Exit: with the exit code of the report, if it is not 0.
    """
    if getattr(options, "watch", False):
        raise typer.Exit(_watch(options, report))
    try:
        if getattr(options, "as_json", False):
            print_json(report.document() if hasattr(report, "document") else report)
        else:
            spec = next((name for name in ("verbose", "quiet") if getattr(options, name, False)), "")
            typer.echo(format(report, spec))
    except BrokenPipeError:  # the reader (`| head`) has ended, but the work is done
        give_up(sys.stdout)
    if code := getattr(report, "exit_code", 0):
        raise typer.Exit(code)


def give_up(stream: TextIO) -> None:
    """Discard output that could not be written: Python tries again at exit, and would end with code 120."""
    with contextlib.suppress(OSError, ValueError, AttributeError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def print_json(document: Any) -> None:
    """Print one JSON object on stdout."""
    import msgspec

    try:
        text = msgspec.json.encode(document)
    except UnicodeEncodeError:  # a name that is not UTF-8
        text = msgspec.json.encode(encodable(msgspec.to_builtins(document)))
    typer.echo(text.decode())


def _watch(options: Any, statuses: "Sequence[Status]") -> int:
    """Print the states of runs until none is active or waiting. The exit code is 0 if all are finished, else 4."""
    from prepcli.commands.status.command import status
    from prepcli.engine.run.status import HEAD, NUM_WORDS, overview, row

    shown: list[list[str]] = []
    while True:
        if options.as_json:
            print_json(statuses)
        elif sys.stdout.isatty():
            typer.echo("\033[H\033[J", nl=False)
            typer.echo(as_text(overview(statuses)))
        else:
            rows = [row(run) for run in statuses]
            new = [state for state in rows if state not in shown]
            if new:
                now = time.strftime("%H:%M:%S")
                rows_shown = aligned(new if shown else [list(HEAD), *new], NUM_WORDS)
                typer.echo(as_text(f"{now}  {line}" for line in rows_shown))
            shown = rows
            sys.stdout.flush()
        if not any(run.state in ("planning", "running", "waiting", "finishing", "not_started") for run in statuses):
            return 0 if all(run.state == "finished" for run in statuses) else 4
        time.sleep(options.every)
        statuses = declaration(status).work(options)


def build_command(
    words: Sequence[str], options: type[Options], function: Callable[[], Callable[[Options], Any]]
) -> Callable[..., None]:
    """Build the function from which typer makes a command.

    Args:
        words: the name of the command, e.g. `download an4`.
        options: the dataclass of its options.
        function: imports the function that does the work, and returns it. The command prints the report of that
            function.
    """
    on_command_line = [parameter for parameter in declared(options) if parameter.option.only != "Python"]
    two = _may_be_alone(on_command_line)

    def command(**values: Any) -> None:
        if two is not None:
            _give_to_first(two, values, " ".join(words))
        given = {
            parameter.name: from_command_line(parameter, _value(parameter, values[parameter.name]))
            for parameter in on_command_line
        }
        made = options(**given)
        check_together(made)
        _run(words, made, function)

    parameters = [_parameter(parameter, is_checked=two is None) for parameter in on_command_line]
    # typer reads options and their types from here.
    command.__dict__["__signature__"] = inspect.Signature(parameters)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = options.__doc__
    return command


def _may_be_alone(parameters: Sequence[Declared]) -> tuple[Declared, Declared] | None:
    """The two arguments of a command that takes `INPUT... [OUT]`; None for all others."""
    arguments = [parameter for parameter in parameters if parameter.option.is_argument]
    if len(arguments) == 2 and arguments[0].is_list and not arguments[1].is_required:
        return arguments[0], arguments[1]
    return None


def _give_to_first(arguments: tuple[Declared, Declared], values: dict[str, Any], name: str) -> None:
    """Give a single value to INPUT: the parser has given it to OUT.

    Raises:
        UsageError: there is no value.
    """
    several, last = arguments
    if not values[several.name]:
        if values[last.name] is None:
            raise UsageError(f"missing argument '{several.option.metavar}' (see prepcli {name} --help)")
        values[several.name], values[last.name] = [values[last.name]], None


def _path_or_address(must_exist: str | None) -> Callable[[str], str]:
    """The parser of a path that may be an address, whose existence is not checked here.

    An address is not converted to `Path`, which would change its key. An address of an unsupported scheme is passed on,
    and refused later.
    """

    def path(value: str) -> str:
        if is_address(value) and value.partition("://")[2]:  # an address without a bucket is refused later
            return str(parse_address(value))
        if must_exist is None or other_scheme(value):
            return value
        kind = "Directory" if must_exist == "folder" else "File"
        if not os.path.exists(value):
            raise typer.BadParameter(f"{kind} '{value}' does not exist.")
        if os.path.isdir(value) != (must_exist == "folder"):
            raise typer.BadParameter(f"{kind} '{value}' is a {'file' if must_exist == 'folder' else 'directory'}.")
        return value

    return path


def _run(words: Sequence[str], options: Any, function: Callable[[], Callable[[Any], Any]]) -> None:
    """Call the function and print its report, also after a run with too many rejects."""
    names: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if is_own_rank() and os.environ.get(CALLED_FROM_PYTHON):
        names = arguments_named_by(partial(argument, type(options)))
    try:
        name = " ".join(words)
        with names, called([*words, *words_of(options)], progress=True, command=name, options=options):
            _expect_requests(options)
            work = function()
            _collect_garbage()
            report = work(options)
    except TooManyRejectsError as error:
        if not is_own_rank() and error.report is not None:
            show(options, error.report)
        raise
    except IncompleteError as error:
        if error.document is not None and getattr(options, "as_json", False) and not is_own_rank():
            print_json(error.document)
        raise
    if not is_own_rank():
        show(options, report)


def _expect_requests(options: Any) -> None:
    """Start the process that talks to the store if an option is an address.

    It is started early, so that it imports its modules while this process imports its own.
    """
    if any(is_address(str(value)) for value in vars(options).values()):
        from prepcli.storage.access import start_helper

        start_helper()


def _collect_garbage() -> None:
    """Enable garbage collection if the program has started without it.

    Objects that the imports have made stay until the end: the collector skips them, and workers share their memory. It
    looks rarely, because the function of a command imports what it needs, which makes many objects and no garbage.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
        gc.enable()


def _parameter(parameter: Declared, is_checked: bool) -> inspect.Parameter:
    """`is_checked`: whether the parser checks that required values are there."""
    # As text, a path keeps the slash at its end.
    value_type: Any = (
        _choices(parameter) if parameter.choices else str if parameter.option.names_file else parameter.type
    )
    if parameter.is_list:
        value_type = list[value_type]
    is_required = parameter.is_required and (is_checked or not parameter.is_list)
    default = inspect.Parameter.empty if is_required else _default(parameter, value_type)
    if default is None:
        value_type = value_type | None
    settings: dict[str, Any] = {"help": parameter.option.help, "metavar": parameter.option.metavar}
    if parameter.option.shown_default is not None:
        settings["show_default"] = parameter.option.shown_default or False
    if parameter.option.minimum is not None:
        settings["min"] = parameter.type(parameter.option.minimum)
    kind: dict[str, Any] = {}
    if parameter.option.must_exist is not None:
        kind = {"exists": True, "dir_okay": parameter.option.must_exist == "folder"}
        kind["file_okay"] = parameter.option.must_exist == "file"
    if parameter.type is Path and parameter.option.takes_address:
        settings["parser"] = _path_or_address(parameter.option.must_exist)
        settings["metavar"] = parameter.option.metavar or (
            "<directory>" if parameter.option.must_exist == "folder" else "<path>"
        )
    else:
        settings |= kind
    declare = typer.Argument(**settings) if parameter.option.is_argument else typer.Option(*parameter.names, **settings)
    return inspect.Parameter(
        parameter.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[value_type, declare]
    )


def _choices(parameter: Declared) -> Any:
    return Enum(parameter.name, {value: value for value in parameter.choices}, type=str)


def _default(parameter: Declared, value_type: Any) -> Any:
    if parameter.is_list:
        return None
    if parameter.choices and parameter.default is not None:
        return value_type(parameter.default)
    return False if parameter.switches_off else parameter.default


def _value(parameter: Declared, value: Any) -> Any:
    if parameter.is_list:
        return tuple(item.value if isinstance(item, Enum) else item for item in value or ())
    if isinstance(value, Enum):
        return value.value
    return not value if parameter.switches_off else value
