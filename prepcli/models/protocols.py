"""What a job asks of a model."""

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from prepcli.manifest.parts import Ints

Precision = Literal["fp32", "tf32", "bf16"]
"""float32 throughout; float32 whose products are rounded to TF32 on GPUs that have it; bfloat16 up to the quantizer."""


class SpeakerEncoder(Protocol):
    """Turns utterances into vectors that lie close together for one voice.

    Attributes:
        sampling_rate: Hz.
        min_samples: the shortest input that gives an embedding; shorter audio has none.
        dim: length of an embedding.
        rows_on_cpu: of how many rows a batch may be on a processor, None: of any number. Rounding must not show it.
    """

    sampling_rate: int
    min_samples: int
    dim: int
    rows_on_cpu: int | None

    def padded_lengths(self, num_samples: "Ints") -> "Ints":
        """For utterances of so many samples, the lengths to which they are zero-padded: each its own place on a grid.

        An embedding may depend on this padding, so it must follow from the utterance alone. Batches hold utterances of
        one place, and so no embedding depends on its batch-mates.
        """

    def to(self, device: str) -> None:
        """Move the model to `cpu` or `cuda:N`."""

    def embed(self, audio: "Tensor", lengths: "Tensor") -> "Tensor":
        """Embeddings (B, dim), float32 and of length 1, of audio (B, T), float32 in [-1, 1), on the model's device.

        `lengths` (B,) says how many samples of each row are audio; T is the rows' place. Audio that has no embedding
        (digital silence, for some models) gives NaN. May be called from several threads at once.
        """


class Codec(Protocol):
    """Turns audio into codes: for each frame one index into each of several codebooks.

    Attributes:
        sampling_rate: Hz.
        samples_per_frame: audio is zero-padded to a multiple of it; each of these frames gives one code a codebook.
        codebook_size: codes are below it.
        min_frames: shorter audio cannot be encoded (the layers of many codecs reflect a few frames at the end).
        rows_on_cpu: of how many rows a batch may be on a processor, None: of any number. Rounding must not show it.
    """

    sampling_rate: int
    samples_per_frame: int
    codebook_size: int
    min_frames: int
    rows_on_cpu: int | None

    def to(self, device: str) -> None:
        """Move the model to `cpu` or `cuda:N`."""

    def encode(self, audio: "Tensor", lengths: "Tensor", precision: Precision) -> "tuple[Tensor, Tensor]":
        """Codes (B, C, F) and how many frames (B,) of each row count, of audio (B, T), float32 on the model's device.

        `lengths` (B,) says how many samples of each row are audio. Where all rows have equally many frames, a row's
        codes are those of its audio alone, but for float rounding; in a batch of mixed lengths they may not be. May be
        called from several threads at once.
        """
