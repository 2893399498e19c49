"""Files of other kinds: every command names the same kind with the same remedy, and the remedy works."""

import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prepcli.manifest.kinds import kind_of
from tests.conftest import read_lines
from tests.manifest.conftest import NAMES
from tests.support.running import Outcome, prepcli
from tests.support.tools import need

RECORDS: list[dict[str, Any]] = [
    {"audio_filepath": name, "duration": 0.25, "text": f'a "text" of {name[5:7]}'} for name in NAMES
]
COMMANDS: tuple[tuple[object, ...], ...] = (
    ("manifest-to-tarred", "{}", "out", "--num-shards", 1),
    ("score", "{}", "out.json"),
    ("filter", "{}", "out.json"),
    ("inspect", "{}"),
    ("estimate-bins", "{}"),
    ("verify", "{}"),
    ("fix-durations", "{}", "out.json"),
    ("segment", "{}", "out.json", "--by", "windows"),
    ("make-manifest", "{}", "out.json"),
)


READ_CONVERSATIONS = ("filter", "inspect", "verify")


def lines(objects: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(fields) + "\n" for fields in objects)


def lhotse(folder: Path) -> dict[str, list[dict[str, Any]]]:
    recordings = [
        {
            "id": f"r{number}",
            "sources": [{"type": "file", "channels": [0], "source": str(folder / name)}],
            "sampling_rate": 8000,
            "num_samples": 2000,
            "duration": 0.25,
        }
        for number, name in enumerate(NAMES)
    ]
    supervisions = [
        {"id": f"s{number}", "recording_id": f"r{number}", "start": 0.0, "duration": 0.25, "channel": 0, "text": "a b"}
        for number in range(4)
    ]
    cuts = [
        {"id": f"c{number}", "type": "MonoCut", "start": 0.0, "duration": 0.25, "channel": 0, "recording": recording}
        for number, recording in enumerate(recordings)
    ]
    return {"recordings": recordings, "supervisions": supervisions, "cuts": cuts}


