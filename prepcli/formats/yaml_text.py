"""YAML that others have written, read with one kind of error for all that may be wrong with it."""

from typing import Any


def parse_yaml(text: str | bytes) -> Any:
    """The value of a YAML text.

    Raises:
        yaml.YAMLError: it is not YAML, or an alias in it refers to a list or mapping that holds the alias, which would
            have no end; also for what `yaml.safe_load` raises other errors for, such as deep nesting or a 13th month.
    """
    import yaml

    try:
        value = yaml.safe_load(text)
        if _has_cycle(value, set(), set()):
            raise yaml.YAMLError("an alias (*name) stands within the value that it refers to, which has no end")
    except RecursionError:
        raise yaml.YAMLError("lists or mappings are nested too deeply") from None
    except ValueError as error:  # a 13th month; bytes that are not UTF-8
        raise yaml.YAMLError(str(error)) from None
    return value


def _has_cycle(value: Any, around: set[int], checked: set[int]) -> bool:
    """Whether a list or mapping holds itself; `around` are those that hold `value`, `checked` those without a cycle."""
    if not isinstance(value, dict | list | tuple) or id(value) in checked:
        return False
    if id(value) in around:
        return True
    around.add(id(value))
    if any(_has_cycle(item, around, checked) for item in (value.values() if isinstance(value, dict) else value)):
        return True
    around.remove(id(value))
    checked.add(id(value))
    return False
