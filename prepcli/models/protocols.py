"""The interfaces of the models that jobs use."""

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from prepcli.manifest.parts import Ints

Precision = Literal["fp32", "tf32", "bf16"]
"""The precision of a computation.

"fp32" is float32. "tf32" is float32 with products in TF32, on GPUs that support it. With "bf16", all layers before the
quantizer compute in bfloat16.
"""


class SpeakerEncoder(Protocol):
    """Turns utterances into vectors that are similar for the same voice.

    Attributes:
        sampling_rate: Hz.
        min_samples: the minimum length of an input.
        dim: length of an embedding.
        rows_on_cpu: rows per call on a CPU; None: the whole batch. Embeddings must not depend on the batch, not even
            by rounding.
    """

    sampling_rate: int
    min_samples: int
    dim: int
    rows_on_cpu: int | None

    def padded_lengths(self, num_samples: "Ints") -> "Ints":
        """Return the lengths to which utterances of `num_samples` samples are zero-padded.

        Utterances of similar length are padded to the same length.

        An embedding may depend on this padding, so the padded length depends on the utterance alone. All utterances of
        a batch have the same padded length, so no embedding depends on other utterances.
        """

    def to(self, device: str) -> None:
        """Move the model to `cpu` or `cuda:N`."""

    def embed(self, audio: "Tensor", lengths: "Tensor") -> "Tensor":
        """Return embeddings of audio; may be called from several threads at once.

        Args:
            audio: (B, T), float32 in [-1, 1), on the model's device; T is the padded length of the rows.
            lengths: (B,), samples of each row that are audio.

        Returns:
            (B, dim), float32, each with the norm 1; NaN for audio without an embedding (digital silence, for some
            models).
        """


class Codec(Protocol):
    """Turns audio into codes: for each frame one index into each of several codebooks.

    Attributes:
        sampling_rate: Hz.
        samples_per_frame: audio is zero-padded to a multiple of this number; each frame gives one code per codebook.
        codebook_size: codes are smaller than this number.
        num_codebooks: codes of each frame.
        min_frames: shorter audio cannot be encoded (the layers of many codecs reflect a few frames at the end).
        values_per_sample: values of its widest layer for each sample of audio (`prepcli.models.widths`).
        rows_on_cpu: maximum rows per batch on a CPU; None: any number. The codes must not depend on the number of rows,
            not even by rounding.
    """

    sampling_rate: int
    samples_per_frame: int
    codebook_size: int
    num_codebooks: int
    min_frames: int
    values_per_sample: float
    rows_on_cpu: int | None

    def to(self, device: str) -> None:
        """Move the model to `cpu` or `cuda:N`."""

    def encode(self, audio: "Tensor", lengths: "Tensor", precision: Precision) -> "tuple[Tensor, Tensor]":
        """Return codes of audio; may be called from several threads at once.

        If all rows have the same number of frames, a row has the codes of its audio alone, apart from rounding. In a
        batch of mixed lengths the codes may differ. If the codec has an attribute `mixes_lengths` that is true, they do
        not differ, and T may be greater than all lengths.

        Args:
            audio: (B, T), float32 in [-1, 1), on the model's device.
            lengths: (B,), samples of each row that are audio; on the model's device, or on the CPU if the codec
                `mixes_lengths`.
            precision: the precision of the computation.

        Returns:
            Codes (B, C, F), and the number of frames (B,) of each row.
        """
