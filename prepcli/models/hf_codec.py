"""Mimi, DAC, EnCodec, X-codec and others from Hugging Face's transformers, from a folder or by name."""

import hashlib
import importlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prepcli.errors import UsageError, option
from prepcli.interface.printing import first_line
from prepcli.models.devices import computing_in, use_full_float32, use_tf32
from prepcli.models.hf_kinds import KINDS, HfKind
from prepcli.models.nemo import quiet
from prepcli.models.nemo_codec import move
from prepcli.models.protocols import Precision
from prepcli.models.widths import noting_widest

if TYPE_CHECKING:
    from torch import Tensor

CONFIG = "config.json"
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_HUB_NAME = re.compile(r"[\w.-]+/([\w.-]+)", re.ASCII)
_WORDS = "mimi|dac|encodec|x-?codec2?|higgs-audio|neucodec|qwen3-tts-tokenizer"
_KNOWN_WORD = re.compile(rf"(?<![a-z])({_WORDS})(?![a-z])", re.IGNORECASE)
_FRAMES_TRIED = 4
_NEEDED = ", ".join(kind.title for kind in KINDS.values())


def is_hf_codec(name: str) -> bool:
    """Return whether transformers loads the value of `--codec-model`: a folder, or a name on the hub (`owner/name`).

    A name on the hub must contain a word such as mimi, dac or neucodec, as in `kyutai/mimi` and `descript/dac_44khz`.
    NeMo loads all other names.
    """
    if os.path.exists(name) or name.endswith(".nemo"):  # unlike `Path`, accepts names that are too long
        return os.path.isdir(name)
    match = _HUB_NAME.fullmatch(name)
    return match is not None and _KNOWN_WORD.search(match[1]) is not None


def check_hf_codec(name: str, flag: str) -> None:
    """Check in milliseconds, without transformers, that a folder contains a codec.

    If `name` is not a folder but a name on the hub, nothing is checked.

    Raises:
        UsageError: the folder does not contain a codec.
    """
    folder = Path(name)
    if not folder.is_dir():
        return
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else error
        raise UsageError(
            f"{option(flag, name)} is not a folder of Hugging Face's: {folder / CONFIG}: {reason}"
        ) from None
    _check_kind(config.get("model_type") if isinstance(config, dict) else None, name, flag)
    if not _weights(folder):
        raise UsageError(f"{option(flag, name)}: there are no weights ({' or '.join(_WEIGHTS)})")


def _check_kind(kind: Any, name: str, flag: str) -> HfKind:
    if not isinstance(kind, str) or kind not in KINDS:
        raise UsageError(f"{option(flag, name)} is a model of the type {kind}; transformers' {_NEEDED} are supported")
    return KINDS[kind]


def _weights(folder: Path) -> list[Path]:
    return sorted(path for pattern in _WEIGHTS for path in folder.glob(pattern))


def hf_identity(name: str) -> str:
    """Return the identity of the codec in the settings of a run: the SHA-256 of the files in a folder, else `name`."""
    folder = Path(name)
    if not folder.is_dir():
        return name
    digest = hashlib.sha256()
    for path in (folder / CONFIG, *_weights(folder)):
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return f"sha256:{digest.hexdigest()}"


