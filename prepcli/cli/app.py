"""The `prepcli` program: its commands, and how errors are reported."""

import atexit
import contextlib
import errno
import gc
import os
import select
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from prepcli.cli.building import build_command, give_up, show
from prepcli.cli.mistakes import ExplainingCommand, run_app
from prepcli.cli.startup import INTERRUPTED
from prepcli.errors import MORE_FILES, PrepcliError, UsageError, lacks_open_files, wrong_path
from prepcli.interface.commands import COMMANDS, TASKS, Command
from prepcli.interface.options import declared
from prepcli.interface.printing import printable
from prepcli.interface.values import check_text
from prepcli.processes.signals import Interruption, stop_on_signals
from prepcli.processes.workers import is_own_rank
from prepcli.version import __version__


class VariadicCommand(ExplainingCommand):
    """A command whose repeatable options also accept several values at once.

    `-t one two` means `-t one -t two`. If the command then has no argument (`-t one INPUT`), the last value is the
    argument.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `click.Command.parse_args`."""
        return super().parse_args(ctx, self._spread(self._spelled(args)))

    def _spread(self, args: list[str]) -> list[str]:
        by_name = {name: option for option in self.params for name in (*option.opts, *option.secondary_opts)}
        spread: list[str] = []
        last_in_row: int | None = None
        num_arguments = 0
        rest = list(args)
        while rest:
            arg = rest.pop(0)
            if arg == "--":
                return [*spread, arg, *rest]
            option = by_name.get(arg)
            spread.append(arg)
            if option is None:
                num_arguments += not arg.startswith("-")
            elif getattr(option, "multiple", False) and rest:
                spread.append(rest.pop(0))
                while rest and not rest[0].startswith("-"):
                    spread += [arg, rest.pop(0)]
                    last_in_row = len(spread) - 2
            elif not getattr(option, "is_flag", False) and rest:
                spread.append(rest.pop(0))
        if last_in_row is not None and not num_arguments:
            del spread[last_in_row]
        return spread


DOWNLOAD = "Fetch, check and convert published corpora"


class GroupedHelp(TyperGroup):
    """A group whose help lists its commands by task. The error for a part of a name names the commands that have it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See `click.Group.resolve_command`.

        Raises:
            UsageError: there is no such command, and there is advice on what to write instead.
        """
        if args[0] == "help":
            raise UsageError(f"no such command 'help': write {' '.join(['prepcli', *args[1:], '--help'])}")
        close = [name for name in self.commands if len(args[0]) > 2 and args[0] in name]
        if close and args[0] not in close:
            raise UsageError(f"no such command '{args[0]}': did you mean {' or '.join(close)}? (see prepcli --help)")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands of the group into the help, in one section per task."""
        names = self.list_commands(ctx)
        width = max(map(len, names), default=0)
        for title, commands in TASKS.items():
            summaries = {
                name: DOWNLOAD if more else command.summary
                for command in commands
                for name, _, more in [command.name.partition(" ")]
            }
            rows = [(name.ljust(width), summary) for name, summary in summaries.items() if name in names]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class CorpusGroup(TyperGroup):
    """The commands of the corpora. The error for an unknown corpus suggests a corpus with a similar name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See `click.Group.resolve_command`.

        Raises:
            UsageError: there is no such corpus.
        """
        if args[0].startswith("-") or args[0] in self.commands:
            return super().resolve_command(ctx, args)
        import difflib  # imported only after a mistake: the import takes milliseconds

        from prepcli.commands.download.corpora import list_corpora

        # Reversed, so that a corpus of our own comes before one of the same name that lhotse prepares.
        by_letters = {_letters(corpus.name.split()[-1]): corpus.name for corpus in reversed(list_corpora().corpora)}
        close = difflib.get_close_matches(_letters(args[0]), by_letters, 1)
        hint = f"did you mean {by_letters[close[0]]}? " if close else ""
        raise UsageError(f"there is no corpus {args[0]}: {hint}prepcli download --list has all")


def _letters(name: str) -> str:
    """Return the letters and digits of a name, in lower case: they are the same in all spellings of the name."""
    return "".join(filter(str.isalnum, name)).lower()


SHOW_TRACEBACK = "PREPCLI_TRACEBACK"
"""Environment variable with which an unexpected error prints its traceback."""
NOBODY_READS = 141
"""Exit code if the reader of the output ends while the command works: the code by which a shell reports SIGPIPE."""

_SUMMARY = "Turns speech corpora into training data: tar shards, Lhotse Shar, bins for bucketed training."
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _typer(name: str, help: str, cls: type[TyperGroup] = TyperGroup) -> typer.Typer:
    # Plain help: rich doubles the time of `--help`, and plain text can be piped and searched.
    return typer.Typer(
        name=name,
        help=help,
        cls=cls,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )


def build_app(words: Sequence[str]) -> typer.Typer:
    """Build the program for the words of a command line.

    If the words begin with a command, only this command is built. Other calls, such as `prepcli --help`, need only the
    names and summaries of the commands: declaring all options would double the time of the call.
    """
    app = _typer("prepcli", _SUMMARY, GroupedHelp)
    app.callback()(_root)
    download = _typer(
        "download",
        "Turn published corpora into audio and NeMo manifests: fetched and checked if the licence allows it, or read "
        "from a licensed copy. Each command can be stopped at any time; run it again to continue.",
        CorpusGroup,
    )
    download.callback(invoke_without_command=True)(_download)
    app.add_typer(download)
    meant = _meant(words)
    completes = any(name.endswith("_COMPLETE") for name in os.environ)  # the shell's completion asks for option names
    for command in meant or COMMANDS:
        group = download if command.name.startswith("download ") else app
        if meant or completes:
            _add(command, group)
        else:
            group.command(command.name.split()[-1], short_help=command.summary)(_nothing)
    return app


def _meant(words: Sequence[str]) -> list[Command]:
    """Return the commands that a command line may call: one, all commands of a group, or none for `--help`."""
    return [entry for entry in COMMANDS if entry.name.split()[:1] == [*words[:1]]]


def _nothing() -> None:
    """Stand in for a command that is only listed."""


def _add(command: Command, group: typer.Typer) -> None:
    words = command.name.split()
    options = command.load_options()
    function = build_command(words, options, command.load_function)
    has_lists = any(
        parameter.is_list and not (parameter.option.is_argument or parameter.option.one_each)
        for parameter in declared(options)
    )
    group.command(
        words[-1],
        cls=VariadicCommand if has_lists and len(words) == 1 else ExplainingCommand,
        short_help=command.summary,
    )(function)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"prepcli {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Turns speech corpora into training data."""