PAIRS = [{"audio": name, "text": "a b"} for name in NAMES]
SHARE_GPT = [
    {"conversations": [{"from": "human", "value": "<audio>?"}, {"from": "gpt", "value": "a b"}], "audios": [name]}
    for name in NAMES
]
SWIFT = [
    {"messages": [{"role": "user", "content": "<audio>?"}, {"role": "assistant", "content": "a b"}], "audios": [name]}
    for name in NAMES
]
BY_ID = {f"utt{number}": {"wav": name, "words": "a b"} for number, name in enumerate(NAMES)}
CONTENTS: dict[str, tuple[str, str | bytes]] = {
    "list.json": ("a JSON list of NeMo records", json.dumps(RECORDS)),
    "indented.json": ("a JSON list of NeMo records", json.dumps(RECORDS, indent=2)),
    "long.json": ("a JSON list of NeMo records", json.dumps(RECORDS * 500)),
    "nan.json": ("a JSON list of NeMo records", json.dumps([{**RECORDS[0], "snr": float("nan")}])),
    "it's a list.json": ("a JSON list of NeMo records", json.dumps(RECORDS)),
    "pairs.json": ("a JSON list of records with the audio in 'audio'", json.dumps(PAIRS)),
    "in data.json": ('a JSON object that holds a list, "data", of NeMo records', json.dumps({"data": RECORDS})),
    "longer.json": ('a JSON object that holds a list, "data", of', json.dumps({"data": RECORDS * 500}, indent=1)),
    "speechbrain.json": (
        "a JSON object with an object for each id, of records with the audio in 'wav'",
        json.dumps(BY_ID),
    ),
    "objects.json": ("a JSON object over several lines", "\n".join(json.dumps(one, indent=1) for one in RECORDS)),
    "list.json.gz": ("a JSON list of NeMo records", gzip.compress(json.dumps(RECORDS).encode())),
    "sharegpt.json": ("a JSON list of conversations", json.dumps(SHARE_GPT, indent=2)),
    "sharegpt.jsonl": ("conversations", lines(SHARE_GPT)),
    "swift.jsonl": ("conversations", lines(SWIFT)),
    "utf16.json": ("UTF-16 text", lines(RECORDS).encode("utf-16")),
    "utf16.csv": ("UTF-16 text", "".join(["path,text\n", *(f"{name},a b\n" for name in NAMES)]).encode("utf-16-le")),
    "utf16.txt": ("UTF-16 text", "".join(f"{name}|a b\n" for name in NAMES).encode("utf-16-be")),
    "ids.csv": ("a list of ids and texts, as in LJSpeech", "".join(f"u{n}|a b|a b\n" for n in range(4))),
    "other.bin": ("a binary file", bytes(range(256)) * 9),
}
"""Files that no command reads."""
READ: dict[str, tuple[str, str | bytes]] = {
    "pairs.jsonl": ("records with the audio in 'audio'", lines(PAIRS)),
    "wenet.jsonl": ("records with the audio in 'wav'", lines([{"wav": name, "txt": "a b"} for name in NAMES])),
    "table.csv": ("a CSV with header", "".join(["path,text\n", *(f"{name},a b\n" for name in NAMES)])),
    "piper.csv": ("a table with |", "".join(f"{name}|s{n % 2}|a text {n}\n" for n, name in enumerate(NAMES))),
    "xtts.csv": (
        "a table with | with header",
        "".join(["audio_file|text|speaker_name\n", *(f"{name}|a text|Ann Smith\n" for name in NAMES)]),
    ),
    "open.txt": ("a table with |", "".join(f"{name}|a text|b text\n" for name in NAMES)),
    "noheader.csv": ("a CSV such as", "".join(f'{name},"a, b"\n' for name in NAMES)),
    "noheader.tsv": ("a TSV such as", "".join(f"{name}\ta b\n" for name in NAMES)),
    "fairseq.tsv": ("a list of fairseq", "".join(["wavs\n", *(f"{name[5:]}\t2000\n" for name in NAMES)])),
    "paths.txt": ("a list of paths", "".join(f"{name}\n" for name in NAMES)),
}
"""Files that make-manifest reads, and no other command."""
WINDOWS: dict[str, tuple[str, str | bytes]] = {
    "windows.csv": (
        "a CSV with header",
        "".join(["path,text\n", *(f'"C:\\{name}",a b\n'.replace("/", "\\") for name in NAMES)]),
    ),
    "windows.txt": ("a list of paths", "".join(f"{name}\n".replace("/", "\\") for name in NAMES)),
    "windows list.txt": ("a table with |", "".join(f"D:\\{name}|a b\n".replace("/", "\\") for name in NAMES)),
}


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def run(command: tuple[object, ...], path: Path) -> Outcome:
    words = [word.format(path) if isinstance(word, str) else word for word in command]
    return prepcli(*words, cwd=path.parent)


def follow(line: str, folder: Path) -> Path:
    """Do all that the advice in a line says, and return the manifest."""
    words = line.replace("`", "")
    for conversion in re.findall(r"(?:gzip -cd|jq|iconv|sed|lhotse copy) .*?(?=, and (?:then|give) |$)", words)[:1]:
        need("jq")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        subprocess.run(conversion, shell=True, cwd=folder, check=True, env={**os.environ, "PATH": path})
        new = shlex.split(conversion)[-1]
        if "--audio-base-dir" in words:
            words = f"prepcli make-manifest {shlex.quote(new)} OUT.json --audio-base-dir {folder}"
        elif "make-manifest" not in words:
            found = kind_of(new)
            if found is None:
                return Path(new)
            words = found.advice.replace("`", "")
    command = shlex.split(words[words.index("prepcli make-manifest") :].partition(" reads it")[0])
    if command[2].startswith("RECORDINGS"):
        write(folder / "all.jsonl", lines(lhotse(folder)["recordings"]))
        command[2] = command[2].replace("RECORDINGS", str(folder / "all.jsonl"))
    done = prepcli(*command[1:], cwd=folder)
    assert done.code == 0, done.err
    return folder / "OUT.json"


