"""`compare` finds planted differences, and only these."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf

from tests.conftest import SHORT_CORPUS, make_set, read_lines, write_lines
from tests.support.conversations import conversations_of
from tests.support.running import prepcli


def absolute_lines() -> list[dict[str, object]]:
    lines = read_lines(SHORT_CORPUS / "manifest.json")
    return [line | {"audio_filepath": str(SHORT_CORPUS / line["audio_filepath"])} for line in lines]


def test_planted_differences(tmp_path: Path) -> None:
    before = absolute_lines()
    after = [dict(line) for line in before]
    gone, retold, converted, other = after[0], after[1], after[2], after[3]
    retold["text"] = "other words"
    retold["voice"] = "low"
    samples, rate = sf.read(str(converted["audio_filepath"]), dtype="int16")
    sf.write(tmp_path / f"{Path(str(converted['audio_filepath'])).stem}.wav", samples, rate)
    converted["audio_filepath"] = str(tmp_path / f"{Path(str(converted['audio_filepath'])).stem}.wav")
    samples, rate = sf.read(str(other["audio_filepath"]), dtype="int16")
    sf.write(tmp_path / Path(str(other["audio_filepath"])).name, samples // 2, rate)
    other["audio_filepath"] = str(tmp_path / Path(str(other["audio_filepath"])).name)
    new = dict(gone) | {"audio_filepath": str(tmp_path / "new.wav"), "duration": 3600.0}
    write_lines(tmp_path / "a.json", before)
    write_lines(tmp_path / "b.json", [new, *reversed(after[1:])])
    page = tmp_path / "page.html"
    found = prepcli("compare", "a.json", "b.json", "--html", page, "--json", cwd=tmp_path).json
    assert found["matched_by"] == "the names of their audio files and offsets"
    assert (found["matched"], found["changed"]) == (len(before) - 1, 2)
    assert (found["gone"]["records"], found["added"]["records"], found["added"]["hours"]) == (1, 1, 1.0)
    changes = {one["field"]: (one["changed"], one["added"], one["removed"]) for one in found["fields"]}
    assert changes == {"text": (1, 0, 0), "voice": (0, 1, 0)}
    audio = {name: count for name, count in found["audio"].items() if count}
    assert audio == {
        "same_place": len(before) - 3,
        "same_samples": 1,
        "other": 1,
        "examples": [other["audio_filepath"]],
    }
    assert "The sets differ" in page.read_text()
    unread = prepcli("compare", "a.json", "b.json", "--no-audio", "--json", cwd=tmp_path).json
    assert (unread["audio"]["not_compared"], unread["changed"]) == (2, 1)


def test_names_that_several_files_have(tmp_path: Path) -> None:
    """A writer marks them; one that only one file has stays as it is."""
    paths = []
    for folder in "ab":
        (tmp_path / folder).mkdir()
        lines = [{"audio_filepath": f"{name}.wav", "duration": 0.5, "text": folder} for name in ("x", "y", folder)]
        for place, line in enumerate(lines):
            noise = np.random.default_rng([ord(folder), place]).normal(0, 999, 8000).astype(np.int16)
            sf.write(tmp_path / folder / str(line["audio_filepath"]), noise, 16000)
        paths.append(str(write_lines(tmp_path / folder / "m.json", lines)))
    for name, more in {"whole": (), "cut": ("--slice-with-offset",)}.items():
        prepcli("manifest-to-tarred", ",".join(paths), tmp_path / name, "--num-shards", 1, *more)
        found = prepcli("compare", ",".join(paths), tmp_path / name, "--json").json
        assert (found["matched"], found["audio"]["same_samples"]) == (6, 6), name
        assert [one["field"] for one in found["fields"]] == ["sampling_rate"]


def test_a_manifest_and_sets_made_of_it(tmp_path: Path) -> None:
    manifest = write_lines(tmp_path / "m.json", absolute_lines())
    same = prepcli("compare", manifest, manifest)
    assert same.out.startswith("compare: no differences")
    made = {
        "manifest-to-tarred": ("--num-shards", 2, "--shuffle"),
        "manifest-to-shar": (),
        "manifest-to-parquet": (),
        "convert-audio": ("--target-sample-rate", 8000),
    }
    for command, options in made.items():
        out = tmp_path / command
        make_set(command, manifest, out, *options)
        compared = out / "manifest.json" if command == "convert-audio" else out
        found = prepcli("compare", manifest, compared, "--json").json
        audio = {name: count for name, count in found["audio"].items() if count and name != "examples"}
        kind = "other_rate" if command == "convert-audio" else "same_samples"
        assert audio == {kind: len(absolute_lines())}, (command, found["matched_by"])
        assert (found["gone"]["records"], found["added"]["records"]) == (0, 0)
        assert {one["field"] for one in found["fields"]} <= {"id", "duration", "sampling_rate", "lang"}
    again = tmp_path / "again"
    prepcli("manifest-to-tarred", tmp_path / "manifest-to-tarred", again, "--num-shards", 3, "--shuffle")
    shuffled = prepcli("compare", tmp_path / "manifest-to-tarred", again)
    assert shuffled.out.startswith("compare: the same records and samples, in other files")


def test_segments_and_lines_that_occur_twice(tmp_path: Path) -> None:
    line = absolute_lines()[0]
    before = [line | {"offset": start, "duration": 0.02, "text": str(start)} for start in (0.0, 0.03, 0.03, 0.06)]
    after = [before[3] | {"duration": 0.02 + 1e-8}, before[1], before[0] | {"duration": 0.025}]
    write_lines(tmp_path / "a.json", before)
    write_lines(tmp_path / "b.json", after)
    found = prepcli("compare", "a.json", "b.json", "--no-audio", "--json", cwd=tmp_path).json
    assert (found["matched"], found["gone"]["records"], found["added"]["records"]) == (3, 1, 0)
    changes = {one["field"]: (one["before"], one["after"], one["changed"]) for one in found["fields"]}
    assert changes == {"duration": ("0.02", "0.025", 1)}


def test_conversations(tmp_path: Path) -> None:
    """A file and a set made of it, and planted changes: of a text, of audio, of the number of turns."""
    lines = conversations_of(absolute_lines())
    chats = write_lines(tmp_path / "chats.jsonl", lines)
    made = prepcli("conversations-to-tarred", chats, tmp_path / "set", "--shuffle", "--form", "nemo")
    assert made.code == 0, made.err
    found = prepcli("compare", chats, tmp_path / "set", "--json").json
    assert (found["matched"], found["changed"], found["fields"]) == (len(lines), 0, [])
    assert found["audio"]["same_samples"] == len(lines)
    other = json.loads(json.dumps(lines[::-1]))
    other[0]["conversations"][2]["value"] = "No, it was another."
    other[1]["conversations"][1] = lines[0]["conversations"][1]
    other[2]["conversations"].append({"from": "User", "type": "text", "value": "Thanks."})
    del other[3]["conversations"][1]
    other[4]["conversations"][2]["mood"] = "sad"
    changed = write_lines(tmp_path / "changed.jsonl", other)
    found = prepcli("compare", tmp_path / "set", changed, "--json").json
    assert (found["matched_by"], found["matched"], found["changed"]) == ("their ids", len(lines), 5)
    turns = next(one for one in found["fields"] if one["field"] == "conversations")
    assert (turns["changed"], turns["added"], turns["removed"]) == (4, 1, 0)  # audio of another length, too
    assert (found["audio"]["other"], found["audio"]["same_samples"]) == (2, len(lines) - 2)
    assert sorted(found["audio"]["examples"]) == sorted([other[1]["id"], other[3]["id"]])
    text = prepcli("compare", tmp_path / "set", changed, "--no-audio").out
    assert "conversations" in text and f"{len(lines):,} at another place, not read" in text


def test_further_fields_of_turns_of_any_form(tmp_path: Path) -> None:
    """There were no differences: of ms-swift, only texts and audio were read."""
    for name, loss in ("a", True), ("b", False):
        turns = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "I.", "loss": loss}]
        write_lines(tmp_path / f"{name}.jsonl", [{"id": "c", "messages": turns}])
    found = prepcli("compare", "a.jsonl", "b.jsonl", "--json", cwd=tmp_path).json
    assert (found["is_same"], [one["field"] for one in found["fields"]]) == (False, ["conversations"])


def test_lines_that_cannot_be_used_may_differ(tmp_path: Path) -> None:
    """There were no differences, although a conversation was gone, or none was compared at all."""
    good, bad = ({"id": role, "conversations": [{"from": role, "value": "I."}]} for role in ("user", "narrator"))
    write_lines(tmp_path / "a.jsonl", [good, bad])
    write_lines(tmp_path / "b.jsonl", [good])
    found = prepcli("compare", "a.jsonl", "b.jsonl", cwd=tmp_path).out
    assert "the sets differ" in found and "1 unusable lines, which are not compared" in found
    write_lines(tmp_path / "c.jsonl", [bad])
    write_lines(tmp_path / "d.jsonl", [bad | {"title": "other"}])
    assert not prepcli("compare", "c.jsonl", "d.jsonl", "--json", cwd=tmp_path).json["is_same"]


def test_a_field_with_the_name_of_turns(tmp_path: Path) -> None:
    line = absolute_lines()[0]
    for name, value in ("a", 5), ("b", 6):
        write_lines(tmp_path / f"{name}.json", [line | {"conversations": value}])
    found = prepcli("compare", "a.json", "b.json", "--json", cwd=tmp_path).json
    assert [(one["before"], one["after"]) for one in found["fields"]] == [("5", "6")]


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    manifest = SHORT_CORPUS / "manifest.json"
    missing = prepcli("compare", manifest, tmp_path / "none.json")
    assert (missing.code, "none.json" in missing.error_line) == (2, True)
    page = tmp_path / "page.html"
    page.write_text("mine")
    refused = prepcli("compare", manifest, manifest, "--html", page)
    assert (refused.code, "a file that is not such a page" in refused.error_line) == (2, True)
    assert page.read_text() == "mine"


def test_values_that_are_equal(tmp_path: Path) -> None:
    """Null and NaN do not count; true differs from 1; numbers differ by more than their rounding, in lists too."""
    line = absolute_lines()[0]
    values = {
        "null": ("null", None, 0),
        "nan": ("NaN", "null", 0),
        "gone": ("NaN", "2", 1),
        "infinite": ("Infinity", "1e400", 0),
        "large": ("1" + "0" * 400, "1.5", 1),
        "bool": ("true", "1", 1),
        "number": ("1", "1.0000000001", 0),
        "list": ('[1, {"a": 0.1}, NaN]', '[1.0, {"a": 0.10000000001}, NaN]', 0),
        "list_of_other": ('[1, {"a": true}]', '[1, {"a": 1}]', 1),
        "integers": (str(10**17), str(10**17 + 1), 1),
    }
    for side, name in enumerate(("a.json", "b.json")):
        fields = [f'"{field}": {value[side]}' for field, value in values.items() if value[side] is not None]
        (tmp_path / name).write_text(f"{json.dumps(line)[:-1]}, {', '.join(fields)}}}\n")
    for first, second in (("a.json", "b.json"), ("b.json", "a.json")):
        found = prepcli("compare", first, second, "--json", cwd=tmp_path).json
        assert {one["field"] for one in found["fields"]} == {name for name, value in values.items() if value[2]}


def test_an_id_that_all_records_share(tmp_path: Path) -> None:
    lines = [line | {"id": "x"} for line in absolute_lines()]
    write_lines(tmp_path / "a.json", lines)
    write_lines(tmp_path / "b.json", lines[1:])
    found = prepcli("compare", "a.json", "b.json", "--json", cwd=tmp_path).json
    assert (found["matched_by"], found["changed"]) == ("the paths of their audio and offsets", 0)


@pytest.mark.parametrize("field", ["context_audio_filepath", "ref_audio"])
def test_audio_that_fields_name(tmp_path: Path, field: str) -> None:
    """Only its path was compared: other audio of one name was not noticed; a copy in another folder was a change."""
    lines = absolute_lines()[:4]
    samples, rate = sf.read(str(lines[0]["audio_filepath"]), dtype="int16")
    for side in "ab":
        (tmp_path / side).mkdir()
        for name in ("same", "other"):
            sf.write(tmp_path / side / f"{name}.wav", samples // (2 if (side, name) == ("b", "other") else 1), rate)
        sf.write(tmp_path / side / f"{side}.wav", samples, rate)
        names = ["same.wav", "other.wav", f"{side}.wav", *(["same.wav"] if side == "a" else [])]
        changed = [line | {field: name} for line, name in zip(lines, names, strict=False)]
        write_lines(tmp_path / side / "m.json", [*changed, *lines[len(changed) :]])
    found = prepcli("compare", "a/m.json", "b/m.json", "--json", cwd=tmp_path).json
    (change,) = found["fields"]
    assert (change["field"], change["changed"], change["removed"]) == (field, 1, 1)
    assert change["record"] == lines[1]["audio_filepath"]
    assert (found["changed"], found["audio"]["same_place"]) == (2, 4)
    found = prepcli("compare", "a/m.json", "b/m.json", "--json", "--no-audio", cwd=tmp_path).json
    assert [(change["changed"], change["removed"]) for change in found["fields"]] == [(1, 1)], "the paths"


def test_ids_that_occur_several_times(tmp_path: Path) -> None:
    """Such records are matched by their order; nothing said so, and another order looked like other texts."""
    audio = str(absolute_lines()[0]["audio_filepath"])
    line = {"audio_filepath": audio, "duration": 0.1, "id": "x"}
    for name, texts in (("a", "abc"), ("b", "acb")):
        write_lines(tmp_path / f"{name}.json", [line | {"text": text} for text in texts])
    done = prepcli("compare", "a.json", "b.json", cwd=tmp_path)
    assert "2 of them changed; where these occur several times, by their order: 4 records" in done.out
    assert prepcli("compare", "a.json", "b.json", "--json", cwd=tmp_path).json["by_order"] == 4
    write_lines(tmp_path / "c.json", [line | {"text": "a"}])
    assert "by their order" not in prepcli("compare", "c.json", "c.json", cwd=tmp_path).out


def test_a_part_of_the_context(tmp_path: Path) -> None:
    samples, rate = sf.read(str(absolute_lines()[0]["audio_filepath"]), dtype="int16")
    place = {"context_audio_offset": 0.05, "context_audio_duration": 0.02}
    for side, at in (("a", 0), ("b", len(samples) - 1)):
        (tmp_path / side).mkdir()
        other = samples.copy()
        other[at] += 9
        sf.write(tmp_path / side / "c.wav", other, rate)
        write_lines(tmp_path / side / "m.json", [absolute_lines()[0] | {"context_audio_filepath": "c.wav"} | place])
    assert prepcli("compare", "a/m.json", "b/m.json", "--json", cwd=tmp_path).json["is_same"]


def test_lines_that_are_skipped_are_counted(tmp_path: Path) -> None:
    """No command reads them; nothing said that they were not compared."""
    lines = absolute_lines()
    write_lines(tmp_path / "a.json", [line | {"_skipme": number < 2} for number, line in enumerate(lines)])
    write_lines(tmp_path / "b.json", [line | {"_skipme": False} for line in lines[2:]])
    done = prepcli("compare", "a.json", "b.json", cwd=tmp_path)
    assert f"a.json: {len(lines) - 2} records" in done.out and "h, and 2 lines with _skipme, which are not" in done.out


def test_another_duration_is_not_another_place(tmp_path: Path) -> None:
    """Durations that fix-durations has measured again, also of a line whose old one was longer than its audio."""
    before = absolute_lines()
    after = [dict(line) for line in before]
    before[0]["duration"] = 3600.0
    before[1]["duration"] = round(float(str(before[1]["duration"])) - 0.001, 6)
    write_lines(tmp_path / "a.json", before)
    write_lines(tmp_path / "b.json", after)
    found = prepcli("compare", "a.json", "b.json", "--json", cwd=tmp_path).json
    assert {name: count for name, count in found["audio"].items() if count} == {"same_place": len(before)}
    assert {one["field"]: one["changed"] for one in found["fields"]} == {"duration": 2}
