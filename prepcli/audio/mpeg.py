"""MPEG audio without a decoder: counts the samples of an MP3 file, and finds truncated files.

libsndfile takes the length from the Xing header, or estimates it from the bit rate of the first frame. So it reports
the length in the header for a truncated file, and loses a part of the audio of a file with variable bit rate and
without a Xing header. The tables are those of ISO 11172-3 and 13818-3.
"""

from typing import NamedTuple

from prepcli.audio.source import Window

# kbit/s by bit rate index 1..14; key: (MPEG-1?, layer).
_BIT_RATES = {
    (True, 1): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
# Hz by version bits (3: MPEG-1, 2: MPEG-2, 0: MPEG-2.5) and rate index.
_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
_HIGHEST_BIT_RATE = 14
_MAX_TAGS = 1000
_VBRI_OFFSET = 36
_MIN_UNKNOWN = 1 << 31


class Scan(NamedTuple):
    """The frames of a file.

    Attributes:
        runs: the first byte and the byte after the last of frames that follow one another without other data; without
            the frame of a Xing header at the start.
        header: the first frame, as bytes.
        frames: number of frames with audio.
        samples_per_frame: per channel.
        has_header: whether the file begins with the frame of a Xing, Info or VBRI header.
        promised: the number of frames in the Xing header; None without one, or if the header has none.
        cut: whether the file ends within a frame.
        irregular: whether there are data other than frames between or after them, also tags of files that were joined.
        changes: whether layer, sampling rate or number of channels change.
    """

    runs: list[tuple[int, int]]
    header: bytes
    frames: int
    samples_per_frame: int
    has_header: bool
    promised: int | None
    cut: bool
    irregular: bool
    changes: bool


def may_be(head: bytes) -> bool:
    """Return whether a file with these first bytes may be MPEG audio: it begins with a frame or an ID3v2 tag."""
    return head[:3] == b"ID3" or (len(head) > 1 and head[0] == 0xFF and head[1] >= 0xE0)


def scan(data: bytes | Window) -> Scan | None:
    """Scan the MPEG frames of a whole file, in 0.2 us per frame; None if it does not start with a frame."""
    start = at = skip_id3v2(data)
    end = _strip_tags(data)
    lengths: dict[bytes, int] = {}
    runs: list[tuple[int, int]] = []
    frames = 0
    cut = irregular = changes = False
    if start + 4 > end:
        return None
    kind = _kind(data[start : start + 4])
    while at < end:
        key = data[at : at + 4]
        length = lengths.get(key)
        if length is None:
            length = lengths[key] = _frame_length(int.from_bytes(key[:3], "big")) if len(key) == 4 else 0
            changes = changes or (length > 0 and _kind(key) != kind)
        if length and at + length <= end:
            frames += 1
            at += length
            continue
        # Too few bytes to distinguish a truncated header from other data.
        cut = length > 0 or (len(key) < 4 and at + len(key) == end and key[0] == 0xFF)
        if cut or not frames:
            break
        irregular = True
        if at > start:
            runs.append((start, at))
        start = at = _next_frame(data, at, end)
    if not frames and not cut:
        return None
    if at > start:
        runs.append((start, at))
    first = skip_id3v2(data)
    has_header, promised = _stated_frames(data[first : first + 200])
    if has_header and runs:
        frames -= 1
        runs[0] = (first + _frame_length(int.from_bytes(data[first : first + 3], "big")), runs[0][1])
    header = data[first : first + 4]
    return Scan(runs, header, frames, _samples(header[1]), has_header, promised, cut, irregular, changes)


def _kind(header: bytes) -> tuple[int, int, bool]:
    """Return what all frames of a file have in common: version and layer, sampling rate, whether it is mono."""
    return header[1] & 0x1E, header[2] & 0x0C, header[3] >> 6 == 3


def _next_frame(data: bytes | Window, at: int, end: int) -> int:
    """Return the byte at which the frames go on after other data at `at`, or `end`: two frames must follow there."""
    if (after := skip_id3v2(data, at)) > at and _is_frame(data, after, end):
        return after
    while 0 <= (at := data.find(b"\xff", at, end)) < end - 4:
        length = _frame_length(int.from_bytes(data[at : at + 3], "big"))
        if length and (at + length == end or _is_frame(data, at + length, end)):
            return at
        at += 1
    return end


def _is_frame(data: bytes | Window, at: int, end: int) -> bool:
    return at + 4 <= end and _frame_length(int.from_bytes(data[at : at + 3], "big")) > 0


def plain_copy(data: bytes, scan: Scan) -> bytes:
    """Return an MP3 file of the frames of `data`, after a Xing header with their number."""
    first = bytearray(scan.header)
    first[1] |= 1  # no checksum
    first[2] = first[2] & 0x0D | _HIGHEST_BIT_RATE << 4  # long enough for the header in every version; without padding
    length = _frame_length(int.from_bytes(first[:3], "big"))
    head = bytes(first).ljust(_xing_offset(first), b"\0") + b"Xing\0\0\0\x01" + scan.frames.to_bytes(4, "big")
    return b"".join((head.ljust(length, b"\0"), *(data[start:end] for start, end in scan.runs)))


def _frame_length(key: int) -> int:
    """Return the length of a frame in bytes, from its first three bytes; 0 if they are not a frame header."""
    sync, version, layer = key >> 13, key >> 11 & 3, 4 - (key >> 9 & 3)
    bit_rate, rate, padding = key >> 4 & 15, key >> 2 & 3, key >> 1 & 1
    if sync != 0x7FF or version == 1 or layer == 4 or not 1 <= bit_rate <= 14 or rate == 3:
        return 0
    bits = _BIT_RATES[version == 3, layer][bit_rate - 1] * 1000
    if layer == 1:
        return (12 * bits // _RATES[version][rate] + padding) * 4
    return _samples(key >> 8 & 0xFF) // 8 * bits // _RATES[version][rate] + padding


def _samples(second_byte: int) -> int:
    """Return the number of samples per channel in a frame, from its second byte."""
    version, layer = second_byte >> 3 & 3, 4 - (second_byte >> 1 & 3)
    if layer == 1:
        return 384
    return 576 if layer == 3 and version != 3 else 1152


def _xing_offset(header: bytes | bytearray) -> int:
    """Return the offset of the Xing header in a frame: after the side information of Layer III."""
    mono = header[3] >> 6 == 3
    side = (17 if mono else 32) if header[1] >> 3 & 3 == 3 else (9 if mono else 17)
    return 4 + side


def _stated_frames(frame: bytes) -> tuple[bool, int | None]:
    """Return whether a frame is a Xing, Info or VBRI header without audio, and the number of frames that it states."""
    if len(frame) < 4:
        return False, None
    at = _xing_offset(frame)
    if frame[at : at + 4] in (b"Xing", b"Info"):
        stated = int.from_bytes(frame[at + 8 : at + 12], "big") if frame[at + 7 : at + 8] and frame[at + 7] & 1 else 0
    elif frame[_VBRI_OFFSET : _VBRI_OFFSET + 4] == b"VBRI":
        stated = int.from_bytes(frame[_VBRI_OFFSET + 14 : _VBRI_OFFSET + 18], "big")
    else:
        return False, None
    # Programs that do not know the number write 0 or -1.
    return True, stated if 0 < stated < _MIN_UNKNOWN else None


def skip_id3v2(data: bytes | Window, at: int = 0) -> int:
    """Return the byte after the ID3v2 tags at byte `at`, by default the start of a file; `at` without tags."""
    for _ in range(_MAX_TAGS):
        tag = data[at : at + 10]
        if tag[:3] != b"ID3" or len(tag) < 10:
            break
        size = 0
        for byte in tag[6:]:  # seven bits per byte
            size = size << 7 | byte & 0x7F
        at += 10 + size + (10 if tag[5] & 0x10 else 0)
    return at


def _strip_tags(data: bytes | Window) -> int:
    """Return the byte at which the audio ends: the start of an APEv2 or ID3v1 tag, or the end of `data`."""
    end = len(data)
    if data[end - 128 : end - 125] == b"TAG":
        end -= 128
    footer = data[max(end - 32, 0) : end]
    if footer[:8] == b"APETAGEX":
        has_header = footer[23] & 0x80
        end -= int.from_bytes(footer[12:16], "little") + (32 if has_header else 0)
    return end
