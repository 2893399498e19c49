"""The frames of FLAC files in which something is odd: joined files, pieces of a file, a wrong length in the header.

Copying streams without decoding them (`ffmpeg -c copy`) leaves the header and the frame numbers of the files that they
came from. `scan` finds and checks all frames, and `plain_copy` writes them with the right header and numbers.
"""

from typing import NamedTuple

from prepcli.audio import flac, mpeg

_MAX_TRIES = 4
"""How many places in a frame may look like the start of the next one; hardly any frame has one."""


class Frame(NamedTuple):
    """A frame: its place in the file in bytes, its number, its samples, and the length of its header.

    Attributes:
        start: the first byte.
        end: the byte after the frame.
        number: the number of its first sample.
        samples: per channel.
        header_bytes: length of the header with its CRC-8.
    """

    start: int
    end: int
    number: int
    samples: int
    header_bytes: int


def scan(data: bytes) -> list[Frame] | None:
    """Return the frames of a FLAC file, or of several that follow one another.

    Returns:
        None if other data are between the frames or after them, a frame is damaged, or the format changes.
    """
    start = mpeg.skip_id3v2(data)
    info = flac.stream_info(data[start : start + 42])
    at = flac.first_frame(data)
    end = flac.audio_end(data)
    if info is None or not 0 <= at <= end - 4:
        return None
    layout = _layout(data[at : at + 4])
    frames: list[Frame] = []
    while at < end:
        if data[at : at + 4] == b"fLaC" or data[at : at + 3] == b"ID3":
            other = flac.stream_info(data[at + mpeg.skip_id3v2(data[at:]) :][:42])
            skipped = flac.first_frame(data[at:])
            if other is None or skipped < 0 or other[2:5] != info[2:5]:
                return None
            info, at = other, at + skipped
            continue
        header = flac.frame_header(data[at : at + 16], info)
        if header is None or _layout(data[at : at + 4]) != layout:
            return None
        stop = _frame_stop(data, at, end, info)
        if stop is None:
            return None
        frames.append(Frame(at, stop, header.number, header.samples, header.num_bytes))
        at = stop
    return frames


def _layout(header: bytes) -> tuple[int, int, int]:
    """Return the codes of rate, channels and bits in a frame header. Stereo has several ways to code two channels."""
    channels = header[3] >> 4
    return header[2] & 15, 1 if channels in (1, 8, 9, 10) else channels + 2, header[3] >> 1 & 7


def _frame_stop(data: bytes, at: int, end: int, info: flac.StreamInfo) -> int | None:
    """Return the byte after the frame that begins at `at`: the next frame or file begins there, and its CRC-16 fits."""
    stop, tries = at + 8, 0
    # That of this frame first: most files have no other, and a search for those would go on to the end of the file.
    signs = sorted((b"\xff\xf8", b"\xff\xf9", b"fLaC", b"ID3"), key=lambda sign: sign != data[at : at + 2])
    while stop < end and tries < _MAX_TRIES:
        place = end
        for sign in signs:
            found = data.find(sign, stop, place)
            place = found if found >= 0 else place
        stop = place
        if stop < end and data[stop] == 0xFF and flac.frame_header(data[stop : stop + 16], info) is None:
            stop += 1
            continue
        tries += 1
        if flac.crc16_fits(data[at:stop]):
            return stop
        stop += 1
    return None


def plain_copy(data: bytes, frames: list[Frame]) -> bytes:
    """Return a FLAC file of these frames, with their number of samples in STREAMINFO and without an MD5.

    Each frame gets the number of its first sample. So the header of a frame changes, and both of its checksums.
    """
    start = mpeg.skip_id3v2(data)
    total = sum(frame.samples for frame in frames)
    head = flac.with_length(data[start : start + 42], total)
    sizes = sorted(frame.samples for frame in frames)
    out = bytearray(b"fLaC" + b"\x80" + head[5:8])
    out += max(sizes[0], 16).to_bytes(2, "big") + max(sizes[-1], 16).to_bytes(2, "big") + bytes(6) + head[18:26]
    out += bytes(16)
    sample = 0
    for frame in frames:
        out += _renumbered(data[frame.start : frame.end], frame.header_bytes, sample)
        sample += frame.samples
    return bytes(out)


def _renumbered(frame: bytes, header_bytes: int, sample: int) -> bytes:
    """Return a frame with another number, which is that of its first sample."""
    old = frame[:header_bytes]
    number_end = 4 + _coded_bytes(old[4])
    new = bytes((0xFF, 0xF9, old[2], old[3])) + _coded(sample) + old[number_end:-1]
    new += bytes((flac.crc8(new),))
    new += frame[header_bytes:-2]
    return new + flac.crc16(new).to_bytes(2, "big")


def _coded_bytes(first: int) -> int:
    """Return the number of bytes of a number that is coded like UTF-8, from its first byte."""
    return max(8 - (first ^ 0xFF).bit_length(), 1)


def _coded(number: int) -> bytes:
    """Return a number of up to 36 bits, coded like UTF-8."""
    if number < 0x80:
        return bytes((number,))
    width = next(width for width in range(2, 8) if number < 1 << 5 * width + 1 or width == 7)
    tail = [number >> 6 * place & 0x3F | 0x80 for place in range(width - 2, -1, -1)]
    return bytes((0xFF00 >> width & 0xFF | number >> 6 * (width - 1), *tail))
