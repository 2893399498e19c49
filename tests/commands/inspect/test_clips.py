"""The audio of a page: parts of files, and members of tars."""

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from prepcli.commands.inspect.clips import MAX_CLIP_SAMPLES, AudioClip, cut_clips
from prepcli.commands.inspect.kinds import what_is
from prepcli.commands.inspect.report import Inspection
from tests.commands.inspect.conftest import look
from tests.commands.inspect.test_page import asked
from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.running import prepcli

EVIL = "</td></svg></title><script>document.title = 'OWNED'</script><img src=x onerror=\"document.title='OWNED'\">"


EVIL_FILE = '"><img src=x onerror="document.title=\'OWNED\'"> .flac'


LONG = "long_" * 2000


@pytest.mark.slow
def test_its_audio_can_be_heard(page: Path) -> None:
    """A browser decodes all clips; those of the outliers come first, with the shortest record."""
    script = """
        const clips = [...document.querySelectorAll('audio')];
        Promise.all(clips.map(one => new Promise(done => {
            one.onloadedmetadata = () => done(one.duration); one.onerror = () => done('failed'); one.load();
        }))).then(found => { document.title = found.join(' '); });
    """
    seconds = list(map(float, asked(page, script, "--virtual-time-budget=20000").split()))
    assert 15 <= len(seconds) <= 20
    assert seconds[0] == pytest.approx(0.25, abs=0.01)
    assert max(seconds) == pytest.approx(6.52, abs=0.01)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("kind", ["tarred", "shar"])
def test_the_audio_of_a_set_lies_in_its_tars(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each clip is the audio of its record, found by the line of the record."""
    cut: list[list[AudioClip]] = []

    def page_without(found: Inspection, clips: list[AudioClip], command: str) -> str:
        cut.append(clips)
        return ""

    monkeypatch.setattr("prepcli.commands.inspect.page.page_of", page_without)
    path = request.getfixturevalue(kind)
    assert prepcli("inspect", path, "--html", tmp_path / "page.html").code == 0
    (clips,) = cut
    found = look(path)
    examples = [*found.outliers, *found.sample]
    assert 15 <= len(clips) == len(examples) <= 20
    texts = {record["text"]: record["audio_filepath"] for record in read_lines(MINI_CORPUS / "manifest.json")}
    for clip, example in zip(clips, examples, strict=True):
        samples = soundfile.read(MINI_CORPUS / texts[example.fields["text"]], dtype="int16")[0]
        np.testing.assert_array_equal(soundfile.read(io.BytesIO(clip.data), dtype="int16")[0], samples)


def test_clips_are_parts_of_files(tmp_path: Path) -> None:
    """Segments, a channel, a long record, and audio that no browser has to decode: a clip for each."""
    rate = 96_000
    noise = np.random.default_rng(0).integers(-9000, 9000, (5 * rate, 2), np.int16)
    soundfile.write(tmp_path / "a.w64", noise, rate)
    records = [
        {"audio_filepath": "a.w64", "duration": 0.5, "offset": 1.0, "channel": 1},
        {"audio_filepath": "a.w64", "duration": 5.0},
        {"audio_filepath": "a.w64", "duration": 1.0, "channel": 7},
        {"audio_filepath": "a.w64", "duration": 9.0},
    ]
    found = look(write_lines(tmp_path / "m.json", records))
    clips = cut_clips(what_is(str(tmp_path / "m.json")), found.sample, None)
    first, long, wrong, beyond = clips
    np.testing.assert_array_equal(
        soundfile.read(io.BytesIO(first.data), dtype="int16")[0], noise[rate : rate * 3 // 2, 1]
    )
    assert soundfile.info(io.BytesIO(long.data)).frames == MAX_CLIP_SAMPLES
    assert long.note == "the first 3.1 s of 5.0 s"
    assert (wrong.data, beyond.data) == (b"", b"")
    assert "channel is 7; " in wrong.note
    assert "after the end of the audio" in beyond.note


@pytest.mark.slow
def test_no_audio_is_opened_if_none_is_wanted(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert prepcli("inspect", MINI_CORPUS / "manifest.json", "--num-audio-files", 0, "--html", page).code == 0
    assert "<audio" not in page.read_text()
