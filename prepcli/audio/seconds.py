"""The duration of encoded audio, for commands that rarely need it: importing the readers would slow their start."""


def seconds_of(data: bytes, name: str) -> float:
    """Return the duration in seconds of an encoded audio file in memory.

    Args:
        data: the encoded file.
        name: for messages.

    Raises:
        RecordRejected: UNREADABLE_AUDIO for a file that cannot be read or is truncated.
    """
    from prepcli.audio.probe import probe_bytes

    return probe_bytes(data, name).duration
