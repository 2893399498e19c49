"""conversations-to-tarred: sets that NeMo reads, of four forms; ranks and bad input; verify, inspect, filter, split."""

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.conftest import MINI_CORPUS, Lines, read_lines, write_lines
from tests.support.running import prepcli

RECORDS = read_lines(MINI_CORPUS / "manifest.json")


def text(who: str, value: str) -> dict[str, Any]:
    return {"from": who, "type": "text", "value": value}


def nemo_lines() -> Lines:
    """Twelve conversations: each asks for two recordings, the second of which begins after half a second."""
    lines = []
    for number in range(0, 24, 2):
        first, second = RECORDS[number : number + 2]
        audio = {"from": "User", "type": "audio", "value": first["audio_filepath"], "duration": first["duration"]}
        part = {**audio, "value": second["audio_filepath"], "duration": second["duration"] - 0.5, "offset": 0.5}
        turns = [
            text("User", "What?"),
            audio,
            text("Assistant", first["text"]),
            part,
            text("Assistant", second["text"]),
        ]
        lines.append({"id": f"c{number}", "conversations": turns, "custom": {"topic": number}})
    return lines


def share_gpt_lines() -> Lines:
    return [
        {
            "id": f"s{number}",
            "sound": record["audio_filepath"],
            "conversations": [
                {"from": "human", "value": "Write: <sound>"},
                {"from": "gpt", "value": record["text"]},
            ],
        }
        for number, record in enumerate(RECORDS[:9])
    ]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """The mini corpus with conversations in `nemo.jsonl` and `share_gpt.jsonl`."""
    shutil.copytree(MINI_CORPUS, tmp_path / "corpus")
    write_lines(tmp_path / "corpus/nemo.jsonl", nemo_lines())
    write_lines(tmp_path / "corpus/share_gpt.jsonl", share_gpt_lines())
    return tmp_path / "corpus"


def made(*arguments: object, code: int = 0) -> dict[str, Any]:
    done = prepcli("conversations-to-tarred", *arguments, "--json")
    assert done.code == code, done.err
    report = done.json
    assert report["records_in"] == report["records_out"] + report["rejects"]
    return report


