"""inspect of conversations: turns by role and type, hours, texts, lines that cannot be used, and a page."""

import base64
import io
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.commands.inspect.test_page import WIDTH, asked
from tests.conftest import DATA, MINI_CORPUS, SHORT_CORPUS, read_lines, write_lines
from tests.support.conversations import conversations_of
from tests.support.running import prepcli

EXAMPLES = DATA / "conversations"
TURNS = {
    "nemo": {"Assistant text": 3, "User audio": 3, "User text": 1},
    "sharegpt": {"Assistant text": 1, "User audio": 1, "User text": 1},
    "swift": {"Assistant text": 1, "User audio": 2, "User text": 1},
    "qwen": {"Assistant text": 1, "User audio": 1, "User text": 1},
}


@pytest.mark.parametrize("name", TURNS)
def test_the_forms(name: str) -> None:
    done = prepcli("inspect", EXAMPLES / f"{name}.jsonl", "--json")
    assert done.code == 0, done.err
    found = done.json
    assert (found["kind"], found["turns"]) == ("conversations", TURNS[name])
    assert found["records"] == found["lines"] == len(read_lines(EXAMPLES / f"{name}.jsonl"))
    assert found["audio"][0]["looked_at"] == found["turns"]["User audio"]
    assert found["unusable"] == {} and "dialogues" not in found


def test_what_is_printed() -> None:
    out = prepcli("inspect", EXAMPLES / "nemo.jsonl").out
    assert "a file of conversations\n" in out
    assert "  turns    3 Assistant text, 3 User audio, 1 User text\n" in out
    assert "  1.06 s  a  User: What is said? | User: (1.06 s) | Assistant: Good morning to you.\n" in out


def test_lines_that_cannot_be_used(tmp_path: Path) -> None:
    shutil.copytree(SHORT_CORPUS, tmp_path / "corpus")
    lines = conversations_of(read_lines(SHORT_CORPUS / "manifest.json")[:6])
    lines[1]["conversations"][0]["from"] = "narrator"
    lines[2]["custom"] = {"_skipme": True}
    chats = write_lines(tmp_path / "corpus/chats.jsonl", lines)
    with chats.open("a") as file:
        file.write("{broken\n")
    found = prepcli("inspect", chats, "--json").json
    assert (found["records"], found["skipped"], found["lines"]) == (4, 1, 6)
    assert found["unusable"] == {"bad_field": 1, "broken_json": 1}
    assert found["first_unusable"].startswith(f"{chats}:2: turn 1: the role 'narrator'")
    assert "2 lines cannot be used (1 bad_field, 1 broken_json); the first is" in prepcli("inspect", chats).out


def test_audio_that_is_missing_or_too_short(tmp_path: Path) -> None:
    lines = conversations_of(read_lines(SHORT_CORPUS / "manifest.json")[:2])
    (audio,) = prepcli("inspect", write_lines(tmp_path / "chats.jsonl", lines), "--json").json["audio"]
    assert (audio["looked_at"], audio["missing"]) == (2, 2)
    lines[0]["conversations"][1]["duration"] = 99.0
    chats = write_lines(tmp_path / "chats.jsonl", lines)
    (audio,) = prepcli("inspect", chats, "--audio-base-dir", SHORT_CORPUS, "--json").json["audio"]
    assert (audio["missing"], audio["beyond_audio"]) == (0, 1)
    assert prepcli("inspect", chats, "--num-audio-files", 0, "--json").json["audio"] == []


