"""find-duplicates of conversations: audio that turns share, texts of all turns; with manifests and sets in tars."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from prepcli.commands.find_duplicates import command
from tests.conftest import Lines, read_lines, write_lines
from tests.support.running import prepcli

RATE = 16000
SEED = 0


def turn(value: str, role: str = "User", **place: float) -> dict[str, Any]:
    kind = "audio" if value.endswith(".wav") else "text"
    return {"from": role, "type": kind, "value": value, **place}


def chat(name: str, *turns: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "conversations": list(turns)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of noise: five of a second, a longer one with that of `b.wav` in it, and a damaged one."""
    monkeypatch.setattr(command, "_UNIT_SIZE", 2)
    noise = {name: np.random.default_rng(n).integers(-9000, 9000, RATE).astype("<i2") for n, name in enumerate("abcdx")}
    for name, samples in noise.items():
        soundfile.write(tmp_path / f"{name}.wav", samples, RATE)
    soundfile.write(tmp_path / "long.wav", np.concatenate([noise["x"], noise["b"], noise["x"]]), RATE)
    (tmp_path / "bad.wav").write_bytes((tmp_path / "d.wav").read_bytes()[:90])
    return tmp_path


def groups(out: Path) -> list[tuple[str, list[Any]]]:
    """The kind of each group, and the names of its records with their turns."""
    found: dict[int, tuple[str, list[Any]]] = {}
    for line in read_lines(out):
        names = found.setdefault(line["duplicate_group"], (line["duplicate_by"], []))[1]
        assert line["duplicate_place"] == len(names)
        name = line.get("id", Path(line["audio_filepath"]).name)
        names.append((name, line["duplicate_turns"]) if "duplicate_turns" in line else name)
    return list(found.values())


def test_conversations_that_share_audio(folder: Path) -> None:
    """Turns are compared in any position. Records that share several turns are one group; a reject is in none."""
    lines: Lines = [
        chat("one", turn("a.wav"), turn("Yes.", "Assistant"), turn("b.wav"), turn("No.", "Assistant")),
        chat("bad", turn("a.wav"), turn("b.wav"), turn("bad.wav")),
        chat("two", turn("What?"), turn("long.wav", offset=1, duration=1), turn("a.wav"), turn("It.", "Assistant")),
        chat("self", turn("c.wav"), turn("c.wav"), turn("d.wav", offset=0.5)),
        chat("other", turn("d.wav", duration=0.5), turn("Yes.", "Assistant")),
    ]
    chats = write_lines(folder / "chats.jsonl", lines)
    manifest = write_lines(folder / "m.json", [{"audio_filepath": "b.wav", "duration": 1.0, "text": "No."}])
    done = prepcli(
        "find-duplicates", chats, manifest, folder / "out.jsonl", "--by", "audio", "--max-rejects", 1, "--json"
    )
    assert done.code == 0, done.err
    assert groups(folder / "out.jsonl") == [
        ("audio", [("one", [1]), ("two", [3])]),
        ("audio", [("one", [3]), ("two", [2]), "b.wav"]),
    ]
    assert done.json["details"]["found"][0] | {"hours_beyond_first": 0} == {
        "by": "audio",
        "groups": 2,
        "records": 3,
        "hours_beyond_first": 0,
    }
    assert (done.json["records_in"], done.json["records_out"], done.json["rejects"]) == (6, 5, 1)
    reject = read_lines(folder / "out.jsonl.prepcli/rejects.jsonl")[0]
    assert (reject["id"], reject["reject_detail"].startswith("turn 3: ")) == ("bad", True)
    alone = prepcli("find-duplicates", chats, folder / "alone.jsonl", "--by", "audio", "--max-rejects", 1)
    assert (alone.code, groups(folder / "alone.jsonl")) == (0, [("audio", [("one", [1, 3]), ("two", [2, 3])])])


