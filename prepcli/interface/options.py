"""One declaration per option: a field of a dataclass, from which the command line, the API and the docs follow.

A field is `name: Annotated[TYPE, Option("What it does.")] = default`. TYPE is `bool`, `int`, `float`, `str`, `PathText`
or a `Literal` of strings, with `| None` if there may be no value, or `TYPE | Sequence[TYPE]` for several values.
"""

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from prepcli.storage.paths import AnyPath, path_of

T = TypeVar("T", str, float)
PathText = str | PathLike[str]
"""A path as Python callers give it. The function of a command gets a `Path`, or with `Option.takes_address` perhaps a
`StorePath`; with `Option.may_be_path` or `Option.several_paths` it gets a text."""
Paths = PathText | Sequence[PathText]
"""One or several paths as Python callers give them."""


def several(values: T | Sequence[T]) -> tuple[T, ...]:
    """The values of an option with several: the function of a command gets them as a tuple."""
    return cast("tuple[T, ...]", values)


def texts_of(paths: Paths) -> tuple[str, ...]:
    """The texts of an option with several paths."""
    return tuple(map(str, cast("tuple[PathText, ...]", paths)))


def paths_of(paths: Paths) -> tuple[AnyPath, ...]:
    """The paths of an option with several paths."""
    return tuple(map(path_of, texts_of(paths)))


def folder_of(path: PathText | None) -> Path | None:
    """The local path of an option, or None."""
    return None if path is None else Path(path)


def listed(paths: Paths) -> Sequence[PathText]:
    """One or several paths as a sequence."""
    return [paths] if isinstance(paths, (str, PathLike)) else paths


@dataclass(frozen=True)
class Option:
    """The attributes of an option besides its name, type and default.

    Attributes:
        help: one or two sentences, with the unit of the value.
        names: the names on the command line; `--field-name` by default. A flag that switches off a default of True has
            only the name `--no-...`; a pair is written `--shuffle/--no-shuffle`.
        metavar: the placeholder for the value in `--help`.
        shown_default: the default that `--help` shows; an empty text shows none.
        minimum: the smallest allowed value.
        maximum: the largest allowed value.
        above: the value must be greater than this number.
        must_exist: the value is the path of an existing file or folder.
        is_argument: the option is positional on the command line.
        shapes_output: the option is one of the settings in `plan.json`; a run continues only with the same settings.
        only: the option exists only on the command line, or only in Python.
        help_in_python: the help text for Python, if it differs.
        one_each: a list takes one value each time the option is given, instead of several at once. Python takes a
            dictionary as well if the values have the form `NAME=VALUE`.
        takes_address: the text may name objects in a store, `s3://bucket/key`; always true for an `AnyPath`.
        may_be_path: the value is a text: either the path of a file or a name. Python takes a `Path` as well.
        several_paths: the value is a text: paths that commas separate. Python takes a list of paths as well.
        between_commas: the value is a text: names that commas separate. Python takes a list of names as well.
        order: position in `--help`: below 0 for options that most calls need; above 0, at the end, for options that few
            calls need.
        names_file: the value is a file to write; a path that ends in a slash names a folder, and is refused, and so are
            two options of a call that name one file.
        needs: the field of another option, without which this option has no effect; a call that gives only this option
            is refused.
        disables: the fields of options that have no effect with this option; a call that gives one of them with this
            option is refused.
        added_later: earlier versions did not have the option, so its default value is left out of `plan.json`; a run of
            an earlier version can then be continued.
        default: the default of an option in a `TypedDict`, which has no other place for it.
    """

    help: str
    names: tuple[str, ...] = ()
    metavar: str | None = None
    shown_default: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    must_exist: Literal["file", "folder"] | None = None
    is_argument: bool = False
    shapes_output: bool = True
    only: Literal["command line", "Python"] | None = None
    help_in_python: str | None = None
    one_each: bool = False
    takes_address: bool = False
    names_file: bool = False
    needs: str = ""
    disables: tuple[str, ...] = ()
    may_be_path: bool = False
    several_paths: bool = False
    between_commas: bool = False
    order: int = 0
    added_later: bool = False
    default: Any = None


SYNONYMS = {"--force-codec": "--audio-format", "--audio-format": "--force-codec"}
"""Two names that NeMo's scripts have for one option: a command that declares one name also accepts the other."""