def test_what_filter_has_written(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    assert prepcli("filter", EXAMPLES / "swift.jsonl", kept, "--keep", "duration > 0").code == 0
    found = prepcli("inspect", kept, "--json").json
    assert (found["kind"], found["turns"]) == ("conversations", TURNS["swift"])
    assert [run["command"] for run in found["runs"]] == ["filter"]


@pytest.mark.parametrize("form", ["", "nemo", "sharegpt-webdataset"])
def test_one_conversation(form: str, tmp_path: Path) -> None:
    """All turns with their numbers and the header of their audio, of a file and of both kinds of sets."""
    lines = conversations_of(read_lines(SHORT_CORPUS / "manifest.json")[:6])
    source = write_lines(tmp_path / "chats.jsonl", lines)
    base = ["--audio-base-dir", SHORT_CORPUS]
    if form:
        more = ("--form", form, "--num-shards", 2, *base)
        assert prepcli("conversations-to-tarred", source, tmp_path / "set", *more).code == 0
        source, base = tmp_path / "set", []
    done = prepcli("inspect", source, "--record", 4, *base, "--json")
    assert done.code == 0, done.err
    found = done.json
    assert (found["fields"]["id"], found["line"]) == ("chat4", 2 if form else 5)
    wanted = lines[4]["conversations"]
    assert [turn["value"] for turn in found["turns"][::2]] == [turn["value"] for turn in wanted[::2]]
    duration = wanted[1]["duration"]
    assert found["turns"][1]["duration"] == pytest.approx(duration, abs=1e-4)
    assert [audio["description"].partition(" Hz, ")[2].split()[0] for audio in found["audio"]] == [f"{duration:.3f}"]
    out = prepcli("inspect", source, "--record", 4, *base).out
    assert "  turn 1, User          Write what you hear.\n  turn 2, User          " in out
    done = prepcli("inspect", source, "--record", 6, *base)
    assert (done.code, "has 6 records, counted from 0: there is no record 6" in done.err) == (2, True)


def page_of(source: Path, folder: Path, *options: object) -> str:
    done = prepcli("inspect", source, "--html", folder / "page.html", *options)
    assert done.code == 0, done.err
    return (folder / "page.html").read_text(encoding="utf-8")


def clips(page: str) -> list[bytes]:
    return [base64.b64decode(data) for data in re.findall(r'src="data:audio/flac;base64,([^"]+)"', page)]


@pytest.mark.slow
@pytest.mark.parametrize("is_set", [False, True])
def test_a_dialogue_can_be_read_and_heard(is_set: bool, tmp_path: Path) -> None:
    source = EXAMPLES / "nemo.jsonl"
    if is_set:
        assert prepcli("conversations-to-tarred", source, tmp_path / "set").code == 0
        source = tmp_path / "set"
    page = page_of(source, tmp_path)
    spoken = re.findall(r'<div class="(said|answered)"><b>(\w+)</b>', page)
    assert spoken == [
        ("said", "User"), ("said", "User"), ("answered", "Assistant"),
        ("said", "User"), ("answered", "Assistant"), ("said", "User"), ("answered", "Assistant"),
    ]  # fmt: skip
    assert ("<h2>The conversations</h2>" in page, "The first records" in page) == (True, False)
    assert re.findall(r'<div class="words">(.*?)</div>', page)[:2] == ["What is said?", "Good morning to you."]
    first, _, part = [soundfile.read(io.BytesIO(data), dtype="int16") for data in clips(page)]
    wanted, rate = soundfile.read(MINI_CORPUS / "s01/s01_u1.flac", dtype="int16")
    assert np.array_equal(first[0], wanted) and first[1] == rate
    whole, _ = soundfile.read(MINI_CORPUS / "long/s01.flac", dtype="int16")
    assert np.array_equal(part[0], whole[3 * rate : round(4.5 * rate)])


def test_a_page_holds_a_few_turns_of_a_few_conversations(tmp_path: Path) -> None:
    """What a text says is shown; what cannot be heard says why."""
    lines = conversations_of(read_lines(SHORT_CORPUS / "manifest.json")[:8])
    for line in lines:
        line["conversations"][0]["value"] = "<script>alert(1)</script>"
        line["conversations"][1]["value"] = "none.flac"
        line["conversations"] += line["conversations"][2:] * 22
    chats = write_lines(tmp_path / "chats.jsonl", lines)
    page = page_of(chats, tmp_path)
    assert "<h2>A sample of the conversations</h2>" in page
    assert page.count('<div class="dialogue">') == 3
    assert page.count('<div class="said">') + page.count('<div class="answered">') == 3 * 20
    assert page.count("… and 5 more") == 3
    assert page.count("none.flac does not exist</div>") == 3
    assert "<script>" not in page and page.count("&lt;script&gt;alert(1)") == 3
    assert clips(page) == clips(page_of(EXAMPLES / "nemo.jsonl", tmp_path, "--num-audio-files", 0)) == []


@pytest.mark.slow
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    """All players have their sound, and nothing is wider than the screen."""
    page_of(EXAMPLES / "nemo.jsonl", tmp_path)
    script = """
        const players = [...document.querySelectorAll('audio')];
        const all = players.map(player => new Promise(done => {
            if (player.duration) done(player.duration);
            player.onloadedmetadata = () => done(player.duration);
        }));
        Promise.all(all).then(seconds => {
            const fits = document.documentElement.scrollWidth <= innerWidth;
            document.title = seconds.map(value => value.toFixed(2)).join(' ') + ' ' + fits;
        });
    """
    options = ("--virtual-time-budget=5000", f"--window-size={WIDTH},900")
    assert asked(tmp_path / "page.html", script, *options) == "1.06 1.28 1.50 true"
