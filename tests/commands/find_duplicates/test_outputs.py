"""The files of find-duplicates lie in one folder, and replace nothing of others."""

from pathlib import Path

import pytest

from tests.conftest import Lines, write_lines
from tests.support.running import prepcli


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    lines: Lines = [{"audio_filepath": "a.wav", "duration": 1.0, "text": text} for text in ("x", "y", "x")]
    return write_lines(tmp_path / "m.json", lines)


def test_names_that_are_refused(manifest: Path, tmp_path: Path) -> None:
    assert prepcli("find-duplicates", manifest, "--write-prints", tmp_path / "a.prints", "--by", "text").code == 0
    (tmp_path / "theirs.prints").write_bytes(b"theirs")
    (tmp_path / "below").mkdir()
    against = "--against a.prints --by text"
    for words, message in {
        "m.json": "name the file to write: OUT.jsonl, or --write-prints FILE",
        "m.json below/out.jsonl --write-prints b.prints": "--write-prints b.prints: give another name, in the folder",
        "m.json out.jsonl --write-prints out.jsonl": "are one file",
        "m.json --write-prints b.wav --by text": "this is a name of audio",
        "m.json --write-prints below --by text": "below is a folder",
        "m.json --write-prints theirs.prints --by text": "theirs.prints",
        "m.json out.jsonl --write-prints theirs.prints --by text": "theirs.prints",
        "m.json --write-prints m.json --by text": "would replace it",
        f"m.json out.jsonl {against} --certificate c.txt": "--certificate c.txt: the name must end in .json",
        f"m.json c.html {against} --certificate c.json": "page",
        f"m.json out.jsonl {against} --certificate m.json": "m.json",
        f"m.json out.jsonl {against} --write-prints a.prints": "a.prints",
        f"m.json out.jsonl {against} --between": "--between has no effect with --against",
        f"m.json out.jsonl {against} --speaker-model x": "--speaker-model has no effect with --against",
        "m.json out.jsonl --by speaker --speaker-model x --write-prints b.prints": "--speaker-model has no effect with",
    }.items():
        refused = prepcli("find-duplicates", *words.split(), cwd=tmp_path)
        assert (refused.code, refused.out) == (2, ""), words
        assert message in refused.error_line, words
    assert (tmp_path / "theirs.prints").read_bytes() == b"theirs"
    assert not (tmp_path / "out.jsonl").exists()


def test_groups_and_prints(manifest: Path, tmp_path: Path) -> None:
    """The groups are those without prints; another name of the prints is another run, which replaces the files."""
    words = ("find-duplicates", manifest, tmp_path / "out.jsonl", "--by", "text")
    assert prepcli(*words).code == 0
    groups = (tmp_path / "out.jsonl").read_bytes()
    changed = prepcli(*words, "--write-prints", tmp_path / "a.prints")
    assert changed.code == 2
    assert "--write-prints was not given, now a.prints" in changed.error_line
    assert prepcli(*words, "--write-prints", tmp_path / "a.prints", "--overwrite").code == 0
    assert (tmp_path / "out.jsonl").read_bytes() == groups
    alone = prepcli("find-duplicates", manifest, "--by", "text", "--write-prints", tmp_path / "b.prints")
    assert alone.code == 0
    assert (tmp_path / "b.prints").read_bytes() == (tmp_path / "a.prints").read_bytes()
    assert prepcli(*words, "--write-prints", tmp_path / "c.prints", "--overwrite").code == 0
    assert sorted(path.name for path in tmp_path.glob("*.prints")) == ["b.prints", "c.prints"]
    dry = prepcli("find-duplicates", manifest, "--by", "text", "--write-prints", tmp_path / "d.prints", "--dry-run")
    assert (dry.code, (tmp_path / "d.prints").exists()) == (0, False)
