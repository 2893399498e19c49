"""Write `prepcli/functions.py` and the tables in `docs/*.md` from the declarations of commands and options.

Run it after changing an option or the docstring of a command: python scripts/update_generated.py
"""

import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from prepcli.audio.segments import POLICIES
from prepcli.commands.download.recipes import RECIPES
from prepcli.engine.run.options import JobOptions
from prepcli.interface.arguments import arguments_of
from prepcli.interface.commands import COMMANDS, PUBLIC_NAMES, TASKS, Command
from prepcli.interface.options import Declared, declared

ROOT = Path(__file__).parents[1]
FUNCTIONS = ROOT / "prepcli/functions.py"
DOCS = ROOT / "docs"
WIDTH = 112
"""Maximum length of a line of a docstring, without its indentation."""
JOB = {one.name for one in declared(JobOptions)}
OF_JOBS = "For the arguments and errors of every job see `help`, or docs/every_job.md and docs/python.md."
"""Stands in docstrings for what is the same in every job; `in_full` puts the texts there at run time."""
BEGIN, END = "<!-- options: {} -->", "<!-- end of options -->"
TABLE = re.compile(r"<!-- options: ([^>]*?) -->\n.*?<!-- end of options -->", re.DOTALL)
OTHER_PART = re.compile(r"<!-- (segments|recipes|commands|reference) -->\n.*?<!-- end of \1 -->", re.DOTALL)
RAISED_BY_JOBS = (
    "    IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.",
    "    TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.",
)
"""What every command with a job can raise, after what is listed in its own docstring."""


class MarkError(ValueError):
    """A page of `docs/` has no place for a table, or one for a command that does not exist."""


def functions() -> str:
    """The text of `prepcli/functions.py`."""
    imported = sorted((module, name) for name, module in PUBLIC_NAMES.items() if module != "functions")
    lines = [
        '"""The Python API: a function per command. Made by scripts/update_generated.py; do not edit."""',
        "",
        "from collections.abc import Sequence",
        "from os import PathLike",
        "from typing import TYPE_CHECKING, Literal",
        "",
        "from prepcli.interface.from_python import call, in_full",
        "",
        "if TYPE_CHECKING:",
        *(f"    from prepcli.{module} import {name} as {name}" for module, name in imported),
    ]
    for command in sorted((one for one in COMMANDS if not one.is_typed), key=lambda one: one.python_name):
        lines += ["", "", *_function(command)]
    lines += [
        "",
        "",
        f'in_full(globals(), "{OF_JOBS}", """\\',
        *_arguments_of_jobs(),
        '""", """\\',
        *RAISED_BY_JOBS,
        '""")',
    ]
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FUNCTIONS), "-"]
    text = "\n".join(lines) + "\n"
    return subprocess.run(ruff, cwd=ROOT, input=text, capture_output=True, text=True, check=True).stdout


def _function(command: Command) -> list[str]:
    parameters = [one for one in declared(command.load_options()) if one.option.only != "command line"]
    positional = sorted((one for one in parameters if _is_positional(one)), key=lambda one: not one.is_required)
    keywords = [one for one in parameters if not _is_positional(one)]
    doc = _docstring(command, parameters).splitlines()
    return [
        f"def {command.python_name}(",
        *(f"    {_parameter(one)}," for one in positional),
        *(["    *,"] if keywords else []),
        *(f"    {_parameter(one)}," for one in keywords),
        f') -> "{_returned(command)}":',
        f'    """{doc[0]}',
        *(f"    {line}".rstrip() for line in doc[1:]),
        '    """',
        f'    return call("{command.python_name}", locals())',
    ]


def _returned(command: Command) -> str:
    return command.report.rpartition(".")[2]


def _is_positional(one: Declared) -> bool:
    """Whether an argument may be given without its name."""
    return one.option.is_argument or one.is_required


def _parameter(one: Declared) -> str:
    takes_path = one.type is Path or one.option.is_argument or one.option.may_be_path
    value = "str | PathLike[str]" if takes_path else getattr(one.type, "__name__", "")
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


def _docstring(command: Command, parameters: list[Declared]) -> str:
    """The docstring: the help text, all arguments, and the sections of the command's own docstring."""
    options = command.load_options()
    description = re.sub(r"\n\nExample: prepcli .*", "", inspect.getdoc(options) or "", flags=re.DOTALL)
    paragraphs = _with_arguments(description, options).split("\n\n")
    summary, _, rest = (inspect.getdoc(command.load_function()) or "").partition("\n\n")
    assert rest.startswith("Returns:"), f"{command.python_name} has a docstring without Returns: {summary}"
    own = [one for one in parameters if one.name not in JOB]
    of_job = [one for one in parameters if one.name in JOB]
    if _all_lines(of_job, options) == _arguments_of_jobs():
        arguments = ["Args:", *_all_lines(own, options), "", OF_JOBS]
    else:
        arguments = ["Args:", *_all_lines(parameters, options)]
        if issubclass(options, JobOptions) and "IncompleteError:" not in rest:
            raised, examples, shown = rest.partition("\n\nExamples:")
            rest = "\n".join([raised, *RAISED_BY_JOBS]) + examples + shown
    return "\n\n".join([*(textwrap.fill(one, WIDTH) for one in paragraphs), "\n".join(arguments), rest])


def _arguments_of_jobs() -> list[str]:
    return _all_lines([one for one in declared(JobOptions) if one.option.only != "command line"], JobOptions)


def _all_lines(arguments: list[Declared], options: type) -> list[str]:
    return [line for one in arguments for line in _argument_lines(one, options)]


def _with_arguments(text: str, options: type) -> str:
    """A help text with the names of arguments in the place of options: `num_shards` for `--num-shards (-n)`."""
    arguments = arguments_of(options)

    def replaced(found: re.Match[str]) -> str:
        return arguments[found[1]][0].name if found[1] in arguments else found[0]

    text = re.sub(r"(?<![\w-])(--[a-z][a-z0-9-]*)(?: \(-\w\))?", replaced, text)
    return text.replace("un the same command again", "un the same call again")


def _argument_lines(one: Declared, options: type) -> Iterator[str]:
    text = one.option.help_in_python or _with_arguments(one.option.help, options)
    if one.option.several_paths:
        text += " Or a list of paths."
    if one.option.shown_default:
        text += f" Default: {one.option.shown_default}."
    yield from textwrap.wrap(f"{one.name}: {text}", WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8)


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
