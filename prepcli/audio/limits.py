"""What an audio file may claim to hold: checked before memory is taken, in this one place.

A header is a claim. Damaged and hostile ones name rates of gigahertz and lengths of centuries.
"""

from prepcli.audio.info import AudioInfo, unreadable
from prepcli.errors import UsageError

MIN_SAMPLING_RATE, MAX_SAMPLING_RATE = 1_000, 768_000
"""Hz, of files and of options. Together they bound every resampling ratio."""
MAX_CHANNELS = 1024
"""libsndfile's own limit (SF_MAX_CHANNELS): trainers could not read more."""
MAX_SAMPLES_PER_BYTE = 8192
"""Per channel. Nothing is denser than silence in FLAC: 65,535 samples in a frame of 11 bytes."""
SAME_SECONDS = 0.02
"""Times that differ by at most this much may be the same: whoever wrote the manifest may have rounded one of them."""
MAX_FLOAT = 2.0**31
"""Floating-point audio lies in [-1, 1); some files have the range of integers instead. What is beyond is damage."""


def check_claims(info: AudioInfo, size: int, name: str) -> AudioInfo:
    """Return `info` of a file of `size` bytes; raise `RecordRejected(UNREADABLE_AUDIO)` where it cannot be true."""
    if not MIN_SAMPLING_RATE <= info.sampling_rate <= MAX_SAMPLING_RATE:
        unreadable(
            name,
            f"has a sampling rate of {info.sampling_rate} Hz; it must be {MIN_SAMPLING_RATE} to {MAX_SAMPLING_RATE} Hz",
        )
    if not 1 <= info.num_channels <= MAX_CHANNELS:
        unreadable(name, f"has {info.num_channels} channels; it must have 1 to {MAX_CHANNELS}")
    if info.num_samples > size * MAX_SAMPLES_PER_BYTE:
        unreadable(name, f"is damaged: its header promises {info.num_samples} samples, too many for {size} bytes")
    return info


def check_target_rate(rate: int | None) -> None:
    """Raise `UsageError` where a rate that the user asks for (Hz; None: as the files are) is not a sampling rate."""
    if rate is not None and not MIN_SAMPLING_RATE <= rate <= MAX_SAMPLING_RATE:
        raise UsageError(
            f"--target-sample-rate {rate} is not a sampling rate in Hz; "
            f"give one from {MIN_SAMPLING_RATE} to {MAX_SAMPLING_RATE}"
        )
