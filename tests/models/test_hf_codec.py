"""extend-codec-codes with the codecs of transformers: tiny models, each judged by transformers' own `encode`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from prepcli.errors import UsageError
from prepcli.models.codecs import check_codec_model, codec_name, identity, load_codec
from prepcli.models.hf_codec import is_hf_codec
from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.models.hf_models import KINDS, MODELS, NEW_KINDS, NUM_CODEBOOKS, SCALARS, save_tiny_codec
from tests.support.codes_sets import codes_fields
from tests.support.lazy import lazy
from tests.support.running import prepcli
from tests.support.shar_sets import make

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

OPTION = "--codec-model"


def hf_folder(folder: Path, config: object = None, weights: bool = True) -> Path:
    folder.mkdir()
    if config is not None:
        (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    if weights:
        (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.mark.parametrize(
    ("name", "is_hf"),
    [
        ("kyutai/mimi", True),
        ("descript/dac_44khz", True),
        ("facebook/encodec_24khz", True),
        ("someone/My-Encodec-v2", True),
        ("Manel/X-Codec", True),
        ("HKUSTAudio/xcodec2-hf", True),
        ("bosonai/higgs-audio-v2-tokenizer", True),
        ("neuphonic/neucodec", True),
        ("Qwen/Qwen3-TTS-Tokenizer-12Hz", True),
        ("nvidia/low-frame-rate-speech-codec-22khz", False),
        ("nvidia/audio-codec-22khz", False),
        ("mel_codec_22khz_fullband_medium", False),
        ("models/mimi.nemo", False),
        ("mimi", False),
        ("someone/codac", False),
    ],
)
def test_names_say_which_library_has_the_codec(name: str, is_hf: bool) -> None:
    assert is_hf_codec(name) == is_hf
    if is_hf:
        assert identity(name) == name


def test_what_is_wrong_with_a_folder_is_said_without_transformers(tmp_path: Path) -> None:
    good = hf_folder(tmp_path / "good.d", {"model_type": "dac"})
    check_codec_model(str(good), 3)
    assert codec_name(str(good)) == "good.d"
    assert codec_name(f"{good}/") == "good.d"
    before = identity(str(good))
    (good / "model.safetensors").write_bytes(b"others")
    assert identity(str(good)) != before
    for folder, message in (
        (hf_folder(tmp_path / "empty"), "config.json: there is no such file"),
        (hf_folder(tmp_path / "torn", '{"model_type": "da'), "is not a folder of Hugging Face's"),
        (hf_folder(tmp_path / "list", "[]"), "is a model of the type None"),
        (hf_folder(tmp_path / "types", '{"model_type": ["mimi"]}'), r"is a model of the type \['mimi'\]"),
        (hf_folder(tmp_path / "deep", "[" * 9999), "maximum recursion depth exceeded"),
        (
            hf_folder(tmp_path / "bert", {"model_type": "bert"}),
            "of the type bert; transformers' Mimi, .*DAC",
        ),
        (hf_folder(tmp_path / "bare", {"model_type": "mimi"}, weights=False), "there are no weights"),
    ):
        with pytest.raises(UsageError, match=message):
            check_codec_model(str(folder))


def test_the_codebooks_of_a_nemo_codec_belong_together(tmp_path: Path) -> None:
    shar = tmp_path / "shar"
    make(MINI_CORPUS / "segments.json", shar)
    done = prepcli("extend-codec-codes", shar, OPTION, "codec.nemo", "--num-codebooks", 2)
    assert done.code == 2
    assert "--num-codebooks is for codecs of Hugging Face; all codebooks of codec.nemo belong together" in done.err


def test_without_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    folder = hf_folder(tmp_path / "tiny", {"model_type": "dac"})
    with pytest.raises(UsageError, match=r"needs transformers: pip install 'prepcli\[models\]'"):
        load_codec(str(folder))


@pytest.mark.torch
@pytest.mark.slow
def test_codes_of_three_codecs_beside_each_other(tmp_path: Path) -> None:
    """One test, for one process imports transformers then."""
    torch.set_num_threads(1)
    records = read_lines(MINI_CORPUS / "manifest_with_context.json")[::8]
    for record in records:
        for field in ("audio_filepath", "context_audio_filepath"):
            record[field] = str(MINI_CORPUS / record[field])
    shar = tmp_path / "shar"
    make(write_lines(tmp_path / "m.json", records), shar, "--shard-size", 3, "--target-sample-rate", 16000)
    audio = torch.cat([_audio(cut.target_audio) for cut in _cuts(shar)])
    folders = {kind: save_tiny_codec(kind, tmp_path, audio) for kind in KINDS}
    for folder in folders.values():
        done = prepcli("extend-codec-codes", shar, OPTION, folder, "--devices", "cpu", "--json")
        assert (done.code, done.err) == (0, "")
        assert done.json["records_out"] == len(records)
    done = prepcli(
        "extend-codec-codes", shar, OPTION, folders["mimi"], "--codec-name", "two", "--num-codebooks", 2, *DEVICE
    )
    assert done.code == 0, done.err
    checked = prepcli("verify", shar)
    assert checked.code == 0, checked.out
    for kind, folder in folders.items():
        check_codes(kind, folder, shar)
    for whole, two in zip(_cuts(shar, "tiny_mimi"), _cuts(shar, "two"), strict=True):
        np.testing.assert_array_equal(whole.target_codes.load()[:2], two.target_codes.load())
    check_refused(folders, shar)


@pytest.mark.torch
@pytest.mark.slow
def test_codecs_with_semantic_encoders(tmp_path: Path) -> None:
    """X-codec, Higgs audio, X-codec2 and NeuCodec: codes of one row alone, in batches and in a Shar set."""
    import transformers

    missing = [MODELS[kind] for kind in NEW_KINDS if not hasattr(transformers, MODELS[kind])]
    if missing:
        pytest.skip(f"transformers {transformers.__version__} lacks {', '.join(missing)}")
    torch.set_num_threads(1)
    records = read_lines(MINI_CORPUS / "manifest.json")[::7]
    for record in records:
        record["audio_filepath"] = str(MINI_CORPUS / record["audio_filepath"])
    shar = tmp_path / "shar"
    options = ("--target-sample-rate", 16000, "--audio-field", "target_audio")
    make(write_lines(tmp_path / "m.json", records), shar, *options)
    audio = torch.cat([_audio(cut.target_audio) for cut in _cuts(shar)])
    for kind in NEW_KINDS:
        folder = save_tiny_codec(kind, tmp_path, audio)
        check_alone(kind, folder, audio)
    done = prepcli("extend-codec-codes", shar, OPTION, tmp_path / "tiny_xcodec2", *DEVICE, "--json")
    assert (done.code, done.err) == (0, "")
    checked = prepcli("verify", shar)
    assert checked.code == 0, checked.out
    codec = load_codec(str(tmp_path / "tiny_xcodec2"))
    largest = 0
    for cut in _cuts(shar, "tiny_xcodec2"):
        found, samples = cut.target_codes.load(), _audio(cut.target_audio)
        padded = torch.nn.functional.pad(samples, (0, -len(samples) % 320))[None]
        wanted = codec.encode(padded, torch.tensor([len(samples)]), "fp32")[0][0].numpy()
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, wanted)
        largest = max(largest, int(found.max()))
    assert largest > np.iinfo(np.int16).max


def check_alone(kind: str, folder: Path, audio: torch.Tensor) -> None:
    """The codes of a batch of equal lengths are those that transformers gives each row alone."""
    import transformers

    codec = load_codec(str(folder))
    step = codec.samples_per_frame
    assert codec.sampling_rate / step == (25 if kind == "higgs" else 50)
    rows = audio[: 3 * 40 * step].reshape(3, -1) + torch.randn(3, 40 * step) / 100
    found, frames = codec.encode(rows, torch.full((3,), 40 * step - 5), "fp32")
    assert frames.tolist() == [40, 40, 40]
    assert found.shape == (3, NUM_CODEBOOKS[kind], 40)
    assert len(found.unique()) > 48
    model = getattr(transformers, MODELS[kind]).from_pretrained(folder).eval()
    for row, codes in zip(rows, found, strict=True):
        with torch.no_grad():
            if kind in SCALARS:
                extract = getattr(transformers, MODELS[kind].replace("Model", "FeatureExtractor"))()
                made = model.encode(**extract([row], sampling_rate=16000, return_tensors="pt"))
                wanted = made.audio_codes[0][:, : int(made.audio_codes_mask.sum()) if kind == "xcodec2" else None]
            else:
                wanted = model.encode(row[None, None]).audio_codes[0]
        assert torch.equal(codes, wanted)
    assert codec.encode(rows, torch.full((3,), 40 * step), "bf16")[0].shape == found.shape
    if kind == "xcodec":
        first = load_codec(str(folder), 3).encode(rows, torch.full((3,), 40 * step), "fp32")[0]
        assert torch.equal(first, found[:, :3])


@pytest.mark.torch
@pytest.mark.slow
def test_the_tokenizer_of_qwen3_tts(tmp_path: Path) -> None:
    """Its encoder is Mimi, its decoder is not; the file has both, and the codes are those of the encoder."""
    from safetensors.torch import load_file, save_file

    torch.set_num_threads(1)
    audio = torch.randn(160_000, generator=torch.Generator().manual_seed(1)).cumsum(0) / 400
    mimi = save_tiny_codec("mimi", tmp_path, audio)
    folder = tmp_path / "qwen"
    folder.mkdir()
    config = {"encoder_config": json.loads((mimi / "config.json").read_text()), "decoder_config": {}}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "qwen3_tts_tokenizer_12hz"}))
    left_out = ("decoder.", "decoder_transformer.", "upsample.")
    weights = load_file(mimi / "model.safetensors")
    kept = {f"encoder.{name}": one for name, one in weights.items() if not name.startswith(left_out)}
    save_file(kept | {"decoder.quantizer.weight": torch.zeros(3)}, folder / "model.safetensors")
    check_codec_model(str(folder), 4)
    rows = audio[: 2 * 9600].reshape(2, 9600)
    lengths = torch.full((2,), 9600)
    found, wanted = (load_codec(str(path)).encode(rows, lengths, "fp32")[0] for path in (folder, mimi))
    assert torch.equal(found, wanted)
    assert len(found.unique()) > 32
    save_file({name: one for name, one in kept.items() if "downsample" not in name}, folder / "model.safetensors")
    with pytest.raises(UsageError, match=r"cannot be loaded: its weights lack .*downsample"):
        load_codec(str(folder))


@pytest.mark.torch
@pytest.mark.slow
def test_a_version_of_transformers_without_the_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    monkeypatch.setitem(transformers.__dict__, "NeuCodecModel", None)
    folder = hf_folder(tmp_path / "neu", {"model_type": "neucodec"})
    with pytest.raises(UsageError, match=r"NeuCodec needs transformers 5\.17 or newer, not .*: pip install -U"):
        load_codec(str(folder))


DEVICE = ("--devices", "cpu")


def check_codes(kind: str, folder: Path, shar: Path) -> None:
    """The codes are transformers' own of each segment alone, zero-padded to whole frames."""
    import transformers

    model = transformers.AutoModel.from_pretrained(folder).eval()
    used: set[int] = set()
    cuts = _cuts(shar, folder.name)
    for cut in cuts:
        for recording, stored in ((cut.target_audio, cut.target_codes), (cut.context_audio, cut.context_codes)):
            found, samples = stored.load(), _audio(recording)
            frames = -(-len(samples) // 320)
            wanted = _encode(kind, model, torch.nn.functional.pad(samples, (0, frames * 320 - len(samples))))
            assert found.shape == (NUM_CODEBOOKS[kind], frames)
            assert (found.dtype, stored.frame_shift) == (np.int16, 320 / 16000)
            np.testing.assert_array_equal(found, wanted)
            used |= set(found.ravel().tolist())
    assert len(cuts) == 6
    assert len(used) > 48


def check_refused(folders: dict[str, Path], shar: Path) -> None:
    too_many = prepcli("extend-codec-codes", shar, OPTION, folders["dac"], "--num-codebooks", 4, *DEVICE)
    assert too_many.code == 2
    assert "was made differently: --num-codebooks was not given" in too_many.err
    codec = load_codec(str(folders["encodec"]))
    assert codec.values_per_sample == 4.0  # the channels of its first layer
    rows = torch.randn(4, 320 * 30, generator=torch.Generator().manual_seed(0)) / 10
    exact, short = (codec.encode(rows, torch.full((4,), 9600), precision)[0] for precision in ("fp32", "bf16"))
    assert 0 < float((exact != short).float().mean()) < 0.6
    for kind, wanted, message in (
        ("dac", 4, "--num-codebooks 4: --codec-model .*tiny_dac has 3; give a number from 1"),
        ("mimi", 5, "has 4; give a number from 1"),
    ):
        with pytest.raises(UsageError, match=message):
            load_codec(str(folders[kind]), wanted)
    config = folders["encodec"] / "config.json"
    whole = json.loads(config.read_text())
    for change, message in (
        ({"normalize": True}, "encodes chunks, each with a scale"),
        ({"audio_channels": 2}, "is for 2 channels|cannot be loaded"),
        ({"num_filters": 8}, "cannot be loaded"),
    ):
        config.write_text(json.dumps(whole | change))
        with pytest.raises(UsageError, match=message):
            load_codec(str(folders["encodec"]))


def _cuts(shar: Path, codec: str | None = None) -> list[Any]:
    from lhotse import CutSet

    from tests.support.shar_sets import shar_fields

    return list(CutSet.from_shar(fields=codes_fields(shar, shar / f"codes_{codec}") if codec else shar_fields(shar)))


def _audio(recording: Any) -> torch.Tensor:
    samples: torch.Tensor = torch.from_numpy(recording.load_audio()[0])
    return samples


def _encode(kind: str, model: Any, samples: torch.Tensor) -> Any:
    with torch.no_grad():
        if kind == "encodec":
            return model.encode(samples[None, None], bandwidth=1.2).audio_codes[0][0].numpy()
        return model.encode(samples[None, None]).audio_codes[0].numpy()