def members(tar: Path) -> dict[str, bytes]:
    with tarfile.open(tar) as opened:
        return {member.name: opened.extractfile(member).read() for member in opened}  # type: ignore[union-attr]


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_manifests_and_tars_go_together(corpus: Path, tmp_path: Path) -> None:
    """Each turn with audio has the next member, cut to the turn; what need not change is copied."""
    report = made(corpus / "nemo.jsonl", tmp_path / "out", "--num-shards", 2)
    assert report["records_out"] == 12
    lines = [read_lines(tmp_path / f"out/manifest_{shard}.jsonl") for shard in (0, 1)]
    assert [line["id"] for line in lines[0] + lines[1]] == [line["id"] for line in nemo_lines()]
    assert lines[0][0]["custom"] == {"topic": 0}
    for shard in (0, 1):
        found = members(tmp_path / f"out/audio_{shard}.tar")
        named = [turn for line in lines[shard] for turn in line["conversations"] if turn["type"] == "audio"]
        assert [turn["value"] for turn in named] == list(found)
        assert not any("offset" in turn for turn in named)
    first, second = (turn for turn in lines[0][0]["conversations"] if turn["type"] == "audio")
    found = members(tmp_path / "out/audio_0.tar")
    assert found[first["value"]] == (corpus / RECORDS[0]["audio_filepath"]).read_bytes()
    whole, rate = soundfile.read(corpus / RECORDS[1]["audio_filepath"], dtype="int16")
    (tmp_path / "part.flac").write_bytes(found[second["value"]])
    part, _ = soundfile.read(tmp_path / "part.flac", dtype="int16")
    assert (part == whole[rate // 2 :]).all()
    assert (second["duration"], second["sampling_rate"]) == (len(part) / rate, rate)


def test_equal_names_in_different_folders(tmp_path: Path) -> None:
    """NeMo's own writer would call both files alike."""
    turns = []
    for number, folder in enumerate("ab"):
        (tmp_path / folder).mkdir()
        soundfile.write(tmp_path / folder / "turn0.wav", np.full(8000, 100 * (number + 1), np.int16), 8000)
        turns.append({"from": "User", "type": "audio", "value": f"{folder}/turn0.wav"})
    write_lines(tmp_path / "c.jsonl", [{"id": "c", "conversations": [*turns, text("Assistant", "Yes.")]}])
    made(tmp_path / "c.jsonl", tmp_path / "out")
    found = members(tmp_path / "out/audio_0.tar")
    assert [
        data == (tmp_path / folder / "turn0.wav").read_bytes()
        for data, folder in zip(found.values(), "ab", strict=True)
    ]
    assert len(set(found.values())) == len(found) == 2


def test_pairs(corpus: Path, tmp_path: Path) -> None:
    call = (corpus / "share_gpt.jsonl", tmp_path / "out", "--form", "sharegpt-webdataset", "--shard-size", 5)
    made(*call)
    meta = json.loads((tmp_path / "out/wids-meta.json").read_text())
    assert [(shard["url"], shard["nsamples"]) for shard in meta["shardlist"]] == [
        ("shard-0.tar", 5),
        ("shard-1.tar", 4),
    ]
    found = members(tmp_path / "out/shard-0.tar")
    assert list(found)[:2] == ["0000000.json", "0000000.flac"]
    first = json.loads(found["0000000.json"])
    assert first["sound"] == "0000000.flac"
    assert first["conversations"] == [
        {"from": "human", "value": "Write:\n<sound>"},
        {"from": "gpt", "value": RECORDS[0]["text"]},
    ]
    report = made(corpus / "nemo.jsonl", tmp_path / "two", "--form", "sharegpt-webdataset", code=3)
    assert report["rejects_by_reason"] == {"bad_field": 12}


def test_pairs_of_which_nemo_would_read_something_else(corpus: Path, tmp_path: Path) -> None:
    """Its reader of pairs takes the system for the assistant, and two words in texts for audio."""
    audio = {"from": "User", "type": "audio", "value": RECORDS[0]["audio_filepath"]}
    turns = (
        [text("System", "Be kind."), audio],
        [audio, text("User", "What is <speech>?")],
        [audio, text("User", "?")],
    )
    write_lines(corpus / "odd.jsonl", [{"conversations": some} for some in turns])
    made(corpus / "odd.jsonl", tmp_path / "nemo")
    call = (corpus / "odd.jsonl", tmp_path / "out", "--form", "sharegpt-webdataset", "--max-rejects", 2)
    assert made(*call)["records_out"] == 1
    details = [line["reject_detail"] for line in read_lines(tmp_path / "out.prepcli/rejects.jsonl")]
    assert details == [
        "turn 1: it is of the system, and NeMo takes it for the assistant in this form: --form nemo keeps it",
        "turn 2: it has <sound> or <speech> in its text, and NeMo takes it for audio: --form nemo keeps it",
    ]


@pytest.mark.parametrize("form", ["nemo", "sharegpt-webdataset"])
def test_an_id_that_occurs_several_times(corpus: Path, tmp_path: Path, form: str) -> None:
    """Names in tars are unique, and NeMo reads all; other commands take them for one, and nothing said so."""
    lines = share_gpt_lines()
    write_lines(
        corpus / "same.jsonl", [line | {"id": line["id"] if number < 7 else "s0"} for number, line in enumerate(lines)]
    )
    out = tmp_path / "out"
    report = made(corpus / "same.jsonl", out, "--form", form)
    assert report["records_out"] == 9
    where = f"(the first is s0, in {corpus / 'same.jsonl'}:8)"
    assert any(f"2 conversations have the id of an earlier one {where}: NeMo" in note for note in report["notes"])
    (tar,) = out.glob("*.tar")
    with tarfile.open(tar) as opened:
        names = opened.getnames()
    assert len(set(names)) == len(names) == (9 if form == "nemo" else 18)
    write_lines(corpus / "none.jsonl", [{name: line[name] for name in line if name != "id"} for line in lines])
    report = made(corpus / "none.jsonl", tmp_path / "none", "--form", form)
    assert not any("the id of" in note for note in report["notes"])


@pytest.mark.parametrize("form", ["nemo", "sharegpt-webdataset"])
def test_further_fields_of_turns_are_kept(corpus: Path, tmp_path: Path, form: str) -> None:
    """Pairs lost them: a trainer learned from turns whose `loss` was false."""
    (first, *_) = share_gpt_lines()
    first["conversations"][0]["loss"] = False
    first["conversations"][1] |= {"loss": True, "tool_calls": [{"name": "x"}]}
    audio = {"from": "User", "type": "audio", "value": RECORDS[0]["audio_filepath"], "words": [1], "sampling_rate": 8}
    second = {"conversations": [text("User", "What?") | {"loss": False}, audio, text("User", "Say!")]}
    write_lines(corpus / "more.jsonl", [first, second])
    made(corpus / "more.jsonl", tmp_path / "out", "--form", form)
    if form == "nemo":
        lines = read_lines(tmp_path / "out/manifest_0.jsonl")
    else:
        lines = [json.loads(data) for name, data in members(tmp_path / "out/shard-0.tar").items() if ".json" in name]
    fields = ("loss", "tool_calls", "words")
    kept = [[{key: turn[key] for key in fields if key in turn} for turn in line["conversations"]] for line in lines]
    answer = {"loss": True, "tool_calls": [{"name": "x"}]}
    assert kept == [
        [*([{"loss": False}] * (2 if form == "nemo" else 1)), answer],  # "Write: <sound>" is two turns of NeMo's
        [{"loss": False}, {"words": [1]}, {}],
    ]
    if form == "sharegpt-webdataset":
        assert [turn["value"] for turn in lines[1]["conversations"]] == ["What?", "<sound>", "Say!"]


@pytest.mark.parametrize("form", ["nemo", "sharegpt-webdataset"])
def test_a_finished_set_is_an_input(corpus: Path, tmp_path: Path, form: str) -> None:
    made(corpus / "share_gpt.jsonl", tmp_path / "one", "--form", form, "--num-shards", 2)
    made(tmp_path / "one", tmp_path / "two", "--form", form, "--num-shards", 1)
    made(corpus / "share_gpt.jsonl", tmp_path / "wanted", "--form", form, "--num-shards", 1)
    for name, data in files_in(tmp_path / "wanted").items():
        if name.endswith(".tar") and form == "nemo":
            assert members(tmp_path / "two" / name) == members(tmp_path / "wanted" / name), len(data)
    assert prepcli("verify", tmp_path / "two").code == 0


def test_ranks_make_the_same_bytes(corpus: Path, tmp_path: Path) -> None:
    call = (corpus / "nemo.jsonl", "--num-shards", 3, "--shuffle", "--force-codec", "wav")
    made(*call, tmp_path / "one")
    for rank in (1, 0):
        assert prepcli("conversations-to-tarred", *call, tmp_path / "two", "--rank", rank, "--world-size", 2).code == 0
    assert files_in(tmp_path / "one") == files_in(tmp_path / "two")


def test_one_bad_turn_rejects_the_conversation(corpus: Path, tmp_path: Path) -> None:
    lines = nemo_lines()
    lines[1]["conversations"][1]["value"] = "none.flac"
    lines[2]["conversations"][3]["duration"] = 99
    lines[3]["conversations"][0]["from"] = "narrator"
    lines[4]["custom"]["_skipme"] = True
    lines[5]["conversations"] = [text("User", "Only text."), text("Assistant", "Yes.")]
    lines[6]["conversations"] = []
    write_lines(corpus / "bad.jsonl", lines)
    with (corpus / "bad.jsonl").open("a") as file:
        file.write("{broken\n")
    report = made(corpus / "bad.jsonl", tmp_path / "out", "--max-rejects", 9)
    assert (report["records_out"], report["skipped"]) == (7, 1)
    assert report["repair_with"] is None  # fix-durations does not read conversations
    rejects = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    found = {line["manifest_line"]: f"{line['reject_reason']}: {line['reject_detail']}" for line in rejects}
    assert found[2].startswith("missing_audio: turn 2: ")
    assert found[3].startswith("beyond_audio: turn 4: ")
    assert found[4].startswith("bad_field: turn 1: the role 'narrator'")
    assert found[7].startswith("missing_field: conversations has no turns")
    assert found[13].startswith("broken_json")


def test_the_section_for_training_quotes_the_tag(corpus: Path, tmp_path: Path) -> None:
    """Without quotes, [audio] is a list in YAML."""
    report = made(corpus / "nemo.jsonl", tmp_path / "out", "--num-shards", 2)
    section = Path(report["details"]["train_ds"]).read_text()
    assert "audio_locator_tag: '[audio]'" in section
    assert "type: multimodal_conversation" in section
    assert report["outputs"]["manifest_filepath"].endswith("out/manifest__OP_0..1_CL_.jsonl")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda text: text.replace("0000001-02", "0000001-07"),
            "flac, but the next member is 0000001-02",
        ),
        (lambda text: text.replace('"sampling_rate":22050', '"sampling_rate":16000', 1), "sampling_rate is 16000"),
        (lambda text: text.replace('"from":"User"', '"from":"Nobody"', 1), "the role 'Nobody'"),
        (lambda text: text.partition("\n")[2], "belongs to no turn"),
        (lambda text: text.replace('"duration":', '"duration":9', 1), "ends"),
    ],
)
def test_verify_finds_what_nemo_would_not(corpus: Path, tmp_path: Path, change: Any, problem: str) -> None:
    made(corpus / "nemo.jsonl", tmp_path / "out")
    shutil.rmtree(tmp_path / "out.prepcli")
    assert prepcli("verify", tmp_path / "out").code == 0
    manifest = tmp_path / "out/manifest_0.jsonl"
    manifest.write_text(change(manifest.read_text()))
    done = prepcli("verify", tmp_path / "out", "--json")
    assert done.code == 1
    assert any(problem in found for found in done.json["problems"]), done.json["problems"]


