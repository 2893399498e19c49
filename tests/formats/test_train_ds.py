"""The section for a training config: the keys of NeMo's Lhotse loader, with paths that work from any folder."""

import re
from glob import glob
from pathlib import Path
from typing import Any

import pytest
import yaml

from prepcli.engine.section import SECTION_FILE
from tests.conftest import MINI_CORPUS, read_lines
from tests.support.running import prepcli

MANIFEST = MINI_CORPUS / "manifest.json"


def section(out: Path) -> dict[str, Any]:
    """The section beside OUT, without what all have."""
    document = yaml.safe_load((out.with_name(f"{out.name}.prepcli") / SECTION_FILE).read_text())
    assert list(document) == ["train_ds"]
    found: dict[str, Any] = document["train_ds"]
    assert found.pop("use_lhotse") is True
    assert found.pop("shuffle") is True
    return found


def make(folder: Path, command: str, manifest: Path, *options: object) -> str:
    done = prepcli(command, manifest, "out", *options, cwd=folder)
    assert done.code == 0, done.err
    assert f"  {folder}/out.prepcli/{SECTION_FILE}\n" in done.out
    return done.out


def test_a_tarred_set(tmp_path: Path) -> None:
    make(tmp_path, "manifest-to-tarred", MANIFEST, "--num-shards", 4, "--dynamic-buckets-num", 3)
    found = section(tmp_path / "out")
    assert found["tarred_audio_filepaths"] == f"{tmp_path}/out/audio__OP_0..3_CL_.tar"
    assert found["manifest_filepath"] == f"{tmp_path}/out/sharded_manifests/manifest__OP_0..3_CL_.json"
    metadata = yaml.safe_load((tmp_path / "out/metadata.yaml").read_text())["dataset_config"]
    bucketing = {name: metadata[name] for name in ("use_bucketing", "num_buckets", "bucket_duration_bins")}
    assert found == {key: found[key] for key in ("tarred_audio_filepaths", "manifest_filepath")} | bucketing
    file = tmp_path / "out.prepcli" / SECTION_FILE
    before = file.read_bytes()
    file.write_text("# mine\n")  # it may be edited
    assert prepcli("status", tmp_path / "out", "--json").json["state"] == "finished"
    again = prepcli("manifest-to-tarred", MANIFEST, "out", "--num-shards", 4, "--overwrite", cwd=tmp_path)
    assert again.code == 0
    assert file.read_bytes() != before  # with 30 bins
    more = ["--concat-to", "out", "--num-shards", 2, "--audio-base-dir", MINI_CORPUS, "--allow-duplicates"]
    make_again = prepcli("manifest-to-tarred", MANIFEST, *more, cwd=tmp_path)
    assert make_again.code == 0
    assert f"  {tmp_path}/out.prepcli/{SECTION_FILE}\n" in make_again.out
    assert section(tmp_path / "out")["tarred_audio_filepaths"] == f"{tmp_path}/out/audio__OP_0..5_CL_.tar"
    undone = prepcli("manifest-to-tarred", "--undo-concat", "out", cwd=tmp_path)
    assert undone.code == 0, undone.err
    assert section(tmp_path / "out")["tarred_audio_filepaths"] == f"{tmp_path}/out/audio__OP_0..3_CL_.tar"


BUCKETS = ["--num-shards", 1, "--buckets-num", 4, "--max-duration", 7]


def test_static_buckets_are_lists_with_the_bins_of_all_records(tmp_path: Path) -> None:
    """The Lhotse loader mixes the buckets, so it needs the bins of a set without buckets."""
    make(tmp_path, "manifest-to-tarred", MANIFEST, *BUCKETS, "--dynamic-buckets-num", 5)
    found = section(tmp_path / "out")
    assert found["tarred_audio_filepaths"] == [[f"{tmp_path}/out/bucket{k}/audio_0.tar"] for k in (1, 2, 3, 4)]
    assert found["manifest_filepath"] == [
        [f"{tmp_path}/out/bucket{k}/sharded_manifests/manifest_0.json"] for k in (1, 2, 3, 4)
    ]
    whole = tmp_path / "whole"
    whole.mkdir()
    make(whole, "manifest-to-tarred", MANIFEST, "--num-shards", 1, "--max-duration", 7, "--dynamic-buckets-num", 5)
    bins = {name: section(whole / "out")[name] for name in ("use_bucketing", "num_buckets", "bucket_duration_bins")}
    assert {name: found[name] for name in bins} == bins
    assert (bins["use_bucketing"], bins["num_buckets"]) == (True, 5)
    assert "use_bucketing: false" in (tmp_path / "out/bucket1/metadata.yaml").read_text()


