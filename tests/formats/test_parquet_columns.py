"""Which column of a Parquet file holds the audio, what else its type may be, and which columns hold bytes."""

import json

import pyarrow as pa
import pytest

from prepcli.errors import UsageError
from prepcli.formats.parquet_columns import audio_column, audio_form, holds_bytes, is_usual

FILE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
DECODED = pa.struct([("array", pa.list_(pa.float64())), ("path", pa.string()), ("sampling_rate", pa.int64())])
OF_INTEGERS = pa.struct([("array", pa.list_(pa.int64())), ("sampling_rate", pa.int64())])
OF_CHANNELS = pa.struct([("array", pa.list_(pa.list_(pa.float32()))), ("sampling_rate", pa.int64())])


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        (FILE, "bytes"),
        (pa.struct([("bytes", pa.null()), ("path", pa.string())]), "bytes"),
        *((kind, "bytes") for kind in (pa.binary(), pa.large_binary(), pa.binary(8))),
        (pa.dictionary(pa.int32(), pa.binary()), "bytes"),
        (pa.list_(pa.int8()), "list"),
        (pa.large_list(pa.uint8()), "list"),
        (DECODED, "samples"),
        *((kind, None) for kind in (OF_INTEGERS, OF_CHANNELS, pa.list_(FILE), pa.list_(pa.binary()), pa.null())),
        *((kind, None) for kind in (pa.int64(), pa.string(), pa.list_(pa.float32()), pa.struct([("audio", FILE)]))),
        (pa.struct([("bytes", pa.string())]), None),
        (pa.map_(pa.string(), pa.binary()), None),
    ],
    ids=str,
)
def test_forms_of_audio(kind: pa.DataType, form: str | None) -> None:
    assert audio_form(kind) == form


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        *((kind, True) for kind in (pa.binary(), FILE, pa.list_(FILE), pa.list_(pa.binary()), pa.binary(16))),
        *((kind, True) for kind in (pa.struct([("a", FILE)]), pa.map_(pa.string(), pa.list_(FILE)))),
        (pa.dictionary(pa.int8(), pa.binary()), True),
        *((kind, False) for kind in (pa.string(), DECODED, pa.map_(pa.string(), pa.int8()), pa.list_(pa.int8()))),
        (pa.struct([("binary", pa.string())]), False),
        *((pa.uuid(), False) for _ in range(hasattr(pa, "uuid"))),
    ],
    ids=str,
)
def test_bytes_are_found_at_any_depth(kind: pa.DataType, expected: bool) -> None:
    assert holds_bytes(kind) == expected


def schema(declared: tuple[str, ...] = (), **types: pa.DataType) -> pa.Schema:
    features = {name: {"_type": "Audio"} for name in declared}
    return pa.schema(list(types.items()), {"huggingface": json.dumps({"info": {"features": features}})})


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (schema(text=pa.string(), sound=FILE), "sound"),
        (schema(image=FILE, audio=FILE), "audio"),
        (schema(("clean",), audio=FILE, clean=FILE), "clean"),
        (schema(("audio", "clean"), audio=FILE, clean=FILE), "audio"),
        (schema(audio=pa.string(), sound=FILE), "sound"),
        (schema(id=pa.binary(16), sound=pa.binary()), "sound"),  # bytes of one length may be an id
    ],
)
def test_the_usual_column(columns: pa.Schema, found: str) -> None:
    assert audio_column(columns, "x.parquet") == found
    assert is_usual(columns, found)
    others = [name for name in columns.names if name != found and audio_form(columns.field(name).type)]
    assert [audio_column(columns, "x.parquet", name) for name in others] == others
    assert not any(is_usual(columns, name) for name in others)


@pytest.mark.parametrize(
    ("columns", "wanted", "message"),
    [
        (
            schema(a=FILE, b=FILE),
            None,
            "has several columns that may hold audio (a, b); name one with --audio-column a",
        ),
        (schema(a=pa.int64(), b=pa.string()), None, "has no column with audio: audio is"),
        (schema(a=FILE), "b", "has no column b; its columns are a"),
        (
            schema(audio=pa.int64()),
            None,
            "the column audio of x.parquet holds int64, which is not read as audio; audio is",
        ),
        (schema(audio=pa.string()), None, "if these are paths of audio files, export the table as CSV"),
        (schema(audio=pa.list_(FILE)), None, "write a row for each recording, and give rows.parquet: python -c"),
        (schema(a=pa.int64(), b=FILE), "a", "audio may be in b: give --audio-column b"),
        (pa.schema([("a", FILE), ("a", FILE)]), None, "has several columns with the name a"),
    ],
)
def test_refusals_say_what_the_column_is(columns: pa.Schema, wanted: str | None, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        audio_column(columns, "x.parquet", wanted)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
