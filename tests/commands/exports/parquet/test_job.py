"""manifest-to-parquet: what pyarrow, Hugging Face datasets and NeMo read, to the byte and to the sample."""

import io
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile
import yaml

from prepcli.commands.exports.parquet.columns import choose_columns
from prepcli.formats import parquet
from tests.conftest import SHORT_CORPUS, copy_set, make_set, read_lines, tree, write_lines
from tests.support.audio_files import write_audio
from tests.support.lazy import lazy
from tests.support.running import prepcli

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet as pq
else:
    pyarrow, pq = lazy("pyarrow"), lazy("pyarrow.parquet")

MANIFEST = SHORT_CORPUS / "manifest.json"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini corpus in files of 20, with row groups of 7."""
    out = tmp_path_factory.mktemp("parquet") / "out"
    make_set("manifest-to-parquet", MANIFEST, out, "--shard-size", 20, "--row-group-size", 7)
    return out


def rows(out: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(out.iterdir()) for row in pq.ParquetFile(path).read().to_pylist()]


def decoded(row: dict[str, Any]) -> tuple[np.ndarray, int]:
    audio, rate = soundfile.read(io.BytesIO(row["audio"]["bytes"]), dtype="int16")
    return audio, rate


def test_files_are_stored_byte_for_byte(whole: Path) -> None:
    found = rows(whole)
    for record, row in zip(read_lines(MANIFEST), found, strict=True):
        assert row["audio"]["bytes"] == (SHORT_CORPUS / record["audio_filepath"]).read_bytes()
        assert row["audio"]["path"] == row["id"] + ".flac"
        assert {name: row[name] for name in ("text", "duration", "speaker", "lang")} == {
            name: record[name] for name in ("text", "duration", "speaker", "lang")
        }
    assert len({row["id"] for row in found}) == 48


def test_row_groups_are_small_and_a_file_is_a_shard(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = sorted(whole.iterdir())
    assert [path.name for path in paths] == [f"data-{number:06d}.parquet" for number in range(3)]
    meta = pq.ParquetFile(paths[0]).metadata
    assert [meta.row_group(number).num_rows for number in range(meta.num_row_groups)] == [7, 7, 2]


def test_much_audio_makes_more_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet.ParquetFile, "max_group_bytes", 40_000)
    sink = io.BytesIO()
    file = parquet.ParquetFile(sink, parquet.schema_of({"text": "string"}), 200)
    for number in range(5):
        file.add(bytes(15_000), {"id": str(number), "text": None if number == 1 else ""}, "x.wav")
    file.close()
    read = pq.ParquetFile(io.BytesIO(sink.getvalue()))
    assert [read.metadata.row_group(number).num_rows for number in range(read.num_row_groups)] == [2, 2, 1]
    assert [row["text"] for row in read.read(["text"]).to_pylist()] == ["", None, "", "", ""]


def test_segments_are_cut_and_resampled(tmp_path: Path) -> None:
    audio = write_audio(tmp_path / "talk.wav", 4.0, 16000)
    records = [
        {"audio_filepath": "talk.wav", "offset": offset, "duration": 1.25, "text": "", "sampling_rate": 16000}
        for offset in (0.0, 1.00003, 2.5)
    ]
    write_lines(tmp_path / "m.json", records)
    make_set("manifest-to-parquet", tmp_path / "m.json", tmp_path / "out")
    found = rows(tmp_path / "out")
    for record, row in zip(records, found, strict=True):
        start = int(float(str(record["offset"])) * 16000 + 0.5)
        assert np.array_equal(decoded(row)[0], audio[start : start + 20000])
        assert row["source_audio_offset"] == record["offset"]
    options = ("--target-sample-rate", 8000, "--force-codec", "flac")
    make_set("manifest-to-parquet", tmp_path / "m.json", tmp_path / "low", *options)
    assert [(decoded(row)[1], row["sampling_rate"]) for row in rows(tmp_path / "low")] == [(8000, 8000)] * 3
    write_lines(tmp_path / "texts.json", [*records[1:], records[0] | {"sampling_rate": "16000"}])
    make_set("manifest-to-parquet", tmp_path / "texts.json", tmp_path / "texts", *options)
    assert [row["sampling_rate"] for row in rows(tmp_path / "texts")] == ["8000"] * 3


def test_fields_of_all_types_become_columns_of_one_type(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 1.0)
    base = {"audio_filepath": "a.wav", "duration": 1.0}
    records = [
        base
        | {"n": 1, "x": 1, "ok": True, "list": [1, {"a": "ä"}], "mixed": 5, "id": "own", "big": 2**70, "none": None},
        base
        | {"n": None, "x": 2.5, "ok": False, "mixed": "text", "audio": "y", "text": "ü", "big": 1, "odd name": "z"},
        base | {"n": -3, "_skipme": 0},
    ]
    write_lines(tmp_path / "m.json", records)
    make_set("manifest-to-parquet", tmp_path / "m.json", tmp_path / "out", "--shard-size", 1)
    assert len({str(pq.read_schema(path)) for path in (tmp_path / "out").iterdir()}) == 1
    first, second, third = rows(tmp_path / "out")
    assert (first["n"], second["n"], third["n"]) == (1, None, -3)
    assert (first["x"], second["x"], third["x"]) == (1.0, 2.5, None)
    assert (first["ok"], second["ok"], third["ok"]) == (True, False, None)
    assert json.loads(first["list"]) == [1, {"a": "ä"}]
    assert (first["mixed"], second["mixed"]) == ("5", "text")
    assert (first["source_id"], second["source_audio"], second["odd name"]) == ("own", "y", "z")
    assert (first["text"], second["text"], first["none"]) == (None, "ü", None)
    assert (first["big"], second["big"]) == (str(2**70), "1")
    assert [row["id"] for row in (first, second, third)] == ["a", "a@n2", "a@n3"]
    assert "_skipme" not in first


@pytest.mark.parametrize(
    ("values", "stored"),
    [
        ((1, 2**63 - 1), (1, 2**63 - 1)),
        ((1, 2**63, -1), ("1", str(2**63), "-1")),
        ((2**53 + 1, 0.5), (str(2**53 + 1), "0.5")),
        ((2**53, 0.5), (2.0**53, 0.5)),
    ],
)
def test_integers_stay_exact(values: tuple[float, ...], stored: tuple[object, ...], tmp_path: Path) -> None:
    """Also if only one line has a large one; a column of text is noted."""
    write_audio(tmp_path / "a.wav", 1.0)
    base = {"audio_filepath": "a.wav", "duration": 1.0}
    write_lines(tmp_path / "m.json", [base | {"number": value} for value in values])
    done = make_set("manifest-to-parquet", tmp_path / "m.json", tmp_path / "out")
    assert tuple(row["number"] for row in rows(tmp_path / "out")) == stored
    noted = [note for note in done.json["notes"] if "the column number is text" in note]
    assert len(noted) == isinstance(stored[0], str)


def test_columns_that_would_collide() -> None:
    columns = choose_columns([("id", "str"), ("source_id", "str"), ("audio", "int"), ("text", "str")])
    assert columns.fields == {
        "duration": "duration", "text": "text", "source_id": "id", "source_source_id": "source_id",
        "source_audio": "audio",
    }  # fmt: skip


def test_the_same_bytes_for_any_number_of_ranks(whole: Path, tmp_path: Path) -> None:
    for rank in range(2):
        options = ("--shard-size", 20, "--row-group-size", 7, "--rank", rank, "--world-size", 2)
        assert prepcli("manifest-to-parquet", MANIFEST, tmp_path / "out", *options).code == 0
    assert tree(tmp_path / "out") == tree(whole)


def test_hugging_face_datasets_read_it_as_audio(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory: its cache needs a lock file, and no network is asked."""
    datasets = pytest.importorskip("datasets")
    # The variable HF_HUB_OFFLINE would be read at the first import, for this whole process.
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()
    files = [str(path) for path in sorted(whole.iterdir())]
    loaded = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path))
    assert isinstance(loaded.features["audio"], datasets.Audio)
    plain = loaded.cast_column("audio", datasets.Audio(decode=False))
    assert [row["text"] for row in plain] == [record["text"] for record in read_lines(MANIFEST)]
    first = read_lines(MANIFEST)[0]
    assert plain[0]["audio"]["bytes"] == (SHORT_CORPUS / first["audio_filepath"]).read_bytes()


