"""The encoders of NeMo's codecs, run layer by layer: NeMo's codes, in batches of any lengths."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prepcli.models import nemo_codec, nemo_speaker
from prepcli.models.nemo import without_cuda
from prepcli.models.nemo_codec import NemoCodec, fold_weight_norm, move
from prepcli.models.nemo_speaker import NemoSpeakerEncoder
from prepcli.models.sinc import resample_sinc
from tests.support.codec_models import CODECS, SAMPLES_PER_FRAME, SAMPLING_RATE, small_codec
from tests.support.lazy import lazy
from tests.support.speaker_models import CONFIG

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

pytestmark = [pytest.mark.nemo, pytest.mark.usefixtures("one_thread")]
FRAMES = (70, 61, 40, 23, 70, 13)


def loaded(monkeypatch: pytest.MonkeyPatch, model: Any) -> NemoCodec:
    monkeypatch.setattr(nemo_codec, "load_nemo", lambda *_, **__: model)
    return NemoCodec("codec.nemo", "--codec-model")


def noise(num_frames: int, seed: int) -> torch.Tensor:
    return torch.randn(1, num_frames * SAMPLES_PER_FRAME, generator=torch.Generator().manual_seed(seed)) / 10


@pytest.mark.parametrize("kind", CODECS)
def test_codes_are_nemos_of_each_row_alone(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = small_codec(kind)
    rows = [noise(frames, seed) for seed, frames in enumerate(FRAMES)]
    with torch.inference_mode():
        wanted = [model.encode(audio=row, audio_len=torch.tensor([row.shape[1]])) for row in rows]
    codec = loaded(monkeypatch, model)
    assert not any(name.endswith("original0") for name, _ in model.named_parameters())  # folded
    for row, (codes, frames) in zip(rows, wanted, strict=True):
        found, counted = codec.encode(row, torch.tensor([row.shape[1] - 5]), "fp32")
        assert torch.equal(found, codes) and counted.tolist() == frames.tolist()
    assert codec.mixes_lengths == (kind not in ("circular", "mel", "mel zeros"))
    assert capsys.readouterr().err == ""
    if codec.mixes_lengths:
        check_mixed(codec, rows, [codes for codes, _ in wanted])


def check_mixed(codec: NemoCodec, rows: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    """In a batch that is longer than its longest row, and in which there is noise behind the ends of rows."""
    lengths = torch.tensor([row.shape[1] for row in rows])
    batch = noise(72 * len(rows), 99).view(len(rows), -1)
    for number, row in enumerate(rows):
        batch[number, : row.shape[1]] = row
    found, frames = codec.encode(batch, lengths, "fp32")
    assert frames.tolist() == list(FRAMES)
    in_middle = at_end = total = total_at_end = 0
    for codes, own, count in zip(found, wanted, FRAMES, strict=True):
        differs = codes[:, :count] != own[0]
        at_end += int(differs[:, -10:].sum())
        in_middle += int(differs[:, :-10].sum())
        total_at_end += differs[:, -10:].numel()
        total += differs.numel()
    assert (at_end + in_middle) / total <= 1e-4
    assert at_end / total_at_end <= max(1e-4, in_middle / (total - total_at_end))


def test_one_frame_of_mel_spectra_gives_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """NeMo leaves the last frame of mel spectra out; such a segment is too short, and not a segment without codes."""
    for kind in ("mel", "mel zeros"):
        codec = loaded(monkeypatch, small_codec(kind))
        assert codec.min_frames == 2
        assert codec.encode(noise(2, 0), torch.tensor([2 * SAMPLES_PER_FRAME]), "fp32")[1].tolist() == [1]


def test_a_codec_that_nemo_runs_otherwise_is_run_by_nemo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a change in NeMo's code."""
    model = small_codec("zeros")
    forward = model.audio_encoder.forward
    monkeypatch.setattr(
        model.audio_encoder, "forward", lambda audio, audio_len: forward(audio=2 * audio, audio_len=audio_len)
    )
    codec = loaded(monkeypatch, model)
    assert not codec.mixes_lengths
    assert "codec.nemo is run by NeMo's own code" in capsys.readouterr().err
    audio, lengths = noise(20, 1), torch.tensor([20 * SAMPLES_PER_FRAME])
    with torch.inference_mode():
        assert torch.equal(codec.encode(audio, lengths, "fp32")[0], model.encode(audio=audio, audio_len=lengths)[0])


def test_numbers_of_causal_layers_stay_on_the_cpu() -> None:
    """Python reads them for each batch: on a GPU it would wait each time. The device `meta` stands for the GPU."""
    model = small_codec("causal")
    fold_weight_norm(model)
    move(model, "meta")
    layers = [layer for layer in model.audio_encoder.modules() if type(layer).__name__ == "CausalConv1dNorm"]
    assert len(layers) > 5
    for layer in layers:
        assert layer.conv.weight.device.type == "meta"
        assert {layer.stride.device.type, layer.kernel_size.device.type, layer.padding_total.device.type} == {"cpu"}
        assert int(layer.padding_total) >= 0


