"""Audio that ffmpeg or PyAV decodes, if installed: AAC, MP4, WebM, WMA, AMR, raw GSM, and Speex in Ogg.

A playlist names other files, and ffmpeg would open them, also from network addresses. So ffmpeg gets only the bytes of
the audio on its standard input: this module selects the demuxer by the content of the file, and allows only the
protocol `pipe`. A file without the signature of one of `FORMATS` is never passed to ffmpeg.
"""

import os
import re
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from shlex import quote
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from prepcli.audio import mpeg, pyav, riff
from prepcli.audio.codecs import codec_of
from prepcli.audio.containers import MP4_BOXES, boxes
from prepcli.audio.external import run_tool
from prepcli.audio.info import FFMPEG, AudioInfo, unreadable
from prepcli.audio.source import ByteSource, FileSource, Source, identity
from prepcli.errors import RecordRejected, naming
from prepcli.processes.notes import note
from prepcli.storage.input_files import read_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

SOME_AUDIO = "some audio (AAC, MP4, WMA and the like) is of formats that trainers may not read; in shards it is FLAC"
THROUGH_FFMPEG = (
    "some audio is read through ffmpeg, a process for each file; for AAC, MP4 and WMA "
    "`pip install 'prepcli[av]'` avoids that"
)
BY_PYAV = (
    "some audio is decoded by PyAV, whose FFmpeg is not that of the system: for the same bytes have it on all nodes "
    "or on none"
)
INSTALL = "ffmpeg reads it: install the Debian package ffmpeg"
_MAX_FRAME = 8192  # maximum bytes of an AAC frame, and of ffmpeg's header
_GSM_FRAME = 33
_MACHINES_FAULT = re.compile(r"No space left|Cannot allocate memory|Disk quota exceeded")


