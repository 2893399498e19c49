"""Every record of a chain, kept or dropped, is found again, with its source."""

import io
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf
from numpy.typing import NDArray

from prepcli.commands.explain import tracing
from prepcli.formats.names import segment_suffix
from tests.conftest import SHORT_CORPUS, Lines, make_set, read_lines, write_lines
from tests.support.chains import random_chain, run
from tests.support.conversations import share_gpt_of
from tests.support.running import prepcli


@pytest.mark.parametrize("seed", range(2))
def test_every_record_of_random_chains(tmp_path: Path, seed: int) -> None:
    folder = random_chain(tmp_path, seed).folder
    kept = {line["audio_filepath"] for line in read_lines(folder / "tarred/sharded_manifests/manifest_0.json")}
    assert kept
    dropped = {
        (Path(line["audio_filepath"]).name, line["offset"]): (output, line["reject_reason"])
        for output in ("scored.json", "kept.json", "parts", "tarred")
        for line in read_lines(folder / f"{output}.prepcli/rejects.jsonl")
    }
    dev = {(Path(line["audio_filepath"]).name, line["offset"]) for line in read_lines(folder / "parts/dev.json")}
    verdicts = set()
    for segment in read_lines(folder / "segments.json"):
        name, start = Path(segment["audio_filepath"]).name, segment["offset"]
        middle = start + segment["duration"] / 2
        (trace,) = prepcli("explain", f"{name}@{middle:.4f}", "--in", "tarred", "--json", cwd=folder).json["traces"]
        source = trace["source"]
        assert Path(source["audio"]).name == name
        rate = sf.info(folder / "talks" / name).samplerate
        assert source["first_sample"] == round(start * rate)
        verdicts.add(trace["verdict"])
        if trace["verdict"] == "kept":
            stem = f"{Path(name).stem}{segment_suffix(start, segment['duration'])}.flac"
            assert trace["name"].endswith(stem)
            assert trace["name"] in kept
            kept.remove(trace["name"])
            steps = ["segment", "score", "filter", "split", "manifest-to-tarred"]
            assert [hop["command"] for hop in trace["hops"]] == steps
        elif (name, start) in dropped:
            output, reason = dropped.pop((name, start))
            assert (trace["verdict"], trace["by"].split()[1], trace["reason"]) == ("dropped", output, reason)
        else:
            assert (name, start) in dev
            dev.remove((name, start))
            assert (trace["verdict"], trace["reason"]) == ("dropped", "not used")
    assert (kept, dropped, dev) == (set(), {}, set())
    assert verdicts == {"kept", "dropped"}


def test_cuts_of_shar_and_members_of_tars_without_a_segment(tmp_path: Path) -> None:
    run(tmp_path, "filter", str(SHORT_CORPUS / "manifest.json"), "kept.json", "--keep", "duration > 0.11")
    kept, source = read_lines(tmp_path / "kept.json"), read_lines(SHORT_CORPUS / "manifest.json")
    make_set("manifest-to-shar", tmp_path / "kept.json", tmp_path / "shar")
    make_set("manifest-to-tarred", tmp_path / "kept.json", tmp_path / "tarred", "--num-shards", 2)
    for out in ("shar", "tarred"):
        for line in (source[0], source[1], source[-1]):
            name = Path(line["audio_filepath"]).name
            (trace,) = prepcli("explain", name, "--in", out, "--json", cwd=tmp_path).json["traces"]
            is_kept = any(Path(one["audio_filepath"]).name == name for one in kept)
            assert trace["verdict"] == ("kept" if is_kept else "dropped")
            assert Path(trace["source"]["audio"]) == SHORT_CORPUS / line["audio_filepath"]
            if is_kept:
                (again,) = prepcli("explain", trace["name"], "--in", out, "--json", cwd=tmp_path).json["traces"]
                assert again == trace


