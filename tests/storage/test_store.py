"""Commands that read from and write to a real object store give the same bytes as with files."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from prepcli.storage import access
from tests.conftest import MINI_CORPUS, read_lines, tree
from tests.storage.buckets import Bucket
from tests.storage.object_store import ObjectStore
from tests.support.conversations import write_conversations
from tests.support.running import Prepcli, prepcli, prepcli_process
from tests.support.tools import need_package

pytestmark = pytest.mark.slow

COMMANDS = {
    "manifest-to-tarred": ["--num-shards", "3"],
    "manifest-to-shar": ["--shard-size", "20"],
    "manifest-to-wenet": ["--shard-size", "20", "--prefix", "x"],
    "manifest-to-parquet": ["--shard-size", "20"],
    "conversations-to-tarred": ["--shard-size", "20"],
    "conversations-to-tarred pairs": ["--shard-size", "20", "--form", "sharegpt-webdataset"],
    "texts-to-shards": ["--num-shards", "3", "--shuffle"],
    "manifest-to-parquet omnilingual": ["--form", "omnilingual", "--corpus", "c", "--set-split", "train"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_in_and_out_of_the_store_are_as_on_a_disk(
    command: str, bucket: Bucket, run: Prepcli, mini_corpus: Path, stored_corpus: str, tmp_path: Path
) -> None:
    command, options = command.partition(" ")[0], COMMANDS[command]
    name = {"texts-to-shards": "transcripts.txt"}.get(command, "manifest.json")
    if command == "conversations-to-tarred":
        name = "chats.jsonl"
        mini_corpus = Path(shutil.copytree(mini_corpus, tmp_path / "corpus"))
        write_conversations(mini_corpus / "manifest.json")
        stored_corpus = bucket.upload(mini_corpus, "corpus")
    # The list of WeNet has names without a folder where the output is in a store.
    local = [*options, *(["--relative-to", tmp_path / "local"] if "wenet" in command else [])]
    assert prepcli(command, mini_corpus / name, tmp_path / "local", *local).code == 0
    done = run(command, f"{stored_corpus}/{name}", bucket / "out/set", *options, "--work-dir", tmp_path, "--json")
    assert done.code == 0, done.err
    assert done.json["records_out"] == 48
    made = tree(bucket.download("out/set", tmp_path / "down"))
    assert without_dates(made) == without_dates(tree(tmp_path / "local"))
    again = run(command, f"{stored_corpus}/{name}", bucket / "out/set", *options, "--work-dir", tmp_path, "--json")
    assert (again.code, again.json["status"]) == (0, "nothing_to_do")


@pytest.mark.parametrize("kind", ["manifest-to-tarred", "manifest-to-shar", "manifest-to-wenet", "manifest-to-parquet"])
def test_sets_in_the_store_are_inputs(
    kind: str, bucket: Bucket, run: Prepcli, mini_corpus: Path, tmp_path: Path
) -> None:
    more = ["--relative-to", tmp_path / "set"] if "wenet" in kind else []
    assert prepcli(kind, mini_corpus / "manifest.json", tmp_path / "set", *COMMANDS[kind], *more).code == 0
    bucket.upload(tmp_path / "set", "in/set")
    options = ("--num-shards", 2, "--shuffle")
    assert prepcli("manifest-to-tarred", tmp_path / "set", tmp_path / "local", *options).code == 0
    done = run("manifest-to-tarred", bucket / "in/set", tmp_path / "out", *options, "--json")
    assert done.code == 0, done.err
    assert done.json["records_out"] == 48
    tars = [{name: data for name, data in tree(tmp_path / one).items() if ".tar" in name} for one in ("local", "out")]
    assert tars[0] == tars[1]


@pytest.mark.parametrize("form", ["nemo", "sharegpt-webdataset"])
def test_conversations_in_the_store_are_inputs(
    form: str, bucket: Bucket, run: Prepcli, mini_corpus: Path, tmp_path: Path
) -> None:
    chats = write_conversations(Path(shutil.copytree(mini_corpus, tmp_path / "corpus")) / "manifest.json")
    options = ("--num-shards", 2, "--form", form)
    assert prepcli("conversations-to-tarred", chats, tmp_path / "set", *options).code == 0
    bucket.upload(tmp_path / "set", "in/set")
    assert prepcli("conversations-to-tarred", tmp_path / "set", tmp_path / "local", *options).code == 0
    done = run("conversations-to-tarred", bucket / "in/set", tmp_path / "out", *options, "--json")
    assert (done.code, done.json["records_out"]) == (0, 48), done.err
    trees = [tree(tmp_path / name) for name in ("local", "out")]
    assert trees[0] == trees[1]


def test_every_command_knows_conversations_in_the_store(
    bucket: Bucket, run: Prepcli, mini_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`filter` and `split` write what they write of files, with the addresses of the audio."""
    monkeypatch.chdir(tmp_path)
    folder = Path(shutil.copytree(mini_corpus, tmp_path / "corpus"))
    chats = write_conversations(folder / "manifest.json")
    (folder / "list.json").write_text(f"[{','.join(chats.read_text().splitlines())}]")
    address = bucket.upload(folder, "in")
    calls = {
        "kept.json": ("filter", "kept.json", "--keep", "duration > 2"),
        "parts/dev.json": ("split", "parts", "--part", "dev=10", "--part", "train=rest", "--by", "id"),
    }
    for name, (command, *more) in calls.items():
        assert run(command, f"{address}/{chats.name}", *more).code == 0
        stored = Path(name).read_text()
        assert prepcli(command, chats, *more, "--overwrite").code == 0
        assert stored.replace(address, str(folder)) == Path(name).read_text()
    found = run("inspect", f"{address}/{chats.name}", "--json").json
    assert (found["kind"], found["records"], found["audio"][0]["missing"]) == ("conversations", 48, 0)
    shown = run("inspect", f"{address}/{chats.name}", "--record", 3, "--json").json
    assert (shown["fields"]["id"], shown["audio"][0]["problem"]) == ("chat3", None)
    done = run("verify", f"{address}/{chats.name}")
    assert (done.code, "is ok" in done.out) == (0, True)
    done = run("score", f"{address}/list.json", "out.json")
    wanted = "copy it to a disk, and there, jq -c '.[]' list.json > list.jsonl, and then prepcli conversations-to-tar"
    assert (done.code, wanted in done.error_line) == (2, True), done.error_line