def test_the_paths_for_nemo_are_a_list(whole: Path) -> None:
    """NeMo expands no patterns of this type: in the report, and in the section that a training config takes."""
    files = [str(path) for path in sorted(whole.iterdir())]
    arguments = ("manifest-to-parquet", MANIFEST, whole, "--shard-size", 20, "--row-group-size", 7)
    done = prepcli(*arguments, "--json")
    assert (done.json["status"], done.json["outputs"]) == ("nothing_to_do", {"manifest_filepath": files})
    section = yaml.safe_load(Path(done.json["details"]["train_ds"]).read_text())["train_ds"]
    assert section["input_cfg"] == [{"type": "parquet", "manifest_filepath": files}]
    assert "_OP_" not in prepcli(*arguments, "--verbose").out


@pytest.mark.slow
@pytest.mark.nemo
def test_nemo_reads_it(whole: Path) -> None:
    pytest.importorskip("nemo.collections.asr")
    from nemo.collections.common.data.lhotse.cutset import read_cutset_from_config
    from omegaconf import OmegaConf

    section = yaml.safe_load(whole.with_name("out.prepcli").joinpath("train_ds.yaml").read_text())["train_ds"]
    config = section | {"force_finite": True, "shuffle": False, "shard_seed": 0, "seed": 0}
    cuts, _ = read_cutset_from_config(OmegaConf.create(config))
    found = {cut.id: cut for cut in cuts}
    assert len(found) == 48
    for row in rows(whole):
        cut = found[row["id"]]
        (supervision,) = cut.supervisions
        assert (supervision.text, supervision.language) == (row["text"], row["lang"])
        heard = np.round(cut.load_audio()[0] * 32768).astype(np.int16)
        assert np.array_equal(heard, decoded(row)[0])