def _is_adts(head: bytes) -> bool:
    """Return whether `head` begins with a frame of AAC and, if `head` is long enough, another one follows."""
    if not _begins_frame(head):
        return False
    length = (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5
    return length >= 7 and (len(head) < length + 7 or _begins_frame(head[length:]))


def _begins_frame(data: bytes) -> bool:
    """Return whether `data` begins with a frame header of AAC: 12 bits are set and the layer is 0, unlike in MP3."""
    return len(data) >= 7 and data[0] == 0xFF and data[1] & 0xF6 == 0xF0


def _is_gsm(data: bytes) -> bool:
    """Return whether there are at least two frames of 33 bytes, and each begins with the bits 1101."""
    return len(data) >= 2 * _GSM_FRAME and all(byte >> 4 == 0xD for byte in data[::_GSM_FRAME])


class Format(NamedTuple):
    """A format: its name, ffmpeg's demuxer, and a function that recognizes it by the first bytes of a file."""

    name: str
    demuxer: str
    begins: Callable[[bytes], bool]


FORMATS = (
    Format("MP4", "mov", lambda head: head[4:8] in MP4_BOXES),
    Format("AAC", "aac", _is_adts),
    Format("WMA", "asf", lambda head: head[:16] == bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")),
    Format("WebM", "matroska", lambda head: head[:4] == b"\x1a\x45\xdf\xa3"),
    Format("AMR", "amr", lambda head: head[:5] == b"#!AMR"),
    Format("GSM", "gsm", _is_gsm),
    Format("Speex", "ogg", lambda head: head[:4] == b"OggS" and head[28:36] == b"Speex   "),
    Format("AAC in CAF", "caf", lambda head: head[:4] == b"caff" and head[28:32] == b"aac "),
    Format("MPEG-TS", "mpegts", lambda head: len(head) > 2 * 188 and head[: 3 * 188 : 188] == b"\x47\x47\x47"),
    Format("AVI", "avi", lambda head: head[:4] == b"RIFF" and head[8:12] == b"AVI "),
    Format("FLV", "flv", lambda head: head[:4] == b"FLV\x01"),
)
"""The formats that ffmpeg may decode: none of their demuxers opens another file."""
CONTAINERS = (Format("WAV", "wav", lambda _: False), Format("Ogg", "ogg", lambda _: False))
"""The formats that ffmpeg decodes if their codec is one that libsndfile lacks."""


class _Decoded(NamedTuple):
    """A decoded file: float32 samples in `file`, from byte `start` on; `key` identifies the source."""

    key: object
    file: IO[bytes]
    start: int
    info: AudioInfo


class _Last:
    """The last decoded file, which is kept because a file is probed and then read, often in many segments."""

    decoded: _Decoded | None = None


def format_of(head: bytes, source: Source) -> Format | None:
    """Return the format of a file if it is one of `FORMATS`, which ffmpeg decodes; None for all other files.

    `head`: the first 9 KiB of the file, or the whole file if it is shorter.
    """
    if head[:3] == b"ID3":  # an ID3 tag, before AAC or MP3
        head = source.read(mpeg.skip_id3v2(head), _MAX_FRAME)
        return next(format for format in FORMATS if format.name == "AAC") if _is_adts(head) else None
    format = next((kind for kind in FORMATS if kind.begins(head)), None)
    if format is not None and format.name == "GSM" and not _is_gsm(source.everything()):
        return None
    return format


def is_needed(format: Format) -> bool:
    """Whether to read the format here. False only for AMR if neither decoder is installed: sox may read AMR."""
    return format.name != "AMR" or _is_installed()


def _is_installed() -> bool:
    return pyav.is_installed() or shutil.which("ffmpeg") is not None


def probe_other_codec(head: bytes, source: Source, name: str) -> AudioInfo | None:
    """Return the properties of a WAV, Ogg or CAF file with a codec that libsndfile lacks; None for other files.

    Raises:
        RecordRejected: for the reasons of `probe`, and if ffmpeg decodes less than half of the audio without notice.
    """
    container_and_codec = codec_of(head, source)
    if container_and_codec is None:
        return None
    container, codec = container_and_codec
    what = f"holds {codec} in {container}"
    is_readable = container != "CAF"  # ffmpeg cannot read it from a pipe, because its index is after the audio
    if not is_readable or not _is_installed():
        advice = f"{INSTALL}, or " * is_readable + f"convert it: ffmpeg -i {quote(name)} OUT.flac"
        unreadable(name, f"{what}, which libsndfile cannot read; {advice}")
    try:
        info = probe(source, next(kind for kind in CONTAINERS if kind.name == container), name)
    except RecordRejected as rejected:
        unreadable(name, f"{what}, and {rejected.detail.removeprefix(name).strip()}")
    if container == "WAV" and info.duration < riff.least_seconds(source):
        unreadable(name, f"{what}, of which ffmpeg decodes the first {info.duration:.3f} s only")
    return info


def probe(source: Source, format: Format, name: str) -> AudioInfo:
    """Return the properties of a file of the format `format`, which is decoded to count its samples.

    Raises:
        RecordRejected: UNREADABLE_AUDIO if ffmpeg is not installed, or cannot decode all of the file.
    """
    return _decode(source, format, name).info


def blocks(source: Source, info: AudioInfo, start: int, length: int, size: int, name: str) -> "Iterator[NDArray[Any]]":
    """Yield `length` samples, from `start` on, of a file that `probe` has accepted, in blocks of `size`.

    A block is float32 of shape (size, num_channels); the last, and those at the end of the file, may be shorter.

    Raises:
        RecordRejected: for the reasons of `probe`.
    """
    import numpy as np

    decoded = _decode(source, next(format for format in FORMATS + CONTAINERS if format.name == info.subtype), name)
    if decoded.info != info:
        unreadable(name, "has changed since its length was measured")
    width = 4 * info.num_channels
    end = min(start + length, info.num_samples)
    for at in range(start, max(end, start + 1), size):
        raw = read_at(decoded.file.fileno(), max(min(size, end - at), 0) * width, decoded.start + at * width)
        yield np.frombuffer(raw, "<f4").reshape(-1, info.num_channels)


def _decode(source: Source, format: Format, name: str) -> _Decoded:
    """Decode a whole file into an unnamed temporary file. The last decoded file is kept, and not decoded again."""
    note(SOME_AUDIO)
    key = identity(source)
    if _Last.decoded is not None and _Last.decoded.key == key:
        return _Last.decoded
    _Last.decoded = None  # frees the last file before the next one grows
    output = tempfile.TemporaryFile()  # noqa: SIM115 - it is kept
    advice = INSTALL
    if pyav.is_installed():
        with naming(name):
            found = pyav.decode(source, format.demuxer, output)
        if not isinstance(found, str):
            note(BY_PYAV)
            output.flush()
            info = AudioInfo(FFMPEG, format.name, found.sampling_rate, found.num_samples, found.num_channels, None)
            _Last.decoded = _Decoded(key, output, 0, info)
            return _Last.decoded
        advice = f"PyAV does not decode it ({found}), but ffmpeg may: install the Debian package ffmpeg"
    start, info = _by_process(source, format, name, output, advice)
    _Last.decoded = _Decoded(key, output, start, info)
    return _Last.decoded


def _by_process(source: Source, format: Format, name: str, output: IO[bytes], advice: str) -> tuple[int, AudioInfo]:
    """Decode a whole file with ffmpeg's process into `output`, a WAV file.

    `advice`: the end of the reason if ffmpeg is not installed.

    Returns:
        The byte of the first sample, and the properties of the audio.

    Raises:
        RecordRejected: UNREADABLE_AUDIO if ffmpeg is not installed, or cannot decode all of the file.
        OSError: if the machine is the cause.
    """
    program = shutil.which("ffmpeg")
    if program is None:
        unreadable(name, f"is {format.name}; {advice}")
    note(THROUGH_FFMPEG)
    # -xerror: ffmpeg ends at the first damage. -map: only the first audio stream, no pictures or video.
    command = [program, "-v", "error", "-nostdin", "-xerror", "-protocol_whitelist", "pipe", "-f", format.demuxer]
    command += ["-i", "pipe:0", "-map", "0:a:0", "-map_metadata", "-1", "-c:a", "pcm_f32le", "-f", "wav", "pipe:1"]
    status, _, message = run_tool(command, _in_one_pass(source, name) if format.demuxer == "mov" else source, output)
    if status:
        if _MACHINES_FAULT.search(message):
            raise OSError(f"ffmpeg cannot be run on {name}: {message}")
        unreadable(name, f"is {format.name} that ends early or is damaged: ffmpeg can't decode it ({message})")
    wav = FileSource(output.fileno(), output.seek(0, os.SEEK_END), name)
    head = wav.read(0, _MAX_FRAME)
    info = riff.parse(head, wav, name)
    if info is None:
        raise OSError(f"ffmpeg cannot be run on {name}: it wrote no WAV")
    properties = AudioInfo(FFMPEG, format.name, info.sampling_rate, info.num_samples, info.num_channels, None)
    return riff.data_start(head), properties


def _in_one_pass(source: Source, name: str) -> Source:
    """Return an MP4 file that can be read from start to end, because a pipe is not seekable.

    Many programs write the index (`moov`) after the audio (`mdat`). Then the result has the index before the audio,
    with corrected offsets.
    """
    whole = list(boxes(source))
    audio = next((box for box in whole if box.kind == b"mdat"), None)
    index = next((box for box in whole if box.kind == b"moov"), None)
    if audio is None or index is None or index.start < audio.start:
        return source
    data = source.everything()
    moved = bytearray(data[index.start : index.end])
    for at, code in _tables_of_places(bytes(moved)):
        try:
            table = struct.Struct(f">{int.from_bytes(moved[at + 4 : at + 8], 'big')}{code}")
            places = [place + len(moved) for place in table.unpack_from(moved, at + 8)]
            table.pack_into(moved, at + 8, *places)
        except struct.error as error:
            unreadable(name, f"is MP4 with a damaged index ({error})")
    return ByteSource(b"".join((data[: audio.start], moved, data[audio.start : index.start], data[index.end :])))


def _tables_of_places(index: bytes) -> Iterator[tuple[int, str]]:
    """Yield the start of each table of audio offsets (`stco`, `co64`) in an MP4 index, and its `struct` code."""
    source, pending = ByteSource(index), [(0, len(index))]
    while pending:
        for box in boxes(source, *pending.pop()):
            if box.kind in (b"moov", b"trak", b"mdia", b"minf", b"stbl"):
                pending.append((box.body, min(box.end, len(index))))
            elif box.kind in (b"stco", b"co64"):
                yield box.body, "I" if box.kind == b"stco" else "Q"
