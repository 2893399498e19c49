"""Rows of Parquet files: which column is their audio, in which forms it is read, and what their fields become."""

import csv
import datetime
import decimal
import io
import json
import shlex
import sys
import tarfile
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile

from prepcli.audio.opening import read_whole
from prepcli.storage.containers import Row
from tests.conftest import read_lines, write_lines
from tests.support.containers import audio_by_text
from tests.support.running import Outcome, prepcli, run_process

FILE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
AUDIO = {"_type": "Audio"}
ODD = "a/../b::c.x y 'q\"%2F\n"
"""The name of a column with everything that names of records and paths give a meaning."""


def encoded(number: int, file_format: str = "FLAC") -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.full(4000 + number, 100 * (number + 1), np.int16), 8000, format=file_format)
    return file.getvalue()


LOUD, QUIET = [encoded(0), encoded(1)], [encoded(2), encoded(3)]


def files(data: list[bytes], kind: Any = FILE) -> pa.Array:
    return pa.array([{"bytes": one, "path": "x.flac"} for one in data] if pa.types.is_struct(kind) else data, kind)


def write(path: Path, features: dict[str, Any] | None = None, /, **columns: Any) -> Path:
    table = pa.table({"text": ["a", "b"]} | columns)
    if features is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, path, row_group_size=1)
    return path


def made(source: Path, out: Path, *options: object) -> list[dict[str, Any]]:
    """The manifest that make-manifest writes of a source."""
    done = prepcli("make-manifest", source, out, *options)
    assert done.code == 0, done.err
    return read_lines(out)


def rejects(out: Path) -> list[dict[str, Any]]:
    return read_lines(out.with_name(f"{out.name}.prepcli") / "rejects.jsonl")


def run_advice(done: Outcome, folder: Path) -> None:
    """Run the line of Python in a refusal, in `folder`."""
    assert done.code == 2
    _, found, line = done.error_line.partition("python -c ")
    assert found
    run = run_process([sys.executable, "-c", shlex.split(line)[0]], cwd=folder)
    assert run.code == 0, run.err


@pytest.mark.parametrize("column", ["clean", ODD])
@pytest.mark.parametrize("usual", ["audio", "noisy"])
def test_the_column_lasts_to_the_last_reader(usual: str, column: str, tmp_path: Path) -> None:
    source = write(tmp_path / "s.parquet", {usual: AUDIO, column: AUDIO}, **{usual: files(LOUD), column: files(QUIET)})
    expected = dict(zip("ab", QUIET, strict=True))
    for kind, options in (("tarred", ["--num-shards", 1]), ("shar", []), ("wenet", []), ("parquet", [])):
        done = prepcli(f"manifest-to-{kind}", source, tmp_path / kind, "--audio-column", column, *options)
        assert done.code == 0, done.err
        assert audio_by_text(tmp_path / kind, kind) == expected
        assert prepcli("verify", tmp_path / kind).code == 0
    for command, out in (("convert-audio", "files"), ("score", "score.json"), ("find-duplicates", "duplicates")):
        done = prepcli(command, source, tmp_path / out, "--audio-column", column)
        assert done.code == 0, done.err
    stored = read_lines(tmp_path / "files" / "manifest.json")
    assert {one["text"]: (tmp_path / "files" / one["audio_filepath"]).read_bytes() for one in stored} == expected


@pytest.mark.parametrize("column", ["clean", ODD])
def test_a_manifest_names_the_column_for_all_commands(column: str, tmp_path: Path) -> None:
    source = write(tmp_path / "s.parquet", audio=files(LOUD), **{column: files(QUIET)})
    folder = tmp_path / "deep" / "er"
    lines = made(source, folder / "m.json", "--audio-column", column)
    assert [one["audio_filepath"] for one in lines] == [f"../../s.parquet::{Row(row, column)}" for row in (0, 1)]
    assert [one["audio_filepath"] for one in made(source, tmp_path / "u.json", "--audio-column", "audio")] == [
        "s.parquet::0",
        "s.parquet::1",
    ]
    for name, options in (("plain", []), ("based", ["--audio-base-dir", folder])):
        (tmp_path / name).mkdir()
        moved = write_lines(tmp_path / name / "m.json", lines) if options else folder / "m.json"
        done = prepcli("manifest-to-tarred", moved, tmp_path / name / "t", "--num-shards", 1, *options)
        assert done.code == 0, done.err
        assert audio_by_text(tmp_path / name / "t", "tarred") == dict(zip("ab", QUIET, strict=True))
    for command in ("verify", "inspect"):
        assert prepcli(command, folder / "m.json").code == 0
    assert prepcli("fix-durations", folder / "m.json", tmp_path / "fixed.json").code == 0
    assert [one["duration"] for one in read_lines(tmp_path / "fixed.json")] == [4002 / 8000, 4003 / 8000]


