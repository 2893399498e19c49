"""verify of files of conversations: each line in any form, and the audio of each turn."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import DATA, SHORT_CORPUS, Lines, read_lines, write_lines
from tests.support.conversations import conversations_of, share_gpt_of
from tests.support.running import prepcli

EXAMPLES = DATA / "conversations"
RECORDS = read_lines(SHORT_CORPUS / "manifest.json")[:6]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHORT_CORPUS, tmp_path / "corpus"))


@pytest.mark.parametrize("name", ["nemo", "sharegpt", "swift", "qwen"])
def test_the_forms(name: str) -> None:
    done = prepcli("verify", EXAMPLES / f"{name}.jsonl", "--json")
    assert (done.code, done.json["problems"]) == (0, [])
    assert (done.json["kind"], done.json["records"]) == ("manifest", len(read_lines(EXAMPLES / f"{name}.jsonl")))


def edited(lines: Lines, turn: int, **values: object) -> None:
    lines[2]["conversations"][turn - 1] |= values


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda lines: edited(lines, 2, value="none.flac"), "turn 2: {}/none.flac does not exist"),
        (
            lambda lines: edited(lines, 2, duration=9),
            "turn 2: {}/s01/s01_u3.flac: offset 0 s + duration 9 s ends 8.840 s after the end of the audio (0.160 s)",
        ),
        (
            lambda lines: edited(lines, 2, offset=9),
            "turn 2: {}/s01/s01_u3.flac: offset 9 s is not before the end of the audio (0.160 s)",
        ),
        (
            lambda lines: edited(lines, 2, sampling_rate=8000),
            "turn 2: {}/s01/s01_u3.flac: sampling_rate is 8000, but the audio has 22050 Hz",
        ),
        (
            lambda lines: edited(lines, 2, duration="1"),
            "turn 2: duration is '1'; it must be a number of seconds",
        ),
        (lambda lines: lines[2].update(conversations=[]), "conversations has no turns"),
        (lambda lines: lines.insert(2, []), "the line is not a JSON object: expected `object`, got `array`"),
    ],
)
def test_problems_have_the_line_and_the_turn(corpus: Path, change: Callable[[Lines], None], problem: str) -> None:
    lines = conversations_of(RECORDS)
    change(lines)
    done = prepcli("verify", write_lines(corpus / "chats.jsonl", lines), "--json")
    assert done.code == 1
    assert done.json["problems"] == [f"chats.jsonl:3: {problem.format(corpus)}"]


def test_what_nemo_skips_is_not_checked(corpus: Path) -> None:
    lines = conversations_of(RECORDS)
    lines[2]["conversations"][1]["value"] = "none.flac"
    lines[2]["custom"] = {"_skipme": True}
    done = prepcli("verify", write_lines(corpus / "chats.jsonl", lines), "--json")
    assert (done.code, done.json["records"]) == (0, 5)


def test_a_blank_line_and_a_line_that_is_cut_off(corpus: Path) -> None:
    chats = write_lines(corpus / "chats.jsonl", conversations_of(RECORDS))
    chats.write_text(chats.read_text().replace("\n", "\n\n", 1).rstrip("\n"))
    problems = prepcli("verify", chats, "--json").json["problems"]
    assert problems == ["chats.jsonl:2: a blank line, which ends NeMo's reading", "chats.jsonl:7: cut off: no line end"]


def test_what_filter_and_split_have_written(corpus: Path, tmp_path: Path) -> None:
    """Also that it was changed since."""
    chats = write_lines(corpus / "chats.jsonl", share_gpt_of(RECORDS))
    assert prepcli("filter", chats, tmp_path / "kept.json", "--keep", "duration > 0").code == 0
    assert prepcli("split", chats, tmp_path / "parts", "--part", "a=0.5", "--part", "b=rest").code == 0
    for out in (tmp_path / "kept.json", tmp_path / "parts"):
        done = prepcli("verify", out, "--json")
        assert (done.code, done.json["records"], done.json["hashes_known"]) == (0, 6, True), done.out
    (corpus / RECORDS[0]["audio_filepath"]).unlink()
    for out in (tmp_path / "kept.json", tmp_path / "parts"):
        (found,) = prepcli("verify", out, "--json").json["problems"]
        assert ": turn 2: " in found and RECORDS[0]["audio_filepath"] in found


def test_the_manifest_of_a_shard_is_compared_with_its_tar(corpus: Path, tmp_path: Path) -> None:
    chats = write_lines(corpus / "chats.jsonl", conversations_of(RECORDS))
    assert prepcli("conversations-to-tarred", chats, tmp_path / "set", "--num-shards", 2).code == 0
    manifest = tmp_path / "set/manifest_1.jsonl"
    assert prepcli("verify", manifest).code == 0
    manifest.write_text(manifest.read_text().replace("0000004-02", "0000009-02"))
    problems = prepcli("verify", manifest, "--json").json["problems"]
    assert any(problem.startswith("manifest_1.jsonl:2: turn 2: ") for problem in problems), problems