class Declared(NamedTuple):
    """An option as its dataclass declares it; `type` is the type of a single value, without `None`."""

    name: str
    type: Any
    is_optional: bool
    is_list: bool
    default: Any
    option: Option

    @property
    def is_required(self) -> bool:
        """Whether the option has no default, so that it must be given."""
        return self.default is MISSING

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a `Literal`; empty for other types."""
        return get_args(self.type) if get_origin(self.type) is Literal else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names on the command line, with their synonyms; a pair counts as one name."""
        own = self.option.names or (f"--{self.name.replace('_', '-')}",)
        return (*own, *(SYNONYMS[name] for name in own if name in SYNONYMS))

    @property
    def switches_off(self) -> bool:
        """Whether the option is a flag that has only the name `--no-...`."""
        return self.type is bool and self.default is True and "/" not in self.names[0]

    def words(self, value: Any) -> list[str]:
        """Return the arguments that set the value on a command line; an empty list for the default."""
        if value == self.default or value is None:
            return []
        if self.type is bool:
            on, _, off = self.names[0].partition("/")
            return [on if value or self.switches_off else off]
        values = [_text(item) for item in (value if self.is_list else [value])]
        return values if self.option.is_argument else [word for text in values for word in (self.long_name, text)]

    @property
    def long_name(self) -> str:
        """The first name that begins with two dashes, for messages; `--index` if the name is `--index/--no-index`."""
        return next(name for name in self.names if name.startswith("--")).partition("/")[0]


def _text(value: Any) -> str:
    """Return the text of a value for a command line. 8.0 becomes `8`: `--max-rejects` takes a share or a count."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


_DECLARED: dict[type, tuple[Declared, ...]] = {}


def declared(options: type) -> tuple[Declared, ...]:
    """Return the options of a dataclass or a `TypedDict` in the order of `--help`.

    The order is arguments, required options, then by `Option.order`; options of the same order follow the declarations.
    """
    if options not in _DECLARED:
        types = get_type_hints(options, include_extras=True)
        defaults = {field.name: field.default for field in fields(options)} if is_dataclass(options) else {}
        parameters = [
            _declared(name, annotation, defaults.get(name, default_of(annotation)))
            for name, annotation in types.items()
        ]
        parameters.sort(
            key=lambda parameter: (not parameter.option.is_argument, not parameter.is_required, parameter.option.order)
        )
        _DECLARED[options] = tuple(parameters)
    return _DECLARED[options]


def default_of(annotation: Any) -> Any:
    """The default of an option in a `TypedDict`."""
    return next((item.default for item in get_args(annotation) if isinstance(item, Option)), None)


def _declared(name: str, annotation: Any, default: Any) -> Declared:
    option = Option("")
    if get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
        option = next((item for item in metadata if isinstance(item, Option)), option)
    kinds = _kinds(annotation)
    lists = [kind for kind in kinds if get_origin(kind) is Sequence]
    is_list = bool(lists) and not (option.several_paths or option.between_commas)
    is_optional = NoneType in kinds
    if is_list:
        kinds = _kinds(get_args(lists[0])[0])
    is_path = any(get_origin(kind) is PathLike for kind in kinds) and not (option.several_paths or option.may_be_path)
    return Declared(name, Path if is_path else kinds[0], is_optional, is_list, default, option)


def _kinds(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def settings_of(options: Any) -> dict[str, Any]:
    """Return the settings of a plan: the options that shape the output, by name (with dashes), with values for JSON."""
    return {
        f"--{parameter.name.replace('_', '-')}": _json_value(getattr(options, parameter.name))
        for parameter in declared(type(options))
        if parameter.option.shapes_output
        and not (parameter.option.added_later and getattr(options, parameter.name) == parameter.default)
    }


def _json_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json_value(item) for item in value]
    return str(value) if isinstance(value, AnyPath) else value


def shown_defaults(options: type) -> dict[str, str]:
    """Return the defaults that `--help` shows as words, by the name of the option, such as `--shard-format`.

    Only options that shape the output and have an `Option.shown_default` are included.
    """
    return {
        f"--{parameter.name.replace('_', '-')}": parameter.option.shown_default
        for parameter in declared(options)
        if parameter.option.shapes_output and parameter.option.shown_default
    }


def words_of(options: Any) -> list[str]:
    """Return the arguments of a command line for these options; options with their default value are left out."""
    words: list[str] = []
    arguments: list[str] = []
    for parameter in declared(type(options)):
        if parameter.option.only != "Python":
            target = arguments if parameter.option.is_argument else words
            target += parameter.words(getattr(options, parameter.name))
    if any(argument.startswith("-") for argument in arguments):
        return [*words, "--", *arguments]
    return [*arguments, *words]