def test_both_columns_in_one_set_and_as_context(tmp_path: Path) -> None:
    source = write(tmp_path / "s.parquet", audio=files(LOUD), clean=files(QUIET))
    target, context = made(source, tmp_path / "a.json"), made(source, tmp_path / "b.json", "--audio-column", "clean")
    write_lines(tmp_path / "both.json", [*target, *({**one, "text": f"{one['text']} clean"} for one in context)])
    done = prepcli("convert-audio", tmp_path / "both.json", tmp_path / "files")
    assert done.code == 0, done.err
    names = {one["text"]: one["audio_filepath"] for one in read_lines(tmp_path / "files" / "manifest.json")}
    assert [
        (tmp_path / "files" / names[text]).read_bytes() for text in ("a", "b", "a clean", "b clean")
    ] == LOUD + QUIET
    both = [
        {**one, "context_audio_filepath": other["audio_filepath"], "context_audio_duration": other["duration"]}
        for one, other in zip(target, context, strict=True)
    ]
    done = prepcli("manifest-to-shar", write_lines(tmp_path / "context.json", both), tmp_path / "shar", "--json")
    assert (done.code, done.json["rejects"]) == (0, 0), done.err
    stored = prepcli("verify", tmp_path / "shar")
    assert stored.code == 0, stored.out
    with tarfile.open(tmp_path / "shar" / "context_audio" / "recording.000000.tar") as tar:
        members = [tar.extractfile(one).read() for one in tar if one.name.endswith(".flac")]  # type: ignore[union-attr]
    assert sorted(members) == sorted(QUIET)


def test_a_reject_names_the_column_and_can_be_retried(tmp_path: Path) -> None:
    source = write(tmp_path / "s.parquet", audio=files(LOUD), clean=files([QUIET[0], b"no audio"]))
    out = tmp_path / "m.json"
    made(source, out, "--audio-column", "clean", "--max-rejects", 1)
    [reject] = rejects(out)
    assert "s.parquet::1::clean" in reject["reject_detail"]
    write_lines(tmp_path / "n.json", [{"audio_filepath": "s.parquet::1::clean", "duration": 0.5, "text": "b"}])
    done = prepcli("manifest-to-wenet", tmp_path / "n.json", tmp_path / "w", "--max-rejects", 1)
    assert done.code == 0, done.err
    [reject] = rejects(tmp_path / "w")
    assert (reject["row"], reject["column"]) == (1, "clean")
    write(source, audio=files(LOUD), clean=files(QUIET))
    retry = tmp_path / "w.prepcli" / "rejects.jsonl"
    done = prepcli("manifest-to-wenet", retry, tmp_path / "x", "--audio-base-dir", tmp_path)
    assert done.code == 0, done.err
    assert audio_by_text(tmp_path / "x", "wenet") == {"b": QUIET[1]}


def _kinds() -> dict[str, Any]:
    kinds: dict[str, Any] = {
        "large_binary": files(LOUD, pa.large_binary()),
        "fixed_size_binary": files([encoded(0, "WAV")] * 2, pa.binary(len(encoded(0, "WAV")))),
        "dictionary": files(LOUD, pa.binary()).dictionary_encode(),
        "list": pa.array([list(one) for one in LOUD], pa.list_(pa.uint8())),
    }
    if hasattr(pa, "binary_view"):  # as Polars writes binary columns
        kinds["binary_view"] = files(LOUD, pa.binary_view())
        kinds["struct of views"] = files(LOUD, pa.struct([("bytes", pa.binary_view()), ("path", pa.string_view())]))
    return kinds


@pytest.mark.parametrize("kind", _kinds())
def test_bytes_of_any_type_are_read(kind: str, tmp_path: Path) -> None:
    table = pa.table({"text": ["a", "b"], "audio": _kinds()[kind]})
    pq.write_table(table, tmp_path / "s.parquet")
    lines = made(tmp_path / "s.parquet", tmp_path / "m.json", "--audio-column", "audio")
    expected = [encoded(0, "WAV")] * 2 if kind == "fixed_size_binary" else LOUD
    assert [read_whole(str(tmp_path / one["audio_filepath"]), "x") for one in lines] == expected
    assert prepcli("verify", tmp_path / "m.json").code == 0