def _download(
    context: typer.Context,
    wanted: Annotated[bool, typer.Option("--list", help="List the corpora with hours, languages, licences.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --list: print one JSON object.")] = False,
) -> None:
    if wanted:
        from prepcli.commands.download.corpora import list_corpora

        show(SimpleNamespace(as_json=as_json), list_corpora())
        raise typer.Exit
    if as_json:
        raise UsageError("--json comes after the corpus, as in prepcli download an4 --json, or with --list")


def _check_names() -> None:
    """Refuse empty arguments, and names that are not UTF-8, which JSON manifests and plans cannot hold.

    It also refuses a deleted current folder: no relative path can be resolved without one.
    """
    try:
        here = [str(Path.cwd())]
    except FileNotFoundError:
        if {"--help", "-h", "--version"}.isdisjoint(sys.argv):
            raise UsageError("the current folder was deleted; change to one that exists (cd)") from None
        here = []
    except OSError:
        here = []
    for text in sys.argv[1:] + here:
        check_text(text)
        name, equals, value = text.partition("=")
        if name.startswith("--") and equals:
            check_text(value, name)


def _is_printed_elsewhere(error: PrepcliError) -> bool:
    """Whether another process prints this error.

    A wrong call fails in all ranks that the command has started: only rank 0 prints it. Too many rejects are reported
    by the process that has started the ranks.
    """
    return error.exit_code == 3 or (error.exit_code == 2 and os.environ.get("RANK") != "0")


def _command() -> None:
    """Run the command, and flush stdout before the process ends, so that a failure to write can still be reported."""
    try:
        code = run_app(build_app(sys.argv[1:]))
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()
    if code:
        sys.exit(code)


def _nobody_reads() -> bool:
    """Whether the reader of stdout or stderr (`| head`) has ended."""
    streams = select.poll()
    for number in (1, 2):
        streams.register(number, 0)  # errors are reported in any case
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in streams.poll(0))


def _of_system(error: OSError) -> str:
    """Return the message for an error of the operating system, with the name of the file if it is known."""
    why = error.strerror or str(error)
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {why}"
    return f"cannot write the output: {why}" if error.errno in _CANNOT_WRITE else why


def _print_error(message: str) -> None:
    """Print one line; unusual characters of a path or a manifest are escaped."""
    with contextlib.suppress(OSError):  # a full disk: the exit code still says what has happened
        print(f"prepcli: {printable(message)}", file=sys.stderr)


def main() -> None:
    """Run the command line. For an error, print one line on stderr, and exit with the code of the error."""
    # No garbage collection at exit: it takes 10 to 20 ms of each command.
    atexit.register(gc.freeze)
    try:
        _run()
    finally:
        try:
            sys.stderr.flush()
        except (OSError, ValueError):  # a full disk, or a reader that has ended: the exit code stays
            give_up(sys.stderr)


def _run() -> None:
    try:
        with stop_on_signals(Interruption):
            _check_names()
            if not any(command.runs_models() for command in _meant(sys.argv[1:])):
                # Before NumPy is imported: without large products of matrices the threads of BLAS would only be idle.
                os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
            _command()
    except Interruption as stopped:
        print(f"prepcli: {stopped}; run the same command again", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except PrepcliError as error:
        if not (error.is_printed or (is_own_rank() and _is_printed_elsewhere(error))):
            _print_error(str(error))
        sys.exit(error.exit_code)
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            give_up(sys.stdout)
            sys.stderr.close()
            sys.exit(NOBODY_READS)
        if os.environ.get(SHOW_TRACEBACK):
            raise
        if lacks_open_files(error):
            _print_error(f"{error}; {MORE_FILES}")
            sys.exit(1)
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            _print_error(f"too long for a path: {error.filename}")
            sys.exit(2)
        if isinstance(error, OSError) and (wrong := wrong_path(error)) is not None:
            _print_error(str(wrong))
            sys.exit(wrong.exit_code)
        if isinstance(error, OSError):  # a full disk or a removed file: not a bug
            give_up(sys.stdout)
            _print_error(_of_system(error))
            sys.exit(1)
        print(
            f"prepcli: a bug in prepcli: {type(error).__name__}: {printable(str(error))}; please report it with the "
            f"output of the same command with {SHOW_TRACEBACK}=1",
            file=sys.stderr,
        )
        sys.exit(1)
