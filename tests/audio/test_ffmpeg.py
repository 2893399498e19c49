"""AAC, MP4, WMA, WebM and GSM through ffmpeg or PyAV: ffmpeg's samples, whole and in segments, and nothing else."""

import io
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from prepcli.audio import ffmpeg, pyav
from prepcli.audio.containers import boxes
from prepcli.audio.external import run_tool
from prepcli.audio.ffmpeg import SOME_AUDIO
from prepcli.audio.info import AudioInfo
from prepcli.audio.probe import probe, probe_bytes
from prepcli.audio.read import read_segment
from prepcli.audio.source import ByteSource
from prepcli.errors import RecordRejected, RejectReason
from tests.audio.conftest import Samples
from tests.conftest import read_lines, write_lines
from tests.support.running import prepcli
from tests.support.tools import import_pyav, need, slow, tool

KINDS = {
    "a.m4a": ("MP4", ["-c:a", "aac", "-b:a", "128k"]),  # whose index is behind the audio
    "first.m4a": ("MP4", ["-c:a", "aac", "-movflags", "faststart"]),
    "pieces.mp4": ("MP4", ["-c:a", "aac", "-movflags", "frag_keyframe+empty_moov"]),
    "lossless.m4a": ("MP4", ["-c:a", "alac"]),
    "gsm.mov": ("MP4", ["-ar", "8000", "-c:a", "libgsm"]),
    "a.aac": ("AAC", ["-c:a", "aac"]),
    "tagged.aac": ("AAC", ["-c:a", "aac", "-write_id3v2", "1", "-metadata", "title=x"]),
    "a.wma": ("WMA", ["-c:a", "wmav2"]),
    "a.webm": ("WebM", ["-c:a", "libopus"]),
    "a.gsm": ("GSM", ["-ar", "8000", "-c:a", "libgsm"]),
    "a.spx": ("Speex", ["-c:a", "libspeex"]),
    "mp3.mp4": ("MP4", ["-c:a", "libmp3lame"]),
    "vorbis.mkv": ("WebM", ["-c:a", "libvorbis"]),
}
LEFT_TO_FFMPEG = ("a.webm",)
ROUNDED = ("a.m4a", "first.m4a", "pieces.mp4", "a.aac", "tagged.aac", "a.wma", "vorbis.mkv")
"""Codecs that compute with fractions: their samples depend on FFmpeg's version, in the last bit of float32."""
SHORTEST = ("a.m4a", "gsm.mov", "a.webm")


