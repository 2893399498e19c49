"""Files that are copied as they are: damage in their middle is seen where that is cheap, and otherwise on demand."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from prepcli.audio import flac
from prepcli.audio.check import check_copy, check_decoded
from prepcli.audio.encode import encode
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe, probe_bytes
from prepcli.audio.read import read_segment
from prepcli.errors import RecordRejected, RejectReason
from tests.audio.conftest import Samples
from tests.audio.encoders import ENCODERS, flac_of_unknown_length, write_flac
from tests.audio.signals import RATE, flipped, id3v2, tones
from tests.conftest import read_lines, write_lines
from tests.support.running import prepcli
from tests.support.tools import tool

WIDTHS = ("PCM_16", "PCM_24")


def flac_of(seconds: float = 5, subtype: str = "PCM_16") -> bytes:
    samples = tones(seconds)
    return encode(samples if subtype == "PCM_16" else samples.astype(np.int32) << 16, RATE, "flac", subtype)


def refuses(data: bytes, check: str = "copy") -> str | None:
    """The detail of the reject, None where the file passes."""
    try:
        info = probe_bytes(data, "a.flac")
        (check_copy if check == "copy" else check_decoded)(data, info, "a.flac")
    except RecordRejected as rejected:
        assert rejected.reason is RejectReason.UNREADABLE_AUDIO
        return rejected.detail
    return None


def crc16(data: bytes) -> int:
    """RFC 9639, section 9.3, bit by bit."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = crc << 1 ^ 0x18005 if crc & 0x8000 else crc << 1
    return crc


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.integers(1, 120_000), st.integers(0, 2**32))
def test_all_frames_at_once_is_the_checksum_of_each(metadata: bytes, size: int, seed: int) -> None:
    """Bytes that a CRC-16 makes a multiple of the polynomial fit; with any bit changed they do not."""
    head = b"fLaC\x80" + len(metadata).to_bytes(3, "big") + metadata
    body = np.random.default_rng(seed).bytes(size)
    whole = head + body + crc16(body).to_bytes(2, "big")
    # A trailing "TAG" would be an ID3v1 tag.
    assert flac.frames_fit(whole)
    at = len(head) + seed % (size + 2)
    assert not flac.frames_fit(flipped(whole, at, seed % 8))


@pytest.mark.parametrize("subtype", WIDTHS)
def test_flac_with_a_bit_flipped_anywhere(subtype: str) -> None:
    data = flac_of(subtype=subtype)
    assert refuses(data) is None
    assert refuses(data, "decoded") is None
    generator = np.random.default_rng(0)
    for at in generator.integers(500, len(data) - 5000, 40).tolist():
        damaged = flipped(data, at, at % 8)
        assert probe_bytes(damaged, "a.flac").num_samples == 5 * RATE  # its end is whole
        assert "can't be decoded" in (refuses(damaged) or "")
    damaged = data[:30000] + bytes(4096) + data[34096:]
    assert "can't be decoded" in (refuses(damaged) or "")


