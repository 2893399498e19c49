"""Audio files with damaged or lying headers: read, or rejected in words, and never more than is there."""

import contextlib
import io
import json
from collections.abc import Sequence
from functools import cache

import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from prepcli.audio import mpeg
from prepcli.audio.probe import probe_bytes
from prepcli.audio.read import read_segment
from prepcli.errors import RecordRejected
from tests.conftest import MINI_CORPUS
from tests.fuzz.calls import check_call, check_report, scratch
from tests.fuzz.examples import examples
from tests.fuzz.mutations import mutated
from tests.support.audio_files import samples
from tests.support.running import prepcli
from tests.support.sphere_files import shorten, sphere, ulaw_sphere
from tests.support.tools import need

FORMATS: dict[str, dict[str, object]] = {
    "wav": {"format": "WAV", "subtype": "PCM_16"},
    "float.wav": {"format": "WAV", "subtype": "FLOAT"},
    "24bit.wav": {"format": "WAVEX", "subtype": "PCM_24"},
    "adpcm.wav": {"format": "WAV", "subtype": "IMA_ADPCM"},
    "rf64.wav": {"format": "RF64", "subtype": "PCM_16"},
    "w64": {"format": "W64", "subtype": "PCM_16"},
    "aiff": {"format": "AIFF", "subtype": "PCM_16"},
    "au": {"format": "AU", "subtype": "ULAW"},
    "caf": {"format": "CAF", "subtype": "PCM_16"},
    "flac": {"format": "FLAC", "subtype": "PCM_16"},
    "ogg": {"format": "OGG", "subtype": "VORBIS"},
    "opus": {"format": "OGG", "subtype": "OPUS"},
    "mp3": {"format": "MP3"},
}
SPHERES = ("sph", "ulaw.sph", "shorten.sph")


@cache
def whole(name: str, channels: int) -> bytes:
    """Half a second of a real utterance at 8 kHz, in the format."""
    speech, _ = soundfile.read(MINI_CORPUS / "s01/s01_u1.flac", dtype="int16", frames=4000)
    audio = samples(0.5, 8000, channels=2) if channels == 2 else speech
    if name == "sph":
        return sphere(audio.tobytes(), "pcm", len(audio), channels)
    if name == "ulaw.sph":
        return ulaw_sphere(audio.reshape(len(audio), channels))
    if name == "shorten.sph":
        columns = audio.reshape(len(audio), channels).T.tolist()
        return sphere(shorten(columns), "pcm,embedded-shorten-v2.00", len(audio), channels)
    file = io.BytesIO()
    soundfile.write(file, audio, 8000, **FORMATS[name])  # played too slowly, which does no harm
    return file.getvalue()


@st.composite
def broken_audio(draw: st.DrawFn, names: Sequence[str] = (*FORMATS, *SPHERES)) -> tuple[str, bytes]:
    name = draw(st.sampled_from(names))
    return name, draw(mutated(whole(name, draw(st.sampled_from([1, 1, 2]))), head=120))


@examples(1000)
@given(broken_audio([*FORMATS]))
def test_probe_and_read(audio: tuple[str, bytes]) -> None:
    """What probing promises is what reading gives, or it is a reject."""
    name, data = audio
    try:
        info = probe_bytes(data, name)
        assert info.num_samples > 0 and info.sampling_rate > 0 and info.num_channels > 0
        read = read_segment(data, info, 0, info.num_samples, name=name)
        assert read.shape == (info.num_samples, info.num_channels)
        middle = info.num_samples // 2
        assert read_segment(data, info, middle, 1, name=name).shape == (1, info.num_channels)
    except RecordRejected as rejected:
        assert name in rejected.detail
        assert "\n" not in rejected.detail


JOBS: list[Sequence[object]] = [
    ("manifest-to-tarred", "--num-shards", 1),
    ("manifest-to-tarred", "--num-shards", 1, "--slice-with-offset"),
    ("manifest-to-tarred", "--shard-size", 3, "--force-codec", "flac", "--target-sample-rate", 16000),
    ("manifest-to-tarred", "--num-shards", 1, "--force-codec", "opus"),
    ("manifest-to-shar", "--audio-format", "flac"),
    ("manifest-to-shar", "--audio-format", "original"),
    ("manifest-to-shar", "--audio-format", "flac", "--target-sample-rate", 22050),
]


@examples(30)
@given(st.lists(broken_audio(), min_size=1, max_size=8), st.sampled_from(JOBS), st.sampled_from([0.4, 0.5, 0.1, 3.0]))
def test_jobs(audio: list[tuple[str, bytes]], job: Sequence[object], duration: float) -> None:
    with scratch() as folder:
        lines = []
        for number, (name, data) in enumerate(audio):
            (folder / f"{number}.{name}").write_bytes(data)
            lines.append(json.dumps({"audio_filepath": f"{number}.{name}", "duration": duration, "text": "a"}) + "\n")
        (folder / "m.json").write_text("".join(lines))
        out = folder / "out"
        arguments = [job[0], folder / "m.json", out, *job[1:], "--num-workers", 1]
        if job[0] == "manifest-to-shar":
            arguments += ["--audio-base-dir", folder]
        check_call(folder, out, *arguments, allowed={0, 3})
        report = check_report(folder / "out.prepcli", [(folder / "m.json").read_bytes()])
        if report["records_out"]:
            done = prepcli("verify", out, "--num-workers", 1)
            problems = [line for line in done.out.splitlines() if "PROBLEM" in line]
            # That a recording is longer than its line says is the doing of the manifest; the checksum in the header
            # of FLAC that is copied is compared by --check-audio alone.
            known = ("duration is", "the MD5 in its header differs")
            assert all(any(text in problem for text in known) for problem in problems), done.out


def test_the_decoder_of_mp3_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """A note on each damaged file would bury the summary."""
    data = whole("mp3", 1)
    found = mpeg.scan(data)
    assert found is not None
    second = found.runs[0][0] + len(data) // 2
    with contextlib.suppress(RecordRejected):
        probe_bytes(data[:second] + bytes(400) + data[second + 400 :], "damaged.mp3")
    with contextlib.suppress(RecordRejected):
        probe_bytes(b"\xff\xe3\0\0\0\xff" + data[6:], "damaged.mp3")  # no rate that MPEG has, so libsndfile opens it
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", [*FORMATS, *SPHERES])
def test_the_whole_files_are_good(name: str) -> None:
    """Or the mutations would only show that bad files are bad."""
    if name == "shorten.sph":
        need("ffmpeg")
    for channels in (1, 2):
        data = whole(name, channels)
        info = probe_bytes(data, name)
        assert read_segment(data, info, 0, info.num_samples).shape == (info.num_samples, channels)