@pytest.fixture(params=["ffmpeg", "PyAV"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test runs with ffmpeg's process, as without PyAV, and with PyAV."""
    name: str = request.param
    if name == "PyAV":
        import_pyav(monkeypatch)
    else:
        monkeypatch.setattr("prepcli.audio.pyav.is_installed", lambda: False)
    monkeypatch.setattr("prepcli.audio.ffmpeg._Last.decoded", None)
    return name


def encoded(folder: Path, speech: Samples, name: str) -> Path:
    """A file as ffmpeg writes it, of one of `KINDS`."""
    soundfile.write(folder / "source.wav", speech, 16000)
    path = folder / name
    tool("ffmpeg", "-v", "error", "-y", "-i", folder / "source.wav", *KINDS[name][1], path)
    return path


def by_ffmpeg(path: Path) -> Samples:
    """All samples of a file, by its name and with ffmpeg's own choice of everything."""
    raw = tool("ffmpeg", "-v", "error", "-i", path, "-f", "f32le", "-")
    return np.frombuffer(raw, "<f4").reshape(-1, 1)


@pytest.mark.parametrize("name", [name if name in SHORTEST else slow(name) for name in KINDS])
def test_samples_and_segments(
    tmp_path: Path, speech: Samples, name: str, decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = encoded(tmp_path, speech, name)
    whole = by_ffmpeg(path)
    if decoder == "PyAV" and name not in LEFT_TO_FFMPEG:
        monkeypatch.setattr("prepcli.audio.ffmpeg.run_tool", None)  # no process
    most = 2**-22 if decoder == "PyAV" and name in ROUNDED else 0
    assert len(whole) > 0.9 * len(speech) * (0.5 if "gsm" in name else 1)
    rate = {"a.webm": 48000}.get(name, 8000 if "gsm" in name else 16000)
    odd = path.rename(tmp_path / "-i x.wav")  # judged by its content, and no option of ffmpeg
    info = probe(odd)
    assert info == AudioInfo("ffmpeg", KINDS[name][0], rate, len(whole), 1, None)
    assert not info.is_passable
    for source in (odd, odd.read_bytes()):
        for start, count in ((0, len(whole)), (1, 1000), (len(whole) - 333, 333)):
            samples = read_segment(source, info, start, count)
            assert samples.dtype == np.float32 and samples.shape == (count, 1)
            assert np.max(np.abs(samples - whole[start : start + count])) <= most
        with pytest.raises(RecordRejected, match="ends early: 10 samples wanted"):
            read_segment(source, info, len(whole) - 9, 10)


@pytest.mark.parametrize(
    ("magic", "frame", "rate"),
    [(b"#!AMR\n", b"\x3c" + bytes(31), 8000), (b"#!AMR-WB\n", b"\x04" + bytes(17), 16000)],
)
@pytest.mark.usefixtures("decoder")
def test_amr(tmp_path: Path, magic: bytes, frame: bytes, rate: int) -> None:
    """Written by hand, because ffmpeg has no encoder of its own: frames of 20 ms."""
    need("ffmpeg")
    path = tmp_path / "a.amr"
    path.write_bytes(magic + 25 * frame)
    info = probe(path)
    assert info == AudioInfo("ffmpeg", "AMR", rate, rate // 2, 1, None)
    assert np.array_equal(read_segment(path, info), by_ffmpeg(path))
    with pytest.raises(RecordRejected, match="ends early"):
        probe_bytes(path.read_bytes()[:-5], "a.amr")


@pytest.mark.slow
@pytest.mark.usefixtures("decoder")
@pytest.mark.parametrize("name", ["a.m4a", "first.m4a", "a.aac", "a.wma", "a.webm"])
def test_cut_short(tmp_path: Path, speech: Samples, name: str) -> None:
    data = encoded(tmp_path, speech, name).read_bytes()
    # The last bytes of AAC are padding that no decoder misses.
    for length in (len(data) - (2 if name != "a.aac" else 40), len(data) - 1000, len(data) // 2, 200):
        with pytest.raises(RecordRejected, match="ends early") as caught:
            probe_bytes(data[:length], "a.m4a")
        assert caught.value.reason is RejectReason.UNREADABLE_AUDIO
        assert caught.value.detail.isprintable() and "0x" not in caught.value.detail


@pytest.mark.slow
@pytest.mark.usefixtures("decoder")
def test_a_packet_that_is_marked_as_damaged(tmp_path: Path, speech: Samples) -> None:
    """In the middle of MPEG-TS: its decoder would give samples all the same."""
    soundfile.write(tmp_path / "source.wav", speech, 16000)
    tool("ffmpeg", "-v", "error", "-i", tmp_path / "source.wav", "-c:a", "aac", tmp_path / "a.ts")
    data = bytearray((tmp_path / "a.ts").read_bytes())
    assert probe_bytes(bytes(data), "a.ts").num_samples > 0.9 * len(speech)
    data[len(data) // 188 // 2 * 188 + 1] |= 0x80  # transport_error_indicator
    with pytest.raises(RecordRejected, match="damaged"):
        probe_bytes(bytes(data), "a.ts")


def test_mp4_with_a_damaged_index(tmp_path: Path, speech: Samples, decoder: str) -> None:
    """Its numbers are made absurd one by one: a reject, unless ffmpeg reads the same audio all the same."""
    data = encoded(tmp_path, speech[:8000], "a.m4a").read_bytes()
    index = next(box for box in boxes(ByteSource(data)) if box.kind == b"moov")
    table = data.index(b"stco", index.start)
    refused = []
    for at in (index.start, table - 4, table + 8, table + 12):
        broken = data[:at] + b"\xff\xff\xff\xf0" + data[at + 4 :]
        try:
            assert probe_bytes(broken, "a.m4a") == probe_bytes(data, "a.m4a")
        except RecordRejected as rejected:
            refused.append(rejected.detail)
    # PyAV seeks, and needs no correction of the index, so it also reads the file whose number of offsets is absurd.
    assert len(refused) >= (3 if decoder == "ffmpeg" else 2), refused
    assert all("ends early" in detail or "damaged" in detail for detail in refused)


PLAYLISTS = {
    "m3u": "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:1.0,\n{}\n#EXT-X-ENDLIST\n",
    "concat": "ffconcat version 1.0\nfile {}\n",
    "tagged": "ID3\x04\0\0\0\0\0\0#EXTM3U\n#EXTINF:1.0,\n{}\n#EXT-X-ENDLIST\n",
    "typed": "\0\0\0\x14ftypM4A \0\0\0\0M4A #EXTM3U\n#EXTINF:1.0,\n{}\n#EXT-X-ENDLIST\n",
}


@pytest.mark.slow
@pytest.mark.usefixtures("decoder")
@pytest.mark.parametrize("kind", PLAYLISTS)
def test_a_playlist_names_a_file(tmp_path: Path, speech: Samples, kind: str) -> None:
    """It is called .m4a and names another file, which ffmpeg by itself opens; here it is a reject."""
    secret = encoded(tmp_path, speech, "a.aac")
    playlist = tmp_path / "list.m4a"
    playlist.write_text(PLAYLISTS[kind].format(secret))
    if kind == "m3u":
        followed = subprocess.run([need("ffmpeg"), "-i", playlist, "-f", "f32le", "-"], capture_output=True, check=True)
        assert len(followed.stdout) == 4 * len(by_ffmpeg(secret))
    with pytest.raises(RecordRejected, match=r"is not audio|ends early"):
        probe(playlist)


@pytest.mark.slow
def test_many_segments_of_a_file_are_decoded_once(
    tmp_path: Path, speech: Samples, decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = encoded(tmp_path, speech, "a.m4a")
    runs: list[object] = []

    def counted(function: Any) -> Any:
        def call(*arguments: object) -> object:
            runs.append(arguments)
            return function(*arguments)

        return call

    if decoder == "PyAV":
        monkeypatch.setattr("prepcli.audio.pyav.decode", counted(pyav.decode))
    else:
        monkeypatch.setattr("prepcli.audio.ffmpeg.run_tool", counted(run_tool))
    info = probe(path)
    for start in range(0, 60_000, 1000):
        read_segment(path, info, start, 1000)
    assert len(runs) == 1
    shutil.copy(encoded(tmp_path, speech[:50_000], "first.m4a"), path)  # another file of this name
    with pytest.raises(RecordRejected, match="has changed"):
        read_segment(path, info, 0, 1000)
    assert probe(path).num_samples < 60_000


@pytest.mark.slow
def test_without_ffmpeg(
    tmp_path: Path, speech: Samples, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prepcli.audio.pyav.is_installed", lambda: False)
    paths = [encoded(tmp_path, speech[:16_000], name) for name in ("a.m4a", "a.aac", "a.wma", "a.webm", "a.gsm")]
    infos = [probe(path) for path in paths]
    request.getfixturevalue("no_tools")
    ffmpeg._Last.decoded = None
    for path, info in zip(paths, infos, strict=True):
        for read in (lambda path=path: probe(path), lambda path=path, info=info: read_segment(path, info)):
            with pytest.raises(RecordRejected, match=r"ffmpeg reads it: install the Debian package ffmpeg"):
                read()
    with pytest.raises(RecordRejected, match=r"ffmpeg reads it: install the Debian package ffmpeg"):
        probe_bytes(b"#!AMR\n" + bytes(32 * 13), "call.amr")  # which sox may read as well


@pytest.mark.slow
def test_shards_of_m4a(tmp_path: Path, speech: Samples) -> None:
    """Durations are those of the decoded audio; shards hold FLAC of its samples; a note says so."""
    folder = tmp_path / "audio"
    folder.mkdir()
    whole = by_ffmpeg(encoded(folder, speech, "a.m4a"))
    (folder / "source.wav").unlink()
    made = prepcli("make-manifest", folder, tmp_path / "m.json", "--json")
    assert made.code == 0, made.err
    assert SOME_AUDIO in made.json["notes"]
    (record,) = read_lines(tmp_path / "m.json")
    assert record["duration"] == len(whole) / 16000
    segments = [record | {"offset": offset, "duration": 0.5} for offset in (0.0, 1.25, 3.0)]
    write_lines(tmp_path / "m.json", segments)
    done = prepcli("manifest-to-tarred", tmp_path / "m.json", tmp_path / "t", "--num-shards", 1, "--slice-with-offset",
                   "--json")  # fmt: skip
    assert done.code == 0 and SOME_AUDIO in done.json["notes"]
    names = tool("tar", "-tf", tmp_path / "t/audio_0.tar").decode().split()
    expected = np.clip(np.rint(whole * 32768), -32768, 32767).astype(np.int16)
    for name, offset in zip(names, (0, 20_000, 48_000), strict=True):
        samples, _ = soundfile.read(
            io.BytesIO(tool("tar", "-xOf", tmp_path / "t/audio_0.tar", name)), dtype="int16", always_2d=True
        )
        assert np.array_equal(samples, expected[offset : offset + 8000])
