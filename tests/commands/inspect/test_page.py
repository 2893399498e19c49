"""The page in a browser: it renders from disk, asks the network for nothing, and runs nothing that a text says."""

import html
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markupsafe import escape

from prepcli.commands.inspect.page import page_of
from tests.commands.inspect.conftest import EVIL, EVIL_FILE, look
from tests.conftest import MINI_CORPUS, write_lines
from tests.support.running import HANG_SECONDS, prepcli
from tests.support.tools import need

WIDTH = 1100
"""Pixels of a small laptop's screen."""


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_browser_would_have_run_it_unescaped(page: Path) -> None:
    """The judge can say no: without escaping and policy, the same text takes the page over."""
    opened = html.unescape(re.sub(r"<meta http-equiv[^>]*>", "", page.read_text(encoding="utf-8")))
    broken = page.with_name("broken.html")
    broken.write_text(opened, encoding="utf-8")
    assert "<title>OWNED</title>" in browse(broken, "--dump-dom")


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
