"""Long audio in windows: the codes of the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from prepcli.models import nemo_codec
from prepcli.models.nemo_codec import NemoCodec
from prepcli.models.windows import encode_in_windows, reach_of
from tests.support.codec_models import SAMPLES_PER_FRAME, small_codec
from tests.support.lazy import lazy

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

pytestmark = [pytest.mark.nemo, pytest.mark.usefixtures("one_thread")]
FRAMES = 150


class Values:
    """A codec, and the values that it has quantized."""

    def __init__(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        model = small_codec(kind)
        monkeypatch.setattr(nemo_codec, "load_nemo", lambda *_, **__: model)
        self.codec = NemoCodec("x.nemo", "--codec-model")
        assert self.codec._quantizer is not None
        self._quantizer = self.codec._quantizer
        self.codec._quantizer = self._keep
        self.values: list[torch.Tensor] = []

    def _keep(self, values: torch.Tensor) -> torch.Tensor:
        self.values.append(values)
        kept: torch.Tensor = self._quantizer(values)
        return kept


@pytest.mark.parametrize("kind", ["reflect", "replicate", "zeros", "causal", "stft", "stft reflect"])
def test_codes_of_windows_are_those_of_the_whole(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Values(kind, monkeypatch)
    codec, reach = made.codec, reach_of(made.codec)
    assert reach is not None and 1 <= reach < 20
    audio = torch.randn(1, FRAMES * SAMPLES_PER_FRAME, generator=torch.Generator().manual_seed(2)) / 10
    whole, _ = codec.encode(audio, torch.tensor([audio.shape[1] - 9]), "fp32")
    longer = torch.nn.functional.pad(audio, (0, 5 * SAMPLES_PER_FRAME))
    sizes = (40, 2 * reach + 1, 1)
    for max_frames in sizes:
        made.values.clear()
        codes = encode_in_windows(codec, "fp32", longer, FRAMES, max_frames)
        assert torch.equal(codes, whole)
        assert len(made.values) > 3
        assert all(values.shape[2] <= max(max_frames, 3 * reach) for values in made.values)
    codec.reach = 0
    assert not torch.equal(encode_in_windows(codec, "fp32", longer, FRAMES, 40), whole), "the overlap is needed"


def test_the_reach_is_where_the_last_change_of_a_frame_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checked by changing samples: none beyond the reach changes the values of a frame, and some near it does."""
    made = Values("zeros", monkeypatch)
    codec, frame = made.codec, 75
    assert codec.reach is not None
    audio = torch.randn(1, FRAMES * SAMPLES_PER_FRAME, generator=torch.Generator().manual_seed(2)) / 10

    def values(change: slice) -> Any:
        changed = audio.clone()
        changed[:, change] += 1
        codec.encode(changed, torch.tensor([audio.shape[1]]), "fp32")
        return made.values.pop()[:, :, frame]

    begin, end = frame * SAMPLES_PER_FRAME, (frame + 1) * SAMPLES_PER_FRAME
    alone = values(slice(0, 0))
    torch.testing.assert_close(values(slice(0, begin - codec.reach)), alone, rtol=0, atol=1e-6)
    torch.testing.assert_close(values(slice(end + codec.reach, None)), alone, rtol=0, atol=1e-6)
    for near in (slice(0, begin - codec.reach // 3), slice(end + codec.reach // 3, None)):
        assert float((values(near) - alone).abs().max()) > 1e-3


def test_a_codec_that_nemo_runs_has_no_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nemo_codec, "load_nemo", lambda *_, **__: small_codec("circular"))
    assert reach_of(NemoCodec("x.nemo", "--codec-model")) is None
