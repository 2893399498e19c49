"""Facts about tars: members, and the audio or codes of a few."""

import shutil
import tarfile
from pathlib import Path

import pytest

from tests.commands.inspect.conftest import look
from tests.conftest import MINI_CORPUS
from tests.support.audio_files import write_short_corpus
from tests.support.containers import SOURCES
from tests.support.running import prepcli


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


def test_unusual_records_of_an_archive_are_named_in_json(tmp_path: Path) -> None:
    archive = SOURCES["zip, stored"](MINI_CORPUS / "manifest.json", tmp_path)
    shown = prepcli("inspect", archive, "--json").json
    assert {row["file"] for row in shown["outliers"]} == {str(archive)}


def test_archives_of_samples_have_records(tmp_path: Path) -> None:
    manifest = write_short_corpus(tmp_path / "corpus", 4)
    for kind in ("webdataset", "compressed tar", "zip, stored"):
        folder = tmp_path / kind
        folder.mkdir()
        found = look(SOURCES[kind](manifest, folder))
        assert (found.records, found.speakers, found.extensions) == (4, 1, {"flac": 4})
        assert found.hours == pytest.approx(look(manifest).hours)
        assert found.fields.keys() == {"audio_filepath", "duration", "text", "speaker", "id"}
        assert found.audio[0].looked_at == 4
    cut_off = tmp_path / "a.tar"
    cut_off.write_bytes((tmp_path / "webdataset/part-0.tar").read_bytes()[:5000])
    found = look(cut_off)
    assert "a.tar cannot be read as a tar" in found.notes[0]
    assert found.tars[0].tars == 1


def test_few_of_many_members_are_read(tarred: Path) -> None:
    found = look(tarred, num_audio_files=6)
    assert 4 <= found.audio[0].looked_at <= 6
    assert look(tarred, num_audio_files=0).audio == []


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
