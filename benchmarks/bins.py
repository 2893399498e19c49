"""`prepcli estimate-bins` against lhotse's estimator over NeMo's manifest iterator: whole processes, imports included.

    python benchmarks/bins.py                       # 3,000 and 200,000 lines both, 2,000,000 lines prepcli alone
    python benchmarks/bins.py --lines 2000000 --peer-limit 2000000
    python benchmarks/bins.py --two-d --lines 200000 2000000  # estimate-bins-2d, against NeMo's iterator and tokenizer

For two dimensions a SentencePiece model is trained on the words of the texts, and the peer encodes text by text.

The runs take turns, so that a slow moment of the machine hits both. Printed are medians of the wall time, their
ratio, and the peak memory of the largest process. Both must give the same bins. Without the extra `nemo` only
prepcli is measured.
"""

import argparse
import importlib.util
import json
import random
import sys
import tempfile
from itertools import accumulate, islice
from pathlib import Path

from side_by_side import PREPCLI, Contestant, in_turn, print_table

PEER = """
import sys
from lhotse.dataset.sampling.dynamic_bucketing import estimate_duration_buckets
from nemo.collections.common.data.lhotse.nemo_adapters import LazyNeMoIterator
bins = estimate_duration_buckets(LazyNeMoIterator(sys.argv[1], metadata_only=True), num_buckets=30)
print("[" + ",".join(str(round(edge, 5)) for edge in bins) + "]")
"""

PEER_2D = """
import sys
import numpy as np
from nemo.collections.common.data.lhotse.nemo_adapters import LazyNeMoIterator
from nemo.collections.common.data.lhotse.sampling import FixedBucketBatchSizeConstraint2D
from nemo.collections.common.tokenizers import SentencePieceTokenizer
tokenizer, measure = SentencePieceTokenizer(sys.argv[2]), FixedBucketBatchSizeConstraint2D([(0.0, 0.0)], [0])
lengths = []
for cut in LazyNeMoIterator(sys.argv[1], metadata_only=True):
    cut.supervisions[0].tokens = np.asarray(tokenizer.text_to_ids(cut.supervisions[0].text))
    lengths.append(measure.measure_length(cut))
lengths.sort(key=lambda pair: (np.float32(pair[0]), pair[1]))
sizes = np.array([size for size, _ in lengths], np.float32)
tokens = np.array([count for _, count in lengths])

def cut_up(values, share, restart):
    places, total = [], values.dtype.type(0)
    for place, value in enumerate(values):
        if total > share:
            value, total = restart(value), values.dtype.type(0)
            places.append(place)
        total += value
    return places

places = cut_up(sizes, sizes.sum() / 30, lambda size: np.round(size, 3))
pairs, begin = [], 0
for end in [*places, len(sizes)]:
    edge = np.round(sizes[min(end, len(sizes) - 1)], 3)
    rates = tokens[begin:end] / sizes[begin:end]
    kept = np.sort(tokens[begin:end][(rates - rates.mean()) / rates.std() <= 4])
    ends = [kept[place] for place in cut_up(kept, kept.sum() / 5, int)] + [kept[-1]]
    pairs += [f"[{edge:.3f},{one}]" for one in ends]
    begin = end
print("[" + ",".join(pairs) + "]")
"""

TEXT = "mister quilter is the apostle of the middle classes and we are glad to welcome his gospel"


def write_manifest(path: Path, num_lines: int, vocabulary: int = 0) -> None:
    """Lines of about 300 bytes, with texts of some 120 characters; durations are log-normal, below 40 s.

    With a `vocabulary` the texts are of so many made-up words, as frequent as Zipf's law has it.
    """
    rng = random.Random(1)
    words = made_up_words(vocabulary) if vocabulary else TEXT.split()
    frequencies = list(accumulate(1 / (rank + 1) for rank in range(len(words)))) if vocabulary else None
    with path.open("w") as file:
        for i in range(num_lines):
            record = {
                "audio_filepath": f"/data/speech/corpus/train-clean-360-processed/{i // 1000:05d}/{i:09d}.wav",
                "duration": round(min(40, max(0.3, rng.lognormvariate(1.9, 0.7))), 3),
                "text": " ".join(rng.choices(words, cum_weights=frequencies, k=20 if vocabulary else 26)),
                "speaker": str(i % 997),
                "lang": "en",
            }
            file.write(json.dumps(record) + "\n")


