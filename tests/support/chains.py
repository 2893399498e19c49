"""Random chains of five runs, from long recordings to tars, with what is known of each record."""

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile as sf

from tests.support.running import prepcli

RATE = 8000


@dataclass(frozen=True)
class Chain:
    """The outputs of a chain, in their order: a manifest of segments, scored.json, kept.json, parts/, tarred/."""

    folder: Path
    num_samples: int
    """In all recordings."""


def random_chain(folder: Path, seed: int) -> Chain:
    """Cut recordings of noise into windows, score, filter and split them, and pack one part; some records are lost."""
    draw = random.Random(seed)
    noise = np.random.default_rng(seed)
    (folder / "talks").mkdir(parents=True)
    num_samples = 0
    for number in range(draw.randint(2, 4)):
        length = draw.randint(7 * RATE, 11 * RATE)
        num_samples += length
        name = folder / "talks" / f"talk{number}.{draw.choice(('wav', 'flac'))}"
        sf.write(name, noise.normal(0, 0.05 + 0.1 * number, length).astype(np.float32), RATE)
    window = draw.choice((0.7, 1.3))
    run(folder, "segment", "talks", "segments.json", "--by", "windows", "--window", window, "--min", 0.4)
    run(folder, "score", "segments.json", "scored.json")
    rules = (
        "--keep",
        f"offset < {draw.choice((5, 7))} or duration < {window}",
        "--drop",
        "loudness < -22 and offset > 4",
    )
    run(folder, "filter", "scored.json", "kept.json", *rules, "--sample", "0.8", "--seed", seed)
    parts = ("--part", "train=rest", "--part", "dev=0.4", "--by", "none", "--seed", seed)
    run(folder, "split", "kept.json", "parts", *parts)
    limits = ("--min-duration", window * draw.choice((0.5, 0.9)))
    shape = ("--num-shards", 1, "--slice-with-offset", "--force-codec", "flac", *limits)
    run(folder, "manifest-to-tarred", "parts/train.json", "tarred", *shape)
    return Chain(folder, num_samples)


def run(folder: Path, command: str, *words: object) -> None:
    done = prepcli(command, *words, "--max-rejects", 1000, cwd=folder)
    assert done.code == 0, done.err
