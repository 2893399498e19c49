"""Names audio in an output after the ids of records, if all records are rows of Parquet files and their ids differ."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from prepcli.formats.names import marked_root, member_stem, plain_stem
from prepcli.jobs.ids import GIVEN_ID, given_id
from prepcli.manifest.index import ManifestIndex
from prepcli.manifest.parts import FieldKey, KeyFunction
from prepcli.manifest.record import Record
from prepcli.planning.hashing import num_distinct
from prepcli.storage.containers import Catalogue

BY_ID = {"names": "the records' ids"}
"""The additional setting, name and value, of a run that names audio after ids."""
_OWN = "own "


def _of_id(function: Callable[[str], str], text: str) -> str:
    """The result of a function for paths, for an id in place of a path; empty if the id cannot be used."""
    return function(_as_path(text)) if given_id(text) else ""


def _as_path(text: str) -> str:
    """The id as the path of a file, with a suffix that the functions for names remove."""
    return f"{text}.row"


def with_ids(keys: Mapping[str, KeyFunction], manifests: Sequence[str]) -> dict[str, KeyFunction]:
    """Return `keys` and, if all `manifests` are Parquet files, also keys to name audio after the records' ids.

    The added keys are a key of the id itself and, for each key of `keys` that makes a name from a path, the same key
    computed from the id. The name of such a key begins with `own `. `take_ids` decides later whether these keys replace
    the keys from paths.
    """
    if not all(isinstance(manifest, Catalogue) and manifest.lower().endswith(".parquet") for manifest in manifests):
        return dict(keys)
    own: dict[str, KeyFunction] = {
        f"{_OWN}{name}": FieldKey(GIVEN_ID.field, partial(_of_id, function), is_optional=True)
        for name, function in keys.items()
        if function in (member_stem, marked_root, plain_stem)
    }
    return {**keys, GIVEN_ID.field: GIVEN_ID, **own}


def take_ids(index: ManifestIndex) -> bool:
    """Replace the keys that were computed from paths by the keys from ids, if all records have different ids.

    Returns:
        Whether names come from ids.
    """
    given = index.keys.get(GIVEN_ID.field)
    if given is None or not given.all() or num_distinct(given) != len(given):
        return False
    for name in [key for key in index.keys if key.startswith(_OWN)]:
        index.keys[name.removeprefix(_OWN)] = index.keys[name]
    return True


def name_of(record: Record, by_id: bool) -> str:
    """The path from which the name of a record's audio in an output is made; with `by_id`, made of the record's id."""
    return _as_path(str(record.get(GIVEN_ID.field))) if by_id else record.audio_filepath
