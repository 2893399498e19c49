"""Commands are typed functions: Python calls them as they are, and the command line follows from their signatures.

    @command("score")
    def score(manifest: Manifests, out: OutFile, *, fields: Fields = "basic", **more: Unpack[JobArguments]) -> Report:

Each parameter is `Annotated[TYPE, Option("What it does.")]`. `**more` stands for options that many commands have: the
keys of a `TypedDict` (PEP 692), whose defaults are in their `Option`. The docstring has the text of `--help`, then the
sections of the function's own documentation.
"""

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, make_dataclass
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast, get_args, get_type_hints

from prepcli.errors import arguments_named_by
from prepcli.interface.arguments import argument, arguments_of
from prepcli.interface.calls import called, current_call
from prepcli.interface.options import Declared, declared, default_of, words_of
from prepcli.interface.values import check_together, make_options

P = ParamSpec("P")
R = TypeVar("R")
_SECTION = re.compile(r"\n\n(?=(?:Returns|Raises|Examples):\n)")
_EXAMPLE = re.compile(r"\n\nExample: prepcli .*?(?=\n\n|$)", re.DOTALL)
_WIDTH = 112
"""Maximum length of a line of a docstring, without its indentation."""
RAISED_BY_JOBS = (
    "    IncompleteError: the run was interrupted; the same call, or its `continue_with` in a shell, continues it.",
    "    TooManyRejectsError: more records were rejected than `max_rejects` allows; its `report` is that of the run.",
)
"""The errors that every command with a job can raise, after those that its own docstring lists."""
_COMMAND = "__prepcli_command__"


class Declaration(NamedTuple):
    """The declaration of a typed function.

    Attributes:
        name: the name on the command line.
        options: a dataclass with a field for each parameter (`prepcli.interface.options.declared`); its docstring is
            the text of `--help`.
        work: takes an object of `options`, and calls the function.
    """

    name: str
    options: type[Any]
    work: Callable[[Any], Any]


def command(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a command of a typed function: its arguments are checked, and messages name them as the caller does.

    Args:
        name: the name on the command line, such as `download an4`.
    """

    def made(function: Callable[P, R]) -> Callable[P, R]:
        parameters = list(_flattened(function))
        options = _dataclass(function, parameters)
        hidden = {parameter.name for parameter in declared(options) if parameter.option.only == "command line"}
        signature = inspect.Signature(
            [
                parameter.replace(annotation=get_args(parameter.annotation)[0])
                for parameter in parameters
                if parameter.name not in hidden
            ],
            return_annotation=function.__annotations__["return"],
        )
        defaults = {parameter.name: parameter.default for parameter in parameters}

        def work(values: Any) -> R:
            return cast("Callable[..., R]", function)(**vars(values))

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                advice = _advice(signature, options, kwargs)
                raise TypeError(f"{function.__name__}() {error}{advice}") from None
            given = {key: value for key, value in bound.arguments.items() if value is not defaults[key]}
            with arguments_named_by(partial(argument, options)):
                values = make_options(options, given)
                check_together(values)
                progress = bool(getattr(values, "progress", False))
                words = [*name.split(), *words_of(values)]
                with called(words, progress=progress, command=name, options=values):
                    return work(values)

        call.__signature__ = signature  # type: ignore[attr-defined]
        setattr(call, _COMMAND, Declaration(name, options, work))
        return call

    return made


def _advice(signature: inspect.Signature, options: type, given: Iterable[str]) -> str:
    """Advice on the first wrong name among the `given` arguments; without one, on arguments that need their names."""
    known = signature.parameters
    wrong = next((name for name in given if name not in known), None)
    if wrong is None:
        named = [name for name, parameter in known.items() if parameter.kind is parameter.KEYWORD_ONLY]
        free = [name for name in known if name not in named]
        return f"; arguments but {' and '.join(free)} have their names, as in {named[0]}=..." if free and named else ""
    import difflib  # imported only after a mistake: the import takes milliseconds

    option = arguments_of(options).get(f"--{wrong.replace('_', '-')}")
    close = [option[0].name] if option else difflib.get_close_matches(wrong, known, 1, 0.75)
    return f": did you mean {close[0]}?" if close else ""


def call_within(function: Callable[..., R], **values: Any) -> R:
    """Call the function of a command as a part of the current call, whose command line then continues its run.

    `values` are not checked, and paths among them must be of the types that the function gets.
    """
    name, options, work = declaration(function)
    asked, call = options(**values), current_call()
    with called(call.words, progress=call.progress, command=name, options=asked):
        return cast("R", work(asked))


def declaration(function: Callable[..., Any]) -> Declaration:
    """The declaration of the function of a command."""
    declared_command: Declaration = getattr(function, _COMMAND)
    return declared_command


def _flattened(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """The parameters of a function, with those of the `TypedDict` in the place of `**more: Unpack[TypedDict]`."""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not parameter.VAR_KEYWORD:
            yield parameter
            continue
        for name, annotation in get_type_hints(get_args(parameter.annotation)[0], include_extras=True).items():
            yield inspect.Parameter(name, parameter.KEYWORD_ONLY, default=default_of(annotation), annotation=annotation)


def _dataclass(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> type[Any]:
    fields: list[Any] = [
        (
            parameter.name,
            parameter.annotation,
            *([] if parameter.default is parameter.empty else [field(default=parameter.default)]),
        )
        for parameter in parameters
    ]
    made = make_dataclass(function.__name__, fields, frozen=True, kw_only=True)
    made.__doc__ = _SECTION.split(inspect.getdoc(function) or "", maxsplit=1)[0]
    return made


def document(function: Callable[..., Any]) -> None:
    """Complete the docstring of a command's function for Python's `help`: arguments in place of options, and `Args`."""
    if (function.__doc__ or "").count("\nArgs:\n"):
        return
    options = declaration(function).options
    text = inspect.getdoc(function) or ""
    description, *sections = _SECTION.split(text)
    paragraphs = with_arguments(_EXAMPLE.sub("", description), options).split("\n\n")
    known = [parameter for parameter in declared(options) if parameter.option.only != "command line"]
    lines = [line for parameter in known for line in _argument_lines(parameter, options)]
    if any(parameter.name == "max_rejects" for parameter in known):
        sections = [_with_errors_of_jobs(section) for section in sections]
    wrapped = (textwrap.fill(paragraph, _WIDTH) for paragraph in paragraphs)
    function.__doc__ = "\n\n".join([*wrapped, "\n".join(["Args:", *lines]), *sections])


def _with_errors_of_jobs(section: str) -> str:
    is_short = section.startswith("Raises:") and "IncompleteError:" not in section
    return "\n".join([section, *RAISED_BY_JOBS]) if is_short else section


def with_arguments(text: str, options: type) -> str:
    """A help text with the names of arguments in the place of options: `num_shards` for `--num-shards (-n)`."""
    arguments = arguments_of(options)

    def replaced(match: re.Match[str]) -> str:
        return arguments[match[1]][0].name if match[1] in arguments else match[0]

    text = re.sub(r"(?<![\w-])(--[a-z][a-z0-9-]*)(?: \(-\w\))?", replaced, text)
    return text.replace("un the same command again", "un the same call again")


def _argument_lines(parameter: Declared, options: type) -> Iterator[str]:
    text = parameter.option.help_in_python or with_arguments(parameter.option.help, options)
    if parameter.option.several_paths:
        text += " Or a list of paths."
    if parameter.option.between_commas:
        text += " Or a list of names."
    if parameter.option.shown_default:
        text += f" Default: {parameter.option.shown_default}."
    yield from textwrap.wrap(f"{parameter.name}: {text}", _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8)
