"""Data sets as inputs: a tarred set reshuffled against `tar cf`, and Parquet to shards against Hugging Face datasets.

    python benchmarks/containers.py                  # 20,000 FLAC files of 50 kB: 1 GB
    python benchmarks/containers.py --files 2000 --runs 2

`tar cf` of the same files, with `sync` of the tar, is the floor of any copy. The loop of datasets iterates the rows
without decoding their audio, and writes them with webdataset's ShardWriter, as people do today.
"""

import argparse
import json
import statistics
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
from side_by_side import PREPCLI, Contestant, clear, in_turn, print_table

LOOP = """
import sys
import datasets, webdataset

source, out, count = sys.argv[1:]
rows = datasets.load_dataset("parquet", data_files=source, split="train", streaming=True)
rows = rows.cast_column("audio", datasets.Audio(decode=False))
with webdataset.ShardWriter(out + "/part-%06d.tar", maxcount=int(count), verbose=0) as writer:
    for number, row in enumerate(rows):
        fields = {"text": row["text"], "duration": row["duration"]}
        writer.write({"__key__": f"utt{number:06d}", "flac": row["audio"]["bytes"], "json": fields})
"""


def write_inputs(folder: Path, count: int) -> None:
    """Write files with a manifest, and a Parquet file in the form of Hugging Face, with the same audio.

    No two recordings are equal: Parquet and caches would store equal ones once.
    """
    noise = np.random.default_rng(0)
    (folder / "audio").mkdir()
    lines: list[dict[str, Any]] = []
    num_bytes = 0
    for number in range(count):
        samples, path = noise.standard_normal(29_000, np.float32) * 2500, folder / f"audio/u{number}.flac"
        soundfile.write(path, samples.clip(-32000, 32000).astype(np.int16), 16000)
        num_bytes += path.stat().st_size
        lines.append({"audio_filepath": f"audio/u{number}.flac", "duration": 1.8125, "text": f"text {number}"})
    (folder / "m.json").write_text("".join(json.dumps(one) + "\n" for one in lines))
    features = {"audio": {"_type": "Audio"}, "text": {"_type": "Value", "dtype": "string"}}
    features["duration"] = {"_type": "Value", "dtype": "float64"}
    audio = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("audio", audio), ("text", pa.string()), ("duration", pa.float64())])
    schema = schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    with pq.ParquetWriter(folder / "train-00000-of-00001.parquet", schema) as file:
        for start in range(0, count, 1000):
            part = lines[start : start + 1000]
            paths = [folder / line["audio_filepath"] for line in part]
            sounds = [{"bytes": path.read_bytes(), "path": path.name} for path in paths]
            columns = [pa.array(sounds, audio), *([one[name] for one in part] for name in ("text", "duration"))]
            file.write_table(pa.table(columns, schema=schema))
    stored = (folder / "train-00000-of-00001.parquet").stat().st_size
    print(
        f"{count} recordings of {num_bytes / count / 1000:.1f} kB; Parquet of {stored / num_bytes:.2f} times their size"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="prepcli-containers-", dir=".") as name:
        folder = Path(name)
        with ProcessPoolExecutor(1) as pool:  # its memory would count as that of each command
            pool.submit(write_inputs, folder, options.files).result()
        source, out = folder / "set", folder / "out"
        made = Contestant(
            "made", [*PREPCLI, "manifest-to-tarred", str(folder / "m.json"), str(source), "--num-shards", "16"]
        )
        made.run(count=False)

        def fresh() -> None:
            clear(out)
            out.mkdir()

        to_shards = ["--num-shards", "16"]
        tar = f"tar cf {out}/all.tar -C {folder} audio && sync {out}/all.tar"
        rows = str(folder / "train-00000-of-00001.parquet")
        peer = [sys.executable, "-c", LOOP, rows, str(out), str(options.files // 16)]
        copy = Contestant("tar cf, sync", ["bash", "-c", tar], fresh)
        shuffled = [*PREPCLI, "manifest-to-tarred", str(source), str(out), *to_shards, "--shuffle"]
        again = Contestant("tarred to tarred, shuffled", shuffled, partial(clear, out))
        loop = Contestant("datasets and webdataset", peer, fresh)
        ours = Contestant(
            "Parquet to tarred", [*PREPCLI, "manifest-to-tarred", rows, str(out), *to_shards], partial(clear, out)
        )
        in_turn([copy, again, loop, ours], options.runs)
        for pair in ([copy, again], [loop, ours]):
            print_table(pair, pair[1])
            for one in pair:
                print(f"  {one.name:<44} {statistics.median(one.processor_seconds):7.2f} s of processor time")


if __name__ == "__main__":
    main()