@pytest.mark.parametrize(
    ("samples", "subtype"),
    [
        (pa.array([[0.5, -1.0, 1 / 32768]] * 2, pa.list_(pa.float64())), "PCM_16"),
        (pa.array([[0.5, -1.0, 1 / 32768]] * 2, pa.large_list(pa.float32())), "PCM_16"),
        (pa.array([[16384, -32768, 1]] * 2, pa.list_(pa.int16())), "PCM_16"),
        (pa.array([[0.1, -1.25, 1.0]] * 2, pa.list_(pa.float64())), "FLOAT"),
    ],
)
def test_decoded_audio_becomes_a_wav_file(samples: pa.Array, subtype: str, tmp_path: Path) -> None:
    long = pa.array([one * 1000 for one in samples.to_pylist()], samples.type)
    audio = pa.StructArray.from_arrays([long, pa.array([16000, 8000])], ["array", "sampling_rate"])
    source = write(tmp_path / "s.parquet", audio=audio)
    lines = made(source, tmp_path / "m.json")
    assert [one["duration"] for one in lines] == [3000 / 16000, 3000 / 8000]
    data = read_whole(f"{source}::1", "x")
    assert soundfile.info(io.BytesIO(data)).subtype == subtype
    found, rate = soundfile.read(io.BytesIO(data), dtype="float32")
    values = np.array(long[1].as_py()) / (32768 if samples.type.value_type == pa.int16() else 1)
    assert rate == 8000
    assert np.array_equal(found, values.astype(np.float32))
    assert prepcli("manifest-to-parquet", source, tmp_path / "p").code == 0
    assert prepcli("verify", tmp_path / "p").code == 0
    refused = prepcli("estimate-bins", source, "-b", 2)  # NeMo's reader takes bytes only
    assert "make such files: prepcli manifest-to-parquet" in refused.error_line
    assert prepcli("estimate-bins", tmp_path / "p", "-b", 2).code == 0


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        ({"array": [3000.0, 1.0], "sampling_rate": 16000}, "are not floats between -1 and 1"),
        ({"array": [float("nan"), 0.0], "sampling_rate": 16000}, "are not floats between -1 and 1"),
        ({"array": [0.0], "sampling_rate": None}, "sampling_rate of"),
        ({"array": None, "sampling_rate": 16000}, "is not embedded"),
        (None, "is not embedded"),
    ],
)
def test_decoded_audio_that_is_none_is_a_reject(value: Any, detail: str, tmp_path: Path) -> None:
    kind = pa.struct([("array", pa.list_(pa.float64())), ("sampling_rate", pa.int64())])
    source = write(tmp_path / "s.parquet", audio=pa.array([{"array": [0.0] * 999, "sampling_rate": 8000}, value], kind))
    assert len(made(source, tmp_path / "m.json", "--max-rejects", 1)) == 1
    assert detail in rejects(tmp_path / "m.json")[0]["reject_detail"]


@pytest.mark.parametrize(
    "audio",
    [
        pa.array([1, 2]),
        pa.array([[0.5], [0.5]]),
        pa.array([{"audio": {"bytes": b"x"}}] * 2),
        pa.array([{"array": [[0.5]], "sampling_rate": 8000}] * 2),
        pa.nulls(2),
    ],
    ids=lambda audio: str(audio.type),
)
def test_a_column_that_cannot_be_audio_is_refused_in_one_line(audio: pa.Array, tmp_path: Path) -> None:
    source = write(tmp_path / "s.parquet", audio=audio)
    for command in ("verify", "make-manifest", "manifest-to-wenet"):
        out = [] if command == "verify" else [tmp_path / "out"]
        done = prepcli(command, source, *out)
        assert done.code == 2
        assert f"the column audio of {source} holds {audio.type}"[:60] in done.error_line
        assert "--audio-column" not in done.error_line
    assert prepcli("inspect", source).code == 0
    done = prepcli("manifest-to-wenet", source, tmp_path / "out", "--audio-column", "text")
    assert "the column text" in done.error_line


