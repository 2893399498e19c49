"""Write `prepcli/functions.py` and the tables in `docs/*.md` from the declarations of commands and options.

Run it after changing an option or the docstring of a command: python scripts/update_generated.py
"""

import re
import sys
from pathlib import Path

from prepcli.audio.segments import POLICIES
from prepcli.commands.download.recipes import RECIPES
from prepcli.engine.run.options import JobArguments
from prepcli.interface.commands import COMMANDS, PUBLIC_NAMES, TASKS, Command
from prepcli.interface.options import Declared, declared

ROOT = Path(__file__).parents[1]
FUNCTIONS = ROOT / "prepcli/functions.py"
DOCS = ROOT / "docs"
JOB = {one.name for one in declared(JobArguments)}
BEGIN, END = "<!-- options: {} -->", "<!-- end of options -->"
TABLE = re.compile(r"<!-- options: ([^>]*?) -->\n.*?<!-- end of options -->", re.DOTALL)
OTHER_PART = re.compile(r"<!-- (segments|recipes|commands|reference) -->\n.*?<!-- end of \1 -->", re.DOTALL)


class MarkError(ValueError):
    """A page of `docs/` has no place for a table, or one for a command that does not exist."""


def functions() -> str:
    """The text of `prepcli/functions.py`."""
    imported = sorted((module, name) for name, module in PUBLIC_NAMES.items())
    lines = [
        '"""The names of the Python API, for type checkers. Made by scripts/update_generated.py; do not edit."""',
        "",
        "from typing import TYPE_CHECKING",
        "",
        "if TYPE_CHECKING:",
        *(f"    from prepcli.{module} import {name} as {name}" for module, name in imported),
    ]
    return "\n".join(lines) + "\n"


def _returned(command: Command) -> str:
    return command.report.rpartition(".")[2]


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
        options = declared(JobArguments if is_job else commands[found[1]])
        rows = [_row(one) for one in options if is_job or one.name not in JOB or not _has_job_options(options)]
        lines = ["| option | in Python | default | what it does |", "|---|---|---|---|", *rows]
        if not is_job and _has_job_options(options):
            lines += ["", "And the [options of every job](every_job.md#options-of-every-job)."]
        return "\n".join([BEGIN.format(found[1]), *lines, END])

    def other_part(found: re.Match[str]) -> str:
        lines = {"segments": _segments, "recipes": _recipes, "commands": _commands, "reference": _reference}[found[1]]()
        return "\n".join([f"<!-- {found[1]} -->", *lines, f"<!-- end of {found[1]} -->"])

    return OTHER_PART.sub(other_part, TABLE.sub(table, text))


def _segments() -> list[str]:
    """The table of what each writer makes of a segment."""
    rows = [
        [f"`{one.writer}`", one.samples.value, one.channels.value, one.rate, one.again.value, one.why]
        for one in POLICIES
    ]
    return [
        "| writer | samples | channels, without `--channel` | sampling rate | format, if it is not copied | why |",
        "|---|---|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def _recipes() -> list[str]:
    """The table of lhotse's recipes."""
    rows = [f"| `{one.name}` | {one.languages} | {one.use} |" for one in RECIPES.values()]
    return ["| recipe | languages | use |", "|---|---|---|", *rows]


def _commands() -> list[str]:
    """The table of all commands, by task."""
    sections = _sections()
    lines = ["| command | does | function | returns |", "|---|---|---|---|"]
    for task, commands in TASKS.items():
        lines.append(f"| **{task}** | | | |")
        for command in commands:
            cells = f"`{command.python_name}` | `{_returned(command)}`"
            lines.append(f"| [{command.name}]({sections[command.name]}) | {command.summary} | {cells} |")
    return lines


def _reference() -> list[str]:
    """All names of the API, for the program that makes the site of their docstrings."""
    names: dict[str, list[str]] = {"Functions": [], "Reports": [], "Errors": []}
    functions = {command.python_name for command in COMMANDS}
    for name, module in PUBLIC_NAMES.items():
        kind = "Functions" if name in functions else "Errors" if module == "errors" else "Reports"
        names[kind].append(f"::: prepcli.{'functions' if name in functions else module}.{name}")
    lines = [line for kind, found in names.items() for line in (f"## {kind}", *found)]
    return [*(one for line in lines for one in ("", line)), ""]


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
    values = f" One of {', '.join(f'`{value}`' for value in one.choices)}." if one.choices else ""
    cells = [
        "" if option.only == "Python" else f"`{flags}`",
        "" if option.only == "command line" else f"`{one.name}`",
        default,
        option.help + values,
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _is_long(name: str) -> bool:
    return name.startswith("--")


def wanted() -> dict[Path, str]:
    """The generated files with their current texts; raises `MarkError`."""
    return {FUNCTIONS: functions(), **{path: page(path) for path in sorted(DOCS.glob("*.md"))}}


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