def test_bad_audio_and_bad_texts_are_rejects(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 1.0)
    records = [
        {"audio_filepath": name, "duration": 1.0, "text": text} for name, text in (("a.wav", "x"), ("b.wav", "x"))
    ]
    write_lines(tmp_path / "m.json", [*records, {**records[0], "text": 7}])
    done = prepcli("manifest-to-parquet", tmp_path / "m.json", tmp_path / "out", "--max-rejects", 2, "--json")
    assert done.json["rejects_by_reason"] == {"missing_audio": 1, "bad_field": 1}
    assert [row["text"] for row in rows(tmp_path / "out")] == ["x"]
    assert prepcli("verify", tmp_path / "out").code == 0


def test_a_line_that_is_not_utf8_is_a_reject(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 1.0)
    write_lines(tmp_path / "m.json", [{"audio_filepath": "a.wav", "duration": 1.0, "text": "x"}])
    with (tmp_path / "m.json").open("ab") as file:
        file.write(b'{"audio_filepath": "\xff.wav", "duration": 1.0}\n')
    done = prepcli("manifest-to-parquet", tmp_path / "m.json", tmp_path / "out", "--max-rejects", 1, "--json")
    assert done.json["rejects_by_reason"] == {"not_utf8": 1}
    assert [row["text"] for row in rows(tmp_path / "out")] == ["x"]


def test_verify_names_what_is_wrong(whole: Path, tmp_path: Path) -> None:
    out = copy_set(whole, tmp_path)
    (out / "data-000001.parquet").unlink()
    table = pq.ParquetFile(out / "data-000000.parquet").read()
    data = table.to_pylist()
    data[1]["audio"]["bytes"] = data[1]["audio"]["bytes"][:100]
    data[2]["id"] = data[3]["id"]
    data[4]["duration"] = 9.0
    data[5]["audio"] = None
    pq.write_table(pyarrow.Table.from_pylist(data, schema=table.schema), out / "data-000000.parquet")
    (out / "data-000002.parquet").write_bytes(b"PAR1 and nothing more")
    done = prepcli("verify", out, "--json")
    assert done.code == 1
    found = "\n".join(done.json["problems"])
    for expected in (
        "data-000001.parquet: missing",
        "data-000002.parquet: cannot be read",
        "row 1: ",
        "1 record has the id of another record",
        "row 4: duration is 9.000 s",
        "row 5 has no id, or no audio",
    ):
        assert expected in found, expected


def test_verify_compares_with_what_was_published(whole: Path, tmp_path: Path) -> None:
    out = copy_set(whole, tmp_path, records=True)
    assert prepcli("verify", out, "--json").json["kind"] == "parquet"
    path = out / "data-000002.parquet"
    pq.write_table(pq.ParquetFile(path).read(), path)
    done = prepcli("verify", out, "--json")
    assert done.code == 1
    assert any("data-000002.parquet: not the bytes that were published" in one for one in done.json["problems"])


def test_other_programs_write_other_types(whole: Path, tmp_path: Path) -> None:
    """Ids may be integers; a duration that is not a number of seconds is named, by `verify` and `inspect`."""
    out = copy_set(whole, tmp_path)
    for path in sorted(out.glob("data-*"))[1:]:
        path.unlink()
    table = pq.ParquetFile(out / "data-000000.parquet").read()
    numbers = table.set_column(0, "id", pyarrow.array(range(len(table))))
    pq.write_table(numbers, out / "data-000000.parquet")
    assert prepcli("verify", out).code == 0
    for value in (math.nan, -1.0, "1.0", True):
        durations = pyarrow.array([value] * len(table))
        at = table.schema.get_field_index("duration")
        pq.write_table(numbers.set_column(at, "duration", durations), out / "data-000000.parquet")
        done = prepcli("verify", out, "--json")
        assert done.code == 1
        assert len(done.json["problems"]) == len(table)
        assert f"row 0: duration is {value!r}, not a number of seconds" in done.json["problems"][0]
        inspected = prepcli("inspect", out, "--json")
        assert inspected.code == 0, inspected.err
        assert any(f"row 0: duration is {value!r}" in note for note in inspected.json["notes"])


def test_values_that_python_cannot_hold(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 0.1)
    audio = [{"bytes": (tmp_path / "a.wav").read_bytes(), "path": "a.wav"}]
    (tmp_path / "out").mkdir()
    late = pyarrow.array([2**62], pyarrow.timestamp("us"))
    for names, arrays in (
        (["id", "audio", "duration"], [["a"], audio, late]),
        (["id", "audio"], [late, audio]),
        (["id", "audio"], [["a"], [{"bytes": "a text", "path": "a.wav"}]]),
    ):
        pq.write_table(pyarrow.table(arrays, names=names), tmp_path / "out" / "data-000000.parquet")
        done = prepcli("verify", tmp_path / "out", "--json")
        assert (done.code, len(done.json["problems"])) == (1, 1), done.err
        assert prepcli("inspect", tmp_path / "out").code == 0
