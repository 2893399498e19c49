"""What is this? Every kind of path that people hold."""

import gzip
import json
import re
import shutil
from pathlib import Path

import pytest

from prepcli.errors import UsageError
from tests.commands.inspect.conftest import look
from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.shar_sets import with_contexts

HOURS = sum(record["duration"] for record in read_lines(MINI_CORPUS / "manifest.json")) / 3600


def test_several_manifests_and_weights(tmp_path: Path) -> None:
    whole, segments = MINI_CORPUS / "manifest.json", MINI_CORPUS / "segments.json"
    for spec in (
        f"{whole},{segments}",
        f"{MINI_CORPUS}/{{manifest,segments}}.json",
        f"manifest_filepath={whole},{segments}",
    ):
        found = look(spec, num_audio_files=0)
        assert (found.kind, found.files, found.records, found.segments) == ("manifest", 2, 54, 5)
    config = tmp_path / "input_cfg.yaml"
    entries = "".join(
        f"- {{type: nemo, manifest_filepath: {path}, weight: {w}}}\n" for path, w in ((whole, 0.7), (segments, 0.3))
    )
    config.write_text(entries)
    for spec in (f"[[{whole},0.7],[{segments},0.3]]", str(config)):
        found = look(spec, num_audio_files=0)
        assert [(part.weight, part.records) for part in found.parts] == [(0.7, 48), (0.3, 6)]
        assert sum(part.hours for part in found.parts) == pytest.approx(found.hours)


@pytest.mark.parametrize(
    "part", ["sharded_manifests", "tarred_audio_manifest.json", "sharded_manifests/manifest__OP_0..3_CL_.json"]
)
def test_manifests_of_a_tarred_set_send_nobody_looking_for_files(tarred: Path, part: str) -> None:
    found = look(tarred / part)
    assert (found.kind, found.records, found.audio) == ("manifest", 48, [])
    assert "in the tars" in found.notes[0]


def test_shar(shar: Path) -> None:
    found = look(shar)
    assert (found.kind, found.records) == ("shar", 48)
    assert found.hours == pytest.approx(HOURS)
    assert (found.speakers, found.cut_sampling_rates) == (8, {22050: 48})
    assert {one.name: one.records for one in found.languages}["en"] == 24
    assert [(tars.where, tars.tars, tars.members) for tars in found.tars] == [
        ("context_audio", 3, 96),
        ("target_audio", 3, 96),
    ]
    assert [(audio.where, audio.looked_at) for audio in found.audio] == [("context_audio", 48), ("target_audio", 48)]
    assert found.runs[0].command == "manifest-to-shar"
    assert "prepcli inspect" in look(shar / "cuts").notes[0]
    assert look(shar / "target_audio").tars[0].members == 96
    assert look(shar / "cuts/cuts.000000.jsonl.gz").records == 16


def test_flat_shar_and_one_with_a_shard_missing(shar: Path, tmp_path: Path) -> None:
    flat = tmp_path / "flat"
    flat.mkdir()
    for path in shar.rglob("*.0*"):
        name = path.name if path.parent.name == "cuts" else path.name.replace("recording", path.parent.name)
        shutil.copy(path, flat / name)
    found = look(flat)
    assert (found.kind, found.records, [tars.where for tars in found.tars]) == (
        "shar",
        48,
        ["context_audio", "target_audio"],
    )
    holed = Path(shutil.copytree(shar, tmp_path / "holed"))
    (holed / "context_audio/recording.000001.tar").unlink()
    assert "context_audio/recording.000001.tar: missing" in look(holed).notes[0]
    (holed / "cuts/cuts.000000.jsonl.gz").write_bytes(gzip.compress(b""))
    assert look(holed).records == 32


def test_context_manifest(tmp_path: Path) -> None:
    records = with_contexts(read_lines(MINI_CORPUS / "manifest.json"))
    for number, record in enumerate(records):
        record["context_speaker_similarity"] = 0.5 + number / 100
    del records[0]["context_speaker_similarity"]
    found = look(write_lines(tmp_path / "m.json", records), audio_base_dir=MINI_CORPUS)
    assert found.with_context_similarity == 47
    assert (found.context_similarity["p0"], found.context_similarity["p100"]) == (0.51, 0.97)
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.move(tmp_path / "m.json", folder)
    assert look(folder).with_context_similarity == 47


def test_records_of_a_run(tarred: Path, tmp_path: Path) -> None:
    (plan,) = Path(f"{tarred}.prepcli").glob("*/plan.json")
    for path in (Path(f"{tarred}.prepcli"), plan):
        found = look(path)
        assert (found.kind, found.runs[0].records_in, found.runs[0].records_out) == ("run", 49, 48)
        assert str(tarred) in found.notes[0]
    shutil.copytree(f"{tarred}.prepcli", tmp_path / "out.prepcli")
    next((tmp_path / "out.prepcli").glob("*/units/*/unit.json")).unlink()
    found = look(tmp_path / "out")
    assert (found.kind, found.runs[0].state, found.runs[0].finished) == ("run", "stopped", None)
    assert found.runs[0].continue_with is not None
    (tmp_path / "out").mkdir()
    assert look(tmp_path / "out").kind == "run"
    (tmp_path / "out.prepcli/rejects.jsonl").write_bytes(b"")  # of a run that rejected nothing
    found = look(tmp_path / "out.prepcli/rejects.jsonl")
    assert (found.kind, found.records) == ("rejects", 0)


def test_an_awkward_place(awkward: Path) -> None:
    folder = Path(shutil.copytree(MINI_CORPUS, awkward / "[0..1],(x)"))
    assert look(folder / "manifest.json").audio[0].missing == 0


def unknown(path: object, expected: str) -> None:
    with pytest.raises(UsageError) as error:
        look(path)
    assert re.search(expected, str(error.value)), error.value
    assert "\n" not in str(error.value)


def test_what_is_not_known_is_one_line(tmp_path: Path, tarred: Path) -> None:
    (tmp_path / "text.txt").write_text("some words\n")
    (tmp_path / "other.json").write_text(json.dumps({"a": 1}) + "\n")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "cut.json.gz").write_bytes(b"\x1f\x8b\x08\x00")
    (tmp_path / "nothing").mkdir()
    unknown(tmp_path / "nowhere", "there is no file or directory .*nowhere")
    unknown(tmp_path / "nowhere_{0..3}.json", "not found")
    (tmp_path / "table.csv").write_text("path,text\na.wav,one\n")
    unknown(tmp_path / "table.csv", "a CSV with header 'path,text'.*prepcli make-manifest .*table.csv OUT.json")
    unknown(tmp_path / "text.txt", "cannot tell what .*text.txt is: .* as audio it is not audio")
    unknown(tmp_path / "other.json", "cannot tell what")
    unknown(tmp_path / "empty", "empty is empty: it has no lines, and no audio")
    unknown(tmp_path / "cut.json.gz", "cut short|damaged")
    unknown(tmp_path / "nothing", "holds nothing that inspect knows")
    unknown(MINI_CORPUS, "3 manifests .*name one, or several with commas")
    unknown(tarred / "metadata.yaml", "prepcli inspect .*tarred$")
    unknown(f"{MINI_CORPUS}/manifest.json,{tarred}.prepcli/rejects.jsonl", "mixes manifest and rejects")
