"""The fields by which records are compared: text and speaker, and the check that records have them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from prepcli.errors import option
from prepcli.jobs.compared_field import note_on_missing
from prepcli.jobs.inputs.kinds import are_conversations
from prepcli.jobs.records import Records
from prepcli.manifest.columns import key_bytes
from prepcli.manifest.parts import FieldKey

_FIELDS: Mapping[str, Callable[[str], str]] = {"text": str.strip, "speaker": str}
_TURNS = "turns"
_NONE = int.from_bytes(key_bytes(""), "little")


def field_keys(kinds: Iterable[str], manifests: Iterable[str] = ()) -> dict[str, FieldKey]:
    """The keys of an index that show which records have the fields of these kinds of duplicates.

    If there are conversations among `manifests`, a further key shows which of them have texts.
    """
    keys = {kind: FieldKey(kind, _FIELDS[kind], is_optional=True) for kind in kinds if kind in _FIELDS}
    if "text" in keys and any(map(are_conversations, manifests)):
        keys[_TURNS] = FieldKey("conversations", _some_text, is_optional=True, takes_any=True)
    return keys


def _some_text(turns: Any) -> str:
    """The first text of a conversation; empty without any."""
    texts = (str(turn.get("value", "")).strip() for turn in turns or () if turn.get("type") == "text")
    return next(filter(None, texts), "")


def notes_on_fields(
    records: Records,
    inputs: Sequence[object],
    input_of_manifest: Sequence[int],
    kinds: Iterable[str],
    *,
    refuses: bool = True,
) -> list[str]:
    """Notes on the inputs of which records lack a field; `records` have been read with `field_keys`.

    Each input is looked at for itself, because a small test set without texts has no duplicates in a large corpus.

    Args:
        records: the records of all inputs.
        inputs: the inputs as the user has named them.
        input_of_manifest: for each manifest, the number of its input.
        kinds: the kinds of duplicates.
        refuses: whether an input of which more than half of the records lack a field is an error.

    Raises:
        UsageError: more than half of the records of an input lack a field, and `refuses` is true.
    """
    num_records = np.diff(records.index.first)
    notes = []
    for field in (kind for kind in kinds if kind in _FIELDS):
        is_missing = records.index.keys[field] == _NONE
        if field == "text" and _TURNS in records.index.keys:
            is_missing = is_missing & (records.index.keys[_TURNS] == _NONE)
        without = np.concatenate(([0], np.cumsum(is_missing)))[records.index.first]
        missing = np.bincount(input_of_manifest, np.diff(without)).astype(int).tolist()
        counts = np.bincount(input_of_manifest, num_records).astype(int).tolist()
        remedy = f"fill the field {field}, or leave {field} out of {option('--by')}"
        for number, name in enumerate(inputs):
            notes += note_on_missing(field, missing[number], counts[number], str(name), remedy, refuses=refuses)
    return notes
