"""What a job asks of a model."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from prepcli.manifest.parts import Ints


class SpeakerEncoder(Protocol):
    """Turns utterances into vectors that lie close together for one voice.

    Attributes:
        sampling_rate: Hz.
        min_samples: the shortest input that gives an embedding; shorter audio has none.
        dim: length of an embedding.
    """

    sampling_rate: int
    min_samples: int
    dim: int

    def places(self, num_samples: "Ints") -> "Ints":
        """For utterances of so many samples, the lengths to which they are zero-padded: each its own place on a grid.

        An embedding may depend on this padding, so it must follow from the utterance alone. Batches hold utterances of
        one place, and so no embedding depends on its batch-mates.
        """

    def to(self, device: str) -> None:
        """Move the model to `cpu` or `cuda:N`."""

    def embed(self, audio: "Tensor", lengths: "Tensor") -> "Tensor":
        """Embeddings (B, dim), float32 and of length 1, of audio (B, T), float32 in [-1, 1), on the model's device.

        `lengths` (B,) says how many samples of each row are audio; T is the rows' place. Audio that has no embedding
        (digital silence, for some models) gives NaN.
        """