def test_nearly_the_same_audio_in_a_set(folder: Path) -> None:
    """A set in tars and a file are compared as two files are; the test set is what a leak is in."""
    test = write_lines(folder / "test.jsonl", [chat("test", turn("b.wav"), turn("Yes.", "Assistant"))])
    train = [chat("one", turn("a.wav"), turn("long.wav")), chat("two", turn("c.wav"))]
    write_lines(folder / "train.jsonl", train)
    assert prepcli("conversations-to-tarred", folder / "train.jsonl", folder / "set").code == 0
    inputs = test, folder / "set"
    done = prepcli("find-duplicates", *inputs, folder / "out.jsonl", "--by", "audio,near-audio", "--between")
    assert (done.code, groups(folder / "out.jsonl")) == (1, [("near-audio", [("test", [1]), ("one", [2])])]), done.err
    clean = prepcli(
        "find-duplicates", test, folder / "set/manifest_0.jsonl", folder / "o.jsonl", "--by", "audio", "--between"
    )
    assert (clean.code, groups(folder / "o.jsonl")) == (0, [])


def test_texts_of_all_turns(folder: Path) -> None:
    """In any form, with any audio; the order of turns and their roles count, and texts around audio are one text."""
    lines: Lines = [
        chat("nemo", turn("What is said?"), turn("a.wav"), turn("Yes!", "Assistant")),
        {
            "id": "swift",
            "messages": [
                {"role": "user", "content": "<audio>what is <audio> said"},
                {"role": "assistant", "content": "YES"},
            ],
            "audios": ["b.wav", "c.wav"],
        },
        chat("roles", turn("What is said?", "Assistant"), turn("a.wav"), turn("Yes!")),
        chat("order", turn("Yes!", "Assistant"), turn("a.wav"), turn("What is said?")),
        chat("silent", turn("a.wav"), turn("b.wav", "Assistant")),
        chat("still", turn("c.wav"), turn("d.wav", "Assistant")),
    ]
    chats = write_lines(folder / "chats.jsonl", lines)
    done = prepcli("find-duplicates", chats, folder / "out.jsonl", "--by", "text", "--json")
    assert (done.code, groups(folder / "out.jsonl")) == (0, [("text", ["nemo", "swift"])]), done.err
    assert any("2 of 6 records have no text" in note for note in done.json["notes"])
    write_lines(folder / "silent.jsonl", lines[4:])
    refused = prepcli("find-duplicates", folder / "silent.jsonl", folder / "no.jsonl", "--by", "text")
    assert (refused.code, "2 of 2 records have no text, so they cannot be compared" in refused.error_line) == (2, True)


def test_lists_name_conversations_and_not_only_their_first_audio(folder: Path) -> None:
    """Several conversations about one recording are told apart, also where it has another path."""
    about = [chat(name, turn("a.wav"), turn(name, "Assistant")) for name in ("Yes.", "No.", "yes")]
    other = chat("Both.", turn("b.wav"), turn("a.wav"), turn("Both.", "Assistant"))
    (folder / "link").symlink_to(folder)
    alone = [chat(name, turn(f"{name}.wav")) for name in "cdx"]
    chats = write_lines(folder / "chats.jsonl", [*about, other, *alone])
    through = folder / "link/chats.jsonl"
    assert prepcli("find-duplicates", chats, folder / "texts.jsonl", "--by", "text").code == 0
    assert prepcli("filter", through, folder / "kept.json", "--drop-listed", folder / "texts.jsonl").code == 0
    assert [line["id"] for line in read_lines(folder / "kept.json")] == ["Yes.", "No.", "Both.", "c", "d", "x"]
    assert prepcli("find-duplicates", chats, folder / "audio.jsonl", "--by", "audio").code == 0
    parts = ("--part", "train=4", "--part", "test=rest", "--by", "id", "--seed", SEED)
    codes = []
    for name, more in ("leaks", ()), ("clean", ("--disjoint-listed", folder / "audio.jsonl")):
        done = prepcli("split", through, folder / name, *parts, *more)
        assert done.code == 0, done.err
        inputs = [folder / name / f"{part}.json" for part in ("test", "train")]
        codes.append(prepcli("find-duplicates", *inputs, folder / f"{name}.jsonl", "--by", "audio", "--between").code)
    assert codes == [1, 0]
