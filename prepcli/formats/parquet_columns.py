"""The columns of Parquet files of any origin: which one holds the audio, in which form, and which ones hold bytes."""

import json
import shlex
from typing import TYPE_CHECKING, Any, Literal

from prepcli.errors import UsageError, option

if TYPE_CHECKING:
    import pyarrow

AudioForm = Literal["bytes", "list", "samples"]
"""How a value holds audio: as the bytes of a file, as a list of these bytes, or as samples and their rate."""
BYTES, PATH, SAMPLES, RATE = ("bytes", "path", "array", "sampling_rate")
"""The fields of a struct with audio: those of a file (`datasets` calls it encoded), and those of decoded audio."""
_AUDIO_COLUMNS = ("audio", "audio_bytes", "wav", "flac", "mp3", "speech")
_MAX_SHOWN = 80
_FORMS = (
    "audio is the bytes of a file, as binary data or in a struct with bytes, or a struct with array (floats or int16, "
    "one channel) and sampling_rate"
)
_OF_PATHS = (
    "if these are paths of audio files, export the table as CSV and make a manifest of it: prepcli make-manifest "
    "--audio-column {} TABLE.csv OUT.json"
)
_ROWS_OF_LISTS = (
    "import pyarrow.compute as c, pyarrow.parquet as p; t = p.read_table({path}); n = {column}; "
    "a = t[n].combine_chunks(); p.write_table(t.drop_columns([n]).take(c.list_parent_indices(a))"
    '.append_column(n, c.list_flatten(a)), "rows.parquet", row_group_size=100)'
)


def audio_column(schema: "pyarrow.Schema", path: str, wanted: str | None = None) -> str:
    """The column with the audio: `wanted` if it is given, else the one that `_candidates` finds.

    Raises:
        UsageError: there is no such column, several may be meant, its type is not one of audio, or two columns of the
            file have the same name.
    """
    check_names(schema, path)
    columns = _candidates(schema) if wanted is None else [wanted]
    if len(columns) > 1:
        # Also verify and inspect, which have no such option, read a manifest that names the column.
        raise UsageError(
            f"{path} has several columns that may hold audio ({', '.join(columns)}); name one with "
            f"{option('--audio-column', columns[0])}, or in a manifest: "
            f"prepcli make-manifest --audio-column {columns[0]} {path} OUT.json"
        )
    if not columns:
        types = ", ".join(f"{field.name} ({shown(field.type)})" for field in schema)
        raise UsageError(f"{path} has no column with audio: {_FORMS}; its columns are {types}")
    (column,) = columns
    if column not in schema.names:
        raise UsageError(f"{path} has no column {column}; its columns are {', '.join(schema.names)}")
    if audio_form(schema.field(column).type) is None:
        raise _not_audio(schema, path, column)
    return column


def check_names(schema: "pyarrow.Schema", path: str) -> None:
    """Raise `UsageError` if two columns have the same name."""
    if repeated := [name for name in dict.fromkeys(schema.names) if schema.names.count(name) > 1]:
        raise UsageError(f"{path} has several columns with the name {repeated[0]}; write it again with other names")


def is_usual(schema: "pyarrow.Schema", column: str) -> bool:
    """Whether a column is the one that is found if none is named."""
    return _candidates(schema) == [column]


def _candidates(schema: "pyarrow.Schema") -> list[str]:
    """The columns that may be meant if none is named; one column if the choice is clear.

    These are the columns declared as audio in the metadata of Hugging Face datasets; else those of a type for audio;
    else one with a usual name. If several fit, it is the first one of `_AUDIO_COLUMNS` among them.
    """
    features, types = huggingface_features(schema), {field.name: field.type for field in schema}
    declared = [name for name in types if _is_declared(features.get(name))]
    fitting = declared or [name for name, kind in types.items() if _is_for_audio(kind)]
    if len(fitting) == 1:
        return fitting
    return [name for name in _AUDIO_COLUMNS if name in (fitting or types)][:1] or fitting


