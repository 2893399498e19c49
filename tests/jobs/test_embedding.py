"""Embedding of records: known embeddings, silence, and audio that cannot be read."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from prepcli.errors import RejectReason
from prepcli.jobs.embedding import BATCHES, COMPUTED, EmbeddingWork
from prepcli.jobs.prefetch import SegmentDecoder, decode_batch
from prepcli.jobs.records import Records
from prepcli.models.running import ModelRunner
from tests.conftest import Lines, write_lines
from tests.support.toy_voice import ToyVoice

pytestmark = pytest.mark.usefixtures("one_thread")


class Work(EmbeddingWork[NDArray[np.float32]]):
    """Two are known, as rows of 7."""

    def known(self) -> NDArray[np.float32]:
        """Sevens for what is known."""
        found = super().known()
        found[self._is_known] = 7
        return found

    def finish(self, advance: object) -> NDArray[np.float32]:
        """The embeddings."""
        return self.embedded().numpy()

    def write(self, computed: object, writer: object) -> None:
        """Nothing is written."""


def test_embeddings(tmp_path: Path) -> None:
    lines: Lines = []
    for number in range(6):
        noise = np.random.default_rng(number).normal(0, 0.1, 16000 + 1600 * (number % 2))
        soundfile.write(tmp_path / f"{number}.wav", noise * (number != 2), 16000)
        lines.append({"audio_filepath": f"{number}.wav", "duration": len(noise) / 16000, "text": ""})
    (tmp_path / "5.wav").unlink()
    records = Records([str(write_lines(tmp_path / "m.json", lines))])
    encoder = ToyVoice()
    is_known = np.array([False, True, False, True, False, False])
    work = Work(np.arange(6), records, encoder, 32000, is_known)
    seen: list[tuple[int, float]] = []

    def advance(count: int, seconds: float) -> None:
        seen.append((count, seconds))

    work.begin("cpu", advance)
    decoder = SegmentDecoder(records, 16000, encoder.min_samples)
    with ModelRunner("cpu", encoder.rows_on_cpu) as runner:
        takes = [
            work.start(number, decode_batch(decoder, batch), runner, advance)
            for number, batch in enumerate(work.batches())
        ]
        for take in takes:
            take()
    found = work.finish(advance)
    assert {position: one.reason for position, one in work.rejects.items()} == {
        2: RejectReason.UNREADABLE_AUDIO,
        5: RejectReason.MISSING_AUDIO,
    }
    assert work.is_readable().tolist() == [True, True, False, True, True, False]
    assert (found[is_known] == 7).all()
    assert np.linalg.norm(found[[0, 4]], axis=1) == pytest.approx([1, 1])
    assert sum(count for count, _ in seen) == 6
    assert sum(seconds for _, seconds in seen) == pytest.approx(6.3)
    assert work.extra[BATCHES] == 3
    assert work.extra[COMPUTED] == pytest.approx(3.0)
