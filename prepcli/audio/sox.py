"""Audio that libsndfile can't open: through the `sox` binary, and shorten-compressed SPHERE through `ffmpeg`.

Both get the file as their standard input, opened here, and the name /dev/stdin. So no name can be taken for an
option, a pattern, a pipe (sox runs "|command") or a playlist, and what counts is the content, not the extension.
"""

import os
import re
import shutil
import subprocess
from typing import IO

from prepcli.audio.containers import Sphere, sphere_header
from prepcli.audio.info import NOT_PASSABLE, AudioInfo, unreadable
from prepcli.audio.source import Source

_SOXI_FIELDS = re.compile(rb"^(Channels|Sample Rate|Precision|Duration) *: *(.*)$", re.MULTILINE)
_SAMPLES = re.compile(rb"= (\d+) samples")
_STDIN = "/dev/stdin"
# The header of SPHERE is nearly always 1024 bytes; the field of interest stands near its start.
_SPHERE_BYTES = 4096


def probe(source: Source, name: str, reason: str) -> AudioInfo:
    """Return what sox (or, for shorten, ffmpeg) makes of a file; it is decoded once to count its samples.

    `reason` is what libsndfile had against it. Raises `RecordRejected(UNREADABLE_AUDIO)` where no tool can read it.
    """
    sphere = shortened_sphere(source)
    if sphere is not None:
        return _probe_shorten(source, sphere, name)
    sox = shutil.which("sox")
    if sox is None:
        unreadable(
            name, f"is not audio that libsndfile can read ({reason}); to try sox, install the Debian package sox"
        )
    status, output, _ = _run([sox, "--info", "-V1", _STDIN], source)
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
    sphere = shortened_sphere(source)
    if sphere is not None:
        return _decode_shorten(source, name)
    sox = shutil.which("sox")
    if sox is None:
        unreadable(name, "can only be read by sox: install the Debian package sox")
    return _decode_with_sox(sox, source, info.subtype, name)


def shortened_sphere(source: Source) -> Sphere | None:
    """Return the header of a SPHERE file whose samples are compressed with shorten, None for anything else."""
    head = source.read(0, _SPHERE_BYTES)
    if head[:7] != b"NIST_1A":
        return None
    sphere = sphere_header(head)
    return sphere if sphere is not None and "shorten" in sphere.coding else None


def _probe_shorten(source: Source, sphere: Sphere, name: str) -> AudioInfo:
    samples = len(_decode_shorten(source, name)) // (2 * sphere.num_channels)
    if samples < sphere.num_samples:
        unreadable(name, _short(sphere.num_samples, samples))
    return AudioInfo(NOT_PASSABLE, "PCM_16", sphere.sampling_rate, samples, sphere.num_channels, None)


def _decode_shorten(source: Source, name: str) -> bytes:
    ffmpeg = shutil.which("ffmpeg")
    if ffmpeg is None:
        unreadable(
            name,
            "is SPHERE compressed with shorten: install the Debian package ffmpeg, or convert it with sph2pipe",
        )
    command = [ffmpeg, "-v", "error", "-f", "nistsphere", "-i", _STDIN, "-f", "s16le", "-c:a", "pcm_s16le", "-"]
    status, samples, _ = _run(command, source)
    if status or not samples:
        unreadable(name, "is SPHERE compressed with shorten that ffmpeg can't decode: convert it with sph2pipe")
    return samples


def _decode_with_sox(sox: str, source: Source, subtype: str, name: str) -> bytes:
    # -D: no dither, which sox would draw at random.
    bits = str(8 * _width(subtype))
    command = [sox, "-V1", "-D", _STDIN, "-t", "raw", "-e", "signed-integer", "-b", bits, "-L", "-"]
    status, samples, message = _run(command, source)
    if status:
        unreadable(name, f"can't be decoded by sox ({message})")
    return samples


def _width(subtype: str) -> int:
    return 2 if subtype == "PCM_16" else 4


def _short(promised: int, found: int) -> str:
    return f"ends early: the header promises {promised} samples, the file holds {found}"


def _run(command: list[str], source: Source) -> tuple[int, bytes, str]:
    """Run a tool on the audio; return its status, its output, and the first line of what it complained of."""
    stdin: IO[bytes] | int = source.for_process()
    try:
        # The C locale, for soxi's output is parsed.
        done = subprocess.run(command, stdin=stdin, capture_output=True, check=False, env={**os.environ, "LC_ALL": "C"})
    finally:
        if not isinstance(stdin, int):
            stdin.close()
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return done.returncode, done.stdout, lines[0] if lines else f"status {done.returncode}"
