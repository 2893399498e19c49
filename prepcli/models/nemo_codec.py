"""NeMo's audio codecs, from a `.nemo` file or by name."""

from typing import TYPE_CHECKING, Any

from prepcli.errors import UsageError
from prepcli.models.devices import use_full_float32, use_tf32
from prepcli.models.nemo import load_nemo
from prepcli.models.protocols import Precision

if TYPE_CHECKING:
    from torch import Tensor

MODEL_CLASS = "AudioCodecModel"
_MAX_FRAMES_TRIED = 64


class NemoCodec:
    """A NeMo codec, on the CPU until it is moved; see `prepcli.models.protocols.Codec`."""

    rows_on_cpu: int | None = 1  # up to three times as fast as batches (`benchmarks/README.md`)

    def __init__(self, name: str, option: str) -> None:
        """Load a codec.

        Args:
            name: a `.nemo` file, or the name of a pretrained model.
            option: name of the option, for messages.

        Raises:
            UsageError: loading fails, or the codec does not have codes.
        """
        model: Any = load_nemo(MODEL_CLASS, name, option, collection="tts")
        self._model = model
        self.sampling_rate: int = int(model.sample_rate)
        self.samples_per_frame: int = int(model.samples_per_frame)
        if model.vector_quantizer is None:
            raise UsageError(f"{option} {name}: this codec has no quantizer, and so no codes")
        self.codebook_size: int = int(model.codebook_size)
        self.min_frames: int = self._find_min_frames(f"{option} {name}")

    def _find_min_frames(self, where: str) -> int:
        """Return the minimum number of frames that can be encoded, found by trying.

        A layer with reflection padding cannot reflect more samples than its input has.
        """
        import torch

        for frames in range(1, _MAX_FRAMES_TRIED + 1):
            samples = frames * self.samples_per_frame
            try:
                self.encode(torch.zeros(1, samples), torch.tensor([samples]), "fp32")
            except RuntimeError as error:
                fault = error
            else:
                return frames
        raise UsageError(f"{where} cannot encode {_MAX_FRAMES_TRIED} frames of silence: {fault}")

    def to(self, device: str) -> None:
        """Move the model."""
        self._model.to(device)

    def encode(self, audio: "Tensor", lengths: "Tensor", precision: Precision) -> "tuple[Tensor, Tensor]":
        """Return codes (B, C, F) and frames (B,) of audio (B, T); see the protocol."""
        import torch

        use_tf32() if precision == "tf32" else use_full_float32()
        with torch.inference_mode():
            if precision != "bf16":
                codes, frames = self._model.encode(audio=audio, audio_len=lengths)
            else:
                # The two halves of `encode`: an index is a sum that bfloat16 cannot hold.
                with torch.autocast(audio.device.type, torch.bfloat16):
                    encoded, frames = self._model.encode_audio(audio=audio, audio_len=lengths)
                codes = self._model.quantize(encoded=encoded.float(), encoded_len=frames)
            return codes, frames