def test_conversations(tmp_path: Path) -> None:
    lines = absolute(some_lines())
    write_lines(tmp_path / "chats.jsonl", share_gpt_of(lines))
    run(tmp_path, "filter", "chats.jsonl", "kept.jsonl", "--keep", "duration > 0.12")
    run(tmp_path, "conversations-to-tarred", "kept.jsonl", "chats", "--num-shards", 2)
    kept = {chat["id"] for shard in (0, 1) for chat in read_lines(tmp_path / f"chats/manifest_{shard}.jsonl")}
    assert 0 < len(kept) < len(lines)
    ids = [chat["id"] for chat in share_gpt_of(lines)]
    for name, line in zip(ids, lines, strict=True):
        (trace,) = prepcli("explain", name, "--in", "chats", "--json", cwd=tmp_path).json["traces"]
        assert (trace["name"], trace["verdict"]) == (name, "kept" if name in kept else "dropped")
        assert trace["source"]["audio"] == line["audio_filepath"]
        assert len(trace["hops"]) == (2 if name in kept else 0)


def test_sets_without_manifests(tmp_path: Path) -> None:
    """Their records were said to be in none of the manifests."""
    lines = absolute(some_lines()[:4])
    write_lines(tmp_path / "chats.jsonl", share_gpt_of(lines))
    run(tmp_path, "conversations-to-tarred", "chats.jsonl", "pairs", "--form", "sharegpt-webdataset", "--shard-size", 2)
    write_lines(tmp_path / "all.json", lines)
    run(tmp_path, "manifest-to-wenet", "all.json", "raw", "--raw")
    for out, listing, names in (
        ("pairs", ["shard-0.tar", "shard-0.tar", "shard-1.tar", "shard-1.tar"], [c["id"] for c in share_gpt_of(lines)]),
        ("raw", ["data.list"] * 4, [line["audio_filepath"] for line in lines]),
    ):
        for number, (name, line) in enumerate(zip(names, lines, strict=True)):
            (trace,) = prepcli("explain", name, "--in", out, "--json", cwd=tmp_path).json["traces"]
            assert (trace["verdict"], trace["source"]["audio"]) == ("kept", line["audio_filepath"])
            (hop,) = trace["hops"]
            assert hop["manifest"] == str(tmp_path / out / listing[number])
    run(tmp_path, "manifest-to-mels", "all.json", "mels", "--lists-only")
    explained = prepcli("explain", names[0], "--in", "mels", cwd=tmp_path)
    assert "in no manifest or set that explain can read" in explained.out
    assert "mels is not a data set" in explained.out


def test_a_conversation_has_the_place_of_its_first_audio(tmp_path: Path) -> None:
    paths = [line["audio_filepath"] for line in absolute(some_lines()[:2])]
    places = [(paths[0], 0.02, 0.03), (paths[0], 0.05, 0.04), (paths[1], 0.01, 0.02)]
    turns: Lines = [
        {"from": "User", "type": "audio", "value": path, "offset": start, "duration": length}
        for path, start, length in places
    ]
    said: Lines = [{"from": "User", "type": "text", "value": "a"}]
    chats = [{"id": f"c{number}", "conversations": said + turns[number:]} for number in range(3)]
    write_lines(tmp_path / "chats.jsonl", chats)
    run(tmp_path, "filter", "chats.jsonl", "kept.jsonl", "--keep", "duration > 0")
    run(tmp_path, "conversations-to-tarred", "kept.jsonl", "chats", "--num-shards", 1)
    for out in ("kept.jsonl", "chats"):
        for number, (path, start, length) in enumerate(places):
            (trace,) = prepcli("explain", f"c{number}", "--in", out, "--json", cwd=tmp_path).json["traces"]
            source = trace["source"]
            assert (source["audio"], source["start"], source["end"]) == (path, start, pytest.approx(start + length))
    (trace,) = prepcli("explain", f"{Path(paths[0]).name}@0.06", "--in", "kept.jsonl", "--json", cwd=tmp_path).json[
        "traces"
    ]
    assert trace["name"] == "c1"


def test_each_audio_of_a_conversation_names_it(tmp_path: Path) -> None:
    paths = [line["audio_filepath"] for line in absolute(some_lines()[:2])]
    turns: Lines = [{"from": "User", "type": "audio", "value": path} for path in paths]
    write_lines(tmp_path / "chats.jsonl", [{"id": "c", "conversations": turns}])
    run(tmp_path, "conversations-to-tarred", "chats.jsonl", "chats", "--num-shards", 1)
    (stored,) = read_lines(tmp_path / "chats/manifest_0.jsonl")
    for name in (Path(paths[1]).name, stored["conversations"][1]["value"]):
        found = prepcli("explain", name, "--in", "chats", "--json", cwd=tmp_path).json
        assert [(trace["name"], trace["verdict"]) for trace in found["traces"]] == [("c", "kept")]
        assert found["notes"] == ["c has 2 turns with audio: the source is that of the first"]
    timed = prepcli("explain", f"{Path(paths[1]).name}@0.01", "--in", "chats", cwd=tmp_path)
    assert timed.code == 2, "the times of the first audio say nothing of those of the second"