def test_nothing_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the audio on the device `meta` every number that Python would have to read from there is an error."""
    for kind in ("reflect", "causal"):
        codec = loaded(monkeypatch, small_codec(kind))
        monkeypatch.setattr(nemo_codec, "to_device", lambda values, device: values.to(device))
        codec.to("meta")
        audio = torch.zeros(3, 20 * SAMPLES_PER_FRAME, device="meta")
        for lengths in ([1280, 1280, 1280], [1280, 700, 640]):
            with copies_between_devices() as copied:
                codes, frames = codec.encode(audio, torch.tensor(lengths), "fp32")
            assert copied == ([] if len(set(lengths)) == 1 else [(3,)])  # through pinned memory
            assert (codes.device.type, codes.shape) == ("meta", (3, 4, 20))
            assert (frames.device.type, frames.tolist()) == ("cpu", [-(-length // 64) for length in lengths])


@pytest.fixture
def titanet_model(monkeypatch: pytest.MonkeyPatch) -> Any:
    """With the layers of TitaNet; not moved, nor run yet."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from gpu_models import titanet
    from nemo.collections.asr.models import EncDecSpeakerLabelModel
    from nemo.collections.asr.parts.submodules import tdnn_attention
    from omegaconf import OmegaConf

    torch.manual_seed(1)
    model = EncDecSpeakerLabelModel(cfg=OmegaConf.create(titanet(8)))
    model.freeze()
    monkeypatch.setattr("prepcli.models.nemo_speaker.load_nemo", lambda *_, **__: model)
    monkeypatch.setattr(tdnn_attention, "lens_to_mask", nemos_lens_to_mask())
    return model


def nemos_lens_to_mask() -> Any:
    """NeMo's own function, from a new copy of its module: the one that is imported may have ours."""
    spec = importlib.util.find_spec("nemo.collections.asr.parts.submodules.tdnn_attention")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.lens_to_mask


