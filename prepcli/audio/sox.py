"""Audio that libsndfile cannot open: sox converts it to WAV; SPHERE compressed with shorten has its own decoders.

The package `sox` runs the program `sox`. The program gets a temporary copy, whose name it cannot mistake for an option,
a pattern, a pipe (sox runs "|command") or a playlist. The name has no extension, so sox judges the file by its content.
"""

import io
import logging
import shutil
import tempfile
from pathlib import Path
from types import ModuleType

from prepcli.audio import riff, shorten
from prepcli.audio.containers import Sphere
from prepcli.audio.info import NOT_PASSABLE, AudioInfo, unreadable
from prepcli.audio.source import ByteSource, Source
from prepcli.formats.audio_names import headerless_advice
from prepcli.interface.calls import log_less


def probe(source: Source, name: str, reason: str) -> AudioInfo:
    """Return the properties of a file, which is decoded once to count its samples; `reason` is libsndfile's message.

    Raises:
        RecordRejected: UNREADABLE_AUDIO if no program can read the file.
    """
    sphere = shorten.shortened_sphere(source)
    if sphere is not None:
        return _probe_shorten(source, sphere, name)
    sox = _sox()
    advice = headerless_advice(name)
    if sox is None:
        advice = advice or "to try sox, install the Debian package sox"
        unreadable(name, f"is not audio that libsndfile can read ({reason}); {advice}")
    with tempfile.TemporaryDirectory(prefix="prepcli-") as folder:
        copy = Path(folder) / "audio"
        copy.write_bytes(source.everything())
        try:
            promised = sox.file_info.num_samples(copy) or 0
        except (sox.core.SoxiError, ValueError):
            what_to_do = f"; its name is that of audio without a header: {advice}" if advice else ""
            unreadable(name, f"is not audio that libsndfile or sox can read ({reason}){what_to_do}")
        wav = _to_wav(sox, copy, name)
    info = riff.parse(wav, ByteSource(wav), name)
    if info is None or not info.num_samples:
        unreadable(name, "holds no samples")
    if promised > info.num_samples:
        unreadable(name, f"ends early: the header promises {promised} samples, the file holds {info.num_samples}")
    return AudioInfo(NOT_PASSABLE, info.subtype, info.sampling_rate, info.num_samples, info.num_channels, None)


def decode(source: Source, info: AudioInfo, name: str) -> bytes:
    """Return all samples, interleaved, little-endian: int16 if `info.subtype` is PCM_16, int32 otherwise.

    Raises:
        RecordRejected: UNREADABLE_AUDIO if the program is not installed or fails.
    """
    import soundfile

    sphere = shorten.shortened_sphere(source)
    if sphere is not None:
        return shorten.decode(source, sphere, name)
    sox = _sox()
    if sox is None:
        unreadable(name, "can only be read by sox: install the Debian package sox")
    with tempfile.TemporaryDirectory(prefix="prepcli-") as folder:
        copy = Path(folder) / "audio"
        copy.write_bytes(source.everything())
        wav = _to_wav(sox, copy, name)
    samples, _ = soundfile.read(io.BytesIO(wav), dtype="int16" if info.subtype == "PCM_16" else "int32")
    return bytes(samples.tobytes())


def _probe_shorten(source: Source, sphere: Sphere, name: str) -> AudioInfo:
    samples = len(shorten.decode(source, sphere, name)) // (2 * sphere.num_channels)
    return AudioInfo(NOT_PASSABLE, "PCM_16", sphere.sampling_rate, samples, sphere.num_channels, None)


def _sox() -> ModuleType | None:
    """Return the package `sox`; None if the program `sox` is not installed."""
    if shutil.which("sox") is None:
        return None
    import sox

    # The package warns of names without an extension and of unknown lengths; only the reason of the reject matters.
    log_less("sox", logging.CRITICAL + 1)
    return sox  # type: ignore[no-any-return]


def _to_wav(sox: ModuleType, path: Path, name: str) -> bytes:
    """Return the file as WAV with integer samples; sox takes the number of bits from the file."""
    transformer = sox.Transformer()
    # Without dither, which is random in sox.
    transformer.set_globals(dither=False, verbosity=1)
    transformer.set_output_format(file_type="wav", encoding="signed-integer")
    target = path.with_name("wav")
    try:
        transformer.build_file(path, target)
    except (sox.SoxError, sox.SoxiError, ValueError) as error:
        stderr = str(error).rpartition("Stderr: ")[2].strip()
        complaint = stderr.splitlines()[0] if stderr else "no reason given"
        # Errors of the machine, not of the record: sox cannot be started, or the disk is full.
        if stderr == "None" or "No space left" in stderr:
            raise OSError(f"sox cannot be run on {name}: {complaint}") from None
        unreadable(name, f"can't be decoded by sox ({complaint})")
    return target.read_bytes()
