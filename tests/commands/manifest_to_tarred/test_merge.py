"""The final files of a set: one manifest, metadata.yaml, and buckets."""

import os
import shutil
import struct
from itertools import accumulate
from pathlib import Path

import pytest
import yaml

from tests.commands.manifest_to_tarred.test_job import make
from tests.conftest import read_lines, tree, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli


def test_the_whole_manifest_is_the_shards_in_order(short_corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    make(short_corpus / "manifest.json", out, "--num-shards", 3)
    parts = b"".join((out / f"sharded_manifests/manifest_{k}.json").read_bytes() for k in range(3))
    assert (out / "tarred_audio_manifest.json").read_bytes() == parts
    metadata = yaml.safe_load((out / "metadata.yaml").read_text())
    assert metadata["num_samples_per_shard"] == 16
    assert metadata["dataset_config"]["num_shards"] == 3
    assert len(metadata["dataset_config"]["bucket_duration_bins"]) <= 29


def test_only_buckets_are_buckets(short_corpus: Path, tmp_path: Path) -> None:
    """A copy of one is not a part of the set, and a set that lacks one is refused: it was trained on without a word."""
    out = tmp_path / "out"
    make(short_corpus / "manifest.json", out, "--num-shards", 1, "--buckets-num", 3, "--max-duration", 0.7)
    shutil.copytree(out / "bucket1", out / "bucket1_backup")
    shutil.copytree(out / "bucket2", out / "bucket")
    commands = {
        "verify": (out,),
        "inspect": (out,),
        "estimate-bins": (out, "-b", 2),
        "index": (out, "--check"),
        "blend": (f"a={out}", tmp_path / "mix.yaml"),
    }
    found = {name: prepcli(name, *words, "--json").json for name, words in commands.items()}
    assert (found["verify"]["records"], found["inspect"]["records"], found["blend"]["records"]) == (48, 48, 48)
    assert (found["estimate-bins"]["num_examples"], len(found["index"]["sets"])) == (48, 3)
    shutil.rmtree(out / "bucket2")
    shutil.rmtree(tmp_path / "out.prepcli")
    for name, words in commands.items():
        done = prepcli(name, *words, *(["--overwrite"] if name == "blend" else []))
        assert done.code == {"verify": 1, "inspect": 0}.get(name, 2)
        assert f"{out} holds bucket3, but not bucket2" in done.out + done.err, name


def test_static_buckets(mini_corpus: Path, tmp_path: Path) -> None:
    options = ["--buckets-num", 3, "--min-duration", 1.0, "--max-duration", 6.52, "--num-shards", 2]
    report = make(mini_corpus / "manifest.json", tmp_path / "out", *options).json
    assert report["records_out"] == 48
    total = 0
    for number in range(3):
        folder = tmp_path / f"out/bucket{number + 1}"
        lines = read_lines(folder / "tarred_audio_manifest.json")
        total += len(lines)
        low = 1.0 + number * 1.84
        assert all(low <= line["duration"] <= low + 1.84 + 1e-5 for line in lines)
        assert {line["shard_id"] for line in lines} == {0, 1}
        assert (folder / "metadata.yaml").exists()
    assert total == 48


def test_no_shard_manifests(short_corpus: Path, tmp_path: Path) -> None:
    make(short_corpus / "manifest.json", tmp_path / "out", "--num-shards", 2, "--no-shard-manifests")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "audio_0.tar", "audio_0.tar.idx", "audio_1.tar", "audio_1.tar.idx",
        "metadata.yaml", "tarred_audio_manifest.json", "tarred_audio_manifest.json.idx",
    ]  # fmt: skip
    lines = (tmp_path / "out/tarred_audio_manifest.json").read_bytes().splitlines(keepends=True)
    starts = struct.unpack("<49Q", (tmp_path / "out/tarred_audio_manifest.json.idx").read_bytes())
    assert list(starts) == [0, *accumulate(map(len, lines))]


def test_only_manifests_tells_where_the_audio_is(short_corpus: Path, tmp_path: Path) -> None:
    report = make(short_corpus / "manifest.json", tmp_path / "out", "--num-shards", 2, "--only-manifests").json
    assert list(report["outputs"]) == ["manifest_filepath"]
    assert not (tmp_path / "out.prepcli/train_ds.yaml").exists()
    lines = read_lines(tmp_path / "out/sharded_manifests/manifest_1.json")
    assert all(Path(line["abs_audio_filepath"]).is_file() for line in lines)
    assert not list((tmp_path / "out").glob("*.tar"))
    make(short_corpus / "manifest.json", tmp_path / "real", "--num-shards", 2)
    real = read_lines(tmp_path / "real/sharded_manifests/manifest_1.json")
    assert [line["audio_filepath"] for line in lines] == [line["audio_filepath"] for line in real]


