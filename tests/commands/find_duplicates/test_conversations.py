"""find-duplicates of conversations: audio that turns share, texts of all turns; with manifests and sets in tars."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from prepcli.commands.find_duplicates import command
from prepcli.commands.find_duplicates.prints import read_prints
from prepcli.errors import UsageError
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


def test_rejects_that_fix_durations_does_not_read(folder: Path) -> None:
    """A turn beyond its audio is not a record: no command that measures durations is named."""
    chats = write_lines(folder / "far.jsonl", [chat("far", turn("a.wav", duration=99)), chat("near", turn("a.wav"))])
    call = ("find-duplicates", chats, folder / "far_out.jsonl", "--by", "audio", "--max-rejects", 1, "--json")
    done = prepcli(*call)
    assert (done.code, done.json["rejects_by_reason"], done.json["repair_with"]) == (0, {"beyond_audio": 1}, None)
    assert prepcli("status", folder / "far_out.jsonl", "--json").json["repair_with"] is None


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


def test_prints_give_the_groups_of_the_audio(folder: Path) -> None:
    """Prints of conversations beside a manifest, one of them rejected, one of texts alone, one with a short turn."""
    lines: Lines = [
        chat("bad", turn("a.wav"), turn("bad.wav", duration=1)),
        chat("one", turn("a.wav"), turn("c.wav", duration=0.4), turn("b.wav"), turn("Yes.", "Assistant")),
        chat("texts", turn("Who?"), turn("You.", "Assistant")),
        chat("own", turn("d.wav"), turn("d.wav"), turn("d.wav")),
    ]
    plain: Lines = [{"audio_filepath": "x.wav", "duration": 1.0, "text": "No."}]
    test = f"{write_lines(folder / 'test.jsonl', lines)},{write_lines(folder / 'm.json', plain)}"
    train = write_lines(
        folder / "train.jsonl",
        [
            chat("two", turn("What?"), turn("long.wav"), turn("a.wav"), turn("It.", "Assistant")),
            chat("said", turn("who", "human"), turn("YOU", "gpt")),
            chat("clean", turn("What?"), turn("c.wav")),
        ],
    )
    by = ("--by", "audio,near-audio,text", "--max-rejects", 1)
    whole = prepcli("find-duplicates", test, train, folder / "whole.jsonl", *by, "--between")
    assert whole.code == 1, whole.err
    expected = groups(folder / "whole.jsonl")
    assert expected == [
        ("audio", [("one", [1]), ("two", [3])]),
        ("near-audio", [("one", [1]), ("two", [3])]),
        ("near-audio", [("one", [3]), "x.wav", ("two", [2])]),
        ("text", ["texts", "said"]),
    ]
    prints = folder / "test.prints"
    written = prepcli("find-duplicates", test, "--write-prints", prints, *by)
    assert written.code == 0, written.err
    header = read_prints("--against", str(prints)).header
    assert (header.records, header.rejected, header.has_turns) == (5, 1, True)
    assert header.without == {"audio": 1, "near-audio": 2, "text": 1}
    out, certificate = folder / "out.jsonl", folder / "c.json"
    done = prepcli("find-duplicates", train, out, *by, "--against", prints, "--certificate", certificate)
    assert done.code == 1, done.err
    ids = [*(line["id"] for line in lines), "x.wav"]
    named: Lines = [{"audio_filepath": ""} | line for line in read_lines(out)]
    named = [line | {"id": ids[line["prints_record"] - 1]} if "prints_record" in line else line for line in named]
    assert groups(write_lines(folder / "named.jsonl", named)) == expected
    assert "1 record has less than 0.6 s of sound, in all or in a turn, which was not compared" in done.out
    compared = json.loads(certificate.read_text())["compared"][1]
    assert compared["left_out"][1]["why"] == "less than 0.6 s of sound, in all or in a turn"
    assert prepcli("filter", train, folder / "kept.jsonl", "--drop-listed", out).code == 0
    assert [line["id"] for line in read_lines(folder / "kept.jsonl")] == ["clean"]
    assert prepcli("find-duplicates", folder / "kept.jsonl", folder / "no.jsonl", *by, "--against", prints).code == 0


def test_prints_of_a_set_and_of_its_file(folder: Path) -> None:
    """They have the same digests, which change with the division into turns; ranks give the same bytes."""
    lines: Lines = [chat(name, turn(f"{name}.wav"), turn("b.wav"), turn("Yes.", "Assistant")) for name in "acd"]
    chats = write_lines(folder / "chats.jsonl", lines)
    assert prepcli("conversations-to-tarred", chats, folder / "set", "--num-shards", 1).code == 0
    digests, data = [], []
    divided = [chat("a", *(turn(f"{name}.wav") for name in "abcb")), chat("d", turn("d.wav")), chat("b", turn("b.wav"))]
    other = write_lines(folder / "other.jsonl", divided)
    by = ("--by", "audio,near-audio")
    for number, (source, ranks) in enumerate(((chats, 1), (chats, 2), (folder / "set", 1), (other, 1))):
        prints = folder / f"{number}.prints"
        for rank in range(ranks):
            more = ("--rank", rank, "--world-size", ranks) if ranks > 1 else ()
            done = prepcli("find-duplicates", source, "--write-prints", prints, *by, *more)
            assert done.code == 0, done.err
        digests.append(read_prints("--against", str(prints)).header.digest)
        data.append(prints.read_bytes())
    assert data[0] == data[1]
    assert len(set(digests[:3])) == 1
    assert digests[3] != digests[0]
    header, line_end = json.loads(data[0][: data[0].index(b"\n")]), data[0].index(b"\n")
    at = {"rows_per_record": 3 * 8, "turn": 3 * 8 + 3 * 4}
    assert [name for name, _, _ in header["arrays"]][:3] == ["duration", *at]
    wrong = {"add up": at["rows_per_record"], "its turn has another digest": at["turn"]}
    for message, place in wrong.items():
        start = line_end + 1 + place
        (folder / "wrong.prints").write_bytes(data[0][:start] + bytes([data[0][start] ^ 4]) + data[0][start + 1 :])
        with pytest.raises(UsageError, match=message):
            read_prints("--against", str(folder / "wrong.prints"))
    del header["digests"]["turn"]
    text = json.dumps(header, separators=(",", ":")).encode().ljust(line_end)
    (folder / "wrong.prints").write_bytes(text + data[0][line_end:])
    with pytest.raises(UsageError, match="its digests contradict"):
        read_prints("--against", str(folder / "wrong.prints"))
