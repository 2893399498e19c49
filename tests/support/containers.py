"""Data sets of every kind that is an input, made of a few records, and the audio in the outputs made of them."""

import gzip
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.conftest import read_lines
from tests.support.running import prepcli
from tests.support.tars import write_tar

Members = Iterable[tuple[str, bytes]]


def samples(manifest: Path) -> list[tuple[str, dict[str, Any], bytes]]:
    """Key, fields and audio of each record of a manifest."""
    records = read_lines(manifest)
    return [(f"utt{n}", one, (manifest.parent / one["audio_filepath"]).read_bytes()) for n, one in enumerate(records)]


def members_of(manifest: Path) -> Members:
    """The members of a webdataset tar: the JSON before the audio for some, after it for others."""
    for number, (key, record, data) in enumerate(samples(manifest)):
        fields = {name: record[name] for name in ("text", "speaker", "duration")}
        pair = [(f"{key}.flac", data), (f"{key}.json", json.dumps(fields).encode())]
        yield from pair if number % 2 else reversed(pair)


def _made(command: str, *options: object) -> Callable[[Path, Path], Path]:
    def make(manifest: Path, folder: Path) -> Path:
        done = prepcli(command, manifest, folder / "set", *options)
        assert done.code == 0, done.err
        return folder / "set"

    return make


def _tarred_of_nemo(manifest: Path, folder: Path) -> Path:
    """A tarred set with one manifest for all shards, as NeMo's script writes it."""
    lines = []
    for shard, part in enumerate((samples(manifest)[::2], samples(manifest)[1::2])):
        write_tar(folder / f"audio_{shard}.tar", [(f"{key}.flac", data) for key, _, data in part])
        lines += [{**record, "audio_filepath": f"{key}.flac", "shard_id": shard} for key, record, _ in part]
    text = "".join(json.dumps(one) + "\n" for one in lines)
    (folder / "tarred_audio_manifest.json").write_text(text, encoding="utf-8")
    (folder / "metadata.yaml").write_text("dataset_config:\n  num_shards: 2\nnum_samples_per_shard: 3\n")
    return folder


def _webdataset(manifest: Path, folder: Path) -> Path:
    found = list(members_of(manifest))
    write_tar(folder / "part-0.tar", found[:6])
    write_tar(folder / "part-1.tar", found[6:])
    return folder


def _compressed(manifest: Path, folder: Path) -> Path:
    return write_tar(folder / "all.tar.gz", members_of(manifest), "w:gz")


def _zipped(kind: int) -> Callable[[Path, Path], Path]:
    def make(manifest: Path, folder: Path) -> Path:
        with zipfile.ZipFile(folder / "all.zip", "w", kind) as file:
            for name, data in members_of(manifest):
                file.writestr(f"répertoire/{name}", data)
        return folder / "all.zip"

    return make


def write_rows(
    path: Path, audio: pa.Array, columns: dict[str, list[Any]], metadata: Any = None, **options: Any
) -> Path:
    """Write a Parquet file with a column `audio` and others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"audio": audio, **columns}).replace_schema_metadata(metadata)
    pq.write_table(table, path, **options)
    return path


def _rows_of_datasets(manifest: Path, folder: Path) -> Path:
    """The form of Hugging Face datasets: metadata, a split in the name, and no durations."""
    found = samples(manifest)
    audio = pa.array([{"bytes": data, "path": f"{key}.flac"} for key, _, data in found])
    columns = {
        "sentence": [record["text"] for _, record, _ in found],
        "speaker_id": [record["speaker"] for _, record, _ in found],
        "gender": [number % 2 for number in range(len(found))],
    }
    features = {
        "audio": {"_type": "Audio", "sampling_rate": 16000},
        "gender": {"_type": "ClassLabel", "names": ["female", "male"]},
    }
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    place = folder / "data" / "train-00000-of-00001.parquet"
    write_rows(place, audio, columns, metadata, row_group_size=2, compression="snappy")
    return folder


def _rows_of_bytes(manifest: Path, folder: Path) -> Path:
    """The form of omnilingual-asr: lists of int8, and folders that give fields."""
    found = samples(manifest)
    audio = pa.array([list(memoryview(data).cast("b")) for _, _, data in found], pa.list_(pa.int8()))
    place = folder / "corpus=mini" / "split=train" / "language=eng_Latn" / "part-0.parquet"
    place.parent.mkdir(parents=True)
    sizes = [round(one["duration"] * 16000) for _, one, _ in found]
    table = pa.table({"text": [one["text"] for _, one, _ in found], "audio_bytes": audio, "audio_size": sizes})
    pq.write_table(table, place, row_group_size=3)
    return folder


def _raw_list(manifest: Path, folder: Path) -> Path:
    lines = [
        json.dumps({"key": key, "wav": str(manifest.parent / one["audio_filepath"]), "txt": one["text"]})
        for key, one, _ in samples(manifest)
    ]
    (folder / "data.list").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "data.list"


SOURCES: dict[str, Callable[[Path, Path], Path]] = {
    "tarred": _made("manifest-to-tarred", "--num-shards", 2),
    "tarred of NeMo": _tarred_of_nemo,
    "shar": _made("manifest-to-shar", "--shard-size", 3),
    "wenet": _made("manifest-to-wenet", "--shard-size", 3),
    "parquet": _made("manifest-to-parquet", "--shard-size", 4),
    "parquet of datasets": _rows_of_datasets,
    "parquet of bytes": _rows_of_bytes,
    "webdataset": _webdataset,
    "compressed tar": _compressed,
    "zip, stored": _zipped(zipfile.ZIP_STORED),
    "zip, deflated": _zipped(zipfile.ZIP_DEFLATED),
    "raw list": _raw_list,
}
"""For each kind of source, a function that makes it of a manifest in an empty folder, and returns what to name."""


def audio_by_text(out: Path, kind: str) -> dict[str, bytes]:
    """The bytes of the audio in an output, by the text of its record."""
    if kind == "parquet":
        tables = [pq.read_table(path) for path in sorted(out.glob("*.parquet"))]
        return {row["text"]: row["audio"]["bytes"] for table in tables for row in table.to_pylist()}
    found: dict[str, bytes] = {}
    for tar_path in sorted(out.rglob("*.tar")):
        with tarfile.open(tar_path) as tar:
            content = {one.name: tar.extractfile(one).read() for one in tar if one.isfile()}  # type: ignore[union-attr]
        if kind == "tarred":
            number = tar_path.stem.rpartition("_")[2]
            for record in read_lines(out / "sharded_manifests" / f"manifest_{number}.json"):
                found[record["text"]] = content[record["audio_filepath"]]
        elif kind == "wenet":
            audio = {name.rpartition(".")[0]: data for name, data in content.items() if not name.endswith(".txt")}
            found |= {content[f"{key}.txt"].decode(): data for key, data in audio.items()}
        elif tar_path.parent.name in ("recording", "target_audio"):
            audio = {name.rpartition(".")[0]: data for name, data in content.items() if not name.endswith(".json")}
            cuts = out / "cuts" / f"cuts.{tar_path.stem.partition('.')[2]}.jsonl.gz"
            for line in gzip.decompress(cuts.read_bytes()).splitlines():
                cut = json.loads(line)
                found[cut["supervisions"][0]["text"]] = audio[cut["id"]]
    return found
