"""Mimi, DAC and EnCodec from Hugging Face's transformers, from a folder or by name."""

import hashlib
import importlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prepcli.errors import UsageError, option
from prepcli.models.devices import computing_in, use_full_float32, use_tf32
from prepcli.models.nemo import quiet
from prepcli.models.nemo_codec import move
from prepcli.models.protocols import Precision
from prepcli.models.widths import noting_widest

if TYPE_CHECKING:
    from torch import Tensor

CONFIG = "config.json"
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_HUB_NAME = re.compile(r"[\w.-]+/([\w.-]+)", re.ASCII)
_KNOWN_WORD = re.compile(r"(?<![a-z])(mimi|dac|encodec)(?![a-z])", re.IGNORECASE)
_FRAMES_TRIED = 4


@dataclass(frozen=True, slots=True)
class _Kind:
    """A family of codecs.

    Attributes:
        model_class: its class in transformers.
        samples_per_frame: reads it from a configuration.
        num_codebooks: of a configuration, the number of codebooks of the model.
        encode: with a model and audio (B, 1, T), returns codes (B, C, F) of the first C codebooks.
        quantize: the name of the quantizer's method that turns vectors into codes.
    """

    model_class: str
    samples_per_frame: Callable[[Any], int]
    num_codebooks: Callable[[Any], int]
    encode: "Callable[[Any, Tensor, int], Tensor]"
    quantize: str


def _encode_mimi(model: Any, audio: "Tensor", num_codebooks: int) -> "Tensor":
    codes: Tensor = model.encode(audio, num_quantizers=num_codebooks).audio_codes
    return codes


def _encode_dac(model: Any, audio: "Tensor", num_codebooks: int) -> "Tensor":
    codes: Tensor = model.encode(audio, n_quantizers=num_codebooks).audio_codes
    return codes


def _encode_encodec(model: Any, audio: "Tensor", num_codebooks: int) -> "Tensor":
    """Codes (B, C, F).

    The bandwidth selects the number of codebooks; the next higher allowed one may give more than C.
    """
    count = model.quantizer.get_num_quantizers_for_bandwidth
    bandwidths = sorted(model.config.target_bandwidths)
    enough = next((one for one in bandwidths if count(one) >= num_codebooks), bandwidths[-1])
    codes: Tensor = model.encode(audio, bandwidth=enough).audio_codes[0]
    return codes


_KINDS = {
    "mimi": _Kind(
        "MimiModel",
        lambda config: round(config.sampling_rate / config.frame_rate),
        lambda config: config.num_quantizers,
        _encode_mimi,
        "encode",
    ),
    "dac": _Kind(
        "DacModel",
        lambda config: prod(config.downsampling_ratios),
        lambda config: config.n_codebooks,
        _encode_dac,
        "forward",
    ),
    "encodec": _Kind(
        "EncodecModel",
        lambda config: prod(config.upsampling_ratios),
        lambda config: config.num_quantizers,
        _encode_encodec,
        "encode",
    ),
}
_NEEDED = "Mimi, DAC and EnCodec"


def is_hf_codec(name: str) -> bool:
    """Return whether the value of `--codec-model` is for transformers: a folder, or `owner/name` with a known word.

    `kyutai/mimi`, `descript/dac_44khz` and `facebook/encodec_24khz` are for transformers; other names are NeMo's.
    """
    path = Path(name)
    if path.exists() or name.endswith(".nemo"):
        return path.is_dir()
    match = _HUB_NAME.fullmatch(name)
    return match is not None and _KNOWN_WORD.search(match[1]) is not None


def check_hf_codec(name: str, flag: str) -> None:
    """Check in milliseconds, without transformers, that a folder contains a codec; a name is not checked.

    Raises:
        UsageError: the folder does not contain a codec.
    """
    folder = Path(name)
    if not folder.is_dir():
        return
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else error
        raise UsageError(
            f"{option(flag, name)} is not a folder of Hugging Face's: {folder / CONFIG}: {reason}"
        ) from None
    _check_kind(config.get("model_type") if isinstance(config, dict) else None, name, flag)
    if not _weights(folder):
        raise UsageError(f"{option(flag, name)}: there are no weights ({' or '.join(_WEIGHTS)})")


def _check_kind(found: Any, name: str, flag: str) -> None:
    if found not in _KINDS:
        raise UsageError(f"{option(flag, name)} is a model of the type {found}; transformers' {_NEEDED} are supported")


def _weights(folder: Path) -> list[Path]:
    return sorted(path for pattern in _WEIGHTS for path in folder.glob(pattern))


def hf_identity(name: str) -> str:
    """Return the identity of the codec in the settings of a run: its name, or the SHA-256 of its files."""
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

    Audio is zero-padded to whole frames, as in the programs of Mimi and DAC. The layers of EnCodec would mirror the end
    instead: here the codes of its last frame are those of the zero-padded audio.
    """

    rows_on_cpu: int | None = 1  # rounding depends neither on batches nor on threads

    def __init__(self, name: str, flag: str, num_codebooks: int | None = None) -> None:
        """Load a codec.

        Args:
            name: a folder, or the name of a model on the hub.
            flag: name of the option, for messages.
            num_codebooks: use the first of its codebooks; None: all.

        Raises:
            UsageError: it cannot be loaded, has fewer codebooks, or its frames cannot be decoded from codes alone.
        """
        where = option(flag, name)
        self._model = _load(name, flag)
        config = self._model.config
        self._kind = _KINDS[config.model_type]
        _check_frames_suffice(config, where)
        self.sampling_rate: int = int(config.sampling_rate)
        self.samples_per_frame: int = self._kind.samples_per_frame(config)
        self.codebook_size: int = int(config.codebook_size)
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
        """Return codes (B, C, F) and frames (B,) of audio (B, T); see the protocol."""
        import torch

        use_tf32() if precision == "tf32" else use_full_float32()
        with (
            torch.inference_mode(),
            computing_in(precision, str(audio.device)),
        ):
            codes = self._kind.encode(self._model, audio[:, None], self.num_codebooks)[:, : self.num_codebooks]
        return codes, -(-lengths // self.samples_per_frame)


def _load(name: str, flag: str) -> Any:
    """Load a model without transformers' output."""
    with quiet():
        try:
            transformers = importlib.import_module("transformers")
        except ImportError:
            raise UsageError(f"{option(flag, name)} needs transformers: pip install 'prepcli[models]'") from None
        try:
            config = transformers.AutoConfig.from_pretrained(name)
            _check_kind(config.model_type, name, flag)
            kind = getattr(transformers, _KINDS[config.model_type].model_class)
            model, found = kind.from_pretrained(name, output_loading_info=True)
        except UsageError:
            raise
        except Exception as error:
            what = "cannot be loaded" if Path(name).is_dir() else "cannot be fetched; give a folder"
            line = next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)
            raise UsageError(f"{option(flag, name)} {what}: {line}") from None
    if found["missing_keys"]:
        raise UsageError(f"{option(flag, name)} cannot be loaded: its weights lack {min(found['missing_keys'])}")
    return model.float().eval()


def _check_frames_suffice(config: Any, where: str) -> None:
    """Refuse codecs that need more than the codes to decode a frame, such as a scale for each chunk."""
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
    """The method of a quantizer in float32, also under autocast: bfloat16 is too coarse to distinguish the entries."""
    import torch

    def quantized(vectors: "Tensor", *arguments: Any, **options: Any) -> Any:
        with torch.autocast(vectors.device.type, enabled=False):
            return quantize(vectors.float(), *arguments, **options)

    return quantized
