"""inspect of conversations: turns by role and type, hours, texts, and lines that cannot be used."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import DATA, SHORT_CORPUS, read_lines, write_lines
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
    assert found["first_unusable"].startswith(f"{chats}:2: turn 1 has the role 'narrator'")
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
