"""Cuts of lhotse as records: a cuts file, a Shar, and recordings with supervisions of the same cuts say the same."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from prepcli.errors import RecordRejected, RejectReason
from prepcli.jobs.inputs.supervisions import CutRecord, SourceCut, SourceSupervision, SupervisionReader
from tests.conftest import Lines, read_lines
from tests.support.audio_files import write_audio
from tests.support.running import Outcome, prepcli
from tests.support.tars import write_tar

SECONDS = 10.0
NAN = float("nan")  # json writes it, and lhotse reads it
ARRAY = {"storage_type": "lilcom_chunky", "storage_path": "x", "shape": [1]}


def speech(id: str, start: float | None = None, duration: float | None = None, **more: Any) -> dict[str, Any]:
    times = {name: value for name, value in (("start", start), ("duration", duration)) if value is not None}
    return {"id": id, "recording_id": "r", "channel": 0, "text": id} | times | more


def cut(path: Path, id: str, start: float, duration: float, *supervisions: dict[str, Any]) -> dict[str, Any]:
    source = {"type": "file", "channels": [0], "source": str(path)}
    recording = {"id": "r", "sources": [source], "sampling_rate": 8000, "num_samples": 80_000, "duration": SECONDS}
    return {
        "id": id,
        "type": "MonoCut",
        "start": start,
        "duration": duration,
        "channel": 0,
        "recording": recording,
        "supervisions": list(supervisions),
    }


def write_three(folder: Path, cuts: Lines) -> tuple[Path, Path, Path]:
    """The same cuts as a file of cuts, as a Shar, and as recordings and supervisions."""
    lines = "".join(json.dumps(entry) + "\n" for entry in cuts)
    (folder / "cuts.jsonl").write_text(lines)
    members: list[tuple[str, bytes]] = []
    for entry in cuts:
        write_audio(folder / "part.wav", entry["duration"])
        members += [(f"{entry['id']}.wav", (folder / "part.wav").read_bytes()), (f"{entry['id']}.json", b"{}")]
    (folder / "shar").mkdir()
    write_tar(folder / "shar" / "recording.000000.tar", members)
    (folder / "shar" / "cuts.000000.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (folder / "joined").mkdir()
    (folder / "joined" / "x_recordings_all.jsonl.gz").write_bytes(
        gzip.compress(json.dumps(cuts[0]["recording"]).encode() + b"\n")
    )
    supervisions = [
        own
        | {
            "start": round(entry["start"] + own.get("start", 0.0), 8),
            "duration": own.get("duration", entry["duration"]),
        }
        for entry in cuts
        for own in entry["supervisions"]
    ]
    text = "".join(json.dumps(entry) + "\n" for entry in supervisions)
    (folder / "joined" / "x_supervisions_all.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    return folder / "cuts.jsonl", folder / "shar", folder / "joined"


def make(source: Path, out: Path) -> Outcome:
    done = prepcli("make-manifest", source, out, "--max-rejects", 999)
    assert done.code == 0, done.err
    return done


def rejects(out: Path) -> list[dict[str, Any]]:
    return read_lines(out.with_name(f"{out.name}.prepcli") / "rejects.jsonl")


def in_recording(records: Lines, starts: dict[str, float]) -> Lines:
    """The records with `begin`, their seconds from the start of the recording, in place of path and offset."""
    found = []
    for record in records:
        member = record.pop("audio_filepath").rpartition("::")[2].removesuffix(".wav")
        begin = (record.pop("offset", None) or 0.0) + starts.get(member, 0.0)
        found.append(record | {"begin": pytest.approx(begin), "duration": pytest.approx(record["duration"])})
    return found


def test_all_sources_of_the_same_cuts_give_the_same_records(tmp_path: Path) -> None:
    write_audio(tmp_path / "r.wav", SECONDS)
    custom = {"id": "utt7", "snr": 9.5, "codes": ARRAY, "duration": 99, "offset": 7, "bad": NAN, "tags": ["a"]}
    cuts = [
        cut(
            tmp_path / "r.wav",
            "whole",
            0.5,
            2.0,
            speech("whole", 0.0, 2.0, language="English", speaker="s", gender=NAN),
        ),
        cut(tmp_path / "r.wav", "part", 1.0, 4.0, speech("part", 0.5, 2.25, language="Klingon", custom=custom)),
        cut(tmp_path / "r.wav", "c3", 3.0, 6.0, speech("a", 0.25, 1.0, gender="f"), speech("b", 2.1, 3.3, speaker=7)),
        cut(tmp_path / "r.wav", "rounded", 1.1, 2.2, speech("rounded", -0.004, 2.2), speech("r2", 1.2, 1.005)),
        cut(tmp_path / "r.wav", "window", 5.0, 3.0, speech("gone", -3.0, 2.0)),
        cut(tmp_path / "r.wav", "zero", 5.0, 3.0, speech("zero", 1.0, 0.0)),
        cut(tmp_path / "r.wav", "number", 5.0, 3.0, speech("number", 1.0, 1.0, text=7)),
        cut(tmp_path / "r.wav", "none", 5.0, 3.0, speech("none", 1.0, 1.0, text=None, speaker=NAN)),
    ]
    starts = {entry["id"]: entry["start"] for entry in cuts}
    sources = write_three(tmp_path, cuts)
    found, outcomes = [], []
    for number, source in enumerate(sources):
        outcomes.append(make(source, tmp_path / f"{number}.json"))
        found.append(in_recording(read_lines(tmp_path / f"{number}.json"), starts if source.name == "shar" else {}))
    assert found[0] == [
        {"begin": 0.5, "duration": 2.0, "text": "whole", "speaker": "s", "lang": "en", "id": "whole"},
        {
            "begin": 1.5,
            "duration": 2.25,
            "text": "part",
            "language": "Klingon",
            "id": "utt7",
            "snr": 9.5,
            "tags": ["a"],
        },
        {"begin": 3.25, "duration": 1.0, "text": "a", "gender": "f", "id": "a"},
        {"begin": 5.1, "duration": 3.3, "text": "b", "speaker": 7, "id": "b"},
        {"begin": 1.1, "duration": 2.196, "text": "rounded", "id": "rounded"},
        {"begin": 2.3, "duration": 1.0, "text": "r2", "id": "r2"},
        {"begin": 6.0, "duration": 1.0, "id": "none"},
    ]
    assert found[1] == found[0]
    reasons = ["bad_offset", "bad_duration", "bad_field"]
    for number in range(2):
        assert [entry["reject_reason"] for entry in rejects(tmp_path / f"{number}.json")] == reasons
        assert "2 segments lay up to 10 ms outside of their cuts" in outcomes[number].out
    # Without the cuts, what lies outside of a cut is a part of the recording as any other.
    others = [
        entry for entry in found[2] if entry["text" if "text" in entry else "id"] not in ("rounded", "r2", "gone")
    ]
    assert others == [entry for entry in found[0] if entry.get("text") not in ("rounded", "r2")]
    assert [entry["reject_reason"] for entry in rejects(tmp_path / "2.json")] == ["bad_duration", "bad_field"]


def test_ids_that_are_repeated(tmp_path: Path) -> None:
    """The second is a reject. A name in a tar stands for entry member, so that a Shar has neither."""
    write_audio(tmp_path / "r.wav", SECONDS)
    cuts = [cut(tmp_path / "r.wav", id, at, 2.0, speech(f"s{at}", 0.0, 2.0)) for at, id in enumerate("aba")]
    several = cut(tmp_path / "r.wav", "c", 0.0, 4.0, speech("a", 0.0, 1.0), speech("d", 1.0, 1.0))
    sources = write_three(tmp_path, [*cuts, several])
    make(sources[0], tmp_path / "0.json")
    assert [entry["id"] for entry in read_lines(tmp_path / "0.json")] == ["a", "b", "d"]
    twice = "the id a is there twice, in cuts.jsonl:1 and in cuts.jsonl:{}; the first is used"
    assert [entry["reject_detail"] for entry in rejects(tmp_path / "0.json")] == [twice.format(3), twice.format(4)]
    done = prepcli("manifest-to-tarred", sources[1], tmp_path / "out", "--num-shards", 1, "--max-rejects", 9)
    assert done.code == 0, done.err
    records = read_lines(tmp_path / "out" / "tarred_audio_manifest.json")
    assert [entry["id"] for entry in records] == ["b", "a", "d"]
    details = [entry["reject_detail"] for entry in rejects(tmp_path / "out")]
    shard = tmp_path / "shar" / "cuts.000000.jsonl.gz"
    assert [f"{shard}:1 and in a later line" in details[0], f"{shard}:1 and in {shard}:3" in details[1]] == [True] * 2
    assert all("has several members a.wav" in detail for detail in details)
    cuts = [entry | {"id": f"{entry['id']}{number}"} for number, entry in enumerate([*cuts, several])]
    (tmp_path / "again").mkdir()
    make(write_three(tmp_path / "again", cuts)[1], tmp_path / "1.json")
    assert [entry["id"] for entry in read_lines(tmp_path / "1.json")] == ["a0", "b1", "a2", "a", "d"]


def test_values_that_no_cut_of_a_shar_may_have(tmp_path: Path) -> None:
    """Each is a reject, because its audio is known; the run goes on."""
    write_audio(tmp_path / "r.wav", SECONDS)
    bad: Lines = [{"start": "x"}, {"duration": NAN}, {"supervisions": [{"text": [1]}]}, {"supervisions": None}]
    cuts = [cut(tmp_path / "r.wav", f"c{number}", 0.0, 2.0) | entry for number, entry in enumerate(bad)]
    lengths = [entry | {"duration": 2.0, "supervisions": []} for entry in cuts]
    shar = write_three(tmp_path, lengths)[1]
    text = "".join(json.dumps(entry) + "\n" for entry in cuts)
    (shar / "cuts.000000.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    make(shar, tmp_path / "m.json")
    assert [entry["id"] for entry in read_lines(tmp_path / "m.json")] == ["c3"]
    found = [(entry["reject_reason"], entry["reject_detail"]) for entry in rejects(tmp_path / "m.json")]
    assert [reason for reason, _ in found] == ["bad_field", "bad_offset", "bad_field"]
    assert f"{shar}/cuts.000000.jsonl.gz:1 is not a cut of lhotse: Expected `float`, got `str`" in found[0][1]
    assert found[2][1] == "text is [1]; it must be a string"


def test_the_channel_in_a_shar_is_that_of_its_audio(tmp_path: Path) -> None:
    import numpy as np
    import soundfile

    (tmp_path / "shar").mkdir()
    soundfile.write(tmp_path / "m.wav", np.zeros((16_000, 2), np.int16), 8000)
    multi = cut(tmp_path / "r.wav", "m", 0.5, 2.0) | {"type": "MultiCut", "channel": [1, 2]}
    channels = [2, [1], [1, 2], 0]
    multi["supervisions"] = [speech(str(n), n * 0.5, 0.5, channel=channel) for n, channel in enumerate(channels)]
    members = [("m.wav", (tmp_path / "m.wav").read_bytes()), ("m.json", b"{}")]
    write_tar(tmp_path / "shar" / "recording.000000.tar", members)
    (tmp_path / "shar" / "cuts.000000.jsonl.gz").write_bytes(gzip.compress(json.dumps(multi).encode() + b"\n"))
    make(tmp_path / "shar", tmp_path / "m.json")
    assert [entry.get("channel") for entry in read_lines(tmp_path / "m.json")] == [1, 0, None]
    assert "the cut m does not have channel 0 of the supervision 3" in rejects(tmp_path / "m.json")[0]["reject_detail"]


def test_a_set_counts_the_segments_that_end_at_a_bound(tmp_path: Path) -> None:
    """The mark in the lines of a catalogue is in no output."""
    write_audio(tmp_path / "r.wav", SECONDS)
    cuts = [cut(tmp_path / "r.wav", "c", 0.0, 2.0, speech("a", 1.0, 1.004), speech("b", -0.004, 1.0))]
    shar = write_three(tmp_path, cuts)[1]
    done = prepcli("manifest-to-tarred", shar, tmp_path / "out", "--num-shards", 1)
    assert done.code == 0, done.err
    assert "2 segments lay up to 10 ms outside of their cuts" in done.out
    assert "_moved" not in (tmp_path / "out" / "tarred_audio_manifest.json").read_text()


def records_of(supervisions: list[SourceSupervision], seconds: float = 5.0) -> list[CutRecord | RecordRejected]:
    return list(SupervisionReader().records(SourceCut("c", duration=seconds, supervisions=supervisions)))


def test_ids_of_several_supervisions_of_a_cut() -> None:
    """Those of the supervisions if they differ; otherwise they are made of the id of the cut."""
    for ids, wanted in (("ab", ["a", "b"]), ("aa", ["c", "c-2"]), (["", "b"], ["c", "c-2"]), ("a", ["c"])):
        found = records_of([SourceSupervision(id, start=1.0, duration=2.0) for id in ids])
        assert [entry.id for entry in found if isinstance(entry, CutRecord)] == wanted
    (record,) = records_of([])
    assert isinstance(record, CutRecord)
    assert (record.id, record.fields, record.span) == ("c", {"id": "c"}, (0.0, 5.0, False))


def test_a_supervision_without_times_is_of_the_whole_cut() -> None:
    without, half = records_of([SourceSupervision("a", text="x"), SourceSupervision("b", start=0.5)])
    assert isinstance(without, CutRecord)
    assert without.span == (0.0, 5.0, False)
    assert isinstance(half, RecordRejected)
    assert (half.reason, half.detail) == (RejectReason.BAD_DURATION, "the supervision b has no duration")


@pytest.mark.parametrize("decimals", [2, 3, 8])
def test_rounded_times_are_never_rejects(decimals: int) -> None:
    rng = random.Random(decimals)
    for _ in range(1000):
        seconds = rng.uniform(0.5, 40)
        start = rng.uniform(0, seconds - 0.4)
        supervision = SourceSupervision(
            "s", start=round(start, decimals), duration=round(rng.choice([0.3, seconds - start]), decimals)
        )
        (record,) = records_of([supervision], seconds)
        assert isinstance(record, CutRecord)
        assert record.span.start + record.span.duration <= seconds + 1e-9


@pytest.mark.torch
def test_windows_of_lhotse(tmp_path: Path) -> None:
    """Words that lie in a window are records of it; others are rejects, never other audio with their text."""
    from lhotse import CutSet, MonoCut, Recording, SupervisionSegment

    write_audio(tmp_path / "talk.wav", SECONDS)
    rng = random.Random(1)
    times = {f"w{number}": (round(rng.uniform(0, 9), 3), round(rng.uniform(0.05, 1), 3)) for number in range(40)}
    talk = MonoCut("talk", 0, SECONDS, 0, recording=Recording.from_file(tmp_path / "talk.wav"))
    talk.supervisions = [SupervisionSegment(id, "talk", *at, text=id) for id, at in times.items()]
    windows = CutSet.from_cuts(list(CutSet.from_cuts([talk]).cut_into_windows(3.0)))
    windows.to_file(tmp_path / "cuts.jsonl.gz")
    (tmp_path / "shar").mkdir()
    windows.to_shar(str(tmp_path / "shar"), fields={"recording": "wav"}, shard_size=2)
    (tmp_path / "rs").mkdir()
    CutSet.from_cuts([talk]).decompose(tmp_path / "rs")
    inside = {id for id, (start, seconds) in times.items() if start // 3 == (start + seconds - 0.01) // 3}
    for number, source in enumerate(("cuts.jsonl.gz", "shar", "rs")):
        make(tmp_path / source, tmp_path / f"{number}.json")
        records = read_lines(tmp_path / f"{number}.json")
        assert {entry["text"] for entry in records} == (inside if number < 2 else set(times))
        for entry in records:
            window = int(entry["audio_filepath"].rpartition("talk-")[2][0]) * 3.0 if source == "shar" else 0.0
            begin, (start, seconds) = window + (entry.get("offset") or 0.0), times[entry["text"]]
            assert (begin, begin + entry["duration"]) == pytest.approx((start, start + seconds), abs=0.0101)
