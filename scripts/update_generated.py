"""Write `prepcli/__init__.pyi` and the tables in `docs/*.md` from the declarations of commands and options.

Run it after changing an option or the docstring of a command: python scripts/update_generated.py
"""

import re
import sys
from pathlib import Path

import prepcli
from prepcli.api import docstring_of, is_positional, parameters_of, takes_path
from prepcli.engine.run.options import JobOptions
from prepcli.interface.commands import COMMANDS, Command
from prepcli.interface.options import Declared, declared

ROOT = Path(__file__).parents[1]
STUB = ROOT / "prepcli/__init__.pyi"
DOCS = ROOT / "docs"
JOB = {one.name for one in declared(JobOptions)}
BEGIN, END = "<!-- options: {} -->", "<!-- end of options -->"
TABLE = re.compile(r"<!-- options: ([^>]*?) -->\n.*?<!-- end of options -->", re.DOTALL)
FUNCTIONS = re.compile(r"<!-- functions -->\n.*?<!-- end of functions -->", re.DOTALL)


class MarkError(ValueError):
    """A page of `docs/` has no place for a table, or one for a command that does not exist."""


def stub() -> str:
    """The text of `prepcli/__init__.pyi`."""
    parts = [
        '"""Made by scripts/update_generated.py from the options of each command; do not edit."""',
        "",
        "from collections.abc import Sequence",
        "from os import PathLike",
        "from typing import Literal",
        "",
        *sorted(_imports()),
        "",
        "__all__: list[str]",
        "__version__: str",
    ]
    for command in sorted(COMMANDS, key=lambda one: one.python_name):
        parts += ["", *_function(command, _returned(command))]
    return "\n".join(parts) + "\n"


def _imports() -> set[str]:
    """The lines that import the classes of errors, of reports and of their items."""
    errors = [f"errors.{name}" for name in prepcli.__all__ if name.endswith("Error")]
    reports = [one for command in COMMANDS for one in (command.report, command.items) if one]
    names = (one.rpartition(".") for one in (*errors, *reports))
    return {f"from prepcli.{module} import {name} as {name}" for module, _, name in names}


def _returned(command: Command) -> str:
    return command.report.rpartition(".")[2]


def _function(command: Command, returns: str) -> list[str]:
    parameters = parameters_of(command)
    positional = sorted((one for one in parameters if is_positional(one)), key=lambda one: not one.is_required)
    keywords = [one for one in parameters if not is_positional(one)]
    doc = docstring_of(command).rstrip().splitlines()
    return [
        f"def {command.python_name}(",
        *(f"    {_parameter(one)}," for one in positional),
        *(["    *,"] if keywords else []),
        *(f"    {_parameter(one)}," for one in keywords),
        f") -> {returns}:",
        f'    """{doc[0]}',
        *(f"    {line}".rstrip() for line in doc[1:]),
        '    """',
    ]


def _parameter(one: Declared) -> str:
    value = "str | PathLike[str]" if takes_path(one) else one.type.__name__
    if one.choices:
        value = f"Literal[{', '.join(map(_quoted, one.choices))}]"
    if one.is_list or one.option.several_paths:
        value += f" | Sequence[{value}]"
    if one.is_optional:
        value += " | None"
    default = _quoted(one.default) if isinstance(one.default, str) else repr(one.default)
    return f"{one.name}: {value}" + ("" if one.is_required else f" = {default}")


def _quoted(text: str) -> str:
    return f'"{text}"'


def page(path: Path) -> str:
    """The text of a page of `docs/` with current tables.

    Raises:
        MarkError: the lines around a table are wrong.
    """
    commands: dict[str, type] = {command.name: command.load_options() for command in COMMANDS}
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN.partition("{}")[0]) != text.count(END):
        raise MarkError(f"{path}: each line {BEGIN.format('COMMAND')!r} needs a line {END!r} after its table")

    def table(found: re.Match[str]) -> str:
        is_job = found[1] == "every job"
        if not is_job and found[1] not in commands:
            raise MarkError(f"{path}: {BEGIN.format(found[1])!r} names no command of prepcli/interface/commands.py")
        options = declared(JobOptions if is_job else commands[found[1]])
        rows = [_row(one) for one in options if is_job or one.name not in JOB or not _has_job_options(options)]
        lines = ["| option | in Python | default | what it does |", "|---|---|---|---|", *rows]
        if not is_job and _has_job_options(options):
            lines += ["", "And the [options of every job](every_job.md#options-of-every-job)."]
        return "\n".join([BEGIN.format(found[1]), *lines, END])

    return FUNCTIONS.sub(lambda _: _functions(), TABLE.sub(table, text))


def _functions() -> str:
    """The table of all functions."""
    sections = _sections()
    rows = [
        f"| `{command.python_name}` | `{_returned(command)}` | [{command.name}]({sections[command.name]}) |"
        for command in COMMANDS
    ]
    lines = ["| function | returns | options |", "|---|---|---|", *rows]
    return "\n".join(["<!-- functions -->", *lines, "<!-- end of functions -->"])


def _sections() -> dict[str, str]:
    """Command -> link to the section of `docs/` that has the table of its options."""
    found = {}
    for path in sorted(DOCS.glob("*.md")):
        heading = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("## "):
                heading = line[3:]
            elif mark := re.fullmatch(r"<!-- options: (.*?) -->", line):
                found[mark[1]] = f"{path.name}#{heading.replace(' ', '-')}"
    for command in COMMANDS:
        if command.name not in found:
            lines = f"{BEGIN.format(command.name)!r} and {END!r}"
            raise MarkError(f"{DOCS} has no table for {command.name}: add the lines {lines} to the section about it")
    return found


def _has_job_options(options: tuple[Declared, ...]) -> bool:
    return {one.name for one in options} >= JOB


def _row(one: Declared) -> str:
    option = one.option
    flags = one.option.metavar or one.name.upper() if option.is_argument else ", ".join(sorted(one.names, key=_is_long))
    default = "required" if one.is_required else option.shown_default
    if default is None:
        is_plain = isinstance(one.default, (str, float)) or type(one.default) is int
        default = f"`{one.default}`" if is_plain else ""
    cells = [
        "" if option.only == "Python" else f"`{flags}`",
        "" if option.only == "command line" else f"`{one.name}`",
        default,
        option.help,
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _is_long(name: str) -> bool:
    return name.startswith("--")


def wanted() -> dict[Path, str]:
    """The generated files with their current texts; raises `MarkError`."""
    return {STUB: stub(), **{path: page(path) for path in sorted(DOCS.glob("*.md"))}}


def main() -> None:
    """Write the files that differ."""
    try:
        texts = wanted()
    except MarkError as error:
        sys.exit(str(error))
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"updated {path.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
