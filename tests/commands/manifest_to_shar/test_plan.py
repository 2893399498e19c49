"""Ids that would collide, and shards that depend on the manifest alone."""

import random
from collections import Counter
from pathlib import Path

import numpy as np

from prepcli.commands.manifest_to_shar.entries import hundredths, occurrences_of_ids
from prepcli.formats.shar import recording_id, segment_id
from prepcli.manifest.index import index_manifests
from tests.conftest import write_lines


def test_hundredths_round_as_format_does() -> None:
    rng = random.Random(0)
    seconds = [n / 1000 for n in range(20_000)] + [rng.randrange(10**7) + 0.005 for _ in range(1000)]
    seconds += [10 ** rng.uniform(-9, 16) for _ in range(20_000)] + [0.0, 0.005, 0.015, 1.005, 2.675, 1e300]
    found = hundredths(np.array(seconds, np.float64))
    assert found.tolist() == [float(f"{x:.2f}".replace(".", "")) for x in seconds]


def test_ids_with_their_turns_are_unique_and_the_first_is_nemos(tmp_path: Path) -> None:
    rng = random.Random(1)
    records = [
        {
            "audio_filepath": rng.choice(["a/b.wav", "a-b.wav", "c.wav"]),
            "offset": rng.randrange(300) / 1000,
            "duration": 1 + rng.randrange(20) / 1000,
        }
        for _ in range(3000)
    ]
    manifest = write_lines(tmp_path / "m.json", records)
    index = index_manifests([str(manifest)], keys={"recording": recording_id})
    turns = occurrences_of_ids(index)
    ids = [segment_id("cut", recording_id(str(r["audio_filepath"])), r["offset"], r["duration"]) for r in records]  # type: ignore[arg-type]
    seen: Counter[str] = Counter()
    for id, turn in zip(ids, turns.tolist(), strict=True):
        assert turn == seen[id]
        seen[id] += 1
    assert max(turns) > 3
    assert np.array_equal(occurrences_of_ids(index_manifests([str(manifest)], keys={"recording": recording_id})), turns)