def test_durations_that_were_measured_again(tmp_path: Path) -> None:
    """The source of a record has its true length, also if its old duration was wrong, or was not there."""
    lines = absolute(some_lines()[:3])
    lengths = [sf.info(line["audio_filepath"]).frames for line in lines]
    lines[0]["duration"] += 3.0
    lines[1]["duration"] /= 2
    del lines[2]["duration"]
    write_lines(tmp_path / "m.json", lines)
    run(tmp_path, "fix-durations", "m.json", "fixed.json")
    for line, length in zip(lines, lengths, strict=True):
        found = prepcli("explain", line["audio_filepath"], "--in", "fixed.json", "--json", cwd=tmp_path).json
        (trace,) = found["traces"]
        assert (trace["verdict"], trace["source"]["last_sample"], found["notes"]) == ("kept", length, [])


def test_audio_that_is_gone_is_named(tmp_path: Path) -> None:
    shutil.copy(SHORT_CORPUS / some_lines()[0]["audio_filepath"], tmp_path / "a.flac")
    write_lines(tmp_path / "m.json", [some_lines()[0] | {"audio_filepath": "a.flac"}])
    run(tmp_path, "filter", "m.json", "kept.json", "--keep", "duration > 0")
    (tmp_path / "a.flac").unlink()
    (trace,) = prepcli("explain", "a", "--in", "kept.json", "--json", cwd=tmp_path).json["traces"]
    assert (trace["verdict"], trace["source"]["first_sample"]) == ("kept", None)


def test_a_record_that_is_dropped_under_another_name(tmp_path: Path) -> None:
    write_lines(tmp_path / "m.json", lines := absolute(some_lines()))
    make_set("manifest-to-tarred", tmp_path / "m.json", tmp_path / "first", "--num-shards", 2)
    run(tmp_path, "manifest-to-tarred", "first", "again", "--num-shards", 1, "--min-duration", 0.15)
    for line in lines:
        name = Path(line["audio_filepath"]).name
        (trace,) = prepcli("explain", name, "--in", "again", "--json", cwd=tmp_path).json["traces"]
        expected = ("kept", 2) if line["duration"] >= 0.15 else ("dropped", 1)
        assert (trace["verdict"], len(trace["hops"])) == expected
        assert trace["source"]["audio"] == line["audio_filepath"]


def test_no_neighbour_stands_for_a_line_that_was_removed(tmp_path: Path) -> None:
    lines = [line | {"offset": start, "duration": 0.02} for line in absolute(some_lines())[:1] for start in (0.0, 0.03)]
    write_lines(tmp_path / "m.json", lines)
    run(tmp_path, "filter", "m.json", "kept.json", "--keep", "duration > 0")
    run(tmp_path, "filter", "kept.json", "again.json", "--keep", "duration > 0")
    write_lines(tmp_path / "kept.json", lines[:1])
    name = Path(lines[0]["audio_filepath"]).name
    found = prepcli("explain", f"{name}@0.035", "--in", "again.json", "--json", cwd=tmp_path).json
    assert [len(trace["hops"]) for trace in found["traces"]] == [1]
    assert "is not in its inputs any more" in found["notes"][0]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("manifest-to-tarred", ["--num-shards", 2]),
        ("manifest-to-tarred", ["--num-shards", 2, "--slice-with-offset", "--shuffle"]),
        ("convert-audio", ["--target-sample-rate", 4000]),
    ],
)
def test_equal_names_and_lengths(tmp_path: Path, command: str, words: list[object]) -> None:
    manifests = two_folders(tmp_path)
    run(tmp_path, command, manifests, "out", *words)
    # Once more, now of the members' or files' names.
    run(
        tmp_path,
        "manifest-to-tarred",
        "out" if command != "convert-audio" else "out/manifest.json",
        "again",
        "--num-shards",
        1,
    )
    assert_sources(tmp_path, "out", 6)
    assert_sources(tmp_path, "again", 6)
    for folder in ("a", "b"):
        found = prepcli("explain", f"{folder}/u.wav", "--in", "again", "--json", cwd=tmp_path).json
        assert [Path(trace["source"]["audio"]).parent.name for trace in found["traces"]] == [folder]


