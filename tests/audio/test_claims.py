"""A header is a claim: what it says is bounded before memory is taken, and never stops a run."""

import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from prepcli.audio.encode import encodable_rate, encode
from prepcli.audio.limits import MAX_SAMPLES_PER_BYTE, MAX_SAMPLING_RATE, MIN_SAMPLING_RATE
from prepcli.audio.probe import probe, probe_bytes
from prepcli.audio.read import read_segment
from prepcli.audio.segments import TargetFormat, convert, whole
from prepcli.errors import RecordRejected, RejectReason
from tests.audio.signals import RATE, tones, wav, with_flac_rate, with_granule, written
from tests.conftest import read_lines, write_lines
from tests.support.running import prepcli

pytestmark = pytest.mark.usefixtures("forking")

SAMPLES = tones(0.5)
IMPOSSIBLE_RATES = (1, 999, 768_001, 16_793_216, 2**31 - 1, 2**31, 2**32 - 1)


@contextmanager
def memory_for(more: int) -> Iterator[None]:
    """Within the block this process gets `more` bytes of address space, and not a terabyte that nobody touches."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def refusal(path: Path, data: bytes) -> str:
    """The detail of the reject, the same from memory and from a file."""
    details = []
    path.write_bytes(data)
    for look in (lambda: probe(path), lambda: probe_bytes(data, str(path))):
        with pytest.raises(RecordRejected) as caught:
            look()
        assert caught.value.reason is RejectReason.UNREADABLE_AUDIO
        details.append(caught.value.detail.removeprefix(f"{path} "))
    assert details[0] == details[1]
    return details[0]


@pytest.mark.parametrize("rate", IMPOSSIBLE_RATES)
def test_sampling_rates(tmp_path: Path, rate: int) -> None:
    says = f"has a sampling rate of {rate} Hz; it must be 1000 to 768000 Hz"
    assert refusal(tmp_path / "a", wav(SAMPLES, rate)) == says
    if rate < 1 << 20:
        assert refusal(tmp_path / "a", with_flac_rate(encode(SAMPLES, RATE, "flac"), rate)) == says
    if rate < 2**31:
        sphere = written(SAMPLES, "NIST", "PCM_16")
        head = sphere[:1024].replace(b"sample_rate -i 16000", b"sample_rate -i %d" % rate)[:1024].ljust(1024)
        assert refusal(tmp_path / "a", head + sphere[1024:]) == says


@pytest.mark.parametrize("rate", [MIN_SAMPLING_RATE, MAX_SAMPLING_RATE])
def test_sampling_rates_at_the_limits(rate: int) -> None:
    assert probe_bytes(wav(SAMPLES, rate), "a").sampling_rate == rate
    assert len(read_segment(wav(SAMPLES, rate), probe_bytes(wav(SAMPLES, rate), "a"))) == len(SAMPLES)


def test_channels(tmp_path: Path) -> None:
    assert refusal(tmp_path / "a", wav(SAMPLES, channels=1025)) == "has 1025 channels; it must have 1 to 1024"
    assert probe_bytes(wav(SAMPLES, channels=1024), "a").num_channels == 1024


@pytest.mark.parametrize("size", [2**62, 2**63 - 5, 2**63 - 1, 2**64 - 5])
def test_chunk_of_caf(tmp_path: Path, size: int) -> None:
    caf = written(SAMPLES, "CAF", "PCM_16")
    assert "is not audio" in refusal(tmp_path / "a", caf[:8] + b"free" + struct.pack(">Q", size) + caf[8:])


@pytest.mark.parametrize("format", ["opus", "ogg"])
@pytest.mark.parametrize("granule", [2**33, 2**42, 2**60])
def test_granule_of_ogg(tmp_path: Path, format: str, granule: int) -> None:
    ogg = encode(tones(10), RATE, format)
    assert ogg.count(b"OggS") > 5
    assert "its header promises " in refusal(tmp_path / "a", with_granule(ogg, granule))


def test_memory_is_taken_for_what_is_decoded() -> None:
    # The claim is just below what the size allows: 4 GB of float32.
    ogg = encode(tones(30), RATE, "ogg")
    claimed = len(ogg) * MAX_SAMPLES_PER_BYTE - 1
    data = with_granule(ogg, claimed)
    assert claimed > 1_000_000_000
    info = probe_bytes(ogg, "a")._replace(num_samples=claimed)
    with memory_for(1 << 30), pytest.raises(RecordRejected, match="ends early"):
        read_segment(data, info, name="a")


def test_long_audio_comes_in_blocks_and_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    stereo = np.stack([tones(3), tones(3, seed=1)], axis=1)
    data = encode(stereo.astype(np.int32) << 16, RATE, "flac")
    info = probe_bytes(data, "a")
    whole, part = read_segment(data, info), read_segment(data, info, 7, 40000)
    assert np.array_equal(whole, stereo.astype(np.int32) << 16)
    for values in (2, 4098, 96000 * 2):
        monkeypatch.setattr("prepcli.audio.read._BLOCK_VALUES", values)
        assert np.array_equal(read_segment(data, info), whole)
        assert np.array_equal(read_segment(data, info, 7, 40000), part)
        assert np.array_equal(part, whole[7:40007])


def test_rates_that_formats_do_not_have() -> None:
    for format, rate, encodable in (
        ("flac", 65_535, 65_535),
        ("flac", 65_536, 65_540),
        ("flac", 200_001, 200_010),
        ("flac", 768_000, 655_350),
        ("ogg", 200_000, 200_000),
        ("ogg", 200_001, 200_000),  # a crash of libsndfile
        ("wav", 768_000, 768_000),
    ):
        assert encodable_rate(format, rate) == encodable
        data = encode(SAMPLES, encodable, format)
        assert probe_bytes(data, "a").sampling_rate == encodable
        source = wav(SAMPLES, rate)
        stored = convert(whole(source, probe_bytes(source, "a")), TargetFormat(format))
        assert (stored.format, stored.sampling_rate) == (format, encodable)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["manifest-to-tarred", "--num-shards", 1],
        ["manifest-to-tarred", "--num-shards", 1, "--force-codec", "flac"],
        ["manifest-to-tarred", "--num-shards", 1, "--target-sample-rate", 48000],
        ["manifest-to-shar", "--audio-format", "flac"],
        ["manifest-to-shar", "--audio-format", "original", "--target-sample-rate", 48000],
    ],
)
def test_a_run_goes_on(tmp_path: Path, command: list[object]) -> None:
    files = {
        "good.wav": wav(SAMPLES),
        "slow.wav": wav(SAMPLES, 1),
        "fast.wav": wav(SAMPLES, 16_793_216),
        "faster.wav": wav(SAMPLES, 2**31),
        "long.opus": with_granule(encode(tones(10), RATE, "opus"), 2**42),
        "chunk.caf": b"caff\x00\x01\x00\x00free" + struct.pack(">Q", 2**63 - 5) + bytes(100),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    manifest = write_lines(tmp_path / "m.json", [{"audio_filepath": n, "duration": 0.5, "text": "x"} for n in files])
    outcome = prepcli(*command[:1], manifest, tmp_path / "out", *command[1:], "--max-rejects", 10)
    assert outcome.code == 0, outcome.err
    rejects = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert {one["audio_filepath"] for one in rejects} == set(files) - {"good.wav"}
    assert {one["reject_reason"] for one in rejects} == {"unreadable_audio"}
    assert prepcli("verify", tmp_path / "out").code == 0
    assert prepcli("inspect", manifest, "--json").json["audio"][0]["unreadable"] == 5