def _is_declared(feature: object) -> bool:
    return isinstance(feature, dict) and feature.get("_type") == "Audio"


def huggingface_features(schema: "pyarrow.Schema") -> dict[str, Any]:
    """The features, by column, that Hugging Face datasets has stored in a schema; empty if there are none."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError):
        return {}
    return features if isinstance(features, dict) else {}


def audio_form(kind: "pyarrow.DataType") -> AudioForm | None:
    """How values of a type hold audio; None if they cannot."""
    import pyarrow as pa

    if not pa.types.is_struct(kind):
        return _encoded_form(kind)
    if (place := kind.get_field_index(BYTES)) >= 0:
        inner = kind.field(place).type
        return "bytes" if pa.types.is_null(inner) else _encoded_form(inner)
    array, rate = map(kind.get_field_index, (SAMPLES, RATE))
    if array < 0 or rate < 0 or not _is_list(samples := kind.field(array).type):
        return None
    is_number = pa.types.is_floating(samples.value_type) or pa.types.is_int16(samples.value_type)
    return "samples" if is_number and _is_number(kind.field(rate).type) else None


def _encoded_form(kind: "pyarrow.DataType") -> AudioForm | None:
    import pyarrow as pa

    if _is_list(kind):
        return "list" if pa.types.is_int8(kind.value_type) or pa.types.is_uint8(kind.value_type) else None
    return "bytes" if _is_bytes(kind.value_type if pa.types.is_dictionary(kind) else kind) else None


def _is_for_audio(kind: "pyarrow.DataType") -> bool:
    """Whether audio is the most probable content of a type; not so of bytes that all have one length, such as ids."""
    return audio_form(kind) is not None and not str(kind).startswith("fixed_size_binary")


def holds_bytes(kind: "pyarrow.DataType") -> bool:
    """Whether values of a type are bytes, or hold bytes at any depth. An UUID counts as a text."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return kind.extension_name != "arrow.uuid" and holds_bytes(kind.storage_type)
    if pa.types.is_struct(kind):
        return any(holds_bytes(kind.field(place).type) for place in range(kind.num_fields))
    if pa.types.is_map(kind):
        return holds_bytes(kind.key_type) or holds_bytes(kind.item_type)
    if (inner := getattr(kind, "value_type", None)) is not None:  # lists and dictionaries
        return holds_bytes(inner)
    return _is_bytes(kind)


def _is_bytes(kind: "pyarrow.DataType") -> bool:
    """Whether a type is binary, large_binary, binary_view (which pyarrow 15 does not know), or of a fixed size."""
    return str(kind) in ("binary", "large_binary", "binary_view") or str(kind).startswith("fixed_size_binary")


def _is_list(kind: "pyarrow.DataType") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_number(kind: "pyarrow.DataType") -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _not_audio(schema: "pyarrow.Schema", path: str, column: str) -> UsageError:
    """The error for a column whose values cannot be audio: what they are, and what to do."""
    import pyarrow as pa

    kind = schema.field(column).type
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    others = [field.name for field in schema if field.name != column and _is_for_audio(field.type)]
    advice = _FORMS
    if others:
        advice = f"audio may be in {', '.join(others)}: give {option('--audio-column', others[0])}"
    elif _is_list(kind) and audio_form(kind.value_type) is not None:
        code = _ROWS_OF_LISTS.format(path=json.dumps(path), column=json.dumps(column))
        advice = f"write a row for each recording, and give rows.parquet: python -c {shlex.quote(code)}"
    elif str(inner) in ("string", "large_string", "string_view"):
        advice = _OF_PATHS.format(column)
    return UsageError(f"the column {column} of {path} holds {shown(kind)}, which is not read as audio; {advice}")


def shown(kind: "pyarrow.DataType") -> str:
    """A type as a text for messages."""
    text = str(kind)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."
