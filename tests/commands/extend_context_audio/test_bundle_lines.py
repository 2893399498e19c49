"""Lines of records with contexts: merged in the order of the input, and counted by similarity."""

from pathlib import Path

import numpy as np
import pytest

from prepcli.commands.extend_context_audio import bundle_lines as context_lines
from prepcli.commands.extend_context_audio.bundle_lines import PART_DTYPE, PartWriter, kept_at, merged_lines
from prepcli.engine.publishing.output_files import HashedFile
from prepcli.formats.npy import npy_bytes


def test_merge_puts_the_lines_of_all_parts_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_lines, "CHUNK_RECORDS", 64)
    rng = np.random.default_rng(1)
    kept = rng.random(1000) < 0.9
    kept[320:460] = False  # whole chunks without a line
    owner = rng.integers(0, 7, 1000)
    parts = []
    for unit in range(8):  # the last has no line
        file = HashedFile(tmp_path / f"{unit}.jsonl", tmp_path / "never")
        part = PartWriter(file)
        for record in np.flatnonzero(kept & (owner == unit)).tolist():
            part.add(record, b"%d%s\n" % (record, b"x" * (record % 40)), 0.5, 3.0)
        file.close()
        (tmp_path / f"{unit}.npy").write_bytes(part.index())
        parts.append((tmp_path / f"{unit}.jsonl", tmp_path / f"{unit}.npy"))
    blocks = list(merged_lines(parts))
    assert [int(line.rstrip(b"x")) for line in b"".join(blocks).split()] == np.flatnonzero(kept).tolist()
    assert max(block.count(b"\n") for block in blocks) <= 64
    assert list(merged_lines([])) == []


def test_a_similarity_at_a_threshold_is_kept(tmp_path: Path) -> None:
    for number, similarities in enumerate(([0.5, 0.25, 0.75], [0.125])):
        np.save(tmp_path / f"{number}.npy", np.array(similarities, np.float32))
    best = [tmp_path / "0.npy", tmp_path / "1.npy"]
    assert kept_at(best, 0.125) == "4 at 0.125, 2 at 0.5, 1 at 0.6, 1 at 0.7, 0 at 0.8"


def test_histograms_take_what_lies_at_the_edges(tmp_path: Path) -> None:
    rows = [(0, 1, -1.0, 0.5), (1, 2, 1.0, 30.0), (2, 3, np.float32(1.0000001), 500.0), (3, 4, 0.6, 3.0)]
    (tmp_path / "p.npy").write_bytes(npy_bytes(np.array(rows, PART_DTYPE)))
    found = context_lines.histograms([tmp_path / "p.npy"])
    similarity, duration = found["similarity_histogram"], found["duration_histogram"]
    assert sum(similarity["counts"]) == sum(duration["counts"]) == 4
    assert (similarity["counts"][0], similarity["counts"][-1]) == (1, 2)
    assert (duration["counts"][3], duration["counts"][30]) == (1, 2)
    assert len(similarity["edges"]) == len(similarity["counts"]) + 1
