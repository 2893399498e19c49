"""NeMo's audio codecs, from a `.nemo` file or by name."""

import sys
from typing import TYPE_CHECKING, Any

from prepcli.errors import UsageError
from prepcli.models.devices import computing_in, to_device, use_full_float32, use_tf32
from prepcli.models.nemo import load_nemo
from prepcli.models.nemo_encoder import encoder_of, fold_weight_norm, move, quantizer_of
from prepcli.models.protocols import Precision
from prepcli.models.ragged import Rows
from prepcli.models.widths import noting_widest

if TYPE_CHECKING:
    from torch import Tensor

MODEL_CLASS = "AudioCodecModel"
_MAX_FRAMES_TRIED = 64
_FRAMES_COMPARED = 4
"""Frames more than the minimum for which a codec's codes are compared with NeMo's when it is loaded."""


class NemoCodec:
    """A NeMo codec, on the CPU until it is moved; see `prepcli.models.protocols.Codec`.

    Attributes:
        mixes_lengths: whether the codes of a row are those of its audio alone also beside longer rows; not so for
            encoders that only NeMo's own code can run.
    """

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
        fold_weight_norm(model)
        self._encoder = encoder_of(model)
        self._quantizer = quantizer_of(model)
        with noting_widest(model) as widest:
            self.min_frames: int = self._find_min_frames(f"{option} {name}")
        self.values_per_sample: float = widest.num_values / (self.min_frames * self.samples_per_frame)
        if self._encoder is not None and not self._is_as_nemo():
            print(f"note: {option} {name} is run by NeMo's own code, which takes longer", file=sys.stderr)
            self._encoder = self._quantizer = None
        self.mixes_lengths = self._encoder is not None

    def _find_min_frames(self, where: str) -> int:
        """Return the minimum number of frames that can be encoded, found by trying.

        A layer with reflection padding cannot reflect more samples than its input has; and of mel spectra NeMo leaves
        the last frame out, so that one frame gives no code.
        """
        import torch

        why = "they give no codes"
        for frames in range(1, _MAX_FRAMES_TRIED + 1):
            samples = frames * self.samples_per_frame
            try:
                _, found = self.encode(torch.zeros(1, samples), torch.tensor([samples]), "fp32")
            except RuntimeError as error:
                why = str(error)
            else:
                if int(found[0]):
                    return frames
        raise UsageError(f"{where} cannot encode {_MAX_FRAMES_TRIED} frames of silence: {why}")

    def _is_as_nemo(self) -> bool:
        """Whether the codes of some noise are those of NeMo's own code."""
        import torch

        samples = (self.min_frames + _FRAMES_COMPARED) * self.samples_per_frame
        audio = torch.randn(1, samples, generator=torch.Generator().manual_seed(0)) / 10
        lengths = torch.tensor([samples])
        with torch.inference_mode():
            wanted, _ = self._model.encode(audio=audio, audio_len=lengths)
        return torch.equal(self.encode(audio, lengths, "fp32")[0], wanted)

    def to(self, device: str) -> None:
        """Move the model."""
        move(self._model, device)

    def encode(self, audio: "Tensor", lengths: "Tensor", precision: Precision) -> "tuple[Tensor, Tensor]":
        """Return codes (B, C, F) and frames (B,) of audio (B, T); see the protocol.

        Where `lengths` is on the CPU nothing waits for the device, and `frames` is on the CPU as well.
        """
        import torch

        use_tf32() if precision == "tf32" and audio.is_cuda else use_full_float32()
        with torch.inference_mode():
            if self._encoder is None:
                return self._encode_by_nemo(audio, to_device(lengths, str(audio.device)), precision)
            frames = -(-lengths // self.samples_per_frame)
            num_frames = -(-audio.shape[1] // self.samples_per_frame)
            whole = num_frames * self.samples_per_frame
            audio = torch.nn.functional.pad(audio, (0, whole - audio.shape[1]))
            is_full = bool((frames == num_frames).all())
            rows = Rows(None if is_full else to_device(frames * self.samples_per_frame, str(audio.device)))
            with computing_in(precision, str(audio.device)):
                encoded = self._encoder(audio, rows)
            return self._quantized(encoded, frames), frames

    def _quantized(self, encoded: "Tensor", frames: "Tensor") -> "Tensor":
        """Codes (B, C, F) of what the encoder returns: in float32, because bfloat16 cannot hold an index."""
        if self._quantizer is not None:
            return self._quantizer(encoded.float())
        codes: Tensor = self._model.quantize(
            encoded=encoded.float(), encoded_len=to_device(frames, str(encoded.device))
        )
        return codes

    def _encode_by_nemo(self, audio: "Tensor", lengths: "Tensor", precision: Precision) -> "tuple[Tensor, Tensor]":

        with computing_in(precision, str(audio.device)):
            encoded, frames = self._model.encode_audio(audio=audio, audio_len=lengths)
        return self._model.quantize(encoded=encoded.float(), encoded_len=frames), frames
