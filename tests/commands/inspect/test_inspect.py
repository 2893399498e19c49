"""What is this? Every kind of path that people hold."""

import gzip
import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from prepcli.commands.inspect.report import Inspection
from prepcli.errors import UsageError
from tests.commands.inspect.conftest import look
from tests.conftest import MINI_CORPUS, read_lines, real_speech, write_lines
from tests.support.shar_sets import with_contexts

HOURS = sum(record["duration"] for record in read_lines(MINI_CORPUS / "manifest.json")) / 3600


def test_manifest_with_a_sample_of_its_audio() -> None:
    found = look(MINI_CORPUS / "manifest.json")
    assert (found.kind, found.records, found.speakers) == ("manifest", 48, 8)
    assert found.hours == pytest.approx(HOURS)
    (audio,) = found.audio
    assert (audio.looked_at, audio.sampling_rates, audio.formats) == (48, {22050: 48}, {"flac PCM_16": 48})
    assert (audio.channels, audio.missing, audio.unreadable, audio.beyond_audio) == ({1: 48}, 0, 0, 0)
    assert look(MINI_CORPUS / "manifest.json", num_audio_files=7).audio[0].looked_at == 7
    assert look(MINI_CORPUS / "manifest.json", num_audio_files=0).audio == []


def test_audio_that_is_missing_broken_or_too_short(tmp_path: Path) -> None:
    shutil.copy(MINI_CORPUS / "s01/s01_u1.flac", tmp_path / "good.flac")
    (tmp_path / "bad.wav").write_bytes(b"RIFF")
    durations = {"good.flac": 1.06, "bad.wav": 1.0, "gone.wav": 1.0}
    lines = [{"audio_filepath": name, "duration": seconds} for name, seconds in durations.items()]
    found = look(write_lines(tmp_path / "m.json", [*lines, lines[0] | {"offset": 0.5}]))
    (audio,) = found.audio
    assert (audio.looked_at, audio.missing, audio.unreadable, audio.beyond_audio) == (3, 1, 1, 1)
    assert [example.rpartition("/")[2].split()[0] for example in audio.examples] == ["bad.wav", "gone.wav", "good.flac"]


def test_audio_below_a_directory_of_its_own(tmp_path: Path) -> None:
    manifest = shutil.copy(MINI_CORPUS / "manifest.json", tmp_path)
    assert look(manifest).audio[0].missing == 48
    assert look(manifest, audio_base_dir=MINI_CORPUS).audio[0].missing == 0


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


def test_tarred_set(tarred: Path) -> None:
    found = look(tarred)
    assert (found.kind, found.records, found.files) == ("tarred", 48, 4)
    (tars,) = found.tars
    assert (tars.tars, tars.members, tars.extensions) == (4, 48, {"flac": 48})
    assert tars.num_bytes == sum(path.stat().st_size for path in tarred.glob("*.tar"))
    assert found.audio[0].looked_at == 48
    (run,) = found.runs
    assert (run.command, run.state, run.rejects) == ("manifest-to-tarred", "finished", {"missing_audio": 1})
    assert run.finished is not None and run.finished >= run.planned
    assert found.metadata["dataset_config"]["num_shards"] == 4
    assert not found.notes


@pytest.mark.parametrize(
    "part", ["sharded_manifests", "tarred_audio_manifest.json", "sharded_manifests/manifest__OP_0..3_CL_.json"]
)
def test_manifests_of_a_tarred_set_send_nobody_looking_for_files(tarred: Path, part: str) -> None:
    found = look(tarred / part)
    assert (found.kind, found.records, found.audio) == ("manifest", 48, [])
    assert "in the tars" in found.notes[0]


def test_tarred_sets_in_buckets_and_with_a_tar_missing(tarred: Path, tmp_path: Path) -> None:
    for name in ("bucket1", "bucket2"):
        shutil.copytree(tarred, tmp_path / "both" / name)
    found = look(tmp_path / "both")
    assert (found.kind, found.records, [tars.where for tars in found.tars]) == ("tarred", 96, ["bucket1", "bucket2"])
    one = tmp_path / "both/bucket1"
    (one / "audio_2.tar").unlink()
    assert look(one).notes == ["audio_2.tar: missing"]


def test_tars_alone(tarred: Path, tmp_path: Path) -> None:
    for path in (tarred / "audio_0.tar", f"{tarred}/audio__OP_0..3_CL_.tar"):
        found = look(path)
        assert (found.kind, found.records) == ("tars", 0)
        assert found.audio[0].sampling_rates == {22050: found.audio[0].looked_at}
    damaged = tmp_path / "tars"
    damaged.mkdir()
    (damaged / "a.tar").write_bytes((tarred / "audio_0.tar").read_bytes()[:5000])
    with tarfile.open(damaged / "b.tar.gz", "w:gz") as tar:
        tar.add(MINI_CORPUS / "s01/s01_u1.flac", "x.flac")
    found = look(damaged)
    assert found.tars[0].tars == 2
    assert found.tars[0].damaged or found.audio[0].unreadable


