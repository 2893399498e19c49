"""One declaration per option: a field of a dataclass, from which the command line, the API and the docs follow.

A field is `name: Annotated[TYPE, Option("What it does.")] = default`. TYPE is `bool`, `int`, `float`, `str`, `Path` or
a `Literal` of strings, with `| None` where there may be no value, or `tuple[TYPE, ...]` for several values.
"""

import inspect
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from prepcli.errors import UsageError
from prepcli.storage.addresses import is_address, names_addresses, other_scheme, restored
from prepcli.storage.paths import path_of

Options = TypeVar("Options")


@dataclass(frozen=True)
class Option:
    """What an option has in addition to its name, type and default.

    Attributes:
        help: one or two sentences, with the unit of the value.
        names: the names on the command line; `--field-name` by default. A flag that switches off a default of True has
            only the name `--no-...`; a pair is written `--shuffle/--no-shuffle`.
        metavar: the placeholder for the value in `--help`.
        shown_default: the default that `--help` shows; an empty text shows none.
        minimum: the smallest allowed value.
        must_exist: the value is the path of an existing file or folder.
        is_argument: it is positional on the command line.
        shapes_output: it is one of the settings in `plan.json`; a run continues only with the same settings.
        only: it exists only on the command line, or only in Python.
        help_in_python: the help text for Python, if it differs.
        one_each: of a list: one value each time the option is given; else it takes several at once.
        takes_address: the value may be in an object store, `s3://bucket/key`.
    """

    help: str
    names: tuple[str, ...] = ()
    metavar: str | None = None
    shown_default: str | None = None
    minimum: float | None = None
    must_exist: Literal["file", "folder"] | None = None
    is_argument: bool = False
    shapes_output: bool = True
    only: Literal["command line", "Python"] | None = None
    help_in_python: str | None = None
    one_each: bool = False
    takes_address: bool = False


@dataclass(frozen=True)
class Declared:
    """An option as its dataclass declares it; `type` is the type of a single value, without `None`."""

    name: str
    type: Any
    is_optional: bool
    is_list: bool
    default: Any
    option: Option

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is MISSING

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a `Literal`; empty for other types."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names on the command line; a pair counts as one name."""
        return self.option.names or (f"--{self.name.replace('_', '-')}",)

    @property
    def switches_off(self) -> bool:
        """Whether it is a flag with only the name `--no-...`."""
        return self.type is bool and self.default is True and "/" not in self.names[0]

    def words(self, value: Any) -> list[str]:
        """The words of a command line for the value; none for the default."""
        if value == self.default or value is None:
            return []
        if self.type is bool:
            on, _, off = self.names[0].partition("/")
            return [on if value or self.switches_off else off]
        values = list(map(str, value if self.is_list else [value]))
        return values if self.option.is_argument else [word for one in values for word in (self._long_name, one)]

    @property
    def _long_name(self) -> str:
        return next(name for name in self.names if name.startswith("--"))


_DECLARED: dict[type, tuple[Declared, ...]] = {}


def declared(options: type) -> tuple[Declared, ...]:
    """The options of a dataclass: arguments, required options, its own options, and those of its bases.

    A field with `init=False` is no option: so a command leaves out one of its base that means nothing for it.
    """
    if options not in _DECLARED:
        _DECLARED[options] = tuple(_all_declared(options))
    return _DECLARED[options]


def _all_declared(options: type) -> list[Declared]:
    types = get_type_hints(options, include_extras=True)
    defaults = {
        one.name: () if one.default_factory is not MISSING else one.default for one in fields(options) if one.init
    }
    names = [name for one in options.__mro__[:-1] for name in inspect.get_annotations(one)]
    found = [_declared(name, types[name], defaults[name]) for name in dict.fromkeys(names) if name in defaults]
    return sorted(found, key=lambda one: (not one.option.is_argument, not one.is_required))


def _declared(name: str, annotation: Any, default: Any) -> Declared:
    option = Option("")
    if get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
        option = next((one for one in metadata if isinstance(one, Option)), option)
    is_optional = get_origin(annotation) in (Union, UnionType)
    if is_optional:
        annotation = next(one for one in get_args(annotation) if one is not NoneType)
    is_list = get_origin(annotation) is tuple
    return Declared(name, get_args(annotation)[0] if is_list else annotation, is_optional, is_list, default, option)


def settings_of(options: Any) -> dict[str, Any]:
    """The settings of a plan: the options that shape the output, as JSON values under their names with dashes."""
    return {
        f"--{one.name.replace('_', '-')}": _json_value(getattr(options, one.name))
        for one in declared(type(options))
        if one.option.shapes_output
    }


