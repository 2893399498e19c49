"""What blend's check refuses before it writes: sets that NeMo could not load, or would stop at."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.running import prepcli


def refused(spec: str, cwd: Path) -> str:
    """The error of a blend of one set, which writes nothing; without the check, the blend is written."""
    done = prepcli("blend", f"a={spec}", "mix.yaml", cwd=cwd)
    assert (done.code, (cwd / "mix.yaml").exists()) == (2, False), done.out
    assert done.error_line.startswith(("prepcli: a: ", "prepcli: a/entry0: "))
    assert done.error_line.endswith("(--no-check leaves this check out)")
    assert prepcli("blend", f"a={spec}", "mix.yaml", "--no-check", cwd=cwd).code == 0
    return done.error_line


def test_sets_that_nemo_loads(sets: Path, tmp_path: Path) -> None:
    whole = {"manifest_filepath": f"{sets}/tarred/tarred_audio_manifest.json"}
    tars = {"tarred_audio_filepaths": f"{sets}/tarred/audio__OP_0..1_CL_.tar"}
    shar = {"type": "lhotse_shar", "shar_path": str(sets / "shar")}
    (tmp_path / "cfg.yaml").write_text(yaml.safe_dump([{"type": "nemo_tarred", **whole, **tars}, shar]))
    names = ("tarred", "buckets", "shar")
    data = [f"{name}={sets}/{name}" for name in names]
    done = prepcli("blend", *data, f"m={MINI_CORPUS}/manifest.json", "c=cfg.yaml", "mix.yaml", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.json["checked"]


def config(folder: Path, **entry: Any) -> Path:
    (folder / "cfg.yaml").write_text(yaml.safe_dump([entry]))
    return folder / "cfg.yaml"


@pytest.fixture(name="work")
def _work(sets: Path, tmp_path: Path) -> Path:
    """A folder with links to the shards of the sets, some of them in the place of others."""
    for number in (0, 1):
        for kind, name in (("manifest", f"sharded_manifests/manifest_{number}.json"), ("audio", f"audio_{number}.tar")):
            (tmp_path / Path(name).name).symlink_to(sets / "tarred" / name)
            (tmp_path / f"{kind}_swapped_{1 - number}{Path(name).suffix}").symlink_to(sets / "tarred" / name)
        for field in ("cuts", "recording"):
            file = next((sets / "shar" / field).glob(f"*{number}.*"))
            (tmp_path / f"{field}.{number}{''.join(file.suffixes[1:])}").symlink_to(file)
    (tmp_path / "tars").symlink_to(sets / "tarred/audio_0.tar")
    lines = read_lines(sets / "tarred/tarred_audio_manifest.json")
    write_lines(tmp_path / "no_shards.json", [{**line, "shard_id": None} for line in lines])
    write_lines(tmp_path / "empty_0.json", [])
    return tmp_path


@pytest.mark.parametrize(
    ("manifests", "tars", "message"),
    [
        ("manifest__OP_0..1_CL_.json", "audio_swapped__OP_0..1_CL_.tar", "has no member"),
        ("manifest_0.json", "audio__OP_0..1_CL_.tar", "lacks the manifest of shard 1"),
        ("manifest__OP_0..1_CL_.json", "audio_0.tar", "lacks the tar of shard 1"),
        ("manifest__OP_0..1_CL_.json", "audio__OP_0..2_CL_.tar", "not found: audio_2.tar"),
        (["manifest_0.json", "manifest_1.json"], ["audio_0.tar"], "2 manifest_filepath and 1 tarred_audio_filepaths"),
        ("manifest_0.json", "tars", "finds no number of a shard in tars"),
        ("manifest_0.json", "{audio_0,audio_swapped_0}.tar", "would take audio_0.tar and audio_swapped_0.tar for"),
        ("no_shards.json", "audio__OP_0..1_CL_.tar", "lacks the manifest of shard 0"),
        ("manifest_0.json", None, "has no tarred_audio_filepaths"),
    ],
)
def test_a_tarred_set_that_nemo_could_not_load(manifests: Any, tars: Any, message: str, work: Path) -> None:
    entry = {"type": "nemo_tarred", "manifest_filepath": manifests, "tarred_audio_filepaths": tars}
    assert message in refused(config(work, **entry).name, work)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"recording": ["recording.1.tar", "recording.0.tar"]}, "in its place: a member is missing"),
        ({"recording": "recording.0.tar"}, "2 shards of cuts, but 1 of recording"),
        ({"recording": "gone.tar"}, "not found: gone.tar"),
    ],
)
def test_a_shar_that_lhotse_could_not_load(fields: dict[str, Any], message: str, work: Path) -> None:
    cuts = ["cuts.0.jsonl.gz", "cuts.1.jsonl.gz"]
    assert message in refused(config(work, type="lhotse_shar", shar_path={"cuts": cuts, **fields}).name, work)


def test_first_records_without_audio(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    record = {"duration": 1.0, "text": ""}
    for name, path, message in (
        ("gone", "/gone.wav", "gone.json names /gone.wav, which is not there"),
        ("inside", "/data/a.tar::x.wav", "which is in a container: make a tarred set of it for NeMo"),
        ("near", "near.wav", f"names its audio relative to its folder, and {tmp_path} has no near.wav"),
    ):
        write_lines(tmp_path / f"{name}.json", [{"_skipme": True}, {"audio_filepath": path, **record}])
        assert message in refused(str(tmp_path / f"{name}.json"), tmp_path)
        (tmp_path / "mix.yaml").unlink()
    source = {"type": "file", "channels": [0], "source": "gone.flac"}
    cut = {"id": "c", "type": "MonoCut", "duration": 2.0, "recording": {"sources": [source]}}
    (tmp_path / "cuts.jsonl").write_text(json.dumps(cut) + "\n")
    assert "cuts.jsonl names gone.flac, which is not there" in refused("cuts.jsonl", tmp_path)
    (tmp_path / "mix.yaml").unlink()
    pq.write_table(pa.table({"duration": [1.0], "sound": [b"RIFF"]}), tmp_path / "x.parquet")
    assert "has no column audio with audio (its columns are duration, sound)" in refused("x.parquet", tmp_path)
    pq.write_table(pa.table({"duration": [1.0], "audio": [3]}), tmp_path / "x.parquet")
    (tmp_path / "mix.yaml").unlink()
    assert "holds int64, and NeMo reads the bytes of audio files" in refused("x.parquet", tmp_path)


def test_options_that_do_not_go_together(sets: Path, tmp_path: Path) -> None:
    for words, message in (
        (("mix.yaml", "--check", "nemo", "--no-check"), "--check has no effect with --no-check"),
        (("mix.list", "--check", "nemo"), "NeMo does not read a list for WeNet"),
    ):
        done = prepcli("blend", f"a={sets}/tarred", *words, cwd=tmp_path)
        assert (done.code, message in done.error_line) == (2, True)
