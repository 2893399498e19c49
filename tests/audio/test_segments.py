"""What each writer makes of the segment that a record names."""

import io
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe
from prepcli.audio.segments import (
    MELS,
    POLICIES,
    SHAR,
    TARRED,
    TARRED_SLICES,
    WENET,
    Channels,
    EncodedAudio,
    Policy,
    Samples,
    Segment,
    TargetFormat,
    decode,
    encoded,
    locate,
    with_channel,
)
from prepcli.errors import RecordRejected, RejectReason
from prepcli.interface.commands import COMMANDS
from prepcli.interface.options import declared

STEREO = AudioInfo("wav", "PCM_16", 16000, 32000, 2, 44)


def stereo(policy: Policy, offset: float = 0.0, duration: float = 2.0, channel: object = None) -> Segment:
    return locate("a.wav", STEREO, offset, duration, channel, policy)


@pytest.mark.parametrize(
    ("offset", "duration", "exact", "nearly"),
    [
        (0.0, 2.0, (0, 32000), (0, 32000)),
        (0.0, 1.99, (0, 31840), (0, 32000)),  # its duration is rounded
        (0.0, 1.9, (0, 30400), (0, 30400)),
        (0.01, 1.985, (160, 31760), (160, 31760)),  # begins later, so it is a segment
    ],
)
def test_whole_files_and_segments(
    offset: float, duration: float, exact: tuple[int, int], nearly: tuple[int, int]
) -> None:
    expected = {Samples.FILE: (0, 32000), Samples.EXACT: exact, Samples.STORED: exact, Samples.NEARLY: nearly}
    for policy in POLICIES:
        segment = stereo(policy, offset, duration)
        assert (segment.start, segment.num_samples) == expected[policy.samples]


@pytest.mark.parametrize("channel", [2, -1, "0", 1.0, True])
def test_channels_that_are_not_there(channel: object) -> None:
    for policy in POLICIES:
        if policy.channels not in (Channels.ALL, Channels.FIRST):
            with pytest.raises(RecordRejected, match=r"a\.wav has 2 channels, counted from 0") as caught:
                stereo(policy, channel=channel)
            assert caught.value.reason is RejectReason.BAD_FIELD
    assert stereo(TARRED, channel=channel).has_several_channels
    mono = AudioInfo("wav", "PCM_16", 16000, 32000, 1, 44)
    assert locate("a.wav", mono, 0.0, 2.0, channel, SHAR).channel is None


def test_channels_that_are_there() -> None:
    for policy in POLICIES:
        expected = {
            Channels.ALL: [None] * 3,
            Channels.NAMED: [0, 1, None],
            Channels.ONE: [0, 1, 0],
            Channels.MEAN: [0, 1, "mix"],
            Channels.FIRST: [0] * 3,
        }
        found = [stereo(policy, channel=channel).channel for channel in (0, 1, None)]
        assert found == expected[policy.channels], policy.writer


def test_the_channel_that_a_user_chooses() -> None:
    """A number is for records that name no channel; with `mix` the mean is taken of all."""
    for policy in POLICIES:
        if policy.channels is not Channels.FIRST:
            found = [stereo(with_channel(policy, "1"), channel=channel).channel for channel in (0, 1, None)]
            assert found == [0, 1, 1], policy.writer
            with pytest.raises(RecordRejected, match=r"channel is 2; a\.wav has 2 channels, counted from 0"):
                stereo(with_channel(policy, "2"))
        for channel in (0, 1, None, "left"):
            assert stereo(with_channel(policy, "mix"), channel=channel).channel == "mix"
        mono = AudioInfo("wav", "PCM_16", 16000, 32000, 1, 44)
        for text in ("1", "mix"):
            assert locate("a.wav", mono, 0.0, 2.0, None, with_channel(policy, text)).channel is None


@pytest.mark.parametrize(("subtype", "format"), [("PCM_16", "WAV"), ("PCM_24", "FLAC"), ("FLOAT", "WAV")])
def test_the_mean_of_all_channels_is_that_of_the_exact_samples(subtype: str, format: str) -> None:
    file = io.BytesIO()
    soundfile.write(file, np.random.default_rng(0).normal(0, 0.1, (9000, 3)), 16000, format=format, subtype=subtype)
    data = file.getvalue()
    exact = soundfile.read(io.BytesIO(data))[0].mean(axis=1)
    segment = locate(data, probe(data, "a"), 0.0, 0.5, 1, with_channel(MELS, "mix"))
    decoded = decode(segment)
    assert decoded.shape == (8000, 1)
    scale = 2.0**-31 if decoded.dtype.kind == "i" else 1.0
    assert np.abs(decoded[:, 0] * scale - exact[:8000]).max() < 2.0**-24
    stored = encoded(segment, TargetFormat(), with_channel(TARRED, "mix"))
    assert (stored.is_copy, probe(stored.data).num_channels, probe(stored.data).subtype) == (False, 1, subtype)
    error = {"PCM_16": 2.0**-16, "PCM_24": 2.0**-23, "FLOAT": 2.0**-25}[subtype]  # bits below the 24th are cut off
    assert np.abs(soundfile.read(io.BytesIO(stored.data))[0] - exact[:8000]).max() <= error * (1 + 1e-9)