def test_concatenation_adds_and_touches_nothing(short_corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    records = read_lines(short_corpus / "manifest.json")
    first = write_lines(tmp_path / "first.json", records[:30])
    second = write_lines(tmp_path / "second.json", records[30:])
    base = ["--audio-base-dir", short_corpus]
    make(first, out, "--num-shards", 3, *base)
    before = tree(out)
    add = ["manifest-to-tarred", second, "--concat-to", out, *base]
    done = prepcli(*add, "--json")
    assert done.code == 0, done.err
    assert prepcli("verify", out).code == 0
    after = tree(out)
    assert {name: after[name] for name in before} == before
    assert sorted(set(after) - set(before)) == [
        "audio_3.tar",
        "audio_3.tar.idx",
        "audio_4.tar",
        "audio_4.tar.idx",
        "metadata_version_1.yaml",
        "sharded_manifests/manifest_3.json",
        "sharded_manifests/manifest_3.json.idx",
        "sharded_manifests/manifest_4.json",
        "sharded_manifests/manifest_4.json.idx",
        "tarred_audio_manifest_version_1.json",
    ]
    texts = [line["text"] for line in read_lines(out / "tarred_audio_manifest_version_1.json")]
    assert texts == [record["text"] for record in records]
    metadata = yaml.safe_load((out / "metadata_version_1.yaml").read_text())
    assert metadata["version"] == 1
    assert metadata["dataset_config"]["num_shards"] == 5
    assert metadata["is_concatenated_manifest"] is True
    assert [entry["version"] for entry in metadata["history"]] == [0]
    # Again: nothing to do. Other data: version 2.
    assert prepcli(*add, "--json").json["status"] == "nothing_to_do"
    assert tree(out) == after
    third = write_lines(tmp_path / "third.json", [record | {"text": "again"} for record in records[:5]])
    assert prepcli("manifest-to-tarred", third, "--concat-to", out, *base).code == 0
    assert (out / "tarred_audio_manifest_version_2.json").exists()
    metadata = yaml.safe_load((out / "metadata_version_2.yaml").read_text())
    assert [entry["version"] for entry in metadata["history"]] == [0, 1]
    assert prepcli("verify", out).code == 0
    again = prepcli("manifest-to-tarred", third, "--concat-to", out, *base, "--shuffle", "--dry-run")
    assert (again.code, f"{third} is in {out} already" in again.error_line) == (2, True)
    # A manifest that has grown, of any version: what it had before is in the set.
    for manifest in (first, second, third):
        write_lines(manifest, [*read_lines(manifest), records[29]])
        grown = prepcli("manifest-to-tarred", manifest, "--concat-to", out, *base)
        assert grown.code == 2
        says = f"{out} has the records that {manifest} had before; give a manifest with only the new ones"
        assert says in grown.error_line
    link = tmp_path / "link.json"
    link.symlink_to(second)
    for other in (link, tmp_path / "out/../second.json"):  # other names of it
        assert prepcli("manifest-to-tarred", other, "--concat-to", out, *base).code == 2
    assert not (out / "tarred_audio_manifest_version_3.json").exists()


def test_concatenation_to_a_bucket_of_a_manifest_that_has_grown(mini_corpus: Path, tmp_path: Path) -> None:
    records = read_lines(mini_corpus / "manifest.json")
    manifest = write_lines(tmp_path / "manifest.json", records[:5])
    base = ["--num-shards", 1, "--audio-base-dir", mini_corpus]
    make(manifest, tmp_path / "out", *base, "--buckets-num", 2, "--max-duration", 4)
    write_lines(manifest, records[:6])
    grown = prepcli("manifest-to-tarred", manifest, "--concat-to", tmp_path / "out/bucket1", *base)
    assert (grown.code, "has the records that" in grown.error_line) == (2, True)


@pytest.mark.parametrize("options", [[], ["--no-shard-manifests"]])
def test_concatenation_to_a_manifest_without_a_last_line_end(
    options: list[str], short_corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    records = read_lines(short_corpus / "manifest.json")
    base = ["--num-shards", 1, "--audio-base-dir", short_corpus, *options]
    make(write_lines(tmp_path / "first.json", records[:2]), out, *base)
    shutil.rmtree(tmp_path / "out.prepcli")  # others have made it
    manifest = out / "tarred_audio_manifest.json"
    manifest.write_bytes(manifest.read_bytes().rstrip(b"\n"))
    second = write_lines(tmp_path / "second.json", records[2:4])
    assert prepcli("manifest-to-tarred", second, "--concat-to", out, *base).code == 0
    texts = [line["text"] for line in read_lines(out / "tarred_audio_manifest_version_1.json")]
    assert texts == [record["text"] for record in records[:4]]
    assert prepcli("verify", out).code == 0


def test_the_date_of_a_set_is_that_of_its_newest_manifest(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 1.0)
    for day, name in ((3, "a"), (9, "b"), (5, "c")):
        path = write_lines(tmp_path / f"{name}.json", [{"audio_filepath": "a.wav", "duration": 1.0, "text": name}])
        os.utime(path, (day * 86400 + 43200,) * 2)
    make(Path(",".join(f"{tmp_path}/{name}.json" for name in "abc")), tmp_path / "out", "--num-shards", 1)
    assert "01-10-1970" in (tmp_path / "out/metadata.yaml").read_text()