def _json_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json_value(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def shown_defaults(options: type) -> dict[str, str]:
    """What options that shape the output mean when they are not given, by their names with dashes; see `Option`."""
    return {
        f"--{one.name.replace('_', '-')}": one.option.shown_default
        for one in declared(options)
        if one.option.shapes_output and one.option.shown_default
    }


def words_of(options: Any) -> list[str]:
    """The words of a command line for these options; those with the default value are left out."""
    words: list[str] = []
    arguments: list[str] = []
    for one in declared(type(options)):
        if one.option.only != "Python":
            target = arguments if one.option.is_argument else words
            target += one.words(getattr(options, one.name))
    if any(argument.startswith("-") for argument in arguments):
        return [*words, "--", *arguments]
    return [*arguments, *words]


def make_options(options: type[Options], values: Mapping[str, Any]) -> Options:
    """Make the dataclass from values that Python code has given.

    Raises:
        UsageError: a value has the wrong type or is out of range; the message names the Python argument.
    """
    by_name = {one.name: one for one in declared(options)}
    return options(**{name: _converted(by_name[name], value) for name, value in values.items()})


def _converted(one: Declared, value: Any) -> Any:
    if value is None and (one.is_optional or one.is_list):
        return () if one.is_list else None
    if not one.is_list:
        return _one_value(one, value)
    if isinstance(value, (str, os.PathLike)) or not isinstance(value, Sequence):
        value = [value]
    return tuple(_one_value(one, item) for item in value)


def _one_value(one: Declared, value: Any) -> Any:
    converted = value
    if one.type in (str, Path) and isinstance(value, (str, os.PathLike)):
        converted = _text_or_path(one, os.fspath(value), one.name)
        check_text(str(value), one.name)
    elif one.type in (int, float) and not isinstance(value, (str, bool)):
        with_index = one.type is float or hasattr(value, "__index__")
        converted = one.type(value) if with_index and hasattr(value, "__float__") else value
    if one.choices:
        if value not in one.choices:
            raise UsageError(f"{one.name} must be one of {', '.join(map(repr, one.choices))}, not {value!r}")
    elif not isinstance(converted, one.type) or isinstance(converted, bool) != (one.type is bool):
        raise UsageError(f"{one.name} must be of type {one.type.__name__}, not {value!r}")
    if one.option.minimum is not None and not converted >= one.option.minimum:
        raise UsageError(f"{one.name} must be {one.option.minimum:g} or more, not {value!r}")
    wanted = one.option.must_exist if not is_address(str(converted)) else None  # the store is asked when it is used
    if wanted is not None and not (os.path.isdir if wanted == "folder" else os.path.isfile)(converted):
        raise UsageError(f"{one.name}: there is no {one.option.must_exist} {value}")
    return converted


def from_command_line(one: Declared, value: Any) -> Any:
    """The value of an option from the command line: an address is a `StorePath`, or refused.

    Raises:
        UsageError: the option takes no address.
    """
    if isinstance(value, tuple):
        return tuple(from_command_line(one, item) for item in value)
    if isinstance(value, (str, os.PathLike)):
        name = one.option.metavar or one.name.upper() if one.option.is_argument else one.names[0]
        return _text_or_path(one, os.fspath(value), name)
    return value


def _text_or_path(one: Declared, value: str, name: str) -> Any:
    """The text of an option as its type; raises `UsageError` if it holds an address that the option does not take."""
    text = restored(value) if one.type is Path else value
    names_one = is_address(text) if one.type is Path else names_addresses(text)
    if names_one and not one.option.takes_address:
        raise UsageError(
            f"{name} does not take an address in an object store ({text}): give a local path, or download it first"
        )
    if one.type is Path or one.option.is_argument or one.option.takes_address:
        _check_scheme(one, text, name)
    return path_of(text) if one.type is Path else text


def _check_scheme(one: Declared, text: str, name: str) -> None:
    """Refuse an address with a scheme that nothing here reads; it would be taken for a local path."""
    other = other_scheme(text)
    if other is not None and not os.path.exists(text):
        taken = "local paths and addresses with s3:// or ais://" if one.option.takes_address else "local paths"
        raise UsageError(f"{name}: {other} cannot be used, only {taken}: download it first, or mount the store")


def check_text(text: str, name: str = "an argument") -> None:
    """Refuse an empty text, and one that is not valid UTF-8, which JSON manifests and plans cannot hold.

    Raises:
        UsageError: the message names the text.
    """
    if not text:
        raise UsageError(f"{name} is empty: is a shell variable unset?")
    if any("\ud800" <= char <= "\udfff" for char in text):
        shown = ascii(text).strip("'\"")
        raise UsageError(f"{shown} is not a UTF-8 name, and a manifest cannot hold it; rename it, or make a link to it")


_FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*)(?: \(-\w\))?(?:( )(-?[\w.+-]*\w))?")


def in_python(text: str, options: type, *, only_names: bool = False) -> str:
    """Replace the options of the command line in a message or a help text by Python arguments.

    `--num-shards` becomes `num_shards`, `--overwrite` becomes `overwrite=True`, `--remainder drop` becomes
    `remainder='drop'`; with `only_names`, values are left out. Options that the dataclass does not have stay.
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


AudioBaseDir = Annotated[
    Path | None,
    Option(
        "Base folder of relative audio paths.",
        shown_default="the manifest's folder",
        must_exist="folder",
        takes_address=True,
    ),
]
Manifest = Annotated[
    str,
    Option(
        "NeMo manifest(s): a path, several separated by commas, or a brace pattern.",
        metavar="MANIFEST",
        is_argument=True,
        shapes_output=False,
        takes_address=True,
    ),
]
WorkDir = Annotated[
    Path | None,
    Option(
        "For an OUT in an object store (s3://bucket/prefix): the folder for the state of the run, which all ranks "
        "share.",
        shown_default="the current folder",
        metavar="DIR",
        shapes_output=False,
    ),
]
Json = Annotated[
    bool,
    Option(
        "Print the summary as one JSON object on stdout.", names=("--json",), only="command line", shapes_output=False
    ),
]
NumWorkers = Annotated[
    int | None,
    Option(
        "Number of local worker processes.",
        minimum=1,
        shown_default="available CPU cores",
        shapes_output=False,
    ),
]
MaxRejects = Annotated[
    float,
    Option(
        "Maximum rejects: a share (below 1) or a count; records that your settings leave out do not count. "
        "More rejects: exit code 3.",
        shapes_output=False,
        help_in_python="Maximum rejects: a share (below 1) or a count; records that your settings leave out do not "
        "count. More rejects: TooManyRejectsError.",
    ),
]
Progress = Annotated[
    bool,
    Option("Show a progress bar and notes on stderr.", only="Python", shapes_output=False),
]