def test_a_segment_beyond_the_file_is_refused_by_all() -> None:
    for policy in POLICIES:
        with pytest.raises(RecordRejected, match="after the end of the audio"):
            stereo(policy, 1.0, 1.1)


def flac(channels: int = 1) -> bytes:
    """1.2345625 s at 16 kHz."""
    file = io.BytesIO()
    noise = np.random.default_rng(0).normal(0, 0.1, (19753, channels))
    soundfile.write(file, noise, 16000, format="FLAC", subtype="PCM_16")
    return file.getvalue()


@pytest.mark.parametrize(
    ("policy", "is_copied"), [(TARRED, True), (TARRED_SLICES, False), (WENET, True), (SHAR, False)]
)
def test_a_duration_that_was_rounded(policy: Policy, is_copied: bool) -> None:
    data = flac()
    info = probe(data, "a")
    stored = encoded(locate(data, info, 0.0, 1.23, None, policy), TargetFormat(), policy)
    assert stored.is_copy == (stored.data == data) == is_copied
    assert stored.num_samples == probe(stored.data, "b").num_samples == (19753 if is_copied else 19680)


def test_what_is_encoded_again_keeps_its_format_or_its_samples() -> None:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(16000), 16000, format="MP3")

    def formats(policy: Policy, data: bytes, target: TargetFormat) -> EncodedAudio:
        segment = locate(data, probe(data, "a"), 0.1, 0.5, None, policy)
        return encoded(segment._replace(start=0), target, policy)

    mp3 = file.getvalue()
    assert formats(SHAR, mp3, TargetFormat()).format == "mp3"
    assert formats(WENET, mp3, TargetFormat()).format == "flac"
    assert formats(WENET, mp3, TargetFormat("wav")).format == "wav"
    soundfile.write(file := io.BytesIO(), np.zeros(16000), 16000, format="WAV")
    assert formats(WENET, file.getvalue(), TargetFormat()).format == "wav"


def test_formats_that_a_reader_does_not_know_become_flac() -> None:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(16000), 16000, format="AIFF", subtype="PCM_16")
    data = file.getvalue()
    found = {}
    for policy in (TARRED, WENET):
        found[policy] = encoded(locate(data, probe(data, "a"), 0.0, 1.0, None, policy), TargetFormat(), policy).format
    assert found == {TARRED: "aiff", WENET: "flac"}


def test_a_channel_of_a_lossy_file_is_not_rounded_before_it_is_resampled(tmp_path: Path) -> None:
    """manifest-to-shar takes the channel and stores what it would store of a mono file with these samples."""
    samples = np.random.default_rng(0).normal(0, 0.1, (24000, 2))
    soundfile.write(tmp_path / "two.mp3", samples, 24000, format="MP3")
    segments = [locate(str(tmp_path / "two.mp3"), probe(str(tmp_path / "two.mp3")), 0.0, 0.9, None, SHAR)]
    soundfile.write(tmp_path / "one.wav", decode(segments[0]), 24000, format="WAV", subtype="FLOAT")
    segments.append(locate(str(tmp_path / "one.wav"), probe(str(tmp_path / "one.wav")), 0.0, 0.9, None, SHAR))
    two, one = (encoded(segment, TargetFormat("opus", 16000), SHAR).data for segment in segments)
    assert two == one


def test_every_policy_is_of_a_command_and_its_options() -> None:
    commands = {
        command.name: {f"--{one.name.replace('_', '-')}" for one in declared(command.load_options())}
        for command in COMMANDS
    }
    for policy in POLICIES:
        name, *words = policy.writer.split()
        flags = [word for word in [*words, *re.findall(r"--[a-z-]+", policy.rate)] if word.startswith("--")]
        assert set(flags) <= commands[name], policy.writer
    assert len({policy.writer for policy in POLICIES}) == len(POLICIES)
