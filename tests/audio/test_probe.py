"""Every format is seen for what it is, by content, and whole files are never refused."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio import probe as probing
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import Probes, probe, probe_bytes
from prepcli.audio.read import read_segment
from prepcli.errors import RecordRejected, RejectReason
from tests.audio.conftest import Samples
from tests.support.tools import need

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


@pytest.mark.parametrize(
    ("container", "subtype", "expected", "channels"),
    [(*written, channels) for written in WRITTEN for channels in (1, 2) if (written[1], channels) != ("GSM610", 2)],
)
def test_formats(tmp_path: Path, speech: Samples, container: str, subtype: str, expected: str, channels: int) -> None:
    path = tmp_path / "misleading.txt"
    samples = np.stack([np.roll(speech, 1000 * channel) for channel in range(channels)], axis=1)[:24321]
    soundfile.write(path, samples, 16000, format=container, subtype=subtype)
    info = probe(path)
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


@pytest.mark.parametrize("with_sox", [True, False])
def test_what_is_not_audio(tmp_path: Path, request: pytest.FixtureRequest, with_sox: bool) -> None:
    if with_sox:
        need("sox")
        words_of_tools = ["is not audio that libsndfile or sox can read ("]
    else:
        request.getfixturevalue("no_tools")
        words_of_tools = ["is not audio that libsndfile can read (", "); to try sox, install the Debian package sox"]
    (tmp_path / "empty.wav").touch()
    (tmp_path / "text.wav").write_text("I am no audio at all, whatever my name says.\n" * 100)
    (tmp_path / "page.flac").write_text("<!DOCTYPE html><title>404</title>")
    noise = bytes(range(7, 107)) * 30
    for name in ("call.gsm", "raw.PCM", "law.ul"):
        (tmp_path / name).write_bytes(noise)
    (tmp_path / "talk.M4A").write_bytes(b"\0\0\0\x20ftypM4A \0\0\0\0M4A mp42isom" + bytes(100))
    for name, reason, words in [
        ("empty.wav", RejectReason.UNREADABLE_AUDIO, ["is empty"]),
        ("text.wav", RejectReason.UNREADABLE_AUDIO, words_of_tools),
        ("page.flac", RejectReason.UNREADABLE_AUDIO, words_of_tools),
        ("talk.M4A", RejectReason.UNREADABLE_AUDIO, [" is MP4"]),
        ("call.gsm", RejectReason.UNREADABLE_AUDIO, [*words_of_tools[:1], "convert it first, such as: sox -t gsm IN"]),
        ("raw.PCM", RejectReason.UNREADABLE_AUDIO, ["such as: sox -t raw -e signed -b 16 -r RATE -c 1 IN OUT.wav"]),
        ("law.ul", RejectReason.UNREADABLE_AUDIO, ["such as: sox -t ul -r 8000 -c 1 IN OUT.wav"]),
        (".", RejectReason.UNREADABLE_AUDIO, ["is a directory"]),
        ("missing.wav", RejectReason.MISSING_AUDIO, ["does not exist"]),
        ("text.wav/inside.wav", RejectReason.MISSING_AUDIO, ["does not exist"]),
        ("nul\0.wav", RejectReason.UNREADABLE_AUDIO, ["null"]),
        ("n" * 300, RejectReason.UNREADABLE_AUDIO, ["too long"]),
    ]:
        with pytest.raises(RecordRejected) as caught:
            probe(tmp_path / name)
        assert caught.value.reason is reason
        assert all(part in caught.value.detail for part in words), caught.value.detail
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
        probe(tmp_path / "pipe.wav")
    assert caught.value.reason is RejectReason.UNREADABLE_AUDIO
    if os.geteuid():
        (tmp_path / "secret.wav").touch(mode=0)
        with pytest.raises(RecordRejected, match="Permission denied"):
            probe(tmp_path / "secret.wav")
    (tmp_path / "loop.wav").symlink_to("loop.wav")
    with pytest.raises(RecordRejected, match="symbolic links"):
        probe(tmp_path / "loop.wav")


def test_running_out_of_descriptors_is_not_a_reject(tmp_path: Path, speech: Samples) -> None:
    import os
    import resource

    soundfile.write(tmp_path / "a.wav", speech, 16000)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.open(tmp_path, os.O_RDONLY)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            probe(tmp_path / "a.wav")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_file_is_probed_once_while_it_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    def probe(path: str) -> AudioInfo:
        looked_at.append(path)
        if path == "bad.wav":
            raise RecordRejected(RejectReason.UNREADABLE_AUDIO, "bad.wav ends early")
        return AudioInfo("wav", "PCM_16", 16000, 32000, 1, 44)

    monkeypatch.setattr(probing, "probe", probe)
    probes = Probes(2)
    rejects = []
    for path in ("a.wav", "bad.wav", "a.wav", "bad.wav"):
        try:
            assert probes(path).duration == 2.0
        except RecordRejected as rejected:
            rejects.append(rejected)
    assert looked_at == ["a.wav", "bad.wav"]
    first, second = rejects
    assert first is not second, "each record gets a reject of its own, without the traceback of the other"
    assert (first.reason, first.detail) == (second.reason, second.detail)
    probes("b.wav")  # one too many
    probes("a.wav")
    assert looked_at == ["a.wav", "bad.wav", "b.wav", "a.wav"]
