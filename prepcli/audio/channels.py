"""Audio with several channels: the option that chooses a channel or the mean, and a note on channels that are kept."""

from typing import TYPE_CHECKING, Any, Final, Literal

from prepcli.audio.limits import MAX_CHANNELS
from prepcli.errors import UsageError, option

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MIX: Final = "mix"
"""The value of `--channel` for the mean of all channels."""
Channel = int | Literal["mix"]
"""A channel of audio, counted from 0, or the mean of all."""


def chosen_channel(text: str | None) -> Channel | None:
    """Return the value of `--channel`; None if it is not given.

    Raises:
        UsageError: it is neither the number of a channel nor `mix`.
    """
    if text is None:
        return None
    if text == MIX:
        return MIX
    if text.isascii() and text.isdecimal() and int(text) < MAX_CHANNELS:
        return int(text)
    raise UsageError(f"{option('--channel', text)} must be {MIX}, or the number of a channel, counted from 0")


def mean_of_channels(samples: "NDArray[Any]") -> "NDArray[Any]":
    """Return the mean of all channels, shape (n, 1): int32 if the samples are int32, else float32 with full scale 1."""
    import numpy as np

    from prepcli.audio.encode import to_float32

    mean: NDArray[Any] = samples.mean(axis=1, keepdims=True, dtype=np.float64)
    if samples.dtype == np.int32:
        whole: NDArray[Any] = np.rint(mean).astype(np.int32)
        return whole
    return to_float32(mean / 32768 if samples.dtype == np.int16 else mean)


def mono(samples: "NDArray[Any]") -> "NDArray[np.float32]":
    """Return the mean of all channels of samples (n, channels), shape (n,), as float32 with full scale 1."""
    from prepcli.audio.encode import to_float32

    return to_float32(samples if samples.shape[1] == 1 else mean_of_channels(samples))[:, 0]


SEVERAL_CHANNELS = "several_channels"
"""Name under which units count audio that is stored with several channels."""


def channels_note(count: float, what: str) -> dict[str, str]:
    """Return a note for the summary: a dict with one text, which says that `count` items have several channels.

    `what` is the noun for the items, such as "records". The dict is empty if `count` is 0.
    """
    if not count:
        return {}
    advice = f"for mono give {option('--channel')}, a number or {MIX}"
    return {"channels": f"{count:,.0f} {what} have several channels, all of which are kept; {advice}"}
