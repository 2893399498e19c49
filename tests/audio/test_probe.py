"""Every format is seen for what it is, by content, and whole files are never refused."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio.probe import AudioInfo, probe_bytes, probe_file
from prepcli.audio.read import read_segment
from prepcli.errors import RecordRejected, RejectReason
from tests.audio.conftest import Samples

WRITTEN = [
    # libsndfile's container, subtype, and what we call it
    ("WAV", "PCM_U8", "wav"),
    ("WAV", "PCM_16", "wav"),
    ("WAV", "PCM_24", "wav"),
    ("WAV", "PCM_32", "wav"),
    ("WAV", "FLOAT", "wav"),
    ("WAV", "DOUBLE", "wav"),
    ("WAV", "ULAW", "wav"),
    ("WAV", "ALAW", "wav"),
    ("WAV", "IMA_ADPCM", "wav"),
    ("WAV", "GSM610", "wav"),
    ("WAVEX", "PCM_16", "wav"),
    ("WAVEX", "PCM_24", "wav"),
    ("WAVEX", "FLOAT", "wav"),
    ("RF64", "PCM_16", "rf64"),
    ("FLAC", "PCM_S8", "flac"),
    ("FLAC", "PCM_16", "flac"),
    ("FLAC", "PCM_24", "flac"),
    ("OGG", "VORBIS", "ogg"),
    ("OGG", "OPUS", "opus"),
    ("MP3", "MPEG_LAYER_III", "mp3"),
    ("NIST", "PCM_16", "nist"),
    ("NIST", "ULAW", "nist"),
    ("AIFF", "PCM_16", "aiff"),
    ("AU", "PCM_16", "au"),
    ("CAF", "PCM_24", "caf"),
    ("CAF", "ALAC_16", "caf"),
    ("W64", "PCM_16", "w64"),
]
CHANNELS = [1, 2]


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize(("container", "subtype", "expected"), WRITTEN)
def test_formats(
    tmp_path: Path, speech: Samples, container: str, subtype: str, expected: str, channels: int
) -> None:
    if subtype == "GSM610" and channels == 2:
        pytest.skip("GSM is mono")
    path = tmp_path / "misleading.txt"
    samples = np.stack([np.roll(speech, 1000 * channel) for channel in range(channels)], axis=1)[:24321]
    soundfile.write(path, samples, 16000, format=container, subtype=subtype)
    info = probe_file(path)
    theirs = soundfile.info(path)
    assert (info.format, info.subtype, info.sampling_rate, info.num_channels) == (
        expected,
        subtype,
        16000,
        channels,
    )
    assert info.num_samples == theirs.frames
    assert info.num_samples == 24321 or subtype in ("IMA_ADPCM", "GSM610")
    assert info.duration == info.num_samples / 16000
    assert (info.data_offset is not None) == (subtype == "PCM_16" and expected in ("wav", "rf64"))
    assert probe_bytes(path.read_bytes(), "x") == info
    whole, _ = soundfile.read(path, dtype=read_segment(path, info).dtype.name, always_2d=True)
    # soundfile.read seeks first, after which mpg123 rounds differently in the last bit of float32.
    assert np.abs(read_segment(path, info) - whole.astype(np.float64)).max() <= (1e-6 if expected == "mp3" else 0)


def chunk(name: bytes, body: bytes, size: int | None = None) -> bytes:
    return name + struct.pack("<I", len(body) if size is None else size) + body + b"\0" * (len(body) & 1)


FMT = chunk(b"fmt ", struct.pack("<HHIIHH", 1, 1, 8000, 16000, 2, 16))
BODY = np.arange(-500, 500, dtype="<i2").tobytes()


def riff(*chunks: bytes) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize(
    "data",
    [
        riff(FMT, chunk(b"data", BODY)),
        riff(FMT, chunk(b"LIST", b"odd"), chunk(b"fact", b"\0\0\0\0"), chunk(b"data", BODY)),
        riff(FMT, chunk(b"data", BODY), chunk(b"LIST", b"after the samples")),
        riff(FMT, chunk(b"JUNK", b"j" * 70001), chunk(b"data", BODY)),
        riff(FMT, chunk(b"data", BODY, 0xFFFFFFFF)),
        riff(FMT, chunk(b"data", BODY, 0x7FFFF000)),
        riff(chunk(b"fmt ", FMT[8:] + b"\0\0"), chunk(b"data", BODY)),
    ],
    ids=["plain", "chunks before", "chunk after", "far away", "streamed", "streamed by sox", "fmt of 18 bytes"],
)
def test_wav_headers(data: bytes, tmp_path: Path) -> None:
    info = probe_bytes(data, "x")
    assert (info.format, info.num_samples, info.sampling_rate) == ("wav", 1000, 8000)
    assert read_segment(data, info).tobytes() == BODY
    # What we call "wav" and pass on as it is, a trainer's libsndfile must see in the same way.
    path = tmp_path / "x"
    path.write_bytes(data)
    assert soundfile.info(path).frames == 1000
    assert probe_file(path) == info


@pytest.mark.parametrize("subtype", ["PCM_16", "FLOAT"])
def test_wav_of_unknown_length_is_read_but_not_passable(subtype: str, tmp_path: Path, speech: Samples) -> None:
    path = tmp_path / "x.wav"
    soundfile.write(path, speech, 16000, subtype="PCM_16")
    data = path.read_bytes()
    if subtype == "PCM_16":
        data = data[:40] + b"\0\0\0\0" + data[44:]
    else:
        fmt = chunk(b"fmt ", struct.pack("<HHIIHH", 3, 1, 16000, 64000, 4, 32))
        data = riff(fmt, chunk(b"data", (speech / np.float32(32768)).tobytes(), 0))
    info = probe_bytes(data, "x")
    assert (info.format, info.subtype, info.num_samples) == ("sox", subtype, len(speech))
    samples = read_segment(data, info, 100, 200)[:, 0]
    assert np.array_equal(samples * (1 if subtype == "PCM_16" else 32768), speech[100:300])


@pytest.mark.parametrize("after", [b"", chunk(b"LIST", b"x")], ids=["the end", "a chunk"])
def test_wav_without_samples(after: bytes) -> None:
    with pytest.raises(RecordRejected) as caught:
        probe_bytes(riff(FMT, chunk(b"data", b""), after), "x")
    assert caught.value.detail == "x holds no samples"


def test_flac_of_unknown_length(tmp_path: Path, speech: Samples, tool: Callable[..., None]) -> None:
    source, streamed = tmp_path / "a.wav", tmp_path / "pipe.flac"
    soundfile.write(source, speech, 16000)
    tool("bash", "-c", f"ffmpeg -v error -i '{source}' -f flac - | cat > '{streamed}'")
    info = probe_file(streamed)
    assert info == AudioInfo("sox", "PCM_16", 16000, len(speech), 1, None)
    assert np.array_equal(read_segment(streamed, info)[:, 0], speech)
    assert np.array_equal(read_segment(streamed.read_bytes(), info, 40000, 999)[:, 0], speech[40000:40999])


def test_flac_of_other_encoders_and_with_tags(tmp_path: Path, speech: Samples, tool: Callable[..., None]) -> None:
    source = tmp_path / "a.wav"
    soundfile.write(source, np.stack([speech, speech // 3], axis=1), 16000)
    expected = AudioInfo("flac", "PCM_16", 16000, len(speech), 2, None)
    for level in range(0, 9, 4):
        path = tmp_path / f"{level}.flac"
        tool("flac", "--silent", "--force", f"-{level}", "-o", path, source)
        assert probe_file(path) == expected
    tool("ffmpeg", "-v", "error", "-i", source, tmp_path / "f.flac")
    assert probe_file(tmp_path / "f.flac") == expected
    data = path.read_bytes()
    assert probe_bytes(data + b"TAG" + bytes(125), "id3v1") == expected
    assert probe_bytes(data + b"something else", "junk") == expected


def test_flac_of_variable_block_size_and_36_bit_numbers() -> None:
    from prepcli.audio import flac

    # RFC 9639, 9.1: sync and "samples are counted", 192 samples at STREAMINFO's rate, mono, 16 bits.
    for first in (0, 127, 128, 2047, 2048, 65536, 1 << 20, 1 << 26, 1 << 31, (1 << 36) - 193):
        number = utf8_like(first)
        header = b"\xff\xf9\x10\x08" + number
        header += bytes([flac._crc8(header)])
        info = flac.StreamInfo(4096, 0, 16000, 1, 16, 0)
        assert flac._frame_end(header + bytes(16), info) == first + 192
        assert flac._frame_end(header[:-1] + bytes([header[-1] ^ 1]) + bytes(16), info) is None


def utf8_like(number: int) -> bytes:
    if number < 128:
        return bytes([number])
    extra = next(n for n in range(1, 7) if number < 1 << (6 * n + 6 - n))
    lead = (0xFF << (7 - extra)) & 0xFF | number >> (6 * extra)
    return bytes([lead, *(0x80 | number >> (6 * n) & 0x3F for n in reversed(range(extra)))])


@pytest.mark.parametrize("options", [[], ["-write_xing", "0"], ["-q:a", "5"], ["-q:a", "5", "-write_xing", "0"]])
@pytest.mark.parametrize("rate", ["8000", "16000", "44100"])
def test_mp3_is_as_long_as_its_decode(
    tmp_path: Path, speech: Samples, tool: Callable[..., None], options: list[str], rate: str
) -> None:
    source, path = tmp_path / "a.wav", tmp_path / "a.mp3"
    soundfile.write(source, speech, 16000)
    tool("ffmpeg", "-v", "error", "-i", source, "-ar", rate, *options, path)
    info = probe_file(path)
    assert info.format in ("mp3", "sox")
    assert len(read_segment(path, info)) == info.num_samples
    # The whole utterance is there: an encoder adds silence of at most two frames and its delay.
    expected = len(speech) / 16000 * int(rate)
    assert -10 <= info.num_samples - expected < 3500
    if info.format == "mp3" and "-write_xing" not in options:
        assert info.num_samples == soundfile.info(path).frames
    assert probe_bytes(path.read_bytes() + b"TAG" + bytes(125), "x").num_samples == info.num_samples


def test_mp3_of_variable_rate_without_xing_header_keeps_its_end(
    tmp_path: Path, speech: Samples, tool: Callable[..., None]
) -> None:
    # A loud start makes libsndfile take the file for half as long as it is.
    source, path = tmp_path / "a.wav", tmp_path / "a.mp3"
    noise = np.random.default_rng(1).integers(-20000, 20000, 8000).astype(np.int16)
    samples = np.concatenate([noise[:1], speech // 64, noise])
    soundfile.write(source, samples, 8000)
    tool("ffmpeg", "-v", "error", "-i", source, "-q:a", "2", "-write_xing", "0", path)
    if soundfile.info(path).frames >= len(samples):
        noisy = np.concatenate([noise, speech // 64])
        soundfile.write(source, noisy, 8000)
        tool("ffmpeg", "-v", "error", "-y", "-i", source, "-q:a", "2", "-write_xing", "0", path)
        samples = noisy
    assert soundfile.info(path).frames < len(samples)
    info = probe_file(path)
    assert info.format == "sox"
    assert 0 <= info.num_samples - len(samples) < 3000
    decoded = read_segment(path, info)[:, 0]
    # The loud second is where it should be, give or take the codec's delay.
    loud = np.flatnonzero(np.abs(decoded) > 0.1)
    expected = np.flatnonzero(np.abs(samples.astype(float)) > 3277)
    assert abs(loud[0] - expected[0]) < 1200
    assert abs(loud[-1] - expected[-1]) < 1200


def test_what_is_no_audio(tmp_path: Path) -> None:
    (tmp_path / "empty.wav").touch()
    (tmp_path / "text.wav").write_text("I am no audio at all, whatever my name says.\n" * 100)
    (tmp_path / "page.flac").write_text("<!DOCTYPE html><title>404</title>")
    for name, reason, words in [
        ("empty.wav", RejectReason.UNREADABLE_AUDIO, "is empty"),
        ("text.wav", RejectReason.UNREADABLE_AUDIO, "is not audio that libsndfile or sox can read"),
        ("page.flac", RejectReason.UNREADABLE_AUDIO, "is not audio that libsndfile or sox can read"),
        (".", RejectReason.UNREADABLE_AUDIO, "is a directory"),
        ("missing.wav", RejectReason.MISSING_AUDIO, "does not exist"),
        ("text.wav/inside.wav", RejectReason.MISSING_AUDIO, "does not exist"),
        ("nul\0.wav", RejectReason.UNREADABLE_AUDIO, "null"),
        ("n" * 300, RejectReason.UNREADABLE_AUDIO, "too long"),
    ]:
        with pytest.raises(RecordRejected) as caught:
            probe_file(tmp_path / name)
        assert caught.value.reason is reason
        assert words in caught.value.detail
        assert caught.value.detail.isprintable()
    for data in (b"", b"R", b"RIFF", b"RIFF\0\0\0\0WAVE", b"fLaC", b"OggS", b"ID3", b"\xff", b"\xff\xfb\x90\x00"):
        with pytest.raises(RecordRejected) as caught:
            probe_bytes(data, "a.wav")
        assert caught.value.reason is RejectReason.UNREADABLE_AUDIO
        assert caught.value.detail.startswith("a.wav ")


def test_no_permission_and_no_regular_file(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.wav")
    with pytest.raises(RecordRejected, match="is not a regular file") as caught:
        probe_file(tmp_path / "pipe.wav")
    assert caught.value.reason is RejectReason.UNREADABLE_AUDIO
    if os.geteuid():
        (tmp_path / "secret.wav").touch(mode=0)
        with pytest.raises(RecordRejected, match="Permission denied"):
            probe_file(tmp_path / "secret.wav")
    (tmp_path / "loop.wav").symlink_to("loop.wav")
    with pytest.raises(RecordRejected, match="symbolic links"):
        probe_file(tmp_path / "loop.wav")


def test_running_out_of_descriptors_is_no_reject(tmp_path: Path, speech: Samples) -> None:
    import os
    import resource

    soundfile.write(tmp_path / "a.wav", speech, 16000)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.open(tmp_path, os.O_RDONLY)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            probe_file(tmp_path / "a.wav")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
