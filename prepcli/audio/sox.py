"""Audio that libsndfile can't open: through the `sox` binary, and shorten-compressed SPHERE through its decoders."""

import re
import shutil

from prepcli.audio import shorten
from prepcli.audio.containers import Sphere
from prepcli.audio.external import STDIN, run_tool
from prepcli.audio.info import NOT_PASSABLE, AudioInfo, unreadable
from prepcli.audio.source import Source

_SOXI_FIELDS = re.compile(rb"^(Channels|Sample Rate|Precision|Duration) *: *(.*)$", re.MULTILINE)
_SAMPLES = re.compile(rb"= (\d+) samples")


def probe(source: Source, name: str, reason: str) -> AudioInfo:
    """Return what sox (or a decoder of shorten) makes of a file; it is decoded once to count its samples.

    `reason` is what libsndfile had against it. Raises `RecordRejected(UNREADABLE_AUDIO)` where no tool can read it.
    """
    sphere = shorten.shortened_sphere(source)
    if sphere is not None:
        return _probe_shorten(source, sphere, name)
    sox = shutil.which("sox")
    if sox is None:
        unreadable(
            name, f"is not audio that libsndfile can read ({reason}); to try sox, install the Debian package sox"
        )
    status, output, _ = run_tool([sox, "--info", "-V1", STDIN], source)
    fields = dict(_SOXI_FIELDS.findall(output))
    try:
        rate, channels = int(fields[b"Sample Rate"]), int(fields[b"Channels"])
        precision = int(fields[b"Precision"].partition(b"-")[0])
    except (KeyError, ValueError):
        status = 1
    if status:
        unreadable(name, f"is not audio that libsndfile or sox can read ({reason})")
    subtype = "PCM_16" if precision <= 16 else "PCM_24" if precision <= 24 else "PCM_32"
    samples = len(_decode_with_sox(sox, source, subtype, name)) // (_width(subtype) * channels)
    promised = _SAMPLES.search(fields.get(b"Duration", b""))
    if promised and int(promised[1]) > samples:
        unreadable(name, _short(int(promised[1]), samples))
    if not samples:
        unreadable(name, "holds no samples")
    return AudioInfo(NOT_PASSABLE, subtype, rate, samples, channels, None)


def decode(source: Source, info: AudioInfo, name: str) -> bytes:
    """Return all samples, interleaved, little-endian: int16 where `info.subtype` is PCM_16, int32 otherwise.

    Raises `RecordRejected(UNREADABLE_AUDIO)` where the tool is gone or fails.
    """
    sphere = shorten.shortened_sphere(source)
    if sphere is not None:
        return shorten.decode(source, sphere, name)
    sox = shutil.which("sox")
    if sox is None:
        unreadable(name, "can only be read by sox: install the Debian package sox")
    return _decode_with_sox(sox, source, info.subtype, name)


def _probe_shorten(source: Source, sphere: Sphere, name: str) -> AudioInfo:
    samples = len(shorten.decode(source, sphere, name)) // (2 * sphere.num_channels)
    return AudioInfo(NOT_PASSABLE, "PCM_16", sphere.sampling_rate, samples, sphere.num_channels, None)


def _decode_with_sox(sox: str, source: Source, subtype: str, name: str) -> bytes:
    # -D: no dither, which sox would draw at random.
    bits = str(8 * _width(subtype))
    command = [sox, "-V1", "-D", STDIN, "-t", "raw", "-e", "signed-integer", "-b", bits, "-L", "-"]
    status, samples, message = run_tool(command, source)
    if status:
        unreadable(name, f"can't be decoded by sox ({message})")
    return samples


def _width(subtype: str) -> int:
    return 2 if subtype == "PCM_16" else 4


def _short(promised: int, found: int) -> str:
    return f"ends early: the header promises {promised} samples, the file holds {found}"