def test_equal_names_that_were_added(tmp_path: Path) -> None:
    two_folders(tmp_path)
    run(tmp_path, "manifest-to-tarred", "a/m.json", "out", "--num-shards", 1)
    run(tmp_path, "manifest-to-tarred", "b/m.json", "--concat-to", "out", "--num-shards", 1, "--allow-duplicates")
    assert_sources(tmp_path, "out", 6)


def test_what_nothing_tells_apart_is_noted(tmp_path: Path) -> None:
    run(tmp_path, "manifest-to-shar", two_folders(tmp_path), "shar", "--shard-size", 10)
    second = prepcli("explain", "cut-rec-u-0.00-0.20-2", "--in", "shar", "--json", cwd=tmp_path).json
    assert len(second["traces"]) == 1
    assert "may be made from 2 records in the inputs of manifest-to-shar shar" in second["notes"][0]


def test_a_name_that_ends_like_a_time(tmp_path: Path) -> None:
    lines = [line | {"id": f"x@{number}"} for number, line in enumerate(absolute(some_lines()))]
    write_lines(tmp_path / "m.json", [lines[0] | {"id": "x"}, *lines])
    run(tmp_path, "filter", "m.json", "kept.json", "--keep", "duration > 0")
    for name, line in (("x@0", 2), ("x@3", 5), ("x@0.01", 1)):
        (trace,) = prepcli("explain", name, "--in", "kept.json", "--json", cwd=tmp_path).json["traces"]
        assert trace["hops"][0]["line"] == line


def test_a_record_that_is_kept_beside_one_of_its_name_that_is_dropped(tmp_path: Path) -> None:
    two_folders(tmp_path)
    lines = read_lines(tmp_path / "b/m.json")
    write_lines(tmp_path / "b/m.json", [lines[0] | {"duration": 7.0}, *lines[1:]])
    run(tmp_path, "manifest-to-tarred", "a/m.json,b/m.json", "out", "--num-shards", 1)
    traces = prepcli("explain", "u.wav", "--in", "out", "--json", cwd=tmp_path).json["traces"]
    verdicts = {Path(trace["source"]["audio"]).parent.name: trace["verdict"] for trace in traces}
    assert verdicts == {"a": "kept", "b": "dropped"}


def two_folders(folder: Path) -> str:
    """The manifests of two folders with the same names, in which all records have one length."""
    for seed, name in enumerate(("a", "b")):
        (folder / name).mkdir()
        noise = np.random.default_rng(seed).normal(0, 0.1, 6400).astype(np.float32)
        sf.write(folder / name / "u.wav", noise[:1600], 8000)
        sf.write(folder / name / "talk.wav", noise, 8000)
        places: list[tuple[str, Lines]] = [("u.wav", [{}]), ("talk.wav", [{"offset": 0.2}, {"offset": 0.6}])]
        lines = [
            {"audio_filepath": file, **place, "duration": 0.2, "text": "a"} for file, all in places for place in all
        ]
        write_lines(folder / name / "m.json", lines)
    return "a/m.json,b/m.json"


def assert_sources(folder: Path, out: str, count: int) -> None:
    """Each record is made from the audio that it has."""
    lines = [line for path in sorted(folder.glob(f"{out}/**/manifest*.json")) for line in read_lines(path)]
    assert len(lines) == count
    sources = set()
    for line in lines:
        name = f"{line['audio_filepath']}@{line['offset'] + 0.01}" if "offset" in line else line["audio_filepath"]
        found = prepcli("explain", name, "--in", out, "--json", cwd=folder).json
        (trace,) = found["traces"]
        assert found["notes"] == []
        source = trace["source"]
        sources.add((source["audio"], source["start"]))
        whole, rate = sf.read(source["audio"])
        expected = whole[round(source["start"] * rate) :][:1600]
        made = audio_of(folder / out, line)
        if len(made) == len(expected):
            np.testing.assert_array_equal(made, expected)
        else:  # of half the rate
            assert np.corrcoef(made, expected[::2])[0, 1] > 0.5
    assert len(sources) == count


