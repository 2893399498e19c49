"""Limits for the values in headers, checked before memory is allocated; the samples of a segment within a file.

Damaged and hostile headers have rates of gigahertz and lengths of centuries.
"""

from math import inf

from prepcli.audio.info import AudioInfo, unreadable
from prepcli.errors import RecordRejected, RejectReason, UsageError, option
from prepcli.gate import EXACT, ROUNDING

MIN_SAMPLING_RATE, MAX_SAMPLING_RATE = 1_000, 768_000
"""Limits of sampling rates (Hz), for files and options. Together they limit the ratio of any resampling."""
MAX_CHANNELS = 1024
"""The limit of libsndfile (SF_MAX_CHANNELS), the library with which trainers read audio."""
MAX_SAMPLES_PER_BYTE = 8192
"""Maximum number of samples per channel and byte of a file. The densest audio is silence in FLAC: 65,535 samples in a
frame of 11 bytes."""
SAME_SECONDS = 0.02
"""Maximum difference of two times that count as equal: the program that wrote the manifest may have rounded them."""
MAX_FLOAT = 2.0**31
"""Maximum absolute value of a floating-point sample. Most files have values in [-1, 1), and some have the range of
integers. A larger value means that the file is damaged."""


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


def check_target_rate(rate: int | None, flag: str = "--target-sample-rate") -> None:
    """Check the target sampling rate (Hz) of an option; None means the rate of each file.

    Raises:
        UsageError: the rate is outside the limits.
    """
    if rate is not None and not MIN_SAMPLING_RATE <= rate <= MAX_SAMPLING_RATE:
        raise UsageError(
            f"{option(flag, rate)} is not a sampling rate in Hz; "
            f"give one from {MIN_SAMPLING_RATE} to {MAX_SAMPLING_RATE}"
        )


def segment_samples(
    info: AudioInfo, offset: float, duration: float | None, same_seconds: float = SAME_SECONDS
) -> tuple[int, int]:
    """Return the range of samples of the segment that starts at `offset` seconds in a file.

    Seconds become samples by rounding half up, as in `lhotse.utils.compute_num_samples`. A segment that ends after its
    file by at most `prepcli.gate.ROUNDING` or one sample ends with the file.

    Args:
        info: the properties of the file.
        offset: seconds.
        duration: seconds; None: to the end of the file.
        same_seconds: the maximum seconds by which a segment from the start of the file may end after it: its duration
            may be that of the file, which was rounded or measured by another program.

    Returns:
        The first sample and the number of samples.

    Raises:
        RecordRejected: BEYOND_AUDIO for a segment that ends later, or starts at or after the end; BAD_OFFSET and
            BAD_DURATION for numbers that are not a segment.
    """
    rate, total = info.sampling_rate, info.num_samples
    if not 0 <= offset < inf:
        raise RecordRejected(RejectReason.BAD_OFFSET, f"offset {offset} s is not a position in the audio")
    start = info.samples_in(offset)
    if start >= total:
        raise RecordRejected(
            RejectReason.BEYOND_AUDIO,
            f"offset {offset:.10g} s is not before the end of the audio ({info.duration:.3f} s)",
        )
    if duration is None:
        return start, total - start
    if not 0 < duration < inf:
        raise RecordRejected(RejectReason.BAD_DURATION, f"duration {duration} s is not a length")
    length = info.samples_in(duration)
    excess = start + length - total
    if excess > 0:
        most = max(ROUNDING if offset else same_seconds, 1 / rate)
        if offset + duration - info.duration > most + EXACT:  # a smaller excess is cut off at the end of the file
            raise RecordRejected(
                RejectReason.BEYOND_AUDIO,
                f"offset {offset:.10g} s + duration {duration:.10g} s ends {excess / rate:.3f} s "
                f"after the end of the audio ({info.duration:.3f} s)",
            )
        length = total - start
    if not length:
        raise RecordRejected(
            RejectReason.BAD_DURATION, f"duration {duration:.10g} s is less than half a sample at {rate} Hz"
        )
    return start, length
