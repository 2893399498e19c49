"""extend-context-audio on the mini corpus, judged by a plain reference over the embeddings that it saved."""

import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import MINI_CORPUS, Lines, read_lines, tree, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import Outcome, prepcli

pytestmark = pytest.mark.usefixtures("toy_voice", "one_thread")

NAME = "manifest_withContextAudioMinDur3.0MinSSIM0.6.json"
MANIFEST = MINI_CORPUS / "manifest.json"
ADDED = [
    "context_speaker_similarity",
    "context_audio_filepath",
    "context_audio_offset",
    "context_audio_duration",
    "context_audio_text",
]


def extend(manifest: object, out: Path, *options: object, model: object = "toy", **more: Any) -> Outcome:
    return prepcli("extend-context-audio", manifest, out, "--speaker-model", model, *options, **more)


def identity(record: dict[str, Any]) -> tuple[str, float, float]:
    return record["audio_filepath"], record.get("offset", 0.0), record["duration"]


def saved_embeddings(out: Path) -> dict[tuple[str, float, float], np.ndarray]:
    found = {}
    for index in sorted((out / "embeddings").glob("*.jsonl")):
        rows = np.load(index.with_suffix(".npy"))
        for record, row in zip(read_lines(index), rows, strict=True):
            found[identity(record)] = row
    return found


