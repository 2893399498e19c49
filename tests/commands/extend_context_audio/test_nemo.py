"""extend-context-audio with a NeMo speaker model, through the real path: a `.nemo` file, restored."""

from pathlib import Path

import pytest

from tests.commands.extend_context_audio.test_job import MANIFEST, identity, reference, saved_embeddings
from tests.conftest import read_lines, tree
from tests.support.running import Outcome, prepcli

pytestmark = pytest.mark.nemo


def extend(model: Path, out: Path, *options: object) -> Outcome:
    arguments = ["--speaker-model", model, "--save-embeddings", "--context-min-ssim", 0.3, *options]
    return prepcli("extend-context-audio", MANIFEST, out, *arguments)


def test_nemo_model(speaker_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = extend(speaker_model, out, "--json")
    assert (done.code, done.err) == (0, "")  # no chatter, and stdout is one JSON object
    report = done.json
    records, embeddings = read_lines(MANIFEST), saved_embeddings(out)
    assert len(embeddings) == 48
    chosen = reference(records, embeddings, 0.3)
    lines = read_lines(next(out.glob("*.json")))
    assert 10 < len(lines) == len(chosen) == report["records_out"]
    by_identity = {identity(record): number for number, record in enumerate(records)}
    for line in lines:
        other = records[chosen[by_identity[identity(line)]]]
        assert line["context_audio_filepath"] == other["audio_filepath"]
    assert report["details"]["padding"] < 0.06
    # The same bytes from two ranks with batches of another size; where the model lies does not matter, only what it is.
    elsewhere = tmp_path / "the same.nemo"
    elsewhere.write_bytes(speaker_model.read_bytes())
    for rank in range(2):
        ranked = ("--rank", rank, "--world-size", 2, "--batch-duration", 3 + rank)
        assert extend(elsewhere, tmp_path / "two", *ranked).code == 0
    assert tree(tmp_path / "two") == tree(out)


def test_a_name_that_cannot_be_fetched(tmp_path: Path) -> None:
    done = prepcli("extend-context-audio", MANIFEST, tmp_path / "out", "--speaker-model", "no_such_model")
    assert done.code == 2, done.err
    assert "--speaker-model no_such_model cannot be fetched; give a .nemo file" in done.error_line
    assert list(tmp_path.iterdir()) == []