def test_the_advice_on_lists_of_audio_works(tmp_path: Path) -> None:
    rows = [[{"bytes": LOUD[0], "path": None}, {"bytes": QUIET[0], "path": None}], [{"bytes": LOUD[1], "path": None}]]
    source = write(tmp_path / "it's.parquet", audio=pa.array(rows, pa.list_(FILE)))
    run_advice(prepcli("make-manifest", source, tmp_path / "m.json"), tmp_path)
    lines = made(tmp_path / "rows.parquet", tmp_path / "m.json")
    assert [one["text"] for one in lines] == ["a", "a", "b"]
    assert [read_whole(str(tmp_path / one["audio_filepath"]), "x") for one in lines] == [LOUD[0], QUIET[0], LOUD[1]]


def test_the_advice_on_paths_works(tmp_path: Path) -> None:
    for number, data in enumerate(LOUD):
        (tmp_path / f"{number}.wav").write_bytes(data)
    source = write(tmp_path / "s.parquet", audio=["0.wav", "1.wav"])
    done = prepcli("manifest-to-wenet", source, tmp_path / "w")
    assert "export the table as CSV" in done.error_line
    with (tmp_path / "TABLE.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["text", "audio"])
        writer.writeheader()
        writer.writerows(pq.read_table(source).to_pylist())
    words = shlex.split(done.error_line[done.error_line.index("make-manifest --audio") :])
    done = prepcli(*words, cwd=tmp_path)
    assert done.code == 0, done.err
    assert [one["audio_filepath"] for one in read_lines(tmp_path / "OUT.json")] == ["0.wav", "1.wav"]


def test_the_advice_on_several_columns_works(tmp_path: Path) -> None:
    source = write(tmp_path / "s.parquet", cat=files(LOUD), dog=files(QUIET))
    done = prepcli("verify", source)
    words = shlex.split(done.error_line[done.error_line.index("make-manifest") :])
    assert words[1:3] == ["--audio-column", "cat"]
    done = prepcli(*words, cwd=tmp_path)
    assert done.code == 0, done.err
    assert prepcli("verify", tmp_path / "OUT.json").code == 0
    assert prepcli("score", source, tmp_path / "s.json", *words[1:3]).code == 0


def test_rows_with_only_a_path_say_what_to_do(tmp_path: Path) -> None:
    source = write(tmp_path / "s.parquet", audio=pa.array([{"bytes": None, "path": "x.wav"}] * 2, FILE))
    assert prepcli("make-manifest", source, tmp_path / "m.json", "--max-rejects", 2).code == 0
    assert {one["reject_reason"] for one in rejects(tmp_path / "m.json")} == {"unreadable_audio"}
    detail = (
        "only the path x.wav, which is not followed. Embed the files, as save_to_disk of Hugging Face datasets does"
    )
    assert detail in rejects(tmp_path / "m.json")[0]["reject_detail"]


def test_columns_with_bytes_at_any_depth_stay_in_the_file(tmp_path: Path) -> None:
    one = {"bytes": b"\xff\xd8", "path": "a.png"}
    others = {
        "turns": pa.array([[one, one]] * 2),
        "info": pa.array([{"image": one, "n": 1}] * 2),
        "raw": pa.array([[b"\xff"]] * 2),
        "map": pa.array([[("a", b"\xff")]] * 2, pa.map_(pa.string(), pa.binary())),
        "clean": files(QUIET),
    }
    source = write(tmp_path / "s.parquet", audio=files(LOUD), n=[1, 2], info2=pa.array([{"n": 1}] * 2), **others)
    lines = made(source, tmp_path / "m.json")
    assert set(lines[0]) == {"audio_filepath", "duration", "text", "n", "info2"}
    done = prepcli("make-manifest", source, tmp_path / "n.json", "--text-column", "raw")
    assert f"the column raw of {source} holds audio or bytes; name one of text, n, info2" in done.error_line


def test_values_of_all_types(tmp_path: Path) -> None:
    ids = [uuid.UUID(int=1), uuid.UUID(int=2)]
    columns = {
        "id": pa.array([one.bytes for one in ids], pa.uuid()) if hasattr(pa, "uuid") else list(map(str, ids)),
        "speaker": [decimal.Decimal(7), decimal.Decimal(8)],
        "ns": pa.array([1_000_000_001, 2], pa.timestamp("ns")),
        "us": pa.array([1_000_000, 2], pa.timestamp("us", "UTC")),
        "far": pa.array([10**18, 2], pa.timestamp("us")),
        "lasts": pa.array([1000, 2], pa.duration("ms")),
        "day": [datetime.date(2020, 1, 1)] * 2,
        "nan": [float("nan"), 1.5],
        "pairs": pa.array([[("a", 1)]] * 2, pa.map_(pa.string(), pa.int64())),
    }
    first, second = made(write(tmp_path / "s.parquet", audio=files(LOUD), **columns), tmp_path / "m.json")
    assert (first["id"], first["speaker"], first["day"]) == (str(ids[0]), "7", "2020-01-01")
    assert (first["ns"], first["us"]) == ("1970-01-01T00:00:01", "1970-01-01T00:00:01Z")
    assert first["pairs"] == [["a", 1]]
    assert ("nan" in first, second["nan"]) == (False, 1.5)


def test_a_text_that_is_not_utf8_is_a_reject(tmp_path: Path) -> None:
    text = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"\xffa")]
    )
    source = write(tmp_path / "s.parquet", audio=files(LOUD), text=text)
    assert [one["text"] for one in made(source, tmp_path / "m.json", "--max-rejects", 1)] == ["a"]
    [reject] = rejects(tmp_path / "m.json")
    assert (reject["reject_reason"], reject["reject_detail"]) == ("not_utf8", "the column text is not UTF-8")