def test_verify_of_missing_files_and_damaged_pairs(corpus: Path, tmp_path: Path) -> None:
    made(corpus / "nemo.jsonl", tmp_path / "out", "--num-shards", 2)
    (tmp_path / "out/audio_1.tar").unlink()
    assert "audio_1.tar: missing" in prepcli("verify", tmp_path / "out").out
    made(corpus / "share_gpt.jsonl", tmp_path / "pairs", "--form", "sharegpt-webdataset")
    assert prepcli("verify", tmp_path / "pairs").code == 0
    meta = tmp_path / "pairs/wids-meta.json"
    meta.write_text(meta.read_text().replace('"nsamples": 9', '"nsamples": 8'))
    assert "has 9 conversations, not 8" in prepcli("verify", tmp_path / "pairs").out


def test_inspect_counts_turns(corpus: Path, tmp_path: Path) -> None:
    made(corpus / "nemo.jsonl", tmp_path / "out")
    done = prepcli("inspect", tmp_path / "out")
    assert done.code == 0, done.err
    assert "24 Assistant text, 24 User audio, 12 User text" in done.out


def test_filter_and_split_keep_conversations_whole(corpus: Path, tmp_path: Path) -> None:
    assert prepcli("filter", corpus / "nemo.jsonl", tmp_path / "f.json", "--keep", "duration > 5").code == 0
    kept = read_lines(tmp_path / "f.json")
    assert 0 < len(kept) < 12
    assert all(len(line["conversations"]) == 5 and line["custom"] for line in kept)
    assert made(tmp_path / "f.json", tmp_path / "out")["records_out"] == len(kept)
    call = ("split", corpus / "share_gpt.jsonl", tmp_path / "parts", "--part", "a=0.5", "--part", "b=rest")
    assert prepcli(*call).code == 0
    ids = [line["id"] for part in "ab" for line in read_lines(tmp_path / f"parts/{part}.json")]
    assert sorted(ids) == sorted(line["id"] for line in share_gpt_lines())


