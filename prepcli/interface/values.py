"""Checks and converts the values of options, from Python code and from the command line."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from prepcli.errors import UsageError, called_from_python, option
from prepcli.interface.options import Declared, declared
from prepcli.storage.addresses import SCHEMES, is_address, names_addresses, other_scheme, restored
from prepcli.storage.paths import AnyPath, path_of

Options = TypeVar("Options")
_WITHOUT_BUCKET = tuple(f"{scheme}:" for scheme in SCHEMES)

_MAX_NAME_BYTES = 255
"""The maximum length of the name of a file or folder on nearly all file systems."""


def make_options(options: type[Options], values: Mapping[str, Any]) -> Options:
    """Return an object of the dataclass `options`. `values` has the arguments of a Python call, by field name.

    Raises:
        UsageError: a value has the wrong type or is out of range; the message names the Python argument.
    """
    by_name = {parameter.name: parameter for parameter in declared(options)}
    return options(**{name: _converted(by_name[name], value) for name, value in values.items()})


def check_together(options: Any) -> None:
    """Check, before the work begins, that the options of a call go together.

    Raises:
        UsageError: an option has no effect, or two options name one file to write; the message names both options.
    """
    _check_effects(options)
    _check_files(options)


def _check_effects(options: Any) -> None:
    """Refuse an option without effect: an option that it needs is missing, or a given option disables it.

    `Option.needs` and `Option.disables` declare this. An option counts as given if its value is not its default.
    """
    given = {
        parameter.name: parameter
        for parameter in declared(type(options))
        if getattr(options, parameter.name) != parameter.default
    }
    for parameter in given.values():
        if parameter.option.needs and parameter.option.needs not in given:
            other = next(other for other in declared(type(options)) if other.name == parameter.option.needs).long_name
            name = option(parameter.long_name)
            raise UsageError(f"{name} has no effect without {option(other)}: give both, or leave {name} out")
        for disabled in filter(None, map(given.get, parameter.option.disables)):
            raise UsageError(
                f"{option(disabled.long_name)} has no effect with {option(parameter.long_name)}: leave one of them out"
            )


def _check_files(options: Any) -> None:
    """Refuse two options of `Option.names_file` with one file: what is written last would replace the other.

    A pipe or a device is not replaced.
    """
    known: dict[str, str] = {}
    for parameter in declared(type(options)):
        path = getattr(options, parameter.name)
        if parameter.option.names_file and path is not None and (os.path.isfile(path) or not os.path.exists(path)):
            positional = parameter.option.is_argument and not called_from_python()
            name = option(
                parameter.option.metavar or parameter.name.upper() if positional else parameter.long_name, path
            )
            other = known.setdefault(os.path.realpath(path), name)
            if other != name:
                raise UsageError(f"{other} and {name} are one file: give one of them another name")


def _converted(parameter: Declared, value: Any) -> Any:
    if value is None and (parameter.is_optional or parameter.is_list):
        return () if parameter.is_list else None
    if not parameter.is_list:
        joins = parameter.option.several_paths or parameter.option.between_commas
        return _one_value(parameter, _joined(parameter, value) if joins else value)
    if parameter.option.one_each and isinstance(value, Mapping):
        value = [f"{name}={of_name}" for name, of_name in value.items()]
    if isinstance(value, (str, os.PathLike)) or not isinstance(value, Sequence):
        value = [value]
    return tuple(_one_value(parameter, item) for item in value)


def _joined(parameter: Declared, value: Any) -> Any:
    """Return a list of paths or names as one text with commas between; any other value is returned unchanged."""
    if isinstance(value, (str, os.PathLike)) or not isinstance(value, Sequence):
        return value
    paths = [_one_value(parameter, item) for item in value]
    if not paths:
        raise UsageError(f"{parameter.name} is an empty list")
    for path in paths[1:] and paths:
        if parameter.option.several_paths and "," in path and os.path.exists(path):
            raise UsageError(f"{parameter.name}: {path} has a comma in its name; rename it, or make a link to it")
    return ",".join(paths)


def _one_value(parameter: Declared, value: Any) -> Any:
    converted = value
    if parameter.type in (str, Path) and isinstance(value, (str, os.PathLike)):
        text = value if isinstance(value, str) else restored(os.fspath(value))
        check_text(str(value), parameter.name)
        converted = _text_or_path(parameter, text, parameter.name)
    elif parameter.type in (int, float) and not isinstance(value, (str, bool)):
        with_index = parameter.type is float or hasattr(value, "__index__")
        converted = parameter.type(value) if with_index and hasattr(value, "__float__") else value
    if parameter.choices:
        if value not in parameter.choices:
            raise UsageError(
                f"{parameter.name} must be one of {', '.join(map(repr, parameter.choices))}, not {value!r}"
            )
    elif not isinstance(converted, AnyPath if parameter.type is Path else parameter.type) or (
        isinstance(converted, bool) != (parameter.type is bool)
    ):
        kind = f"{parameter.type.__name__}{', or a list of it' if parameter.is_list else ''}"
        raise UsageError(f"{parameter.name} must be of type {kind}, not {value!r}")
    _check_limits(parameter, converted, parameter.name)
    wanted = (
        parameter.option.must_exist if not is_address(str(converted)) else None
    )  # existence in a store is checked later
    if wanted is not None and not (os.path.isdir if wanted == "folder" else os.path.isfile)(converted):
        raise UsageError(f"{parameter.name}: there is no {parameter.option.must_exist} {value}")
    return converted


def from_command_line(parameter: Declared, value: Any) -> Any:
    """Return the value of an option from the command line; an address becomes a `StorePath`.

    Raises:
        UsageError: the value is an address, and the option does not take addresses; or a float is outside the limits of
            the option, as NaN is.
    """
    if isinstance(value, tuple):
        return tuple(from_command_line(parameter, item) for item in value)
    name = parameter.option.metavar or parameter.name.upper() if parameter.option.is_argument else parameter.names[0]
    if isinstance(value, (str, os.PathLike)):
        return _text_or_path(parameter, os.fspath(value), name)
    if isinstance(value, float):
        _check_limits(parameter, value, name)  # click does not refuse NaN
    return value


def _check_limits(parameter: Declared, value: Any, name: str) -> None:
    minimum, maximum, above = parameter.option.minimum, parameter.option.maximum, parameter.option.above
    if minimum is not None and not value >= minimum:
        raise UsageError(f"{name} must be {minimum:g} or more, not {value!r}")
    if above is not None and not value > above:
        raise UsageError(f"{name} must be above {above:g}, not {value!r}")
    if maximum is not None and not value <= maximum:
        raise UsageError(f"{name} must be {maximum:g} or less, not {value!r}")


def _text_or_path(parameter: Declared, value: str, name: str) -> Any:
    """Return the value of an option: a path if the type of the option is `Path`, else the text.

    `name` names the option in messages.

    Raises:
        UsageError: the value is an address, and the option does not take addresses (`Option.takes_address`); an address
            lacks a bucket or has an unsupported scheme; a name in a path is too long; or the value is a new folder
            (`new/`) in place of a file.
    """
    text = restored(value) if parameter.type is Path else value
    if parameter.type is Path and text in _WITHOUT_BUCKET:  # `pathlib` reduces `s3://` to `s3:`
        example = "datasets/OWNER/NAME" if text == "hf:" else "bucket/prefix"
        raise UsageError(f"{name}: {text}// does not name a bucket; give an address such as {text}//{example}")
    if parameter.type is Path and any(len(os.fsencode(part)) > _MAX_NAME_BYTES for part in text.split("/")):
        raise UsageError(f"too long for a path: {text}")
    names_one = is_address(text) if parameter.type is Path else names_addresses(text)
    if parameter.option.names_file and value.endswith("/") and not os.path.isdir(value):
        raise UsageError(f"{name}: {value} names a folder; name a file in it")
    if names_one and not parameter.option.takes_address:
        raise UsageError(
            f"{name} does not take an address in an object store ({text}): give a local path, or download it first"
        )
    if parameter.type is Path or parameter.option.is_argument or parameter.option.takes_address:
        _check_scheme(parameter, text, name)
    return path_of(text) if parameter.type is Path else text


def _check_scheme(parameter: Declared, text: str, name: str) -> None:
    """Refuse an address whose scheme is not supported; it would be taken for a local path."""
    other = other_scheme(text)
    if other is not None and not os.path.exists(text):
        taken = (
            "local paths and addresses with s3://, ais:// or hf://datasets/"
            if parameter.option.takes_address
            else "local paths"
        )
        raise UsageError(f"{name}: {other} cannot be used, only {taken}: download it first, or mount the store")


def check_text(text: str, name: str = "an argument") -> None:
    """Refuse an empty text, and one that is not valid UTF-8, which JSON manifests and plans cannot hold.

    Raises:
        UsageError: the text is empty, has a NUL character, or is not valid UTF-8.
    """
    if "\0" in text:
        raise UsageError(f"{name} has a NUL character: {text!r}")
    if not text:
        raise UsageError(f"{name} is empty: is a shell variable unset?")
    if any("\ud800" <= char <= "\udfff" for char in text):
        shown = ascii(text).strip("'\"")
        raise UsageError(f"{shown} is not a UTF-8 name, and a manifest cannot hold it; rename it, or make a link to it")


def check_pattern(pattern: str, name: str, what: str) -> None:
    """Check that a pattern from the value of an option is a regular expression with a group.

    Args:
        pattern: the regular expression.
        name: the name of the option, for messages.
        what: the meaning of the group, for messages.

    Raises:
        UsageError: the pattern is not a regular expression, or has no group.
    """
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise UsageError(f"{name}: {pattern} is not a regular expression: {error}") from None
    if not groups:
        raise UsageError(f"{name}: the pattern needs a group in parentheses, which is {what}")
