"""`prepcli manifest-to-shar` against the straightforward pipeline over lhotse's public API, two workers each.

    python benchmarks/shar.py                  # 8,000 files of 2.8 s at 8 kHz, WAV and FLAC
    python benchmarks/shar.py --files 26800 --runs 3

The pipeline is what NeMo's script does for a record: `Recording.from_file`, `MonoCut.load_audio` and
`AudioTarWriter.write` for the target and for the context, `JsonlShardWriter.write` for the cut, in two processes.
Contexts repeat as they do in a manifest with contexts: each is one of a third of the same speaker's files, and a
speaker's files stand together. WAV must be encoded; FLAC can pass through byte for byte; shuffled, few repeats share a
shard. Whole processes in turn, medians, ratios of the pairs of runs, peak memory of the largest process (at least that
of the benchmark itself, about 100 MB, which Linux counts for its children too). "Aside from start-up" takes off the
time of the same command on 16 records. The last lines: what compressing the cuts costs.
"""

import argparse
import gzip
import json
import random
import statistics
import sys
import tempfile
import time
import zlib
from functools import partial
from pathlib import Path

import soundfile
from side_by_side import PREPCLI, Contestant, clear, in_turn, print_table
from tarred import make_files

FILES_PER_SPEAKER = 160

PIPELINE = """
import json, sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from lhotse import AudioSource, MonoCut, Recording, SupervisionSegment, fastcopy
from lhotse.shar.writers import AudioTarWriter, JsonlShardWriter

def recording(base, name):
    return Recording.from_file(base / name, recording_id="rec-" + name.rsplit(".", 1)[0].replace("/", "-"))

def placeholder(cut):
    source = AudioSource(type="shar", channels=[0], source="")
    return fastcopy(cut.recording, id=cut.id, sources=[source], duration=cut.duration, num_samples=cut.num_samples)

def shard(number, lines, base, out):
    with (
        JsonlShardWriter(f"{out}/cuts/cuts.%06d.jsonl.gz", len(lines), shard_offset=number) as cuts,
        AudioTarWriter(f"{out}/target_audio/recording.%06d.tar", len(lines), "flac", shard_offset=number) as targets,
        AudioTarWriter(f"{out}/context_audio/recording.%06d.tar", len(lines), "flac", shard_offset=number) as contexts,
    ):
        for line in lines:
            r = json.loads(line)
            start, length = r.get("offset", 0.0), r["duration"]
            source = recording(base, r["audio_filepath"])
            supervision = SupervisionSegment(
                f"sup-{source.id}", source.id, 0.0, length, text=r["text"], speaker=r["speaker"], language="en",
                custom={"context_speaker_similarity": r["context_speaker_similarity"]},
            )
            name = f"cut-{source.id}-{start:.2f}-{length:.2f}"
            cut = MonoCut(name, start, length, 0, [supervision], recording=source)
            other = recording(base, r["context_audio_filepath"])
            start, length = r.get("context_audio_offset", 0.0), r["context_audio_duration"]
            context = MonoCut(f"context_cut-{other.id}-{start:.2f}-{length:.2f}", start, length, 0, recording=other)
            audio, context_audio = cut.load_audio(), context.load_audio()
            targets.write(cut.id, audio, cut.sampling_rate, placeholder(cut))
            contexts.write(cut.id, context_audio, context.sampling_rate, placeholder(context))
            cuts.write(cut)

if __name__ == "__main__":
    manifest, out, size, workers = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    lines = manifest.read_text().splitlines()
    for name in ("cuts", "target_audio", "context_audio"):
        Path(out, name).mkdir(parents=True)
    with ProcessPoolExecutor(workers) as pool:
        chunks = [lines[at : at + size] for at in range(0, len(lines), size)]
        for done in [pool.submit(shard, k, chunk, manifest.parent, out) for k, chunk in enumerate(chunks)]:
            done.result()
"""


