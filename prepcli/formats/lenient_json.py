"""Decodes JSON as Python reads it: with NaN, which lhotse and pandas write."""

import json
from typing import Any

import msgspec


def decode_json(text: bytes, type: Any) -> Any:
    """Decode a JSON text to a msgspec `type`. NaN and numbers like 1e5000 are accepted, because lhotse reads them too.

    Raises:
        msgspec.DecodeError: the value is not of that type.
        ValueError: the text is not JSON, not UTF-8, or nested too deeply.
    """
    try:
        try:
            return msgspec.json.decode(text, type=type)
        except msgspec.DecodeError:  # raised also if the only fault is a number too large for a double
            return msgspec.convert(json.loads(text), type)
    except RecursionError as error:
        raise ValueError("JSON with lists or objects that are nested too deeply") from error
