"""SPHERE files whose samples are compressed with shorten, as the LDC ships some of its telephone speech.

`sph2pipe` (the LDC's own tool) decodes all of them. ffmpeg decodes 16-bit PCM, but not mu-law.
"""

import os
import shutil
from pathlib import Path

from prepcli.audio import riff
from prepcli.audio.containers import Sphere, sphere_header
from prepcli.audio.external import STDIN, run_tool
from prepcli.audio.info import unreadable
from prepcli.audio.source import ByteSource, Source

# A SPHERE header nearly always has 1024 bytes.
_SPHERE_BYTES = 4096
# The folder of `lhotse install-sph2pipe` (lhotse/tools/sph2pipe.py).
_LHOTSE_TOOLS = "~/.lhotse/tools/sph2pipe-2.5"


def shortened_sphere(source: Source) -> Sphere | None:
    """Return the header of a SPHERE file that is compressed with shorten, None for any other file."""
    head = source.read(0, _SPHERE_BYTES)
    if head[:7] != b"NIST_1A":
        return None
    sphere = sphere_header(head)
    return sphere if sphere is not None and "shorten" in sphere.coding else None


def decoder(coding: str) -> list[str] | None:
    """Return the command that decodes SPHERE files whose `sample_coding` is `coding`; None if none is installed."""
    # Without a home directory, "~" stays in the path: a program in a local folder named "~" must not be run.
    lhotse = os.path.expanduser(_LHOTSE_TOOLS)
    folders = [os.environ.get("PATH", os.defpath), *([lhotse] if os.path.isabs(lhotse) else [])]
    sph2pipe = shutil.which("sph2pipe", path=os.pathsep.join(folders))
    if sph2pipe is not None:
        return [sph2pipe, "-p", "-f", "wav", STDIN]
    ffmpeg = shutil.which("ffmpeg")
    if ffmpeg is not None and coding.startswith("pcm"):
        return [ffmpeg, "-v", "error", "-f", "nistsphere", "-i", STDIN, "-f", "wav", "-c:a", "pcm_s16le", "-"]
    return None


def how_to_decode(coding: str) -> str:
    """Return advice for a message: the programs to install for SPHERE files whose `sample_coding` is `coding`."""
    sph2pipe = "sph2pipe (`lhotse install-sph2pipe` builds it, or any sph2pipe on the PATH)"
    return f"install {'the Debian package ffmpeg, or ' if coding.startswith('pcm') else ''}{sph2pipe}"


def decode(source: Source, sphere: Sphere, name: str) -> bytes:
    """Return all samples, interleaved, as little-endian int16.

    Raises:
        RecordRejected: UNREADABLE_AUDIO if no decoder is installed, it fails, or samples are missing.
    """
    command = decoder(sphere.coding)
    if command is None:
        unreadable(name, f"is SPHERE compressed with shorten ({sphere.coding}): {how_to_decode(sphere.coding)}")
    status, wav, message = run_tool(command, source)
    decoded = ByteSource(wav)
    info = None if status else riff.parse(wav, decoded, name)
    if info is None or info.data_offset is None or info.num_channels != sphere.num_channels:
        unreadable(name, f"is SPHERE compressed with shorten that {Path(command[0]).name} can't decode ({message})")
    if info.num_samples < sphere.num_samples:
        unreadable(
            name, f"ends early: the header promises {sphere.num_samples} samples, the file holds {info.num_samples}"
        )
    return wav[info.data_offset : info.data_offset + 2 * info.num_samples * info.num_channels]
