"""manifest-to-parquet --form omnilingual: what omnilingual-asr's reader finds, by pyarrow and soundfile as it does."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from prepcli.commands.exports.parquet import omnilingual
from prepcli.formats.parquet import OmnilingualFile
from tests.conftest import SHORT_CORPUS, copy_set, make_set, read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.lazy import lazy
from tests.support.running import prepcli
from tests.support.tools import need_package

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa, pq = lazy("pyarrow"), lazy("pyarrow.parquet")

pytestmark = pytest.mark.usefixtures("pyarrow_installed")
FORM = ("--form", "omnilingual")


@pytest.fixture(scope="module")
def pyarrow_installed() -> None:
    need_package("pyarrow")


def rows(out: Path) -> list[dict[str, Any]]:
    """The rows of the whole folder; partitions are read from the path, and must be texts."""
    data = pq.ParquetDataset(str(out))
    assert data.partitioning.schema.names == ["corpus", "split", "language"]
    assert data.schema.field("audio_bytes").type == pa.list_(pa.int8())
    assert data.schema.field("audio_size").type == pa.int64()
    found: list[dict[str, Any]] = data.read().to_pylist()
    return found


def decoded(row: dict[str, Any]) -> np.ndarray:
    samples, rate = soundfile.read(io.BytesIO(np.array(row["audio_bytes"], np.int8).tobytes()), dtype="int16")
    assert (rate, samples.ndim, len(samples)) == (16000, 1, row["audio_size"])
    return np.asarray(samples)


def test_the_corpus_is_found_by_partition(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = make_set(
        "manifest-to-parquet", SHORT_CORPUS / "manifest.json", out, *FORM, "--corpus", "x", "--set-split", "dev"
    )
    records = {record["text"]: record for record in read_lines(SHORT_CORPUS / "manifest.json")}
    found = rows(out)
    assert sorted(row["text"] for row in found) == sorted(records)
    names = {"en": "eng_Latn", "de": "deu_Latn", "fr": "fra_Latn", "es": "spa_Latn", "it": "ita_Latn"}
    for row in found:
        record = records[row["text"]]
        assert (row["corpus"], row["split"], row["language"]) == ("x", "dev", names[record["lang"]])
        assert len(decoded(row)) == pytest.approx(record["duration"] * 16000, abs=400)
    with (out / "_language_distribution.tsv").open() as file:
        hours = {row["language"]: float(row["hours"]) for row in csv.DictReader(file, delimiter="\t")}
    for language in names.values():
        samples = sum(row["audio_size"] for row in found if row["language"] == language)
        assert hours[language] == pytest.approx(samples / 16000 / 3600)
    assert done.json["outputs"]["dataset_summary_path"] == str(out / "_language_distribution.tsv")
    seen = prepcli("inspect", out, "--json").json
    assert (seen["kind"], seen["records"], seen["audio"][0]["looked_at"]) == ("omnilingual", 48, 44)
    assert seen["hours"] == pytest.approx(sum(hours.values()))
    back = make_set("convert-audio", out, tmp_path / "back")
    assert back.json["records_out"] == 48


def test_fields_name_the_partition_before_options(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 1.0, 16000)
    fields: list[dict[str, Any]] = [
        {"lang": "de", "split": "validation", "corpus": "mine"},
        {"lang": "de-AT", "split": "dev", "corpus": "mine"},
        {},
        {"lang": "pt_BR"},
        {"lang": None, "split": ""},
        {"lang": "klingon"},
        {"lang": ["de"]},
        {"split": "a_b"},
        {"corpus": 7},
    ]
    records = [{"audio_filepath": "a.wav", "duration": 1.0, "text": str(n)} | one for n, one in enumerate(fields)]
    records.append({"audio_filepath": "a.wav", "duration": 1.0})
    manifest = write_lines(tmp_path / "m.json", records)
    options = ("--corpus", "c", "--set-split", "train", "--set-lang", "en", "--max-rejects", 5)
    make_set("manifest-to-parquet", manifest, tmp_path / "out", *FORM, *options)
    found = {row["text"]: (row["corpus"], row["split"], row["language"]) for row in rows(tmp_path / "out")}
    assert found == {
        "0": ("mine", "dev", "deu_Latn"),
        "1": ("mine", "dev", "deu_Latn"),
        "2": ("c", "train", "eng_Latn"),
        "3": ("c", "train", "por_Latn"),
        "4": ("c", "train", "eng_Latn"),
    }
    rejects = {line.get("text"): line["reject_detail"] for line in read_lines(tmp_path / "out.prepcli/rejects.jsonl")}
    assert rejects == {
        "5": "lang is 'klingon', for which no language is known; write it as deu_Latn",
        "6": 'lang is ["de"]; it must be a string or an integer',
        "7": "split is 'a_b'; it must be of letters, digits, '.' and '-'",
        "8": "corpus is '7'; it must be of letters, digits, '.' and '-'",
        None: "there is no text",
    }


def test_audio_is_mono_at_16_khz(tmp_path: Path) -> None:
    """Several channels are mixed, or the record names one; FLAC that needs no change is copied."""
    write_audio(tmp_path / "right.flac", 1.0, 16000)
    both = write_audio(tmp_path / "both.wav", 2.0, 16000, channels=2)
    write_audio(tmp_path / "other.mp3", 1.0, 44100)
    base = {"text": "", "lang": "en"}
    records = [
        base | {"audio_filepath": "right.flac", "duration": 1.0},
        base | {"audio_filepath": "both.wav", "duration": 2.0},
        base | {"audio_filepath": "both.wav", "offset": 0.5, "duration": 1.0, "channel": 1},
        base | {"audio_filepath": "other.mp3", "duration": 1.0},
    ]
    manifest = write_lines(tmp_path / "m.json", records)
    for codec in ("flac", "ogg"):
        out = tmp_path / codec
        options = ("--corpus", "c", "--set-split", "train", *(["--force-codec", "ogg"] if codec == "ogg" else []))
        make_set("manifest-to-parquet", manifest, out, *FORM, *options)
        found = rows(out)
        assert [len(decoded(row)) for row in found] == [16000, 32000, 16000, 16000]
        formats = {soundfile.info(io.BytesIO(np.array(row["audio_bytes"], np.int8).tobytes())).format for row in found}
        assert formats == {codec.upper()}
        if codec == "flac":
            assert np.array(found[0]["audio_bytes"], np.int8).tobytes() == (tmp_path / "right.flac").read_bytes()
            assert np.array_equal(decoded(found[1]), np.rint(both.mean(axis=1)).astype(np.int16))
            assert np.array_equal(decoded(found[2]), both[8000:24000, 1])


@pytest.mark.slow
def test_rows_of_files_and_of_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large partition has files of at least so many rows, and row groups of 100; a shuffled one too."""
    monkeypatch.setattr(omnilingual, "MIN_ROWS", 120)
    write_audio(tmp_path / "a.flac", 6.5, 16000)
    records = [
        {
            "audio_filepath": "a.flac",
            "offset": 0.01 * n,
            "duration": 0.05,
            "text": str(n),
            "lang": ("fr", "de")[n % 7 > 0],
        }
        for n in range(600)
    ]
    manifest = write_lines(tmp_path / "m.json", records)
    for name, more in (("plain", []), ("shuffled", ["--shuffle"])):
        out = tmp_path / name
        make_set("manifest-to-parquet", manifest, out, *FORM, "--corpus", "c", "--set-split", "train", *more)
        counts = {}
        for path in sorted(out.rglob("*.parquet")):
            meta = pq.ParquetFile(path).metadata
            groups = [meta.row_group(number).num_rows for number in range(meta.num_row_groups)]
            assert groups[:-1] == [100] * (len(groups) - 1)
            counts[path.parent.name, path.name] = sum(groups)
        assert sorted(counts.values()) == [86, 128, 128, 129, 129]
        texts = [int(row["text"]) for row in rows(out)]
        in_order = sorted(range(600), key=lambda n: n % 7 == 0)
        assert sorted(texts) == list(range(600))
        assert (texts == in_order) == (name == "plain")
    one = next(iter((tmp_path / "plain").rglob("*deu_Latn/*.parquet")))
    assert one.stat().st_size < 1.2 * sum(len(row) for row in pq.read_table(one).column("audio_bytes").to_pylist())