@pytest.mark.parametrize("after", [b"TAG" + bytes(125), b"APETAGEX" + bytes(40), bytes(1000)])
@pytest.mark.parametrize("before", [b"", id3v2()])
def test_flac_with_tags_around(before: bytes, after: bytes) -> None:
    """Their bytes are not audio: the decoder decides."""
    data = before + flac_of() + after
    assert refuses(data) is None
    assert refuses(flipped(data, len(data) // 2)) is not None


def test_flac_without_or_with_other_metadata() -> None:
    data = flac_of(1)
    padding = b"\x81" + (600).to_bytes(3, "big") + bytes(600)
    assert data[4] == 0  # STREAMINFO, and more to come
    assert flac.frames_fit(data)
    start = flac.first_frame(data)
    bare = data[:4] + b"\x80" + data[5:42] + data[start:]
    assert flac.frames_fit(bare)
    assert flac.frames_fit(data[:42] + padding + data[start:])
    endless = data[:4] + b"\x00" + data[5:42] + b"\x01\xff\xff\xff" + data[start:]
    assert not flac.frames_fit(endless)
    assert not flac.frames_fit(b"RIFF" + bytes(100))


def test_a_middle_that_is_missing() -> None:
    """Whole frames cut out: all checksums fit, and only decoding tells."""
    data = flac_of()
    frames = [at for at in range(400, len(data)) if data[at : at + 2] == b"\xff\xf8"]
    info = flac.stream_info(data)
    assert info is not None
    frames = [at for at in frames if flac.frame_header(data[at : at + 16], info) is not None]
    shorter = data[: frames[3]] + data[frames[7] :]
    assert flac.frames_fit(shorter)
    assert refuses(shorter, "decoded") is not None


@pytest.mark.parametrize("subtype", WIDTHS)
def test_md5_tells_other_audio(subtype: str) -> None:
    data = flac_of(subtype=subtype)
    assert any(data[26:42])
    other = data[:26] + bytes(reversed(data[26:42])) + data[42:]
    assert refuses(other) is None
    assert refuses(other, "decoded") == (
        "a.flac is damaged: its samples are not those that were encoded (the MD5 in its header differs)"
    )
    unknown = data[:26] + bytes(16) + data[42:]
    assert refuses(unknown, "decoded") is None
    assert refuses(id3v2() + data, "decoded") is None
    assert refuses(id3v2() + other, "decoded") is not None


def test_md5_of_eight_bits_and_of_two_channels() -> None:
    stereo = np.stack([tones(1), tones(1, seed=1)], axis=1)
    for data in (encode(stereo, RATE, "flac"), encode(stereo, RATE, "flac", "PCM_S8")):
        assert any(data[26:42])
        assert refuses(data, "decoded") is None
        assert refuses(flipped(data, 30), "decoded") is not None


COPYING = [
    ["manifest-to-tarred", "--num-shards", 1],
    ["manifest-to-tarred", "--num-shards", 1, "--slice-with-offset"],
    ["manifest-to-shar"],
    ["manifest-to-wenet"],
    ["manifest-to-parquet"],
]


def damaged_set(folder: Path) -> Path:
    data = flac_of()
    info_md5 = data[:26] + bytes(range(16)) + data[42:]
    files = {
        "good.flac": data,
        "tagged.flac": id3v2() + data,
        "cut.flac": id3v2() + data[:-9000],
        "flipped.flac": flipped(data, len(data) // 2),
        "other.flac": info_md5,
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return write_lines(folder / "m.json", [{"audio_filepath": n, "duration": 5.0, "text": "x"} for n in files])


def rejected(out: Path) -> dict[str, str]:
    return {one["audio_filepath"]: one["reject_reason"] for one in read_lines(Path(f"{out}.prepcli/rejects.jsonl"))}


@pytest.mark.parametrize("command", COPYING)
def test_commands_that_copy(tmp_path: Path, command: list[object]) -> None:
    manifest, out = damaged_set(tmp_path), tmp_path / "out"
    outcome = prepcli(*command[:1], manifest, out, *command[1:], "--max-rejects", 5)
    assert outcome.code == 0, outcome.err
    assert rejected(out) == dict.fromkeys(("cut.flac", "flipped.flac"), "unreadable_audio")
    # What decoding alone can tell: `verify` does, and so does --check-audio before.
    found = prepcli("verify", out)
    assert found.code == 1
    assert (found.out + found.err).count("the MD5 in its header differs") == 1
    checked = tmp_path / "checked"
    outcome = prepcli(*command[:1], manifest, checked, *command[1:], "--max-rejects", 5, "--check-audio")
    assert outcome.code == 0, outcome.err
    assert rejected(checked) == dict.fromkeys(("cut.flac", "flipped.flac", "other.flac"), "unreadable_audio")
    assert prepcli("verify", checked).code == 0
    # It is one of the settings.
    assert prepcli(*command[:1], manifest, checked, *command[1:], "--max-rejects", 5).code == 2


def test_only_manifests_reads_no_audio(tmp_path: Path) -> None:
    manifest = damaged_set(tmp_path)
    options = ("--num-shards", 1, "--only-manifests", "--check-audio")
    outcome = prepcli("manifest-to-tarred", manifest, tmp_path / "out", *options)
    assert outcome.code == 2
    assert "--check-audio" in outcome.error_line


@pytest.mark.parametrize("encoder", ENCODERS)
def test_flac_of_unknown_length(tmp_path: Path, speech: Samples, encoder: str) -> None:
    source, streamed = tmp_path / "a.wav", tmp_path / "pipe.flac"
    soundfile.write(source, speech, 16000)
    if encoder == "ffmpeg":
        streamed.write_bytes(tool("ffmpeg", "-v", "error", "-i", source, "-f", "flac", "-"))
    else:
        streamed.write_bytes(flac_of_unknown_length(encode(speech, 16000, "flac")))
    info = probe(streamed)
    assert info == AudioInfo("sox", "PCM_16", 16000, len(speech), 1, None)
    assert np.array_equal(read_segment(streamed, info)[:, 0], speech)
    assert np.array_equal(read_segment(streamed.read_bytes(), info, 40000, 999)[:, 0], speech[40000:40999])


@pytest.mark.parametrize(
    "encoder", ["libsndfile 0", "libsndfile 0.5", "libsndfile 1", "flac -0", "flac -4", "flac -8", "ffmpeg"]
)
def test_flac_of_other_encoders_and_with_tags(tmp_path: Path, speech: Samples, encoder: str) -> None:
    path = tmp_path / "a.flac"
    write_flac(path, np.stack([speech, speech // 3], axis=1), 16000, encoder)
    expected = AudioInfo("flac", "PCM_16", 16000, len(speech), 2, None)
    assert probe(path) == expected
    data = path.read_bytes()
    assert probe_bytes(data + b"TAG" + bytes(125), "id3v1") == expected
    assert probe_bytes(data + b"something else", "junk") == expected


def test_flac_of_variable_block_size_and_36_bit_numbers() -> None:
    from prepcli.audio import flac

    # RFC 9639, 9.1: sync and "samples are counted", 192 samples at STREAMINFO's rate, mono, 16 bits.
    for first in (0, 127, 128, 2047, 2048, 65536, 1 << 20, 1 << 26, 1 << 31, (1 << 36) - 193):
        number = utf8_like(first)
        header = b"\xff\xf9\x10\x08" + number
        header += bytes([flac.crc8(header)])
        info = flac.StreamInfo(4096, 0, 16000, 1, 16, 0)
        assert flac.frame_header(header + bytes(16), info) == (first, 192, len(header))
        assert flac.frame_header(header[:-1] + bytes([header[-1] ^ 1]) + bytes(16), info) is None


def utf8_like(number: int) -> bytes:
    if number < 128:
        return bytes([number])
    extra = next(n for n in range(1, 7) if number < 1 << (6 * n + 6 - n))
    lead = (0xFF << (7 - extra)) & 0xFF | number >> (6 * extra)
    return bytes([lead, *(0x80 | number >> (6 * n) & 0x3F for n in reversed(range(extra)))])