def test_few_of_many_members_are_read(tarred: Path) -> None:
    found = look(tarred, num_audio_files=6)
    assert 4 <= found.audio[0].looked_at <= 6
    assert look(tarred, num_audio_files=0).audio == []


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


@pytest.mark.usefixtures("one_thread")
def test_codes(codes: Path, shar: Path, tmp_path: Path) -> None:
    found = look(codes)
    assert (found.kind, [(field.where, field.tars) for field in found.codes]) == (
        "codes",
        [("context_codes", 3), ("target_codes", 3)],
    )
    for field in found.codes:
        assert (field.codebooks, field.types, field.frame_shift, field.looked_at) == ([4], ["int16"], [0.01], 48)
        assert field.frames is not None and field.codes is not None
        assert 0 <= field.codes[0] < field.codes[1] < 1000
    assert found.codes[1].frames == (106, 652)
    assert [run.command for run in found.runs] == ["extend-codec-codes"]
    assert [field.where for field in look(codes.parent).codes] == ["codes_toy/context_codes", "codes_toy/target_codes"]
    assert look(codes / "target_codes").codes[0].frames == (106, 652)
    whole = Path(shutil.copytree(shar, tmp_path / "whole"))
    shutil.copytree(codes, whole / codes.name)
    found = look(whole)
    assert (found.kind, len(found.tars), len(found.codes)) == ("shar", 2, 2)


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


def test_a_manifest_that_a_run_wrote_has_its_audio_where_the_input_has(tmp_path: Path, tarred: Path) -> None:
    shutil.copytree(f"{tarred}.prepcli", tmp_path / "out.prepcli")
    (tmp_path / "out").mkdir()
    shutil.copy(MINI_CORPUS / "manifest.json", tmp_path / "out/extended.json")
    found = look(tmp_path / "out/extended.json")
    assert [run.command for run in found.runs] == ["manifest-to-tarred"]
    assert (found.audio[0].missing, found.audio[0].looked_at) == (0, 48)
    assert look(tmp_path / "out", audio_base_dir=tmp_path).audio[0].missing == 48


def test_records_of_a_run(tarred: Path, tmp_path: Path) -> None:
    for path in (f"{tarred}.prepcli", f"{tarred}.prepcli/plan.json"):
        found = look(path)
        assert (found.kind, found.runs[0].records_in, found.runs[0].records_out) == ("run", 49, 48)
        assert str(tarred) in found.notes[0]
    shutil.copytree(f"{tarred}.prepcli", tmp_path / "out.prepcli")
    (tmp_path / "out.prepcli/done" / next((tmp_path / "out.prepcli/done").iterdir()).name).unlink()
    found = look(tmp_path / "out")
    assert (found.kind, found.runs[0].state, found.runs[0].finished) == ("run", "stopped", None)
    assert found.runs[0].continue_with is not None
    (tmp_path / "out").mkdir()
    assert look(tmp_path / "out").kind == "run"
    (tmp_path / "out.prepcli/rejects.jsonl").write_bytes(b"")  # of a run that rejected nothing
    found = look(tmp_path / "out.prepcli/rejects.jsonl")
    assert (found.kind, found.records) == ("rejects", 0)


def test_audio_file() -> None:
    found = look(MINI_CORPUS / "s01/s01_u1.flac")
    assert (found.kind, found.audio[0].sampling_rates, found.audio[0].seconds) == ("audio", {22050: 1}, (1.06, 1.06))


@pytest.mark.skipif(real_speech() is None, reason="the recordings of real voices are not here")
def test_real_speech() -> None:
    found = look(real_speech() / "manifest.json")  # type: ignore[operator]
    assert (found.records, found.speakers, found.audio[0].sampling_rates) == (480, 2, {8000: 100})
    assert {one.name for one in found.languages} == {"en", "it"}


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
    unknown(tmp_path / "empty", "as audio it is empty")
    unknown(tmp_path / "cut.json.gz", "cut short|damaged")
    unknown(tmp_path / "nothing", "holds nothing that inspect knows")
    unknown(MINI_CORPUS, "3 manifests .*name one, or several with commas")
    unknown(tarred / "metadata.yaml", "prepcli inspect .*tarred$")
    unknown(f"{MINI_CORPUS}/manifest.json,{tarred}.prepcli/rejects.jsonl", "mixes manifest and rejects")


@pytest.mark.usefixtures("one_thread")
def test_the_document_is_json(tarred: Path, shar: Path, codes: Path) -> None:
    for path in (tarred, shar, codes, f"{tarred}.prepcli", MINI_CORPUS / "manifest.json"):
        found = look(path)
        assert isinstance(found, Inspection)
        document = json.loads(json.dumps(found.document()))
        assert document["kind"] == found.kind
        assert "columns" not in document
