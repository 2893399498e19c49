"""Options that many commands share: declared together, once, and handed to a command together."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

Command = Callable[..., None]


def takes(**groups: Callable[..., Any]) -> Callable[[Command], Command]:
    """Decorate a command some of whose keyword arguments are groups of options.

    Each names such an argument and what makes it of options, mostly a dataclass whose fields are declared as options
    are. On the command line, and for typer, those fields stand where the argument was.

    Example:
        @takes(common=JobOptions)
        def manifest_to_shar(manifest: Manifest, *, common: JobOptions) -> None: ...
    """

    def decorate(command: Command) -> Command:
        options = {name: inspect.signature(group).parameters for name, group in groups.items()}
        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command).parameters.items():
            parameters += options[name].values() if name in groups else [parameter]

        @functools.wraps(command)
        def with_groups(**values: Any) -> None:
            for name, group in groups.items():
                values[name] = group(**{option: values.pop(option) for option in options[name]})
            command(**values)

        # Where typer looks for options and for their types.
        by_name = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
        with_groups.__dict__["__signature__"] = inspect.Signature(by_name)
        with_groups.__annotations__ = {one.name: one.annotation for one in parameters}
        return with_groups

    return decorate
