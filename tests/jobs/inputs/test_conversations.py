"""Conversations as inputs: files, sets in tars."""

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import SHORT_CORPUS, read_lines, tree, write_lines
from tests.support.conversations import conversations_of, share_gpt_of
from tests.support.running import prepcli

RECORDS = [
    record | {"audio_filepath": str(SHORT_CORPUS / record["audio_filepath"])}
    for record in read_lines(SHORT_CORPUS / "manifest.json")[:6]
]
FORMS = {"nemo": conversations_of, "sharegpt-webdataset": share_gpt_of}


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def stored(form: str, tmp_path: Path) -> Path:
    """A set of six conversations in two shards."""
    chats = write_lines(tmp_path / "chats.jsonl", FORMS[form](RECORDS))
    done = prepcli("conversations-to-tarred", chats, tmp_path / "set", "--form", form, "--num-shards", 2)
    assert done.code == 0, done.err
    return tmp_path / "set"


@pytest.mark.parametrize(
    "call",
    [
        *("manifest-to-tarred {} out --num-shards 1", "manifest-to-wenet {} out", "make-manifest {} m.json"),
        *("score {} m.json", "segment {} m.json --by windows"),
    ],
)
def test_a_set_is_not_read_as_the_audio_of_its_tars(call: str, stored: Path) -> None:
    """Their members alone would be records without the texts."""
    done = prepcli(*call.format(stored).split(), cwd=stored.parent)
    wanted = f"prepcli: {stored} is a set of conversations, which prepcli conversations-to-tarred reads"
    assert (done.code, done.error_line) == (2, wanted)


def test_filter_and_split_read_a_set(form: str, stored: Path, tmp_path: Path) -> None:
    """The audio stays named in its tar, and makes the same set again."""
    assert prepcli("filter", stored, tmp_path / "kept.json", "--keep", "duration > 0").code == 0
    options = ("--form", form, "--num-shards", 2)
    assert prepcli("conversations-to-tarred", tmp_path / "kept.json", tmp_path / "again", *options).code == 0
    assert tree(tmp_path / "again") == tree(stored)
    assert prepcli("split", stored, tmp_path / "parts", "--part", "a=2", "--part", "b=rest").code == 0
    assert [len(read_lines(tmp_path / f"parts/{part}.json")) for part in "ab"] == [2, 4]


@pytest.mark.parametrize("form", ["nemo"], indirect=True)
def test_the_manifest_of_a_shard_goes_with_its_tar(stored: Path, tmp_path: Path) -> None:
    for command, *more in (("filter", "kept.json", "--sample", 2), ("conversations-to-tarred", "one")):
        done = prepcli(command, stored / "manifest_1.jsonl", tmp_path / str(more[0]), *more[1:], "--json")
        assert (done.code, done.json["records_in"]) == (0, 3), done.err
    assert all(f"{stored}/audio_1.tar::" in line["audio_filepath"] for line in read_lines(tmp_path / "kept.json"))
    assert prepcli("verify", tmp_path / "one").code == 0


def test_conversations_of_texts_stay_among_the_others(tmp_path: Path) -> None:
    """They have no audio, so their seconds are 0; a set of pairs has no place for them."""
    lines = conversations_of(RECORDS)
    for number in (0, 3):
        del lines[number]["conversations"][1]
    chats = write_lines(tmp_path / "chats.jsonl", lines)
    assert prepcli("filter", chats, tmp_path / "kept.json", "--keep", "duration < 60").code == 0
    kept = read_lines(tmp_path / "kept.json")
    assert [line["duration"] == 0 for line in kept] == [True, False, False] * 2
    options = ("--shard-size", 2, "--json")
    for name in ("chats.jsonl", "kept.json"):
        done = prepcli("conversations-to-tarred", tmp_path / name, tmp_path / f"{name}.set", *options)
        assert (done.code, done.json["records_out"]) == (0, 6), done.err
    assert tree(tmp_path / "chats.jsonl.set") == tree(tmp_path / "kept.json.set")
    for made in (chats, tmp_path / "kept.json", tmp_path / "kept.json.set"):
        assert prepcli("verify", made).code == 0
        assert prepcli("inspect", made, "--json").json["records"] == 6
    assert prepcli("split", chats, tmp_path / "parts", "--part", "a=3", "--part", "b=rest").code == 0
    assert [len(read_lines(tmp_path / f"parts/{part}.json")) for part in "ab"] == [3, 3]
    done = prepcli("conversations-to-tarred", chats, tmp_path / "pairs", "--form", "sharegpt-webdataset", "--json")
    assert (done.code, done.json["rejects"]) == (3, 2)
    texts = write_lines(tmp_path / "texts.jsonl", [lines[0], lines[3]])
    for more in ((), ("--shard-hours", 1)):
        done = prepcli("conversations-to-tarred", texts, tmp_path / "texts", *more, "--overwrite", "--json")
        assert (done.code, done.json["records_out"]) == (0, 2), done.err


def test_each_conversation_has_an_id(tmp_path: Path) -> None:
    """NeMo stops at a line without one; it tells the line of the user, and stays the same in all that is made of it."""
    lines = [{name: value for name, value in line.items() if name != "id"} for line in conversations_of(RECORDS[:3])]
    chats = write_lines(tmp_path / "chats.jsonl", lines)
    assert prepcli("filter", chats, tmp_path / "kept.json", "--drop", "duration == 0").code == 0
    assert prepcli("conversations-to-tarred", tmp_path / "kept.json", tmp_path / "set").code == 0
    wanted = ["chats-1", "chats-2", "chats-3"]
    for path in (tmp_path / "kept.json", tmp_path / "set/manifest_0.jsonl"):
        assert [line["id"] for line in read_lines(path)] == wanted
    found = prepcli("inspect", chats, "--record", 2, "--json").json
    assert found["fields"]["id"] == wanted[2]