def audio_of(out: Path, line: dict[str, Any]) -> NDArray[np.float64]:
    name, start = line["audio_filepath"], line.get("offset", 0)
    path = out / name
    if not path.exists():
        with tarfile.open(out / f"audio_{line['shard_id']}.tar") as members:
            member = members.extractfile(name)
            assert member is not None
            samples, rate = sf.read(io.BytesIO(member.read()))
    else:
        samples, rate = sf.read(path)
    return np.asarray(samples[round(start * rate) :][: round(line["duration"] * rate)])


def absolute(lines: Lines) -> Lines:
    return [line | {"audio_filepath": str(SHORT_CORPUS / line["audio_filepath"])} for line in lines]


def some_lines() -> Lines:
    return read_lines(SHORT_CORPUS / "manifest.json")[:6]


def test_one_part_of_a_split(tmp_path: Path) -> None:
    manifest = SHORT_CORPUS / "manifest.json"
    run(tmp_path, "split", str(manifest), "parts", "--part", "a=rest", "--part", "b=0.3")
    for part, other in (("a", "b"), ("b", "a")):
        name = Path(read_lines(tmp_path / f"parts/{part}.json")[0]["audio_filepath"]).name
        verdicts = {}
        for one in (part, other):
            (trace,) = prepcli("explain", name, "--in", f"parts/{one}.json", "--json", cwd=tmp_path).json["traces"]
            verdicts[one] = (trace["verdict"], Path(trace["hops"][0]["manifest"]).name)
        assert verdicts == {part: ("kept", f"{part}.json"), other: ("dropped", f"{part}.json")}


def test_what_cannot_be_explained(tmp_path: Path) -> None:
    run(tmp_path, "filter", str(SHORT_CORPUS / "manifest.json"), "kept.json", "--keep", "duration > 0.3")
    nobody = prepcli("explain", "nobody.wav", "--in", "kept.json", cwd=tmp_path)
    assert (nobody.code, "is named nobody.wav" in nobody.error_line) == (2, True)
    unknown = prepcli("explain", "u1", "--in", str(SHORT_CORPUS / "manifest.json"), cwd=tmp_path)
    assert (unknown.code, "no run of prepcli" in unknown.error_line) == (2, True)


def test_a_list_of_duplicates_is_a_rule_that_drops(tmp_path: Path) -> None:
    write_lines(tmp_path / "m.json", absolute(some_lines()))
    run(tmp_path, "find-duplicates", "m.json", "listed.jsonl", "--by", "audio")
    run(tmp_path, "filter", "m.json", "kept.json", "--keep", "duration > 0", "--drop-listed", "listed.jsonl")
    done = prepcli("explain", Path(some_lines()[0]["audio_filepath"]).name, "--in", "kept.json", cwd=tmp_path)
    assert "keep duration > 0; drop listed in listed.jsonl" in done.out


def test_rows_of_parquet(tmp_path: Path) -> None:
    samples, rate = sf.read(SHORT_CORPUS / some_lines()[0]["audio_filepath"])
    sf.write(tmp_path / "talk.wav", np.tile(samples, 40), rate)
    lines = [{"audio_filepath": "talk.wav", "offset": at, "duration": 0.5, "text": "x"} for at in (0.0, 0.5, 1.0)]
    write_lines(tmp_path / "m.json", [*lines, *absolute(some_lines())])
    run(tmp_path, "manifest-to-parquet", "m.json", "parquet")
    for name, line in (("talk.wav@0.7", 2), (Path(some_lines()[1]["audio_filepath"]).name, 5)):
        (trace,) = prepcli("explain", name, "--in", "parquet", "--json", cwd=tmp_path).json["traces"]
        assert (trace["verdict"], trace["hops"][-1]["line"]) == ("kept", line)


@pytest.mark.parametrize("block", [b"a\nhit\n\nb hit hit\nc\nhit", b"hit\n", b"a\nb\n", b"xhit\nhit\n", b""])
def test_only_lines_with_the_name_are_decoded(block: bytes) -> None:
    """Of 300,000 lines with 300 of the name, all were decoded for each record: minutes."""
    lines = block.splitlines(keepends=True)
    numbers = [number for number, line in enumerate(lines, 1) if b"hit" in line]
    text = b"".join(lines[number - 1] for number in numbers)
    assert tracing._holding(block, b"hit") == (text, numbers)
    assert [*zip(tracing._holding(block, b"")[1], lines, strict=False)] == list(enumerate(lines, 1))
