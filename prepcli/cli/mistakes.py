"""A wrong command line becomes an error of one line, with the command whose `--help` tells what is right."""

import sys
from typing import Any

import typer

from prepcli.errors import UsageError
from prepcli.interface.commands import COMMANDS

# typer has its own copy of click from some version on; both have the same classes.
CommandLineError: type[Exception] = next(one for one in typer.BadParameter.__mro__ if one.__name__ == "ClickException")
"""What typer raises for a wrong command line."""

_PLAIN = {
    "is not a valid int range": "is not a whole number",
    "is not a valid float range": "is not a number",
    "is not a valid int": "is not a whole number",
    "is not a valid float": "is not a number",
    "(Possible options:": "(similar:",
}
"""Words of click, and plainer ones."""
_SEVERAL = {
    **dict.fromkeys(("MANIFEST", "INPUT", "PATH"), "; several manifests are one argument, a.json,b.json"),
    "SOURCE": "; for several, give the folder above them, or a file that lists paths",
    "OUT": "; give one at a time",
}
"""How to give several values for the first argument, by its name."""


def run_app(app: typer.Typer) -> int:
    """Run a program of commands, and return its exit code.

    Raises:
        UsageError: the command line is wrong.
    """
    try:
        return int(app(prog_name="prepcli", standalone_mode=False) or 0)
    except CommandLineError as error:
        if type(error).__name__ != "NoArgsIsHelpError":
            raise _in_one_line(error) from None
        print(error, file=sys.stderr)  # nothing was asked for, and the help is the answer
        return 2


def _in_one_line(error: Any) -> UsageError:
    text = " ".join(error.format_message().split()).removesuffix(".")
    for word, plain in _PLAIN.items():
        text = text.replace(word, plain)
    context: Any = getattr(error, "ctx", None)
    if text.startswith("Got unexpected extra argument"):
        text = f"u{text.removeprefix('Got u')}: {_takes(context.command)}"
    return UsageError(f"{text[:1].lower()}{text[1:]} (see {_named(context)} --help)")


def _takes(command: Any) -> str:
    """The arguments of a command in words."""
    names = [one.metavar or str(one.name).upper() for one in command.params if one.param_type_name == "argument"]
    several = next((advice for first, advice in _SEVERAL.items() if names and first in names[0].split("|")), "")
    return f"the command takes {' and '.join(names) or 'no arguments'}{several}"


def _named(context: Any) -> str:
    """The command that was called, with `prepcli` before it."""
    if context is not None:
        return str(context.command_path)
    called = [one.name for one in COMMANDS if sys.argv[1:][: len(one.name.split())] == one.name.split()]
    return " ".join(["prepcli", *called[:1]])