def test_masks_are_nemos(titanet_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from nemo.collections.asr.parts.submodules import tdnn_attention

    encoder = NemoSpeakerEncoder("x.nemo", "--speaker-model")
    assert tdnn_attention.lens_to_mask is nemo_speaker.mask_of_lengths
    audio, lengths = torch.randn(2, 16000, generator=torch.Generator().manual_seed(2)), torch.tensor([16000, 9000])
    ours = encoder.embed(audio, lengths)
    monkeypatch.setattr(tdnn_attention, "lens_to_mask", nemos_lens_to_mask())
    assert torch.equal(encoder.embed(audio, lengths), ours)
    assert not torch.equal(ours[0], ours[1])


@pytest.mark.parametrize("waits", [False, True])
def test_a_speaker_model_waits_for_nothing(waits: bool, titanet_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for a number, which `meta` does not have, nor for a copy. As NeMo does it, there is one of each."""
    from nemo.collections.asr.parts.submodules import tdnn_attention

    encoder = NemoSpeakerEncoder("x.nemo", "--speaker-model")
    encoder.to("meta")
    monkeypatch.setattr(torch.amp, "autocast", lambda *_, **__: contextlib.nullcontext())  # there is none for `meta`
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    batch = torch.zeros(2, 16000, device="meta"), torch.zeros(2, dtype=torch.int64, device="meta")
    if waits:
        with monkeypatch.context() as as_nemo, pytest.raises(RuntimeError, match="item"):
            as_nemo.setattr(nemo_speaker, "without_gpu_sync", contextlib.nullcontext)
            encoder.embed(*batch)
        monkeypatch.setattr(tdnn_attention, "lens_to_mask", nemos_lens_to_mask())
    with copies_between_devices() as copied:
        assert encoder.embed(*batch).shape == (2, 192)
    assert copied == ([(112,)] if waits else [])
    assert not torch.cuda.is_current_stream_capturing(), "NeMo's question is answered otherwise for a moment only"


@contextlib.contextmanager
def copies_between_devices() -> Iterator[list[tuple[int, ...]]]:
    """The shapes of all tensors that are copied from one device to another."""
    from torch.utils._python_dispatch import TorchDispatchMode

    found: list[tuple[int, ...]] = []

    class Copies(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = function(*args, **(kwargs or {}))
            both = (out, *args)[:2]
            if all(isinstance(one, torch.Tensor) for one in both) and len({one.device for one in both}) == 2:
                found.append(tuple(out.shape))
            return out

    with Copies():
        yield found


def test_loading_a_model_does_not_touch_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """NeMo asks for the current GPU where there is one, which would initialize CUDA before workers are forked."""
    asked: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: asked.append("current_device"))
    with without_cuda():
        small_codec("zeros")
    assert asked == []
    assert torch.cuda.is_available()
    small_codec("zeros")
    assert asked  # or the test shows nothing


@pytest.mark.parametrize("exact_pad", [False, True])
def test_the_shortest_audio_of_a_speaker_model_has_two_frames(
    exact_pad: bool, speaker_model: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one frame NeMo raises an error where there is a GPU: its standard deviation is not a number."""
    from nemo.collections.asr.models import EncDecSpeakerLabelModel
    from omegaconf import OmegaConf

    parts = OmegaConf.create(CONFIG | {"preprocessor": CONFIG["preprocessor"] | {"exact_pad": exact_pad}})
    model = EncDecSpeakerLabelModel(cfg=parts)
    model.freeze()
    monkeypatch.setattr("prepcli.models.nemo_speaker.load_nemo", lambda *_, **__: model)
    encoder = NemoSpeakerEncoder("x.nemo", "--speaker-model")
    assert encoder.min_samples == (480 if exact_pad else 320)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    length = encoder.min_samples
    assert torch.isfinite(encoder.embed(torch.randn(1, length), torch.tensor([length]))).all()
    with pytest.raises(ValueError, match="length 1"):
        encoder.embed(torch.randn(1, length - 160), torch.tensor([length - 160]))


def test_nemos_own_resampling_is_not_used_but_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """`AudioCodecModel.encode` resamples when it is given `sample_rate`; we do it as lhotse does for training.

    Both use torchaudio's kernel with its defaults. NeMo rounds the number of samples up, lhotse to the nearest.
    """
    codec = loaded(monkeypatch, small_codec("zeros"))
    asked: list[object] = []
    preprocess = codec._model.preprocess_audio

    def noted(**given: Any) -> Any:
        asked.append(given["sample_rate"])
        return preprocess(**given)

    monkeypatch.setattr(codec._model, "preprocess_audio", noted)
    audio = torch.randn(1, 16001, generator=torch.Generator().manual_seed(4)) / 10
    theirs, frames = codec._model.encode(audio=audio, audio_len=torch.tensor([16001]), sample_rate=16000)
    own = resample_sinc(audio, 16000, SAMPLING_RATE)
    ours, own_frames = codec.encode(own, torch.tensor([own.shape[1]]), "fp32")
    assert (frames.tolist(), own_frames.tolist()) == ([345], [345])
    assert own.shape[1] == 22051  # of 22,051.4
    assert (theirs[:, :, :-1] != ours[:, :, :-1]).float().mean() < 1e-3
    assert asked == [16000]


def test_weights_in_bfloat16_give_the_codes_of_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy has the rounding of autocast; the weights of float32 stay as they are."""
    for kind in ("replicate", "causal", "stft"):
        codec = loaded(monkeypatch, small_codec(kind))
        audio, lengths = noise(40, 3), torch.tensor([40 * SAMPLES_PER_FRAME])
        exact, _ = codec.encode(audio, lengths, "fp32")
        found, _ = codec.encode(audio, lengths, "bf16")
        kept = codec._encoder_in_bfloat16
        monkeypatch.setattr(codec, "_encoder_in_bfloat16", codec._encoder)
        assert torch.equal(codec.encode(audio, lengths, "bf16")[0], found)
        assert not torch.equal(found, exact)
        assert torch.equal(codec.encode(audio, lengths, "fp32")[0], exact)
        codec.to("cpu")
        assert codec._encoder_in_bfloat16 is not kept, "the copy is made again on another device"


def test_folded_batch_norm_gives_the_same_embeddings(titanet_model: Any) -> None:
    model = titanet_model
    for layer in model.modules():
        if isinstance(layer, torch.nn.BatchNorm1d):
            assert layer.running_mean is not None and layer.running_var is not None
            layer.running_mean.uniform_(-0.5, 0.5)
            layer.running_var.uniform_(0.5, 2)
            if layer.weight is not None:
                layer.weight.data.uniform_(0.5, 2)
                layer.bias.data.uniform_(-0.5, 0.5)
    encoder = NemoSpeakerEncoder("x.nemo", "--speaker-model")
    audio, lengths = noise(375, 2).view(2, -1), torch.tensor([12000, 9000])
    plain = encoder.embed(audio, lengths)
    features = torch.randn(2, 80, 64, generator=torch.Generator().manual_seed(4))

    def frames() -> torch.Tensor:
        with torch.inference_mode():
            found: torch.Tensor = model.encoder(audio_signal=features, length=torch.tensor([64, 40]))[0]
            return found

    encoded = frames()
    encoder.to("cpu")
    assert torch.equal(encoder.embed(audio, lengths), plain), "on a CPU nothing changes"
    norms = [layer for layer in model.encoder.modules() if isinstance(layer, torch.nn.BatchNorm1d)]
    nemo_speaker.fold_batch_norm(model)
    assert len(norms) > 10
    assert not any(isinstance(layer, torch.nn.BatchNorm1d) for layer in model.encoder.modules())
    folded = encoder.embed(audio, lengths)
    assert float(1 - (folded.double() * plain.double()).sum(1).min()) <= 1e-5
    scale = float(encoded.std())  # embeddings of random weights are alike, what the encoder gives is not
    torch.testing.assert_close(frames(), encoded, rtol=1e-4, atol=1e-4 * scale)
    assert float((encoded[0] - encoded[1]).std()) > scale / 10