def test_names_of_classes_at_any_depth(tmp_path: Path) -> None:
    classes = {"_type": "ClassLabel", "names": ["f", "m"]}
    features = {
        "audio": AUDIO,
        "gender": classes,
        "all": {"_type": "Sequence", "feature": classes},
        "new": {"_type": "List", "feature": classes},
        "old": [classes],
        "fields": {"feature": classes, "n": {"_type": "Value", "dtype": "int64"}},
        "turns": {"_type": "Sequence", "feature": {"who": classes}},
        "nameless": {"_type": "ClassLabel", "num_classes": 2},
    }
    columns = {
        "gender": [1, -1],
        **{name: [[0, -1], [7]] for name in ("all", "new", "old")},
        "fields": [{"feature": 1, "n": 1}, {"feature": -1, "n": -1}],
        "turns": [{"who": [0, 1]}, {"who": [-1]}],
        "nameless": [1, -1],
    }
    source = write(tmp_path / "s.parquet", features, audio=files(LOUD), **columns)
    first, second = made(source, tmp_path / "m.json")
    expected = {"gender": "m", "fields": {"feature": "m", "n": 1}, "turns": {"who": ["f", "m"]}, "nameless": 1}
    expected |= {name: ["f", None] for name in ("all", "new", "old")}
    assert {name: first[name] for name in expected} == expected
    assert {"gender", "nameless"}.isdisjoint(second)
    assert (second["fields"], second["turns"]) == ({"feature": None, "n": -1}, {"who": [None]})
    assert second["all"] == [7]


@pytest.mark.parametrize(
    ("columns", "detail"),
    [
        ({"text": [12, 7]}, "text is 12; it must be a string"),
        ({"text": [["a", "b"], ["c"]]}, 'text is ["a", "b"]; it must be a string'),
        ({"transcription": [["a"], ["b"]]}, 'text is ["a"]; it must be a string'),
        ({"speaker": [1.5, 2.5]}, "speaker is 1.5; it must be a string or an integer"),
    ],
)
@pytest.mark.parametrize("command", ["make-manifest", "manifest-to-wenet", "convert-audio", "score"])
def test_the_gate_is_the_same_in_every_command(command: str, columns: Any, detail: str, tmp_path: Path) -> None:
    others = {} if columns.keys() <= {"text", "speaker"} else {"text": pa.nulls(2)}
    source = write(tmp_path / "s.parquet", audio=files(LOUD), **others, **columns)
    done = prepcli(command, source, tmp_path / "out.json", "--max-rejects", 2)
    assert done.code == 0, done.err
    found = rejects(tmp_path / "out.json")
    assert ([one["reject_reason"] for one in found], found[0]["reject_detail"]) == (["bad_field"] * 2, detail)


def test_a_text_that_is_null_is_missing_and_not_another_column(tmp_path: Path) -> None:
    columns = {"sentence": ["x", None], "text": ["raw a", "raw b"], "speaker": ["s", None], "lang": [3, None]}
    source = write(tmp_path / "s.parquet", audio=files(LOUD), **columns)
    first, second = made(source, tmp_path / "m.json", "--text-column", "sentence")
    assert (first["text"], first["speaker"], first["lang"]) == ("x", "s", 3)
    assert {"text", "speaker", "lang", "sentence"}.isdisjoint(second)
