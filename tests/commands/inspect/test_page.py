"""The page in a browser: it renders from disk, asks the network for nothing, and runs nothing that a text says."""

import html
import io
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import soundfile
from markupsafe import escape

from prepcli.commands.inspect.clips import MAX_CLIP_SAMPLES, AudioClip, cut_clips
from prepcli.commands.inspect.command import page_of
from prepcli.commands.inspect.kinds import what_is
from prepcli.commands.inspect.report import Inspection
from tests.commands.inspect.conftest import look
from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.running import HANG_SECONDS, prepcli
from tests.support.shar_sets import with_contexts
from tests.support.tools import need

EVIL = "</td></svg></title><script>document.title = 'OWNED'</script><img src=x onerror=\"document.title='OWNED'\">"


EVIL_FILE = '"><img src=x onerror="document.title=\'OWNED\'"> .flac'
LONG = "long_" * 2000
WIDTH = 1100
"""Pixels of a small laptop's screen."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about records with contexts, the first of which holds what a page must not obey."""
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(MINI_CORPUS, folder / "audio")
    shutil.copy(MINI_CORPUS / "s01/s01_u1.flac", folder / "audio" / EVIL_FILE)
    records = with_contexts(read_lines(MINI_CORPUS / "manifest.json"))
    for number, record in enumerate(records):
        record["context_speaker_similarity"] = 0.5 + number / 100
    records[0] |= {"text": EVIL, "speaker": EVIL, "lang": EVIL, EVIL: "x", "more": {"a": [EVIL, "$x_1$"]}}
    records[1] |= {"text": "看 $\\frac{1}{0}$ \x00\x1b", "speaker": "名 $\\bad{$"}
    records[2] |= {"audio_filepath": EVIL_FILE, "duration": 0.25}  # the two shortest records are outliers
    records[3] |= {"audio_filepath": "missing" + EVIL_FILE, "duration": 0.5}
    records[4] |= {"text": LONG, "speaker": LONG, "audio_filepath": f"{LONG}.flac", LONG: LONG}
    manifest = write_lines(folder / "<b>&amp; m.json", records)
    done = prepcli("inspect", manifest, "--audio-base-dir", folder / "audio", "--html", folder / "page.html")
    assert (done.code, done.err) == (0, "")
    return folder / "page.html"