def test_rejects_are_lines_of_the_file(tmp_path: Path) -> None:
    """Each has the line of the user, in its form, and its number: blank lines count, too."""
    # the first line has no turns, and the file is one of conversations all the same
    bad = {"messages": [{"role": "narrator", "content": "x"}], "audios": ["a.wav"], "topic": 7}
    chats = write_lines(tmp_path / "chats.jsonl", conversations_of(RECORDS))
    half = b'{"messages": [{"role": "user", "content": "\\ud83d"}]}\n'
    chats.write_bytes(b'\n{"topic": 6}\n' + chats.read_bytes() + json.dumps(bad).encode() + b"\r\n" + half + b"\xff\n")
    done = prepcli("conversations-to-tarred", chats, tmp_path / "set", "--max-rejects", 9, "--json")
    assert (done.code, done.json["records_out"], done.json["rejects"]) == (0, 6, 4), done.err
    rejects = read_lines(tmp_path / "set.prepcli/rejects.jsonl")
    reasons = {line["manifest_line"]: line["reject_reason"] for line in rejects}
    assert reasons == {2: "missing_field", 9: "bad_field", 10: "bad_field", 11: "not_utf8"}
    assert rejects[1].items() >= bad.items() and "audio_filepath" not in rejects[1]
    done = prepcli("conversations-to-tarred", tmp_path / "set.prepcli/rejects.jsonl", tmp_path / "again", "--json")
    assert (done.code, done.json["rejects"]) == (3, 4), done.err


def test_a_list_of_conversations_names_what_makes_lines(tmp_path: Path) -> None:
    """The advice of other commands leads to a file that is read."""
    lines = [{"messages": [{"role": "user", "content": [{"type": "audio", "audio": RECORDS[0]["audio_filepath"]}]}]}]
    (tmp_path / "list.json").write_text(json.dumps(lines))
    done = prepcli("conversations-to-tarred", "list.json", "out", cwd=tmp_path)
    assert (done.code, done.error_line.endswith("write one per line: jq -c '.[]' list.json > list.jsonl")) == (2, True)
    done = prepcli("score", "list.json", "out.json", cwd=tmp_path)
    wanted = "jq -c '.[]' list.json > list.jsonl, and then prepcli conversations-to-tarred list.jsonl OUT"
    assert (done.code, done.error_line.endswith(wanted)) == (2, True)


def test_a_set_that_is_not_finished(tmp_path: Path) -> None:
    chats = write_lines(tmp_path / "chats.jsonl", conversations_of(RECORDS))
    rank = ("--rank", 0, "--world-size", 2, "--no-steal")
    assert prepcli("conversations-to-tarred", chats, tmp_path / "set", "--num-shards", 2, *rank).code == 0
    (tmp_path / "set").mkdir(exist_ok=True)
    for call in (("conversations-to-tarred", tmp_path / "set", "out"), ("filter", tmp_path / "set", "kept.json")):
        done = prepcli(*call, cwd=tmp_path)
        assert (done.code, "set is not finished" in done.error_line) == (2, True), done.err


def test_audio_that_came_later_is_measured_again(tmp_path: Path) -> None:
    """Its lengths are in a copy of the conversations, which every later run took, also one that started again."""
    lines = share_gpt_of(RECORDS)
    lines[2]["sound"] = "late.flac"
    chats = write_lines(tmp_path / "chats.jsonl", lines)
    call = ("conversations-to-tarred", chats, tmp_path / "set")
    first = prepcli(*call, "--max-rejects", 1, "--json").json
    assert first["rejects_by_reason"] == {"missing_audio": 1}
    assert first["retry_with"].endswith(" --overwrite")
    assert prepcli("status", tmp_path / "set", "--json").json["retry_with"].endswith(" --overwrite")
    shutil.copy(RECORDS[2]["audio_filepath"], tmp_path / "late.flac")
    assert prepcli(*call, "--max-rejects", 1, "--json").json["status"] == "nothing_to_do"
    again = prepcli(*call, "--retry-rejects")
    assert (again.code, "chats.jsonl has another content" in again.error_line) == (2, True)
    repaired = prepcli(*call, "--overwrite", "--json").json
    assert (repaired["status"], repaired["records_out"]) == ("done", 6)
    assert prepcli(*call, "--json").json["status"] == "nothing_to_do"
    assert len(list((tmp_path / "set.prepcli/spool").iterdir())) == 1
    kept = ("filter", chats, tmp_path / "kept.json", "--keep", "duration > 0")
    (tmp_path / "late.flac").unlink()
    assert prepcli(*kept, "--max-rejects", 1, "--json").json["records_out"] == 5
    shutil.copy(RECORDS[2]["audio_filepath"], tmp_path / "late.flac")
    assert prepcli(*kept, "--overwrite", "--json").json["records_out"] == 6


@pytest.mark.parametrize("id", ["a b", "dir/a.wav", "Ünï"])
def test_conversations_are_compared_by_any_ids(id: str, tmp_path: Path) -> None:
    """One with a blank or a slash, which no file could be named after, left all records without a match."""
    lines = conversations_of(RECORDS)
    lines[2]["id"] = id
    chats = write_lines(tmp_path / "chats.jsonl", lines)
    assert prepcli("conversations-to-tarred", chats, tmp_path / "set").code == 0
    found = prepcli("compare", chats, tmp_path / "set", "--json").json
    assert (found["matched_by"], found["matched"]) == ("their ids", 6)
