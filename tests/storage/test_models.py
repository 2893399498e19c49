"""Commands with a model read from the store; codes are written into a Shar set there. The models are toys."""

from pathlib import Path

import pytest

from tests.conftest import make_set, read_lines, tree
from tests.storage.buckets import Bucket
from tests.support.running import HANG_SECONDS, Outcome, Prepcli, prepcli, start_prepcli

pytestmark = pytest.mark.slow


def run_toy(module: str, *words: object, bucket: Bucket | None = None) -> Outcome:
    """Run a command with a toy in the place of its model, in a process that has PyTorch already."""
    environ = {"CUDA_VISIBLE_DEVICES": "", **(bucket.store.environ if bucket else {})}
    process = start_prepcli(*words, "--json", module=f"tests.support.{module}", environ=environ)
    out, err = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode is not None
    return Outcome(process.returncode, out, err)


def encode(source: object, *options: object, bucket: Bucket | None = None) -> Outcome:
    words = ("extend-codec-codes", source, "--codec-model", "toy", "--devices", "cpu", *options)
    return run_toy("toy_codec", *words, bucket=bucket)


def test_codes_of_a_shar_set_in_the_store(bucket: Bucket, run: Prepcli, mini_corpus: Path, tmp_path: Path) -> None:
    """The codes are those of a set on a disk; `verify` and `status` know them; other records are refused."""
    here, other = tmp_path / "shar", tmp_path / "other"
    other.mkdir()
    make_set("manifest-to-shar", mini_corpus / "manifest_with_context.json", here, "--shard-size", 24)
    there = bucket.upload(here, "shar")
    assert encode(here).code == 0
    done = encode(there, "--work-dir", tmp_path, "--num-workers", 2, bucket=bucket)
    assert (done.code, done.json["records_out"]) == (0, 48), done.err
    assert done.json["outputs"]["target_codes"] == f"{there}/codes_toy/target_codes/codes._OP_000000..000001_CL_.tar"
    made = bucket.download("shar/codes_toy", tmp_path / "down")
    assert tree(made) == tree(here / "codes_toy")
    again = encode(there, "--work-dir", tmp_path, bucket=bucket)
    assert (again.code, again.json["status"]) == (0, "nothing_to_do"), again.err
    refused = encode(there, "--work-dir", other, bucket=bucket)
    assert refused.code == 2
    assert (
        f"belongs to a run whose records are in {tmp_path}/{bucket.name}_shar.prepcli/codes_toy on "
        in refused.error_line
    )

    assert run("status", there, "--work-dir", tmp_path, "--json").json["state"] == "finished"
    for quick in ([], ["--quick"]):
        checked = run("verify", there, "--work-dir", tmp_path, "--json", *quick)
        assert (checked.code, checked.json["problems"], checked.json["records"]) == (0, [], 48)
    fields = run("inspect", there, "--json").json["codes"]
    assert [(one["where"], one["tars"]) for one in fields] == [
        ("codes_toy/context_codes", 2),
        ("codes_toy/target_codes", 2),
    ]

    tar = here / "target_audio" / "recording.000001.tar"
    changed = bytearray(tar.read_bytes())
    changed[20_000] ^= 1  # within the audio: the size and the headers are as before
    tar.write_bytes(changed)
    bucket.upload(here / "target_audio", "shar/target_audio")
    problems = "\n".join(run("verify", there, "--work-dir", tmp_path, "--json").json["problems"])
    assert f"codes_toy: made of other audio than {there}/target_audio/{tar.name} holds now" in problems
    stale = encode(there, "--work-dir", tmp_path, bucket=bucket)
    assert stale.code == 2
    assert f"{there}/target_audio/{tar.name} holds other audio than the codes in" in stale.error_line


def test_codes_of_a_set_in_the_store_can_lie_elsewhere(bucket: Bucket, mini_corpus: Path, tmp_path: Path) -> None:
    """In another prefix, or on a disk; `verify` finds the set by the records."""
    here = tmp_path / "shar"
    make_set("manifest-to-shar", mini_corpus / "manifest.json", here, "--shard-size", 24, "--indexed")
    there = bucket.upload(here, "shar")
    for out in (bucket / "codes", tmp_path / "codes"):
        done = encode(there, "--output-dir", out, "--work-dir", tmp_path, bucket=bucket)
        assert (done.code, done.json["records_out"]) == (0, 48), done.err
        checked = prepcli("verify", out, "--work-dir", tmp_path, "--json", environ=bucket.store.environ)
        assert (checked.code, checked.json["problems"], checked.json["records"]) == (0, [], 48)
    made = tree(bucket.download("codes/codes_toy", tmp_path / "down"))
    assert made == tree(tmp_path / "codes" / "codes_toy")


