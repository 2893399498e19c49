"""make-manifest is a job: ranks, resume, changed sources, and records that say how a manifest was made."""

from pathlib import Path

import pytest

from prepcli.commands.make_manifest.entries import SourceEntry, write_catalog
from prepcli.manifest import line_slices
from tests.conftest import MINI_CORPUS, read_lines
from tests.support.audio_files import write_audio
from tests.support.running import Outcome, prepcli

NUM_FILES = 80
UNITS = 3


@pytest.fixture
def audio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Links to one file, for the time of writing audio."""
    monkeypatch.setattr(line_slices, "MIN_UNIT_BYTES", 32 * len(b'["000.wav",0,"",null,null,0.0,"",""]\n'))
    write_audio(tmp_path / "one.wav", 0.25)
    (tmp_path / "audio").mkdir()
    for number in range(NUM_FILES):
        (tmp_path / f"audio/{number:03d}.wav").symlink_to(tmp_path / "one.wav")
    return tmp_path / "audio"


def make(audio: Path, out: Path, *options: object, code: int = 0) -> Outcome:
    done = prepcli("make-manifest", audio, out, *options)
    assert done.code == code, done.err
    return done


def test_ranks_give_the_same_bytes(audio: Path, tmp_path: Path) -> None:
    done = make(audio, tmp_path / "one.json", "--json").json
    assert (done["out"], done["units"], done["records_out"]) == (str(tmp_path / "one.json"), UNITS, NUM_FILES)
    assert done["outputs"] == {"manifest": str(tmp_path / "one.json")}
    for rank in range(2):
        half = make(audio, tmp_path / "two.json", "--rank", rank, "--world-size", 2)
        assert (tmp_path / "two.json").exists() == bool(rank)
        assert ("not complete yet" in half.out) == (not rank)
        assert prepcli("status", tmp_path / "two.json").out.startswith(f"{tmp_path / 'two.json'}: make-manifest, ")
    assert (tmp_path / "two.json").read_bytes() == (tmp_path / "one.json").read_bytes()
    assert make(audio, tmp_path / "two.json").out == (
        f"make-manifest: nothing to do, {tmp_path / 'two.json'} is complete\n"
    )


def test_a_dry_run_counts_records_and_no_seconds(audio: Path, tmp_path: Path) -> None:
    done = make(audio, tmp_path / "m.json", "--dry-run", "--world-size", 2, "--rank", 0)
    assert f"  units    {UNITS}\n" in done.out
    assert "  ranks    2, 32 to 48 records each, " in done.out
    assert "rank 1: 32 records" in done.out
    assert "hours" not in done.out
    plan = make(audio, tmp_path / "m.json", "--dry-run", "--json").json
    assert (plan["seconds"], plan["hours"], plan["records_per_rank"]) == (None, None, [NUM_FILES])
    make(audio, tmp_path / "m.json", "--rank", 0, "--world-size", 2)
    found = prepcli("status", tmp_path / "m.json", "--json").json
    assert (found["seconds_done"], found["seconds_total"]) == (48 * 0.25, 0.0)
    assert "60.0% of the records" in prepcli("status", tmp_path / "m.json").out


def test_a_changed_source_or_option_is_refused(audio: Path, tmp_path: Path) -> None:
    make(audio, tmp_path / "m.json")
    done = make(audio, tmp_path / "m.json", "--lang", "en", code=2)
    assert "m.json was made differently: --lang was not given, now en. Choose another file, or" in done.error_line
    (audio / "more.wav").symlink_to(tmp_path / "one.wav")
    assert f"{audio} has another content" in make(audio, tmp_path / "m.json", code=2).error_line
    make(audio, tmp_path / "m.json", "--overwrite")
    assert len(read_lines(tmp_path / "m.json")) == NUM_FILES + 1


def test_a_manifest_that_is_not_ours_is_not_replaced(audio: Path, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text("mine")
    for option in ([], ["--overwrite"]):
        assert "is not there. Nothing was removed" in make(audio, tmp_path / "m.json", *option, code=2).error_line
    assert (tmp_path / "m.json").read_text() == "mine"
    # A pattern in the name is not one for other files of the folder.
    for _ in range(2):
        make(audio, tmp_path / "[m]*.json", "--overwrite")
    assert (tmp_path / "m.json").read_text() == "mine"


def test_audio_that_was_moved(audio: Path, tmp_path: Path) -> None:
    make(audio, tmp_path / "m.json")
    audio.rename(tmp_path / "new")
    refused = make(tmp_path / "new", tmp_path / "m.json", code=2).error_line
    assert "made differently: audio is named: audio/..., now new/..." in refused


def test_two_manifests_in_one_folder(audio: Path) -> None:
    make(audio, audio / "a.json")
    make(audio, audio / "b.json", "--lang", "en")
    assert "nothing to do" in make(audio, audio / "a.json").out
    runs = [prepcli("status", audio / name, "--json").json for name in ("a.json", "b.json")]
    assert [(run["state"], run["records_out"]) for run in runs] == [("finished", NUM_FILES)] * 2
    done = prepcli("inspect", audio / "b.json")
    assert done.code == 0, done.err
    assert "--lang en" in done.out
    assert f"{NUM_FILES} checked" in done.out  # found beside the manifest
    assert make(audio, audio / "a.json", "--dry-run").out.startswith("make-manifest: the plan")


def test_missing_audio_that_comes_back(audio: Path, tmp_path: Path) -> None:
    (tmp_path / "one.wav").rename(tmp_path / "away.wav")
    done = make(audio, tmp_path / "m.json", code=1)
    assert "the folder is probably not mounted" in done.err
    (tmp_path / "away.wav").rename(tmp_path / "one.wav")
    make(audio, tmp_path / "m.json")
    assert len(read_lines(tmp_path / "m.json")) == NUM_FILES


def test_a_link_to_a_manifest_stays_a_link(audio: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "m.json").symlink_to(tmp_path / "real/target.json")
    make(audio, tmp_path / "m.json")
    assert (tmp_path / "m.json").is_symlink()
    made = read_lines(tmp_path / "real/target.json")
    assert (tmp_path / "real" / made[0]["audio_filepath"]).exists()
    assert "finished" in prepcli("status", tmp_path / "m.json").out


def test_an_awkward_name(awkward: Path) -> None:
    for path in sorted(MINI_CORPUS.glob("s01/*.flac")):
        (awkward / path.name).symlink_to(path)
    out = awkward / "[own] {0..3}, it's.json"
    make(awkward, out)
    assert len(read_lines(out)) == 6
    done = prepcli("manifest-to-tarred", out, awkward.parent / "tarred", "--num-shards", 2)
    assert done.code == 0, done.err


def test_units_of_files_that_are_decoded_are_smaller(tmp_path: Path) -> None:
    def sizes(names: list[str]) -> list[int]:
        slices = write_catalog(map(SourceEntry, names), tmp_path, False).slices
        assert slices.num_records == len(names)
        return [unit.num_records for unit in slices.units]

    wav = [f"{number}.wav" for number in range(10_000)]
    assert 500 < max(sizes(wav)) < 1000
    assert 100 < max(sizes(wav[:-700] + ["x.mp3"] * 700)) < 250
    assert max(sizes([f"{number:090}.mp3" for number in range(50_000)])) < 1000