def test_others_name_the_command(corpus: Path, tmp_path: Path) -> None:
    for command in ("manifest-to-tarred", "score"):
        done = prepcli(
            command, corpus / "nemo.jsonl", tmp_path / "out.json", *(["--num-shards", 1] if "tar" in command else [])
        )
        assert done.code == 2
        assert "conversations-to-tarred" in done.error_line
    done = prepcli("conversations-to-tarred", corpus / "manifest.json", tmp_path / "out")
    assert done.code == 2
    assert "has no conversations" in done.error_line
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "a.jsonl").write_bytes((corpus / "nemo.jsonl").read_bytes())
    folder = prepcli("conversations-to-tarred", alone, tmp_path / "out").error_line
    assert folder.endswith(f"alone has no conversations in the form of a set: name its files, {alone}/a.jsonl")
    swift = Path(shutil.copy(MINI_CORPUS.parent / "conversations/swift.jsonl", corpus))
    done = prepcli("score", swift, tmp_path / "out.json")
    assert f"prepcli conversations-to-tarred {swift} OUT reads them whole; or make pairs of" in done.error_line
    path = corpus / "list.json"
    path.write_text(f"[{(corpus / 'nemo.jsonl').read_text().replace(chr(10), ',').strip(',')}]")
    advice = f"write one per line: jq -c '.[]' {path} > {path}l"
    out = tmp_path / "out.jsonl"
    calls = [(name, path, out) for name in ("conversations-to-tarred", "filter", "find-duplicates")]
    for call in (*calls, ("inspect", path), ("verify", path), ("index", path)):
        assert prepcli(*call).error_line == (f"prepcli: {path} is a JSON list of conversations; {advice}")


def test_bins_of_a_set_are_those_of_its_config(corpus: Path, tmp_path: Path) -> None:
    made(corpus / "nemo.jsonl", tmp_path / "out")
    for out in (tmp_path / "out", f"{tmp_path}/out/"):
        refused = prepcli("estimate-token-bins", out, "-t", "x.model")
        assert refused.error_line.endswith(f"a config that names it, such as {tmp_path}/out.prepcli/train_ds.yaml")


def test_blend_mixes_conversations_with_audio(corpus: Path, tmp_path: Path) -> None:
    made(corpus / "nemo.jsonl", tmp_path / "out")
    call = ("blend", f"chats={tmp_path}/out", f"asr={corpus}/manifest.json", tmp_path / "b.yaml")
    done = prepcli(*call)
    assert done.code == 0, done.err
    assert "type: multimodal_conversation" in (tmp_path / "b.yaml").read_text()
    assert "audio_locator_tag: '[audio]'" in (tmp_path / "b.yaml").read_text()