def without_dates(files: dict[str, str]) -> dict[str, str]:
    """The metadata of tarred sets tells when the manifest was written."""
    return {name: data for name, data in files.items() if name != "metadata.yaml"}


def test_the_requests_of_the_main_process(
    bucket: Bucket, run: Prepcli, mini_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, so each adds to the time of a run: none is made twice, however many shards there are."""
    asked: list[str] = []
    call = access._Helper.call

    def noting(helper: access._Helper, function: Any, arguments: Any) -> Any:
        asked.append(function.__name__)
        return call(helper, function, arguments)

    monkeypatch.setattr(access._Helper, "call", noting)
    out = bucket / "out"
    done = run("manifest-to-tarred", mini_corpus / "manifest.json", out, "--num-shards", 5, "--work-dir", tmp_path)
    assert done.code == 0, done.err
    assert [name for name in asked if not name.endswith(("_upload", "put_file"))] == [
        "list_objects",  # the output
        *("put_object", "list_objects", "put_object", "list_objects", "delete_objects"),  # the claim
        "list_objects",  # the output again: what others have there is not replaced
        "object_info",  # is the claim still held?
        "list_objects",  # are all objects as they were written?
        "fetch_together",  # the manifests of the shards
        *("object_info",) * 2,  # is the claim still held, before the last objects are written, and after that?
    ]


def test_other_commands_read_from_the_store(
    object_store: ObjectStore, mini_corpus: Path, stored_corpus: str, tmp_path: Path
) -> None:
    """In processes that have PyTorch already: here, each later fork would be dearer."""
    commands: dict[str, list[object]] = {"fix-durations": ["m.json"], "manifest-to-mels": ["mels", "--max-rejects", 1]}
    commands["convert-audio"] = ["files", "--target-sample-rate", 8000]
    for command, (out, *options) in commands.items():
        trees = []
        for folder, source in ((tmp_path / "here", mini_corpus), (tmp_path / "there", stored_corpus)):
            folder.mkdir(exist_ok=True)
            words = (command, f"{source}/manifest.json", folder / str(out), *options, "--audio-base-dir", source)
            done = prepcli_process(*words, "--num-workers", 1, "--json", environ=object_store.environ)
            assert done.code == 0, done.err
            assert done.json["records_out"] == 48
            made = tree(folder / str(out))
            trees.append({name: made[name] for name in made if not name.endswith(".txt")})  # those have paths
        assert trees[0] == trees[1]


def test_curation_reads_from_the_store(
    object_store: ObjectStore, mini_corpus: Path, stored_corpus: str, tmp_path: Path
) -> None:
    """The same lines as from the disk, but for the folder of the audio."""
    commands: dict[str, tuple[str, str, list[object]]] = {
        "filter": ("kept.json", "kept.json", ["--keep", "duration > 1"]),
        "score": ("scored.json", "scored.json", []),
        "segment": ("windows.json", "windows.json", ["--by", "windows", "--window", 2, "--min", 0.1]),
        "split": ("parts", "parts/dev.json", ["--part", "train=rest", "--part", "dev=0.3"]),
        "find-duplicates": ("groups.jsonl", "groups.jsonl", ["--by", "audio,text"]),
    }
    for command, (out, made, options) in commands.items():
        texts = []
        for folder, source in ((tmp_path / "here", str(mini_corpus)), (tmp_path / "there", stored_corpus)):
            folder.mkdir(exist_ok=True)
            words = (command, f"{source}/manifest.json", folder / out, *options, "--audio-base-dir", source)
            done = prepcli_process(*words, "--num-workers", 1, environ=object_store.environ)
            assert done.code == 0, done.err
            texts.append((folder / made).read_text().replace(source, "FOLDER"))
        assert texts[0] == texts[1], command


@pytest.fixture(scope="module")
def sets(object_store: ObjectStore, stored_corpus: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data in the store, by their addresses, and the same on the disk."""
    folder = tmp_path_factory.mktemp("sets")
    bucket = Bucket(object_store, "sets-to-inspect")
    for command, name in (("manifest-to-tarred", "tarred"), ("manifest-to-shar", "shar")):
        assert prepcli(command, MINI_CORPUS / "manifest.json", folder / name, "--shard-size", 24).code == 0
        bucket.upload(folder / name, name)
    here = {bucket / name: folder / name for name in ("tarred", "tarred/audio_0.tar", "shar")}
    return here | {f"{stored_corpus}/manifest.json": MINI_CORPUS / "manifest.json"}


def test_a_chain_that_leads_to_the_store(bucket: Bucket, run: Prepcli, stored_corpus: str, tmp_path: Path) -> None:
    """What is asked about records is answered from manifests there and the state beside the current folder."""
    kept, out, state = tmp_path / "kept.json", bucket / "out/chain", ("--work-dir", tmp_path)
    assert run("filter", f"{stored_corpus}/manifest.json", kept, "--keep", "duration > 2").code == 0
    assert run("manifest-to-tarred", kept, out, "--num-shards", 2, *state).code == 0
    account = run("status", "--account", out, *state, "--json").json
    steps = [(step["command"], step["source_seconds"] > 0) for step in account["steps"]]
    assert steps == [("filter", True), ("manifest-to-tarred", False)]
    assert {*account["left_out"]} == {"by rule"}
    verdicts = set()
    for name in ("s01_u1.flac", "s02_u4.flac"):
        done = run("explain", name, "--in", out, *state, "--json")
        assert done.code == 0, done.err
        (trace,) = done.json["traces"]
        assert (trace["source"]["audio"], trace["source"]["sampling_rate"]) == (
            f"{stored_corpus}/{name[:3]}/{name}",
            22050,
        )
        verdicts.add((trace["verdict"], len(trace["hops"])))
    assert verdicts == {("dropped", 0), ("kept", 2)}
    same = run("compare", kept, out, "--json")
    assert same.code == 0, same.err
    count = len(read_lines(kept))
    assert 0 < count < 48
    assert (same.json["matched"], same.json["audio"]["same_samples"]) == (count, count)


def test_inspect_and_estimate_bins(sets: dict[str, Path], run: Prepcli) -> None:
    for address, local in sets.items():
        commands = [["inspect"]] if local.suffix == ".tar" else [["inspect"], ["estimate-bins", "-b", "4"]]
        for command, *options in commands:
            here = run(command, local, *options, "--json")
            there = run(command, address, *options, "--json")
            assert (here.code, there.code) == (0, 0), there.err
            for key in ("records", "hours", "files", "fields", "bucket_duration_bins"):
                assert there.json.get(key) == here.json.get(key)


def test_an_input_cfg_in_the_store(sets: dict[str, Path], bucket: Bucket, run: Prepcli) -> None:
    """A config that is itself in the store, and names a group, a tarred set, a Shar set and a manifest there."""
    tarred, _, shar, manifest = sets
    inner = bucket.put("inner.yaml", f"- {{type: nemo, manifest_filepath: {manifest}, weight: 0.5}}\n")
    config = bucket.put(
        "outer.yaml",
        f"- {{type: lhotse_shar, shar_path: {shar}, weight: 0.2}}\n"
        f"- {{type: group, input_cfg: {inner}, weight: 0.3}}\n"
        f"- {{type: nemo_tarred, manifest_filepath: {tarred}/tarred_audio_manifest.json, weight: 0.5,\n"
        f"   tarred_audio_filepaths: '{tarred}/audio__OP_0..1_CL_.tar'}}\n",
    )
    bins = run("estimate-bins", config, "-b", 4, "--json")
    assert bins.code == 0, bins.err
    alone = run("estimate-bins", manifest, "-b", 4, "--json")
    assert bins.json["bucket_duration_bins"] == alone.json["bucket_duration_bins"]
    indexed = run("index", config, "--indexes-root", bucket / "indexes", "--dry-run", "--json")
    assert (indexed.code, "compressed" in indexed.err) == (2, True)  # the cuts of this Shar set


def test_bins_of_parquet_files_in_the_store(bucket: Bucket, run: Prepcli, mini_corpus: Path, tmp_path: Path) -> None:
    need_package("pyarrow")
    assert prepcli("manifest-to-parquet", mini_corpus / "manifest.json", tmp_path / "parquet").code == 0
    address = bucket.upload(tmp_path / "parquet", "parquet")
    config = bucket.put("cfg.yaml", f"- {{type: parquet, manifest_filepath: {address}/data-000000.parquet}}\n")
    specs = (tmp_path / "parquet", address, config)
    here, *there = (run("estimate-bins", spec, "-b", 4, "--json").json for spec in specs)
    assert there == [here, here]


def test_verify_and_inspect_of_parquet_files_in_the_store(
    bucket: Bucket, run: Prepcli, mini_corpus: Path, tmp_path: Path
) -> None:
    need_package("pyarrow")
    for form in ("parquet", "omnilingual"):
        options = COMMANDS["manifest-to-parquet omnilingual"] if form == "omnilingual" else ()
        assert prepcli("manifest-to-parquet", mini_corpus / "manifest.json", tmp_path / form, *options).code == 0
        address = bucket.upload(tmp_path / form, form)
        for command in ("verify", "inspect"):
            here, there = (run(command, place, "--json") for place in (tmp_path / form, address))
            assert (there.code, there.err) == (here.code, here.err) == (0, "")
            differ = {name for name in here.json if here.json[name] != there.json[name]}
            assert differ <= {"path", "paths", "out", "hashes_known", "runs"}  # the state of the run stays here


def test_verify_finds_what_is_wrong(bucket: Bucket, run: Prepcli, mini_corpus: Path, tmp_path: Path) -> None:
    out = bucket / "out"
    options = ["--num-shards", 2, "--work-dir", tmp_path]
    assert run("manifest-to-tarred", mini_corpus / "manifest.json", out, *options).code == 0
    for quick in ([], ["--quick"]):
        checked = run("verify", out, "--work-dir", tmp_path, "--json", *quick)
        assert (checked.code, checked.json["problems"], checked.json["records"]) == (0, [], 48)
    bucket.put("out/audio_0.tar.idx", "x" * 8 * (24 + 1))  # as long as the index was
    problems = run("verify", out, "--work-dir", tmp_path, "--json", "--quick").json["problems"]
    assert len(problems) == 1
    assert problems[0].startswith("audio_0.tar.idx: was written again after it was published (its ETag was ")
    bucket.put("out/metadata.yaml", "too short")
    bucket.delete("out/audio_1.tar")
    for quick in ([], ["--quick"]):
        problems = "\n".join(run("verify", out, "--work-dir", tmp_path, "--json", *quick).json["problems"])
        assert "audio_1.tar: was published, but is missing" in problems
        assert "metadata.yaml: " in problems
    assert run("verify", out, "--quick", cwd=tmp_path / "..").code == 2


def test_a_segment_of_a_long_recording_needs_no_more_than_its_range(
    bucket: Bucket, run: Prepcli, tmp_path: Path
) -> None:
    """WAV and FLAC of more than a request ahead, cut at random: the bytes of the same cuts from a disk."""
    import numpy as np
    import soundfile

    from tests.conftest import write_lines

    samples = np.random.default_rng(1).integers(-9000, 9000, 16000 * 60, np.int16)
    audio = tmp_path / "audio"
    audio.mkdir()
    for name in ("long.wav", "long.flac"):
        soundfile.write(audio / name, samples, 16000)
    records = [
        {"audio_filepath": name, "offset": 7.25 * turn, "duration": 1.5, "text": str(turn)}
        for turn in range(8)
        for name in ("long.wav", "long.flac")
    ]
    manifest = write_lines(tmp_path / "m.json", records)
    address = bucket.upload(audio, "audio")
    options = ["--num-shards", 2, "--slice-with-offset"]
    for out, base in (("here", audio), ("there", address)):
        done = run("manifest-to-tarred", manifest, tmp_path / out, *options, "--audio-base-dir", base, "--json")
        assert (done.code, done.json["records_out"]) == (0, 16), done.err
    assert tree(tmp_path / "here") == tree(tmp_path / "there")