def reference(records: Lines, embeddings: dict[tuple[str, float, float], np.ndarray], least: float) -> dict[int, int]:
    """All pairs of a speaker, the most similar first: the first that is long enough, if it is similar enough."""
    chosen = {}
    by_speaker = defaultdict(list)
    for number, record in enumerate(records):
        by_speaker[record["speaker"]].append(number)
    for numbers in by_speaker.values():
        for number in numbers:
            own = embeddings[identity(records[number])].astype(np.float64)
            others = [(-float(own @ embeddings[identity(records[other])]), other) for other in numbers]
            for negative, other in sorted(others):
                if identity(records[other]) != identity(records[number]) and records[other]["duration"] >= 3.0:
                    if round(-negative, 6) >= least:
                        chosen[number] = other
                    break
    return chosen


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run over the mini corpus: OUT, and the report."""
    out = tmp_path_factory.mktemp("whole") / "out"
    done = extend(MANIFEST, out, "--save-embeddings", "--json")
    assert (done.code, done.err) == (0, "")
    return out, done.json


def test_verify_reads_the_extended_manifest(whole: tuple[Path, dict[str, Any]]) -> None:
    out, _ = whole
    for path in (out, out / NAME):
        checked = prepcli("verify", path, "--json")
        assert (checked.code, checked.json["kind"], checked.json["records"]) == (0, "manifest", 48), checked.out
        assert (checked.json["hashes_known"], checked.json["notes"]) == (True, [])


def test_the_choice_is_the_references(whole: tuple[Path, dict[str, Any]]) -> None:
    out, report = whole
    records, lines = read_lines(MANIFEST), read_lines(out / NAME)
    chosen = reference(records, saved_embeddings(out), 0.6)
    assert len(chosen) == len(lines) == report["records_out"] == 48
    for number, line in enumerate(lines):
        other = records[chosen[number]]
        assert line["audio_filepath"] == records[number]["audio_filepath"]  # in the order of the input
        assert line["context_audio_filepath"] == other["audio_filepath"]
        assert line["context_audio_duration"] == other["duration"]
        assert line["context_audio_text"] == other["text"]
        assert line["context_audio_offset"] == 0.0
        assert 0.6 <= line["context_speaker_similarity"] == round(line["context_speaker_similarity"], 6)


def test_a_line_is_the_records_with_the_fields_behind_it(whole: tuple[Path, dict[str, Any]]) -> None:
    out, _ = whole
    for before, after in zip(MANIFEST.read_text().splitlines(), (out / NAME).read_text().splitlines(), strict=True):
        assert after.startswith(before[:-1] + ', "context_speaker_similarity": 0.')
        assert list(json.loads(after)) == [*json.loads(before), *ADDED]


def test_report(whole: tuple[Path, dict[str, Any]]) -> None:
    out, report = whole
    details = report["details"]
    assert details["manifest"] == str(out / NAME)
    lines = read_lines(out / NAME)
    similarity, duration = details["similarity_histogram"], details["duration_histogram"]
    for histogram, field in ((similarity, "context_speaker_similarity"), (duration, "context_audio_duration")):
        values = [line[field] for line in lines]
        assert histogram["counts"] == np.histogram(values, histogram["edges"])[0].tolist()
        assert sum(histogram["counts"]) == 48
    seconds = sum(record["duration"] for record in read_lines(MANIFEST))
    assert details["hours_embedded"] == pytest.approx(seconds / 3600, abs=1e-4)
    assert details["real_time_factor"] > 0
    assert 0 <= details["padding"] < 0.2
    assert details["mean_batch_seconds"] > 1


def test_a_finished_run_is_a_quiet_no_op_and_other_settings_are_refused(whole: tuple[Path, dict[str, Any]]) -> None:
    out, _ = whole
    before = tree(out)
    again = extend(MANIFEST, out, "--save-embeddings", "--batch-duration", 5)
    assert (again.code, again.err) == (0, "")
    assert "nothing to do" in again.out
    other = extend(MANIFEST, out, "--save-embeddings", "--context-min-ssim", 0.7)
    assert other.code == 2
    assert "--context-min-ssim was 0.6, now 0.7" in other.error_line
    assert tree(out) == before


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 5])
def test_any_number_of_ranks_gives_the_same_bytes(
    whole: tuple[Path, dict[str, Any]], ranks: int, tmp_path: Path
) -> None:
    for rank in range(ranks):
        done = extend(MANIFEST, tmp_path / "out", "--save-embeddings", "--rank", rank, "--world-size", ranks)
        assert done.code == 0, done.err
    assert tree(tmp_path / "out") == tree(whole[0])


@pytest.mark.parametrize("seconds", [0.1, 11])
def test_batches_of_another_size_give_the_same_bytes(
    whole: tuple[Path, dict[str, Any]], seconds: float, tmp_path: Path
) -> None:
    options = ("--save-embeddings", "--batch-duration", seconds, "--num-workers", 1)
    assert extend(MANIFEST, tmp_path / "out", *options).code == 0
    assert tree(tmp_path / "out") == tree(whole[0])


def test_segments_normalized_text_stale_fields_and_several_manifests(tmp_path: Path) -> None:
    """Six segments of one file, and again as files: copies by content, but other segments; an awkward folder too."""
    corpus = tmp_path / 'it\'s "odd", naïve\n目录'
    shutil.copytree(MINI_CORPUS, corpus)
    segments = read_lines(corpus / "segments.json")
    for number, record in enumerate(segments):
        record |= {"normalized_text": f"normal {number}", "context_audio_normalized_text": "stale", "n": 1.50}
        record |= {"context_audio_channel": 7} | ({"channel": 0} if number % 2 else {})
    segments[3].pop("normalized_text")
    write_lines(tmp_path / "one.json", segments[:4])
    write_lines(tmp_path / "two.json", segments[4:])
    manifests = f"{tmp_path}/one.json,{tmp_path}/two.json"
    done = extend(manifests, tmp_path / "out", "--audio-base-dir", corpus)
    assert done.code == 0, done.err
    lines = read_lines(tmp_path / "out/one_and_1_more_withContextAudioMinDur3.0MinSSIM0.6.json")
    assert len(lines) == 6
    by_offset = {record["offset"]: record for record in segments}
    for line, record in zip(lines, segments, strict=True):
        other = by_offset[line["context_audio_offset"]]
        assert other is not record
        assert line["offset"] == record["offset"]
        assert line.get("context_audio_normalized_text") == other.get("normalized_text")
        assert line.get("context_audio_channel") == other.get("channel")
    assert any("context_audio_normalized_text" not in line for line in lines)


def test_relative_paths_of_several_folders_stay_right(tmp_path: Path) -> None:
    """Records and their contexts are named by absolute paths: relative, they would be other files in OUT."""
    records = read_lines(MANIFEST)[:6]
    for folder, part in (("a", records[:3]), ("b", records[3:])):
        for record in part:
            target = tmp_path / folder / record["audio_filepath"]
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(MINI_CORPUS / record["audio_filepath"], target)
        write_lines(tmp_path / folder / "m.json", part)
    assert extend(f"{tmp_path}/a/m.json,{tmp_path}/b/m.json", tmp_path / "out").code == 0
    lines = read_lines(next((tmp_path / "out").glob("*.json")))
    assert len(lines) == 6
    for line, record in zip(lines, records, strict=True):
        folder = "a" if record in records[:3] else "b"
        assert line["audio_filepath"] == str(tmp_path / folder / record["audio_filepath"])
        assert Path(line["context_audio_filepath"]).is_absolute()
        assert Path(line["context_audio_filepath"]).exists()


def test_copies_of_a_segment_are_not_its_context(tmp_path: Path) -> None:
    """The same file, offset and duration twice: each takes another; a group of nothing but copies has none."""
    records = [*read_lines(MANIFEST)[:6], *read_lines(MANIFEST)[6:7]]
    copies = [dict(record, text="a copy") for record in records]
    copies[6]["audio_filepath"] = "./" + copies[6]["audio_filepath"]
    manifest = write_lines(tmp_path / "m.json", records + copies)
    done = extend(manifest, tmp_path / "out", "--audio-base-dir", MINI_CORPUS, "--max-rejects", 0, "--json")
    assert done.code == 0, done.err
    assert done.json["rejects_by_reason"] == {"no_long_context": 2}
    for line in read_lines(next((tmp_path / "out").glob("*.json"))):
        assert line["context_audio_filepath"] != line["audio_filepath"]
        assert line["context_speaker_similarity"] < 0.99999


def test_broken_audio_costs_its_record_only(tmp_path: Path) -> None:
    """And is nobody's context. Digital silence, a missing and a truncated file, a segment beyond the end, 10 ms."""
    corpus = tmp_path / "corpus"
    shutil.copytree(MINI_CORPUS, corpus)
    records = read_lines(MANIFEST)
    flac = (corpus / records[9]["audio_filepath"]).read_bytes()
    (corpus / records[9]["audio_filepath"]).write_bytes(flac[: len(flac) // 2])
    (corpus / records[14]["audio_filepath"]).unlink()
    records[22]["duration"] = 500.0
    records[30]["duration"] = 0.01
    records[31]["channel"] = 5  # no harm: the file is mono
    write_audio(corpus / "two.wav", 4.0, channels=2)
    records[40] |= {"audio_filepath": "two.wav", "duration": 4.0, "channel": 2}
    manifest = write_lines(corpus / "m.json", records)
    out = tmp_path / "out"
    done = extend(manifest, out, "--json", "--max-rejects", 5, "--context-min-ssim", -1)
    assert done.code == 0, done.err
    assert done.json["records_out"] == 43
    rejects = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert [(reject["manifest_line"], reject["reject_reason"]) for reject in rejects] == [
        (10, "unreadable_audio"),
        (15, "missing_audio"),
        (23, "beyond_audio"),
        (31, "bad_duration"),
        (41, "bad_field"),
    ]
    bad = {records[number]["audio_filepath"] for number in (9, 14, 22, 30, 40)}
    lines = read_lines(next(out.glob("*.json")))
    assert {line["audio_filepath"] for line in lines} == {record["audio_filepath"] for record in records} - bad
    assert not {line["context_audio_filepath"] for line in lines} & bad


def test_why_a_record_has_no_context(tmp_path: Path) -> None:
    records = read_lines(MANIFEST)
    short = [dict(record, speaker="short") for record in records if record["duration"] < 3][:3]
    alone = dict(records[20], speaker="alone")
    manifest = write_lines(tmp_path / "m.json", [*records[:6], *short, alone, *records[6:12]])
    options = ["--audio-base-dir", MINI_CORPUS, "--context-min-ssim", 0.9, "--max-rejects", 0.9]
    done = extend(manifest, tmp_path / "out", *options, "--json")
    assert done.code == 0, done.err
    report = done.json
    assert report["rejects_by_reason"]["speaker_has_one_utterance"] == 1
    assert report["rejects_by_reason"]["no_long_context"] == 3
    assert report["rejects_by_reason"]["no_similar_context"] > 0
    assert report["records_in"] == 16 == report["records_out"] + report["rejects"]
    details = {}
    for reject in read_lines(tmp_path / "out.prepcli/rejects.jsonl"):
        details[reject["reject_reason"]] = reject["reject_detail"]
    assert details["speaker_has_one_utterance"] == "its group has no other usable record"
    assert details["no_long_context"] == "its group has no other readable utterance of 3 s or more"
    assert 0 < float(details["no_similar_context"].split(" has ")[1].split(",")[0]) < 0.9


def test_records_without_a_speaker_are_rejected_while_planning(tmp_path: Path) -> None:
    records = read_lines(MANIFEST)[:6]
    del records[1]["speaker"]
    manifest = write_lines(tmp_path / "m.json", records)
    done = extend(manifest, tmp_path / "out", "--audio-base-dir", MINI_CORPUS, "--dry-run", "--json")
    plan = done.json
    assert plan["rejects_by_reason"] == {"missing_field": 1}
    assert plan["records_planned"] == 5
    assert "1 voice" in plan["notes"][0]
    assert not (tmp_path / "out.prepcli").exists()


def test_dry_run_shows_groups_hours_and_spread(tmp_path: Path) -> None:
    done = extend(MANIFEST, tmp_path / "out", "--dry-run")
    assert done.code == 0
    assert "8 voices with two utterances or more (--group-by speaker)" in done.out
    assert "0.04 hours in 8 units" in done.out
    assert "spread (max/mean)" in done.out
    assert list(tmp_path.iterdir()) == []


def test_presets_and_patterns_group(tmp_path: Path) -> None:
    """The mini corpus by folder: the same groups as by speaker."""
    by_folder = extend(MANIFEST, tmp_path / "a", "--group-by", r"regex:audio_filepath:^([^/]+)/", "--dry-run", "--json")
    assert "8 voices" in by_folder.json["notes"][0]
    libritts = extend(MANIFEST, tmp_path / "b", "--group-by", "libritts", "--dry-run", "--json")
    assert libritts.json["rejects_by_reason"] == {"bad_field": 48}  # its paths are two parts deep


@pytest.mark.slow
def test_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    options = ["--audio-base-dir", MINI_CORPUS, "--plot", tmp_path / "p.png"]
    manifest = write_lines(tmp_path / "m.json", read_lines(MANIFEST)[:6])
    assert extend(manifest, tmp_path / "out", *options).code == 0
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "p.png").unlink()
    assert extend(manifest, tmp_path / "out", *options).code == 0  # drawn again from what the run left
    assert (tmp_path / "p.png").exists()
    for name, words in (("p.doc", "the name must end in"), ("no/p.png", "there is no folder")):
        done = extend(manifest, tmp_path / "new", *options[:2], "--plot", tmp_path / name)
        assert done.code == 2
        assert words in done.error_line
        assert not (tmp_path / "new.prepcli").exists()