def made_up_words(count: int) -> list[str]:
    """Distinct words of one to five syllables."""
    rng = random.Random(2)
    words: dict[str, None] = {}
    while len(words) < count:
        syllables = rng.choices([1, 2, 3, 4], weights=[3, 4, 2, 1])[0]
        words["".join(rng.choice("bdfgklmnprstvw") + rng.choice("aeiou") for _ in range(syllables))] = None
    return list(words)


def train_tokenizer(manifest: Path, path: Path) -> None:
    """A model of 1,024 pieces from the first lines' texts."""
    import sentencepiece

    with manifest.open() as file:
        texts = [json.loads(line)["text"] for line in islice(file, 20_000)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix=str(path.with_suffix("")), vocab_size=1024, minloglevel=5
    )


def compare_2d(num_lines: int, folder: Path, runs: int, workers: int, with_peer: bool) -> None:
    manifest, model = folder / f"{num_lines}.json", folder / "tokenizer.model"
    write_manifest(manifest, num_lines, vocabulary=50_000)
    train_tokenizer(manifest, model)
    options = ["-s", "5", "-q", "--num-workers", str(workers), "-t", str(model), str(manifest)]
    contestants = [ours := Contestant("prepcli estimate-bins-2d", [*PREPCLI, "estimate-bins-2d", *options])]
    if with_peer:
        peer = [sys.executable, "-c", PEER_2D, str(manifest), str(model)]
        contestants.append(Contestant("NeMo's iterator, one by one", peer))
    conclude(num_lines, manifest, contestants, ours, runs, workers)


def compare(num_lines: int, folder: Path, runs: int, workers: int, with_peer: bool) -> None:
    manifest = folder / f"{num_lines}.json"
    write_manifest(manifest, num_lines)
    command = [*PREPCLI, "estimate-bins", "-q", "--num-workers", str(workers), str(manifest)]
    contestants = [ours := Contestant("prepcli estimate-bins", command)]
    if with_peer:
        contestants.append(Contestant("lhotse over NeMo's iterator", [sys.executable, "-c", PEER, str(manifest)]))
    conclude(num_lines, manifest, contestants, ours, runs, workers)


def conclude(
    num_lines: int, manifest: Path, contestants: list[Contestant], ours: Contestant, runs: int, workers: int
) -> None:
    in_turn(contestants, runs)
    print(f"\n{num_lines:,} lines, {manifest.stat().st_size / 1e6:,.0f} MB, {workers} workers, {runs} runs each")
    print_table(contestants, ours)
    if len({one.output.strip().splitlines()[-1] for one in contestants}) > 1:
        raise SystemExit("the bins differ")
    print("  the same bins" if len(contestants) > 1 else "  (no peer run)")
    manifest.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[3_000, 200_000, 2_000_000])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--peer-limit", type=int, default=200_000, help="Longest manifest for the peer (default 200000)."
    )
    parser.add_argument("--two-d", action="store_true", help="estimate-bins-2d.")
    arguments = parser.parse_args()
    has_nemo = importlib.util.find_spec("nemo") is not None
    with tempfile.TemporaryDirectory(prefix="prepcli-bench-") as folder:
        for num_lines in arguments.lines:
            with_peer = has_nemo and num_lines <= arguments.peer_limit
            one = compare_2d if arguments.two_d else compare
            one(num_lines, Path(folder), arguments.runs, arguments.workers, with_peer)


if __name__ == "__main__":
    main()
