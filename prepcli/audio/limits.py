"""Limits for the values in headers, checked before memory is allocated.

Damaged and hostile headers have rates of gigahertz and lengths of centuries.
"""

from prepcli.audio.info import AudioInfo, unreadable
from prepcli.errors import UsageError, option

MIN_SAMPLING_RATE, MAX_SAMPLING_RATE = 1_000, 768_000
"""Limits of sampling rates (Hz), for files and options. Together they limit the ratio of any resampling."""
MAX_CHANNELS = 1024
"""The limit of libsndfile (SF_MAX_CHANNELS), the library with which trainers read audio."""
MAX_SAMPLES_PER_BYTE = 8192
"""Maximum number of samples per channel and byte of a file. The densest audio is silence in FLAC: 65,535 samples in a
frame of 11 bytes."""
SAME_SECONDS = 0.02
"""Maximum difference of times that may be equal: the program that wrote the manifest may have rounded."""
MAX_FLOAT = 2.0**31
"""Maximum of floating-point samples, which are in [-1, 1), or in some files in the range of integers. Larger ones are
damage."""


def check_claims(info: AudioInfo, size: int, name: str) -> AudioInfo:
    """Check the properties in a header against the size of the file in bytes; returns `info`.

    Raises:
        RecordRejected: UNREADABLE_AUDIO if a value is impossible.
    """
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
    """Check a target sampling rate in Hz; None means the rate of each file.

    Raises:
        UsageError: the rate is outside the limits.
    """
    if rate is not None and not MIN_SAMPLING_RATE <= rate <= MAX_SAMPLING_RATE:
        raise UsageError(
            f"{option('--target-sample-rate', rate)} is not a sampling rate in Hz; "
            f"give one from {MIN_SAMPLING_RATE} to {MAX_SAMPLING_RATE}"
        )
