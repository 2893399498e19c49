"""A file that was cut short is refused with words that say so, wherever it was cut."""

import random
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio.encode import encode
from prepcli.audio.probe import probe, probe_bytes
from prepcli.errors import RecordRejected, RejectReason
from tests.audio.conftest import Samples
from tests.audio.encoders import ENCODERS, flac_of_unknown_length, write_mp3

LAST_BYTES = (1, 2, 3, 7, 13, 50)


def refusal(data: bytes) -> str:
    with pytest.raises(RecordRejected) as caught:
        probe_bytes(data, "a.audio")
    assert caught.value.reason is RejectReason.UNREADABLE_AUDIO
    assert caught.value.detail.startswith("a.audio ")
    return caught.value.detail


def cuts(data: bytes) -> list[int]:
    """Lengths to cut a file to: its last bytes, and random places all over."""
    rng = random.Random(0)
    anywhere = [rng.randrange(1, len(data)) for _ in range(40)]
    return [len(data) - last for last in LAST_BYTES] + anywhere


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT", "ULAW", "IMA_ADPCM"])
def test_wav(tmp_path: Path, speech: Samples, subtype: str) -> None:
    soundfile.write(tmp_path / "a.wav", speech, 16000, subtype=subtype)
    data = (tmp_path / "a.wav").read_bytes()
    samples = probe_bytes(data, "whole").num_samples
    for length in cuts(data):
        detail = refusal(data[:length])
        if length > 200:
            assert "ends early: the header promises " in detail
    if subtype == "PCM_16":
        assert refusal(data[: 44 + 2 * 20000]) == (
            f"a.audio ends early: the header promises {samples} samples, the file holds 20000"
        )
        (tmp_path / "a.wav").write_bytes(data[:-1])
        with pytest.raises(RecordRejected, match="ends early"):
            probe(tmp_path / "a.wav")


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("bits", ["PCM_16", "PCM_24"])
def test_flac_cut_at_any_byte_of_its_end(speech: Samples, channels: int, bits: str) -> None:
    samples = np.stack([speech[: 4096 * 3 + 50]] * channels, axis=1)
    data = encode(samples, 16000, "flac", bits)
    assert probe_bytes(data, "x").num_samples == len(samples)
    # The last frame holds 50 samples, so these cuts go through it and well into the one before.
    # (A last byte of zero is the one that can't be missed: the checksum fits without it.)
    for last in range(1 if data[-1] else 2, 400):
        assert "ends early or is damaged: the header promises 12338 samples" in refusal(data[:-last])
    for length in cuts(data)[1:]:
        refusal(data[:length])


def test_flac_cut_at_frame_boundaries(speech: Samples) -> None:
    from prepcli.audio import flac

    data = encode(speech, 16000, "flac")
    info = flac.stream_info(data)
    assert info is not None
    headers = [
        at
        for at in range(8000, len(data))
        if data[at : at + 2] == b"\xff\xf8" and flac.frame_header(data[at : at + 16], info) is not None
    ]
    assert len(headers) > 10
    for at in headers:
        refusal(data[:at])


def test_flac_damaged_in_its_last_frame(speech: Samples) -> None:
    data = encode(speech, 16000, "flac")
    for back in (1, 5, 100, 400):
        broken = bytearray(data)
        broken[-back] ^= 0x10
        assert "could be decoded" in refusal(bytes(broken))
    # Space that a file system reserved, but that was never written.
    assert "could be decoded" in refusal(data[: len(data) // 2] + bytes(len(data) // 2))


@pytest.mark.slow
def test_flac_of_unknown_length(speech: Samples) -> None:
    data = encode(speech, 16000, "flac")
    streamed = flac_of_unknown_length(data)
    info = probe_bytes(streamed, "x")
    assert (info.format, info.num_samples) == ("sox", len(speech))
    for last in range(1 if data[-1] else 2, 300):
        assert refusal(streamed[:-last]) == ("a.audio ends early or is damaged: its last FLAC frame is not whole")


@pytest.mark.slow
@pytest.mark.parametrize("format", ["ogg", "opus"])
def test_ogg(speech: Samples, format: str) -> None:
    data = encode(speech, 16000 if format == "opus" else 22050, format)
    assert probe_bytes(data, "x").num_samples == len(speech)
    for length in cuts(data):
        detail = refusal(data[:length])
        if length > 10000:
            assert "ends early: its last page is" in detail
    # Cut between pages: all that is there is whole.
    assert "not marked as the end" in refusal(data[: data.rindex(b"OggS")])
    assert "damaged" in refusal(data[:-5] + b"?" + data[-4:])


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(("kind", "xing"), [("constant", True), ("constant", False), ("variable", True)])
def test_mp3(tmp_path: Path, speech: Samples, kind: str, xing: bool, encoder: str) -> None:
    write_mp3(tmp_path / "a.mp3", speech, 16000, kind, xing=xing, encoder=encoder)
    data = (tmp_path / "a.mp3").read_bytes()
    for length in cuts(data):
        if length > 500 and (len(data) - length) % 360:
            assert "ends early: " in refusal(data[:length])
    if kind == "constant" and xing:
        # Cut between frames, which are 72 * 80000 / 16000 = 360 bytes long: only the Xing header knows.
        assert "MPEG frames, the file holds" in refusal(data[: -2 * 360])


def test_mp3_of_libsndfile(speech: Samples) -> None:
    data = encode(speech, 16000, "mp3")
    for length in cuts(data):
        if length > 500:
            assert "ends early: " in refusal(data[:length])


@pytest.mark.parametrize("container", ["AIFF", "AU", "W64", "CAF", "RF64", "NIST"])
@pytest.mark.parametrize("subtype", ["PCM_16", "ULAW"])
def test_other_containers(tmp_path: Path, speech: Samples, container: str, subtype: str) -> None:
    path = tmp_path / "a"
    soundfile.write(path, np.stack([speech, speech], axis=1), 16000, format=container, subtype=subtype)
    data = path.read_bytes()
    assert probe_bytes(data, "x").num_samples == len(speech)
    for length in cuts(data):
        if len(data) - length > 1:
            detail = refusal(data[:length])
            assert "ends early: the header promises" in detail or length < 5000


def test_wav_with_an_impossible_chunk_size(speech: Samples) -> None:
    data = encode(speech, 16000, "wav")
    looping = data[:12] + b"LIST" + struct.pack("<I", 0xFFFFFFF0) + data[12:]
    assert "is not audio" in refusal(looping)
