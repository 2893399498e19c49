"""The duration of encoded audio, for commands that rarely need it.

The modules that read audio are imported only when `seconds_of` is called, so these commands start faster.
"""


def seconds_of(data: bytes, name: str) -> float:
    """Return the duration in seconds of an encoded audio file in memory; raises as `prepcli.audio.probe.probe`."""
    from prepcli.audio.probe import probe_bytes

    return probe_bytes(data, name).duration