class HfCodec:
    """A codec of transformers, on the CPU until it is moved; see `prepcli.models.protocols.Codec`.

    Audio is zero-padded to whole frames, as in the programs of Mimi and DAC. EnCodec itself would mirror the end of
    the audio to complete the last frame; here it gets zeros, too. X-codec, X-codec2, Higgs audio and NeuCodec look at
    the whole audio, so other programs, which treat an incomplete last frame in other ways, may give other codes for all
    frames.
    """

    rows_on_cpu: int | None = 1  # rounding depends neither on batches nor on threads
    is_residual = True

    def __init__(self, name: str, flag: str, num_codebooks: int | None = None) -> None:
        """Load a codec from a folder or from the hub; only its first `num_codebooks` codebooks are used (None: all).

        Raises:
            UsageError: the codec cannot be loaded, has fewer codebooks, is not for mono audio, or needs more than codes
                to decode a frame, such as a scale.
        """
        where = option(flag, name)
        self._model, self._kind = _load(name, flag)
        config = self._model.config
        _check_frames_suffice(config, where)
        self.sampling_rate: int = self._kind.sampling_rate(config)
        self.samples_per_frame: int = self._kind.samples_per_frame(config)
        self.codebook_size: int = self._kind.codebook_size(config)
        self.num_codebooks: int = _codebooks(config, self._kind.num_codebooks(config), num_codebooks, where)
        quantizer = self._model.quantizer
        setattr(quantizer, self._kind.quantize, _in_float32(getattr(quantizer, self._kind.quantize)))
        with noting_widest(self._model) as widest:
            self.min_frames: int = self._find_min_frames(where)
        self.values_per_sample: float = widest.num_values / (self.min_frames * self.samples_per_frame)

    def _find_min_frames(self, where: str) -> int:
        """Return the minimum number of frames that can be encoded, found by trial."""
        import torch

        for frames in range(1, _FRAMES_TRIED + 1):
            samples = frames * self.samples_per_frame
            try:
                codes, _ = self.encode(torch.zeros(1, samples), torch.tensor([samples]), "fp32")
            except RuntimeError as error:
                fault: object = error
                continue
            if codes.shape[1:] == (self.num_codebooks, frames):
                return frames
            fault = f"{frames} frames give codes of shape {tuple(codes.shape[1:])}"
        raise UsageError(f"{where} cannot encode {_FRAMES_TRIED} frames of silence: {fault}")

    def to(self, device: str) -> None:
        """Move the model."""
        move(self._model, device)
        for module in self._model.modules():
            if "_embed" in vars(module):  # remove cached results of Mimi's codebooks on the earlier device
                module._embed = None

    def encode(self, audio: "Tensor", lengths: "Tensor", precision: Precision) -> "tuple[Tensor, Tensor]":
        """Return the codes (B, C, F) of audio (B, T), and the number of frames (B,) of each row; see `Codec.encode`."""
        import torch

        use_tf32() if precision == "tf32" else use_full_float32()
        with (
            torch.inference_mode(),
            computing_in(precision, str(audio.device)),
        ):
            codes = self._kind.encode(self._model, audio[:, None], self.num_codebooks)[:, : self.num_codebooks]
        return codes, -(-lengths // self.samples_per_frame)


def _load(name: str, flag: str) -> tuple[Any, HfKind]:
    """Load a model, and suppress what transformers prints; returns the model and its kind."""
    with quiet():
        try:
            transformers = importlib.import_module("transformers")
        except ImportError:
            raise UsageError(f"{option(flag, name)} needs transformers: pip install 'prepcli[models]'") from None
        try:
            written: dict[str, Any] = transformers.PretrainedConfig.get_config_dict(name)[0]
            kind = _check_kind(written.get("model_type"), name, flag)
            model_class = getattr(transformers, kind.model_class, None)
            if model_class is None:
                raise UsageError(
                    f"{option(flag, name)}: {kind.title} needs transformers {kind.since} or newer, not "
                    f"{transformers.__version__}: pip install -U transformers"
                )
            if kind.inner is None:
                model, info = model_class.from_pretrained(name, output_loading_info=True)
            else:
                model, info = _load_inner(model_class, name, written[kind.inner])
        except UsageError:
            raise
        except Exception as error:
            what = "cannot be loaded" if os.path.isdir(name) else "cannot be fetched; give a folder"
            raise UsageError(f"{option(flag, name)} {what}: {first_line(error)}") from None
    if info["missing_keys"]:
        raise UsageError(f"{option(flag, name)} cannot be loaded: its weights lack {min(info['missing_keys'])}")
    return model.float().eval(), kind


def _load_inner(model_class: Any, name: str, config: dict[str, Any]) -> tuple[Any, dict[str, set[str]]]:
    """Load only the encoder of a larger model, whose decoder the class `model_class` of transformers does not support.

    Returns:
        The model, and a dict in which `missing_keys` has the names of the weights that the file lacks.
    """
    from safetensors.torch import load_file
    from transformers.utils import cached_file

    weights = load_file(cached_file(name, "model.safetensors"))
    own = {key.removeprefix("encoder."): value for key, value in weights.items() if key.startswith("encoder.")}
    model, info = model_class.from_pretrained(
        None, config=model_class.config_class(**config), state_dict=own, output_loading_info=True
    )
    unused = ("decoder.", "decoder_transformer.", "upsample.")
    return model, {"missing_keys": {key for key in info["missing_keys"] if not key.startswith(unused)}}


def _check_frames_suffice(config: Any, where: str) -> None:
    """Refuse codecs of several channels, and codecs that need a scale to decode a chunk, in addition to its codes.

    `where` names the option and its value in messages.
    """
    if getattr(config, "audio_channels", 1) != 1:
        raise UsageError(f"{where}: this codec is for {config.audio_channels} channels; take one for mono audio")
    if getattr(config, "normalize", False) or getattr(config, "chunk_length_s", None) is not None:
        raise UsageError(f"{where}: this codec encodes chunks, each with a scale; take one that encodes whole audio")


def _codebooks(config: Any, available: int, wanted: int | None, where: str) -> int:
    lowest = getattr(config, "num_semantic_quantizers", 1)
    if wanted is not None and not lowest <= wanted <= available:
        raise UsageError(f"{option('--num-codebooks', wanted)}: {where} has {available}; give a number from {lowest}")
    return available if wanted is None else wanted


def _in_float32(quantize: "Callable[..., Any]") -> "Callable[..., Any]":
    """Return a function that calls `quantize`, a method of a quantizer, in float32 even under autocast.

    bfloat16 is too coarse for a quantizer.
    """
    import torch

    def quantized(vectors: "Tensor", *arguments: Any, **options: Any) -> Any:
        with torch.autocast(vectors.device.type, enabled=False):
            return quantize(vectors.float(), *arguments, **options)

    return quantized