def classic(out: Path) -> list[dict[str, Any]]:
    """The sections for NeMo's classic loader, which stand in comments."""
    text = (out.with_name("out.prepcli") / SECTION_FILE).read_text()
    blocks = re.findall(r"^# train_ds:\n((?:#   .*\n|# +- .*\n)+)", text, flags=re.MULTILINE)
    return [
        yaml.safe_load(re.sub("^# ", "", f"# train_ds:\n{block}", flags=re.MULTILINE))["train_ds"] for block in blocks
    ]


def test_sections_for_the_classic_loader(tmp_path: Path) -> None:
    """With the manifest over all shards, and with those of the shards, for several processes."""
    make(tmp_path, "manifest-to-tarred", MANIFEST, "--num-shards", 4)
    tars = f"{tmp_path}/out/audio__OP_0..3_CL_.tar"
    both = {"use_lhotse": False, "is_tarred": True, "shuffle": True, "tarred_audio_filepaths": tars}
    whole, by_shard = classic(tmp_path / "out")
    assert whole == both | {"manifest_filepath": f"{tmp_path}/out/tarred_audio_manifest.json"}
    assert by_shard == both | {
        "manifest_filepath": f"{tmp_path}/out/sharded_manifests/manifest__OP_0..3_CL_.json",
        "shard_manifests": True,
        "defer_setup": True,
    }
    unsharded = tmp_path / "unsharded"
    unsharded.mkdir()
    make(unsharded, "manifest-to-tarred", MANIFEST, "--num-shards", 2, "--no-shard-manifests")
    (alone,) = classic(unsharded / "out")
    assert alone["manifest_filepath"] == f"{unsharded}/out/tarred_audio_manifest.json"


@pytest.mark.nemo
@pytest.mark.parametrize("options", [["--num-shards", 4], BUCKETS])
def test_the_classic_loader_reads_all_with_them(options: list[object], tmp_path: Path) -> None:
    pytest.importorskip("nemo.collections.asr")
    from nemo.collections.asr.data.audio_to_text import expand_sharded_filepaths
    from nemo.collections.asr.data.audio_to_text_dataset import get_audio_to_text_char_dataset_from_config
    from omegaconf import OmegaConf

    make(tmp_path, "manifest-to-tarred", MANIFEST, *options)
    texts = [record["text"] for record in read_lines(MANIFEST)]
    labels = sorted(set("".join(texts)))
    whole, by_shard = classic(tmp_path / "out")
    rest = {"sample_rate": 22050, "batch_size": 4, "labels": labels, "parser": "base"}
    dataset = get_audio_to_text_char_dataset_from_config(
        OmegaConf.create(whole | rest), local_rank=0, global_rank=0, world_size=1
    )
    seen = [[labels[token] for token in tokens.tolist()] for _, _, tokens, _ in dataset]
    assert sorted(map("".join, seen)) == sorted(texts)
    # Each of several processes reads the manifests of its own shards.
    if isinstance(by_shard["manifest_filepath"], str):
        lines = []
        for rank in range(2):
            tars, manifests = (
                expand_sharded_filepaths(by_shard[name], shard_strategy="scatter", world_size=2, global_rank=rank)
                for name in ("tarred_audio_filepaths", "manifest_filepath")
            )
            assert [re.findall(r"\d+", tar)[-1] for tar in tars] == [re.findall(r"\d+", one)[-1] for one in manifests]
            lines += [line for manifest in manifests for line in read_lines(Path(manifest))]
        assert sorted(line["text"] for line in lines) == sorted(texts)


@pytest.mark.nemo
def test_static_buckets_are_read_with_bucketing(tmp_path: Path) -> None:
    pytest.importorskip("nemo.collections.asr")
    from tests.support.nemo_loaders import first_batches

    make(tmp_path, "manifest-to-tarred", MANIFEST, *BUCKETS)
    found = section(tmp_path / "out") | {
        "use_lhotse": True,
        "shuffle": True,
        "batch_duration": 40,
        "sample_rate": 16000,
    }

    def padding(section: dict[str, Any]) -> float:
        lengths = [[duration for _, duration in batch] for batch in first_batches(section, 100)]
        return 1 - sum(map(sum, lengths)) / sum(len(one) * max(one) for one in lengths)

    without = {name: value for name, value in found.items() if "bucket" not in name}
    assert padding(found) < 0.05 < 0.3 < padding(without)


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
        line
        for line in (folder / "out.prepcli" / SECTION_FILE).read_text().splitlines()
        if "With lhotse alone: " in line
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