def test_codes_of_a_manifest_in_the_store(
    bucket: Bucket, mini_corpus: Path, stored_corpus: str, tmp_path: Path
) -> None:
    """Manifest and audio are read from there; the codes are files, as NeMo reads them."""
    there = stored_corpus
    refused = encode(f"{there}/manifest.json", "--output-dir", bucket / "out", bucket=bucket)
    assert refused.code == 2
    assert "NeMo reads the codes of a manifest only from files" in refused.error_line
    trees = []
    for base, out in ((mini_corpus, tmp_path / "here"), (there, tmp_path / "there")):
        source = f"{base}/manifest.json"
        done = encode(source, "--output-dir", out, "--audio-base-dir", base, "--num-workers", 2, bucket=bucket)
        assert (done.code, done.json["records_out"]) == (0, 48), done.err
        trees.append({name.rpartition("/")[2]: data for name, data in tree(out / "codes_toy").items()})
    assert trees[0] == trees[1]


def test_contexts_of_audio_in_the_store(bucket: Bucket, mini_corpus: Path, stored_corpus: str, tmp_path: Path) -> None:
    found = []
    for base, out in ((mini_corpus, tmp_path / "here"), (stored_corpus, tmp_path / "there")):
        words = ("extend-context-audio", f"{base}/manifest.json", out, "--audio-base-dir", base)
        done = run_toy("toy_voice", *words, "--speaker-model", "toy", "--devices", "cpu", bucket=bucket)
        assert done.code == 0, done.err
        (manifest,) = out.glob("*.json")
        found.append(read_lines(manifest))
    assert found[0] == found[1]
    assert len(found[0]) > 20


def test_texts_and_indexes_in_the_store(bucket: Bucket, run: Prepcli, mini_corpus: Path, tmp_path: Path) -> None:
    """`extend-text-context` and `index` write into a set there what they write on a disk."""
    shar, tarred = tmp_path / "shar", tmp_path / "tarred"
    for_magpie = ("--audio-field", "target_audio")
    make_set("manifest-to-shar", mini_corpus / "manifest.json", shar, "--shard-size", 20, "--indexed", *for_magpie)
    make_set("manifest-to-tarred", mini_corpus / "manifest.json", tarred, "--num-shards", 2, "--no-index")
    bucket.upload(tarred, "tarred")
    for name in ("cuts", "target_audio"):  # without the indexes
        bucket.upload(shar / name, f"shar/{name}")
    assert prepcli("extend-text-context", shar).code == 0
    done = run("extend-text-context", bucket / "shar", "--work-dir", tmp_path)
    assert done.code == 0, done.err

    sets = [bucket / "tarred", bucket / "shar"]
    made = run("index", *sets, "--json")
    assert (made.code, made.json["written"], made.json["problems"]) == (0, 4 + 6, []), made.err
    assert f"indexes_root: {bucket / 'shar'}/index" in made.json["configs"][1]
    assert run("index", *sets, "--json").json["status"] == "nothing_to_do"
    checked = run("index", *sets, "--check", "--json")
    assert (checked.code, checked.json["status"]) == (0, "ok"), checked.out
    assert prepcli("index", tarred).code == 0
    assert tree(bucket.download("tarred", tmp_path / "t")) == tree(tarred)
    made_there, made_here = tree(bucket.download("shar", tmp_path / "s")), tree(shar)
    roots = f"index/{bucket.name}/shar/", f"index/{str(shar).lstrip('/')}/"
    names = [
        {name.replace(root, "index/"): one for name, one in found.items()}
        for root, found in zip(roots, (made_there, made_here), strict=True)
    ]
    assert names[0] == names[1]
    bucket.put("tarred/audio_1.tar.idx", "12345678")
    broken = run("index", bucket / "tarred", "--check", "--json")
    assert (broken.code, len(broken.json["problems"])) == (1, 1)
    assert "audio_1.tar: is not what its index audio_1.tar.idx says" in broken.json["problems"][0]
    assert "an object store cannot" in run("index", bucket / "shar", "--rebase").error_line