def write_manifests(folder: Path, plain: Path) -> dict[str, Path]:
    """Manifests with contexts over the WAV files, and over FLAC copies of them; and the first 16 records."""
    records = [json.loads(line) for line in plain.read_text().splitlines()]
    words = [
        a + b for a in ("ba", "ce", "di", "fo", "gu", "ha", "le", "mi") for b in ("n", "rt", "st", "ll", "mes", "der")
    ]
    generator = random.Random(0)
    for record in records:
        record["text"] = " ".join(generator.choices(words, k=15))
    for number, record in enumerate(records):
        speaker, turn = divmod(number, FILES_PER_SPEAKER)
        own = min(FILES_PER_SPEAKER, len(records) - speaker * FILES_PER_SPEAKER)
        context = records[speaker * FILES_PER_SPEAKER + (turn * 3 + 1) % max(2, own // 3)]
        if context is record:
            context = records[number - 1 if turn else number + 1]
        record |= {
            "speaker": f"| Language:en Dataset:bench Speaker:{speaker} |",
            "context_speaker_similarity": 0.75,
            "context_audio_filepath": context["audio_filepath"],
            "context_audio_duration": context["duration"],
            "context_audio_text": context["text"],
        }
    lines = [json.dumps(record) + "\n" for record in records]
    manifests = {"few": folder / "few.json", "wav": folder / "wav.json", "flac": folder / "flac.json"}
    manifests["few"].write_text("".join(lines[:16]))
    manifests["wav"].write_text("".join(lines))
    for record in records:
        path = folder / record["audio_filepath"]
        flac = folder / record["audio_filepath"].replace("wav", "flac")
        flac.parent.mkdir(parents=True, exist_ok=True)
        samples, rate = soundfile.read(path, dtype="int16")
        soundfile.write(flac, samples, rate)
    manifests["flac"].write_text("".join(line.replace("wav", "flac") for line in lines))
    return manifests


def print_compression(cuts: Path) -> None:
    """Time and size of compressing the cuts of one shard, by zlib's levels and, where it is installed, by isal."""
    text = gzip.decompress(cuts.read_bytes())
    num_cuts = text.count(b"\n")
    compressors = {f"zlib {level}": (zlib, level) for level in (1, 3, 6, 9)}
    try:
        from isal import isal_zlib  # type: ignore[import-not-found, unused-ignore]

        compressors |= {f"isal {level}": (isal_zlib, level) for level in (0, 2)}
    except ImportError:
        pass
    for name, (library, level) in compressors.items():
        times = []
        for _ in range(5):
            start = time.perf_counter()
            packed = library.compress(text, level)
            times.append(time.perf_counter() - start)
        best = statistics.median(times)
        print(
            f"  {name:<10} {len(text) / best / 1e6:6.0f} MB/s  {best / num_cuts * 1e6:5.1f} us per cut  "
            f"1/{len(text) / len(packed):.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=8000)
    parser.add_argument("--shard-size", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", type=Path, help="folder for the files (default: a temporary one)")
    options = parser.parse_args()
    size, workers = str(options.shard_size), str(options.workers)
    with tempfile.TemporaryDirectory(dir=options.work) as name:
        folder = Path(name)
        manifests = write_manifests(folder, make_files(folder, options.files))
        out = folder / "out"

        fresh = partial(clear, out, folder / "lhotse")

        def prepcli(label: str, source: str, *extra: str) -> Contestant:
            arguments = [str(manifests[source]), str(out), "--shard-size", size, "--num-workers", workers, *extra]
            return Contestant(label, [*PREPCLI, "manifest-to-shar", *arguments], fresh)

        def pipeline(label: str, source: str) -> Contestant:
            arguments = [str(manifests[source]), str(folder / "lhotse"), size, workers]
            return Contestant(label, [sys.executable, "-c", PIPELINE, *arguments], fresh)

        few = prepcli("prepcli, 16 records (start-up)", "few"), pipeline("lhotse pipeline, 16 records", "few")
        for source, what in (("wav", "WAV to FLAC"), ("flac", "FLAC to FLAC, byte for byte")):
            ours, theirs = prepcli("prepcli", source), pipeline("lhotse pipeline", source)
            contestants = [ours, theirs, *few]
            if source == "wav":
                contestants.append(prepcli("prepcli --shuffle", source, "--shuffle"))
            in_turn(contestants, options.runs)
            print(f"{what}: {options.files:,} records, {size} a shard; the last column: times prepcli's time")
            print_table(contestants, ours)
            net, net_theirs = ours.median - few[0].median, theirs.median - few[1].median
            each = 1e6 / options.files
            print(
                f"  aside from start-up: {net * each:.0f} us per record against {net_theirs * each:.0f}: "
                f"{net_theirs / net:.2f} x"
            )
            for one in few:
                one.seconds.clear()
        print("compressing the cuts of a shard")
        few[0].run()
        prepcli("prepcli", "flac").run()
        print_compression(out / "cuts/cuts.000000.jsonl.gz")


if __name__ == "__main__":
    main()
