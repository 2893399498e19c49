"""Names of other people on the terminal: shown as they are or escaped, in every command, and never obeyed."""

import io
import json
import os
import shlex
import subprocess
import tarfile
from pathlib import Path

import pytest

from prepcli.interface.printing import number_of, printable, printable_command
from tests.conftest import SHORT_CORPUS, write_lines
from tests.support.running import Outcome, prepcli

HOSTILE = "\x1b]0;owned\x07\x9b2J\u202e"
"""Sets the title of a terminal, clears it in eight bits, and shows what follows from right to left."""


def harmless(text: str) -> bool:
    return not any(char in text for char in "\x1b\x07\x9b\x7f\u202e")


def test_printable() -> None:
    assert printable("a\x1b[2Jb\nc\x9b\u2028\ud800") == "a\\x1b[2Jb\\nc\\x9b\\u2028\\ud800"
    assert printable("x\u202egnp.wav") == "x\\u202egnp.wav"
    for text in ("naïve 目录", "あ\u3000い", "क्\u200dष", "10\xa0000", "👩\u200d💻"):
        assert printable(text) == text


def test_counts() -> None:
    assert [number_of(count, "record") for count in (0, 1, 2, 1.0, 12345)] == [
        *("0 records", "1 record", "2 records", "1 record", "12,345 records")
    ]


def test_a_command_can_be_pasted() -> None:
    words = ["printf", "%s|", "it's\n\\odd\x1b", 'plain "one"', "目录"]
    assert printable_command("cd 'a b' && true") == "cd 'a b' && true"
    command = printable_command(f"cd / && {shlex.join(words)}")
    assert harmless(command) and "\n" not in command
    said = subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout.decode()
    assert said == 'it\'s\n\\odd\x1b|plain "one"|目录|'


def tarred_with_hostile_member(folder: Path, name: bytes) -> Path:
    """A tarred set in whose tar an odd name stands."""
    out = folder / "tarred"
    assert prepcli("manifest-to-tarred", SHORT_CORPUS / "manifest.json", out, "--num-shards", 1).code == 0
    with tarfile.open(out / "audio_0.tar", "a", encoding="utf-8", errors="surrogateescape") as tar:
        info = tarfile.TarInfo(os.fsdecode(name))
        info.size = 4
        tar.addfile(info, io.BytesIO(b"junk"))
    return out


@pytest.mark.parametrize("name", [HOSTILE.encode() + b".wav", b"two\nlines.wav", b"\xff\xfe.wav"])
def test_verify(tmp_path: Path, name: bytes) -> None:
    out = tarred_with_hostile_member(tmp_path, name)
    done = prepcli("verify", out)
    assert (done.code, done.err) == (1, "")
    assert harmless(done.out)
    assert printable(os.fsdecode(name)) in done.out
    assert all(line.startswith(("verify:", "  ")) for line in done.out.splitlines())
    as_json = prepcli("verify", out, "--json")
    assert (as_json.code, as_json.json["status"]) == (1, "broken")


@pytest.mark.parametrize("name", [HOSTILE.encode() + b".wav", b"\xff\xfe.wav"])
def test_inspect(tmp_path: Path, name: bytes) -> None:
    tar = tarred_with_hostile_member(tmp_path, name) / "audio_0.tar"
    done = prepcli("inspect", tar)
    assert (done.code, done.err) == (0, "")
    assert harmless(done.out)
    assert prepcli("inspect", tar, "--json").code == 0


def test_summaries_status_and_plans(tmp_path: Path) -> None:
    folder = tmp_path / "\x1bc\x07\u202e\nx"
    folder.mkdir()
    manifest = folder / "m.json"
    base = SHORT_CORPUS
    lines = [json.loads(line) for line in (SHORT_CORPUS / "manifest.json").read_text().splitlines()]
    write_lines(manifest, [*lines[:4], {"audio_filepath": f"{HOSTILE}.wav", "duration": 1}])
    out = folder / "out"
    arguments = ("manifest-to-tarred", manifest, out, "--num-shards", 2, "--audio-base-dir", base, "--max-rejects")
    seen: list[Outcome] = [
        prepcli(*arguments, 2, "--dry-run"),
        prepcli(*arguments, 2, "--rank", 0, "--world-size", 2, "--launch-id", "a", "--no-steal"),
        prepcli("status", out),
        prepcli("status", out, folder / "more"),
        prepcli("verify", out),
        prepcli("inspect", out),
        prepcli(*arguments, 0),
        prepcli("inspect", out),
        prepcli("manifest-to-tarred", folder / "nowhere.json", out, "--num-shards", 2),
        prepcli("estimate-bins", manifest, "-b", 2),
    ]
    assert [done.code for done in seen] == [0, 0, 0, 0, 2, 0, 3, 0, 2, 0]
    for done in seen:
        assert harmless(done.out + done.err), done
        assert "a bug" not in done.err
    for line in seen[2].out.splitlines():
        if line.strip().startswith("continue with: "):
            assert "$'" in line and "--audio-base-dir" in line
            break
    else:
        raise AssertionError(seen[2].out)
