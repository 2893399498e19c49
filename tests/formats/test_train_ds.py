"""The section for a training config: the keys of NeMo's Lhotse loader, with paths that work from any folder."""

from glob import glob
from pathlib import Path
from typing import Any

import pytest
import yaml

from prepcli.formats.train_ds import FILE_NAME
from tests.conftest import MINI_CORPUS, read_lines
from tests.support.running import prepcli

MANIFEST = MINI_CORPUS / "manifest.json"


def section(out: Path) -> dict[str, Any]:
    """The section beside OUT, without what all have."""
    document = yaml.safe_load((out.with_name(f"{out.name}.prepcli") / FILE_NAME).read_text())
    assert list(document) == ["train_ds"]
    found: dict[str, Any] = document["train_ds"]
    assert found.pop("use_lhotse") is True
    assert found.pop("shuffle") is True
    return found


def make(folder: Path, command: str, manifest: Path, *options: object) -> str:
    done = prepcli(command, manifest, "out", *options, cwd=folder)
    assert done.code == 0, done.err
    assert f"  {folder}/out.prepcli/{FILE_NAME}\n" in done.out
    return done.out


def test_a_tarred_set(tmp_path: Path) -> None:
    make(tmp_path, "manifest-to-tarred", MANIFEST, "--num-shards", 4, "--dynamic-buckets-num", 3)
    found = section(tmp_path / "out")
    assert found["tarred_audio_filepaths"] == f"{tmp_path}/out/audio__OP_0..3_CL_.tar"
    assert found["manifest_filepath"] == f"{tmp_path}/out/sharded_manifests/manifest__OP_0..3_CL_.json"
    metadata = yaml.safe_load((tmp_path / "out/metadata.yaml").read_text())["dataset_config"]
    bucketing = {name: metadata[name] for name in ("use_bucketing", "num_buckets", "bucket_duration_bins")}
    assert found == {key: found[key] for key in ("tarred_audio_filepaths", "manifest_filepath")} | bucketing
    before = (tmp_path / "out.prepcli" / FILE_NAME).read_bytes()
    (tmp_path / "out.prepcli" / FILE_NAME).write_text("# mine\n")  # it may be edited
    assert prepcli("status", tmp_path / "out", "--json").json["state"] == "finished"
    again = prepcli("manifest-to-tarred", MANIFEST, "out", "--num-shards", 4, "--overwrite", cwd=tmp_path)
    assert again.code == 0
    assert (tmp_path / "out.prepcli" / FILE_NAME).read_bytes() != before  # with 30 bins
    more = ["--concat-to", "out", "--num-shards", 2, "--audio-base-dir", MINI_CORPUS]
    assert prepcli("manifest-to-tarred", MANIFEST, *more, cwd=tmp_path).code == 0
    added = yaml.safe_load((tmp_path / "out.prepcli/version_1" / FILE_NAME).read_text())["train_ds"]
    assert added["tarred_audio_filepaths"] == f"{tmp_path}/out/audio__OP_0..5_CL_.tar"


def test_static_buckets_are_lists(tmp_path: Path) -> None:
    make(tmp_path, "manifest-to-tarred", MANIFEST, "--num-shards", 1, "--buckets-num", 2, "--max-duration", 7)
    assert section(tmp_path / "out") == {
        "tarred_audio_filepaths": [[f"{tmp_path}/out/bucket{k}/audio_0.tar"] for k in (1, 2)],
        "manifest_filepath": [[f"{tmp_path}/out/bucket{k}/sharded_manifests/manifest_0.json"] for k in (1, 2)],
    }


def test_manifests_alone(tmp_path: Path) -> None:
    make(tmp_path, "manifest-to-tarred", MANIFEST, "--num-shards", 1, "--only-manifests", "--dynamic-buckets-num", 2)
    found = section(tmp_path / "out")
    assert list(found) == ["manifest_filepath", "use_bucketing", "num_buckets", "bucket_duration_bins"]


@pytest.mark.parametrize("shard_size", [24, 48])
def test_a_shar_set(shard_size: int, tmp_path: Path) -> None:
    """A mapping of fields, as NeMo wants it; and lhotse's own call in a comment."""
    folder = tmp_path / "a_000000"
    folder.mkdir()
    make(folder, "manifest-to-shar", MINI_CORPUS / "manifest_with_context.json", "--shard-size", shard_size)
    number = "000000" if shard_size == 48 else "_OP_000000..000001_CL_"
    assert section(folder / "out") == {
        "shar_path": {
            "cuts": f"{folder}/out/cuts/cuts.{number}.jsonl.gz",
            "target_audio": f"{folder}/out/target_audio/recording.{number}.tar",
            "context_audio": f"{folder}/out/context_audio/recording.{number}.tar",
        }
    }
    (line,) = [
        line for line in (folder / "out.prepcli" / FILE_NAME).read_text().splitlines() if "With lhotse alone: " in line
    ]
    fields = eval(line.partition("from_shar(fields=")[2].removesuffix(")"), {"glob": glob, "sorted": sorted})
    assert {name: len(paths) for name, paths in fields.items()} == dict.fromkeys(
        ("cuts", "target_audio", "context_audio"), 48 // shard_size
    )


@pytest.mark.slow
@pytest.mark.nemo
@pytest.mark.parametrize(
    ("command", "manifest", "options"),
    [
        ("manifest-to-tarred", "manifest.json", ["--num-shards", 2, "--dynamic-buckets-num", 3]),
        (
            "manifest-to-tarred",
            "manifest.json",
            ["--num-shards", 1, "--buckets-num", 2, "--max-duration", 7],
        ),
        ("manifest-to-shar", "manifest_with_context.json", ["--shard-size", 24]),
    ],
)
def test_nemo_reads_all_with_it(command: str, manifest: str, options: list[object], tmp_path: Path) -> None:
    pytest.importorskip("nemo.collections.asr")
    from tests.support.nemo_loaders import read_all

    make(tmp_path, command, MINI_CORPUS / manifest, *options)
    texts = read_all(section(tmp_path / "out") | {"use_lhotse": True, "shuffle": True, "batch_duration": 20})
    assert sorted(texts) == sorted(record["text"] for record in read_lines(MANIFEST))