def check_manifest(manifest: Path, folder: Path) -> None:
    records = read_lines(manifest)
    paths = [Path(record["audio_filepath"]) for record in records]
    assert sorted({path.name for path in paths})[-1] in ("u0.wav", "u3.wav")
    assert all((manifest.parent / path).exists() for path in paths)


def diagnoses(path: Path, commands: tuple[tuple[object, ...], ...] = COMMANDS) -> Iterator[str]:
    before = sorted(path.parent.rglob("*"))
    for command in commands:
        done = run(command, path)
        assert done.code == 2, (command, done.out, done.err)
        assert len(done.err.splitlines()) == 1
        yield done.error_line
    assert sorted(path.parent.rglob("*")) == before


@pytest.mark.parametrize("name", CONTENTS)
def test_every_command_says_the_same(folder: Path, name: str) -> None:
    kind, content = CONTENTS[name]
    path = write(folder / name, content)
    found = kind_of(str(path))
    assert found is not None
    assert found.name.startswith(kind)
    commands = COMMANDS if name in ("list.json", "utf16.json") else COMMANDS[::3] + COMMANDS[-1:]
    if kind.endswith("conversations"):
        commands = tuple(command for command in COMMANDS if command[0] not in READ_CONVERSATIONS)
    for line in diagnoses(path, commands):
        assert f"({found.name})" in line
        assert line.endswith(found.advice)
    if not name.endswith(".bin"):
        check_manifest(follow(found.advice, folder), folder)


@pytest.mark.parametrize("name", READ)
def test_kinds_that_make_manifest_reads(folder: Path, name: str) -> None:
    kind, content = READ[name]
    path = write(folder / name, content)
    found = kind_of(str(path))
    assert found is not None
    assert found.name.startswith(kind)
    commands = COMMANDS[:-1] if name in ("pairs.jsonl", "table.csv") else COMMANDS[:1]
    for line in diagnoses(path, commands):
        assert f"is not a manifest of JSON lines ({found.name}); {found.advice}" in line
    check_manifest(follow(found.advice, folder), folder)


@pytest.mark.parametrize("name", WINDOWS)
def test_paths_of_windows(folder: Path, name: str) -> None:
    kind, content = WINDOWS[name]
    path = write(folder / name, content)
    found = kind_of(str(path))
    assert found is not None
    assert found.name.startswith(kind)
    assert found.name.endswith(", with paths of Windows")
    for line in diagnoses(path, (COMMANDS[0], COMMANDS[-1])):
        assert found.advice in line
    check_manifest(follow(found.advice, folder), folder)


def test_a_manifest_with_paths_of_windows(folder: Path) -> None:
    for record in (records := [dict(record) for record in RECORDS]):
        record["audio_filepath"] = "C:\\data\\" + record["audio_filepath"].replace("/", "\\")
    path = write(folder / "m.json", lines(records))
    [line] = diagnoses(path, COMMANDS[:1])
    assert "by paths of Windows, such as C:\\data\\wavs\\u0.wav: " in line
    conversion = line[line.index("sed ") : line.index(", and give")]
    assert subprocess.run(conversion, shell=True, check=False).returncode == 0
    (folder / "audio").mkdir()
    shutil.move(folder / "wavs", folder / "audio/data/wavs")
    made = read_lines(folder / "m.unix.json")
    assert made == [record | {"audio_filepath": f"data/{record['audio_filepath']}"} for record in RECORDS]
    done = prepcli(
        *("manifest-to-tarred", folder / "m.unix.json", folder / "out", "--num-shards", 1),
        *("--audio-base-dir", folder / "audio"),
    )
    assert done.code == 0, done.err


def test_a_backslash_in_a_name(folder: Path) -> None:
    """It is one in the names of files that a zip archive of Windows made."""
    (folder / "wavs/u0.wav").rename(folder / "wavs\\u0.wav")
    path = write(folder / "list.txt", "wavs\\u0.wav\n")
    assert prepcli("make-manifest", path, folder / "out.json").code == 0