def browse(page: Path, *options: str) -> str:
    """What headless Chromium prints; no name resolves to an address there."""
    chromium = need("chromium", "chromium-browser", "google-chrome")
    profile = page.parent / "profile"
    done = subprocess.run(
        [
            chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            f"--user-data-dir={profile}", "--host-resolver-rules=MAP * ~NOTFOUND", *options, page.as_uri(),
        ],
        capture_output=True, text=True, timeout=HANG_SECONDS, check=False, cwd=page.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def asked(page: Path, script: str, *options: str) -> str:
    """What a script finds out about a page, which forbids scripts; it puts that into the title."""
    text = re.sub(r"<meta http-equiv[^>]*>", "", page.read_text(encoding="utf-8"))
    open_page = page.with_name("open.html")
    open_page.write_text(f"{text}<script>{script}</script>", encoding="utf-8")
    title = re.search(r"<title>(.*?)</title>", browse(open_page, "--dump-dom", *options))
    assert title is not None
    return html.unescape(title[1])


def test_it_refers_to_nothing_outside(page: Path) -> None:
    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag not in ("script", "img", "link", "iframe", "object", "embed", "base", "form"), tag
            for name, value in attrs:
                assert not name.startswith("on"), name
                if (tag, name) == ("audio", "src"):
                    assert value is not None and re.fullmatch(r"data:audio/flac;base64,[\w+/=]+", value)
                    continue
                assert name not in ("src", "srcset", "action", "data"), (name, value)
                if name in ("href", "xlink:href"):
                    assert value is not None and value.startswith("#"), value

    text = page.read_text(encoding="utf-8")
    Links().feed(text)
    assert not re.search(r"https?:|@import|url\((?!#)", text)
    assert "default-src 'none'" in text
    assert 'media-src data:"' in text
    assert str(escape(EVIL)) in text
    assert str(escape(EVIL_FILE)) in text
    assert f"missing{escape(EVIL_FILE)} does not exist" in text


def test_a_browser_renders_it_and_obeys_no_text(page: Path) -> None:
    document = browse(page, "--dump-dom")
    title = re.search(r"<title>(.*?)</title>", document)
    assert title is not None and html.unescape(title[1]) == "<b>&amp; m.json: a NeMo manifest"
    assert document.count("<svg") == document.count("</svg>") == 4
    assert not re.search(r"<(script|img)\b", document)
    headings = re.findall(r"<h3>(.*?)</h3>", document)
    assert headings == ["Durations", "Characters per second", "Similarity of the context", "Speakers by hours"]
    assert document.count("<path") > 40
    for words in ("median", "minutes", "cosine similarity", "$x_1$", "Made by prepcli"):
        assert words in document
    assert "名 $\\bad{$" in document


def test_it_fits_a_small_screen(page: Path) -> None:
    """No table is wider than the page, also with names of 10,000 characters and many fields."""
    script = """
        const boxes = [...document.querySelectorAll('body *')].map(one => one.getBoundingClientRect());
        const hidden = [...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth);
        document.title = Math.ceil(Math.max(...boxes.map(one => one.right))) + ' ' + hidden.length;
    """
    right, num_hidden = asked(page, script, f"--window-size={WIDTH},2000").split()
    assert int(right) <= WIDTH
    assert num_hidden == "0"


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


def test_the_browser_would_have_run_it_unescaped(page: Path) -> None:
    """The judge can say no: without escaping and policy, the same text takes the page over."""
    opened = html.unescape(re.sub(r"<meta http-equiv[^>]*>", "", page.read_text(encoding="utf-8")))
    broken = page.with_name("broken.html")
    broken.write_text(opened, encoding="utf-8")
    assert "<title>OWNED</title>" in browse(broken, "--dump-dom")


def test_a_screenshot_shows_bars(page: Path, tmp_path: Path) -> None:
    shot = tmp_path / "page.png"
    browse(page, f"--screenshot={shot}", "--window-size=1300,1600", "--hide-scrollbars")
    image = pytest.importorskip("matplotlib.image").imread(shot)
    assert image.shape[:2] == (1600, 1300)
    blue = (abs(image[:, :, :3] * 255 - (0x3B, 0x6F, 0xB6)) < 3).all(axis=2)
    assert 10_000 < blue.sum() < image[:, :, 0].size / 2
    assert (image[:, :, :3].min(axis=2) > 0.99).mean() > 0.5  # a light page


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("kind", ["tarred", "shar", "codes"])
def test_a_page_of_each_kind(kind: str, request: pytest.FixtureRequest) -> None:
    found = look(request.getfixturevalue(kind))
    page = page_of(found, [], "prepcli inspect x --html 'a b'.html")
    assert page.count("<svg") == (0 if kind == "codes" else 3)
    assert "<code>prepcli inspect x --html &#39;a b&#39;.html</code>" in page
    assert page.count("<table") == page.count("</table>") >= 2


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

    monkeypatch.setattr("prepcli.commands.inspect.command.page_of", page_without)
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


def test_no_audio_is_opened_if_none_is_wanted(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert prepcli("inspect", MINI_CORPUS / "manifest.json", "--num-audio-files", 0, "--html", page).code == 0
    assert "<audio" not in page.read_text()


def test_the_tile_says_how_many_languages_it_leaves_out(tmp_path: Path) -> None:
    page = page_of(look(MINI_CORPUS / "manifest.json"), [], "")
    assert "<b>en, it, es, de, 1 more</b><span>languages</span>" in page
    languages = [{"audio_filepath": "a", "duration": 1, "lang": f"l{number:02}"} for number in range(30)]
    found = look(write_lines(tmp_path / "m.json", languages), num_audio_files=0)
    page = page_of(found, [], "")
    assert "<b>l00, l01, l02, l03, 26 more</b>" in page
    assert "22 more</td>" in page
    assert "… and 10 more: --csv FILE.csv writes all of them." in page


def test_one_record_and_one_value(tmp_path: Path) -> None:
    found = look(write_lines(tmp_path / "m.json", [{"audio_filepath": "a.wav", "duration": 3}]))
    assert page_of(found, [], "").count("<svg") == 1


@pytest.mark.parametrize("package", ["jinja2", "matplotlib.backends.backend_agg"])
def test_without_what_the_page_needs(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    done = prepcli("inspect", MINI_CORPUS / "manifest.json", "--html", tmp_path / "page.html")
    assert (done.code, done.out) == (2, "")
    assert done.error_line.endswith(f"--html needs {package.partition('.')[0]}: pip install 'prepcli[plot]'")
    assert not list(tmp_path.iterdir())


def test_a_page_that_does_not_fit_on_the_disk_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = MINI_CORPUS / "manifest.json"
    page = tmp_path / "page.html"
    (tmp_path / "link.html").symlink_to("page.html")
    assert prepcli("inspect", manifest, "--html", page).code == 0
    before = page.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("prepcli.engine.state.workspace.os.fsync", full)
        done = prepcli("inspect", MINI_CORPUS / "segments.json", "--html", page)
    assert done.code == 1
    assert "No space left on device" in done.error_line
    assert page.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == [tmp_path / "link.html", page]
    assert prepcli("inspect", MINI_CORPUS / "segments.json", "--html", tmp_path / "link.html").code == 0
    assert (tmp_path / "link.html").is_symlink()
    assert page.read_bytes() != before