def test_long_audio_makes_more_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OmnilingualFile, "max_group_bytes", 40_000)
    write_audio(tmp_path / "a.flac", 3.0, 16000)
    records = [
        {"audio_filepath": "a.flac", "offset": 0.1 * n, "duration": (0.5, 2.5)[n == 3], "text": ""} for n in range(5)
    ]
    manifest = write_lines(tmp_path / "m.json", records)
    options = ("--corpus", "c", "--set-split", "train", "--set-lang", "en", "--max-rejects", 1)
    make_set("manifest-to-parquet", manifest, tmp_path / "out", *FORM, *options)
    (reject,) = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert "is too long for a value of Parquet that is a list" in reject["reject_detail"]
    assert pq.ParquetFile(next((tmp_path / "out").rglob("*.parquet"))).num_row_groups == 2


def test_verify_finds_what_is_wrong(tmp_path: Path) -> None:
    options = ("--corpus", "c", "--set-split", "train")
    make_set("manifest-to-parquet", SHORT_CORPUS / "manifest.json", tmp_path / "out", *FORM, *options)
    out = copy_set(tmp_path / "out", tmp_path / "copy")
    path = next(out.rglob("language=deu_Latn/*.parquet"))
    table = pq.read_table(path, partitioning=None)
    size = table.column("audio_size").to_pylist()
    changed = table.set_column(2, "audio_size", pa.array([size[0] + 1, *size[1:]], pa.int64()))
    changed = changed.set_column(0, "text", pa.array([None, *table.column("text").to_pylist()[1:]], pa.string()))
    pq.write_table(changed, path)
    done = prepcli("verify", out)
    assert done.code == 1
    assert f"row 0: audio_size is {size[0] + 1}, but its audio has {size[0]} samples" in done.out
    assert "row 0 has no text" in done.out
