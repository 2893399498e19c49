"""A hundred thousand codes of mixed batches, as a GPU encodes them, against those of each segment alone.

In float32 another size of a batch means another order of sums. A code differs where a value lies so near to a boundary
of the quantizer that this decides: of 2.5 million codes of these codecs 2 in 100,000.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

from prepcli.commands.extend_codec_codes.encoding import BatchShape, encode_rows, move_rows
from prepcli.models import nemo_codec
from prepcli.models.batches import full_batches
from prepcli.models.nemo_codec import NemoCodec, Rows
from tests.support.codec_models import SAMPLES_PER_FRAME, SAMPLING_RATE, small_codec
from tests.support.lazy import lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

pytestmark = [pytest.mark.nemo, pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

KINDS = ("reflect", "replicate", "zeros", "causal")
CODES_PER_KIND = 26_000
END = 10
"""Frames at the end of a segment: all that padding can reach."""
NEAR = 1e-4
"""How near to a boundary a value lies whose code may differ; boundaries are 1 apart."""


@dataclass
class Differences:
    """What differs, in the middle of segments and at their ends."""

    num_codes: int = 0
    num_different: int = 0
    furthest: float = 0.0
    used: set[int] = field(default_factory=set)
    errors: dict[str, list[torch.Tensor]] = field(default_factory=lambda: {"middle": [], "end": []})

    def mean(self, where: str) -> float:
        return float(torch.cat(self.errors[where]).mean())


class Values:
    """A codec whose values before the quantizer are kept."""

    def __init__(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        model = small_codec(kind)
        monkeypatch.setattr(nemo_codec, "load_nemo", lambda *_, **__: model)
        self.codec = NemoCodec("x.nemo", "--codec-model")
        quantizer = self.codec._quantizer
        assert quantizer is not None
        self._quantizer = quantizer
        self._one = model.vector_quantizer.fsqs[0]
        self.codec._quantizer = self._keep
        self.values = torch.empty(0)

    def _keep(self, values: torch.Tensor) -> torch.Tensor:
        self.values = values
        kept: torch.Tensor = self._quantizer(values)
        return kept

    def distance(self, values: torch.Tensor) -> torch.Tensor:
        """Of values (D, F) of a segment: how near each code (C, F) is to a boundary of the quantizer."""
        levels = self._one.compress(values.view(4, -1, values.shape[1]), None)
        nearest: torch.Tensor = (levels - levels.floor() - 0.5).abs().amin(1)
        return nearest


def segments(seed: int) -> list[torch.Tensor]:
    """Noise of 64 segments of 10 to 300 frames, most of them short."""
    frames = np.random.default_rng(seed).lognormal(3.9, 0.7, 64).astype(int).clip(END, 300).tolist()
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(1, count * SAMPLES_PER_FRAME, generator=generator) / 10 for count in frames]


def compare(made: Values, audio: list[torch.Tensor], found: Differences) -> None:
    """Encode the segments one by one, and in the batches in which a GPU gets them."""
    alone = []
    for one in audio:
        codes, _ = made.codec.encode(one, torch.tensor([one.shape[1]]), "fp32")
        alone.append((codes[0], made.values[0]))
    frames = np.array([one.shape[1] // SAMPLES_PER_FRAME for one in audio])
    for batch, num_rows, num_frames in full_batches(frames, 1600):
        shape = BatchShape(SAMPLING_RATE, num_frames, num_rows, len(batch), mixes_lengths=True)
        rows = torch.nn.utils.rnn.pad_sequence([audio[number][0] for number in batch], batch_first=True)
        lengths = torch.tensor([audio[number].shape[1] for number in batch])
        moved = move_rows(made.codec, shape, "cpu", rows, lengths, torch.from_numpy(frames[batch]))
        codes, counted = encode_rows(made.codec, "fp32", sys.maxsize, *moved)
        assert counted.tolist() == frames[batch].tolist()
        for row, number in enumerate(batch.tolist()):
            add(made, alone[number], (codes[row], made.values[row]), found)


def add(
    made: Values,
    alone: tuple[torch.Tensor, torch.Tensor],
    mixed: tuple[torch.Tensor, torch.Tensor],
    found: Differences,
) -> None:
    codes, values = alone
    differs = codes != mixed[0][:, : codes.shape[1]]
    errors = (values - mixed[1][:, : codes.shape[1]]).abs()
    found.errors["middle"].append(errors[:, :-END].flatten())
    found.errors["end"].append(errors[:, -END:].flatten())
    found.num_codes += differs.numel()
    found.num_different += int(differs.sum())
    found.used.update(codes.flatten().tolist())
    if differs.any():
        found.furthest = max(found.furthest, float(made.distance(values)[differs].max()))


def test_codes_of_mixed_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    num_codes = num_different = 0
    for kind in KINDS:
        found, made = Differences(), Values(kind, monkeypatch)
        for seed in range(100):
            compare(made, segments(seed), found)
            if found.num_codes >= CODES_PER_KIND:
                break
        assert len(found.used) > 1000, "the codes use their codebook of 2016 entries"
        assert found.furthest <= NEAR, f"{kind}: a code differs that rounding cannot change"
        assert found.mean("end") <= 1.2 * found.mean("middle") <= 1e-4, kind
        assert max(float(errors.max()) for errors in found.errors["end"]) < 1e-3, kind
        num_codes += found.num_codes
        num_different += found.num_different
    assert num_codes >= 100_000
    assert num_different <= num_codes / 10_000


def test_zeros_behind_the_end_would_change_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the test above would show nothing."""
    made, found = Values("reflect", monkeypatch), Differences()
    monkeypatch.setattr(nemo_codec, "Rows", lambda lengths: Rows(None))
    compare(made, segments(0), found)
    assert found.mean("end") > 1000 * found.mean("middle")
    assert found.num_different > found.num_codes / 100
    assert found.furthest > NEAR
