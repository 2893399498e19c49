"""--concat-to and --undo-concat: what is added follows the set, nothing is there twice, and every version is whole."""

import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import soundfile
import yaml

from prepcli.commands.manifest_to_tarred import undoing
from prepcli.commands.manifest_to_tarred.adding import version_workspace
from prepcli.engine.ranks.progress import new_progress, progress_file
from prepcli.engine.state.workspace import write_json
from prepcli.processes.ranks import detect_rank
from tests.conftest import MINI_CORPUS, SHORT_CORPUS, read_lines, tree, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import Outcome, prepcli

RECORDS = read_lines(SHORT_CORPUS / "manifest.json")
BASE = ["--audio-base-dir", SHORT_CORPUS]


def tarred(*arguments: object) -> Outcome:
    return prepcli("manifest-to-tarred", *arguments)


def make(folder: Path, *options: object) -> tuple[Path, Path]:
    """A set of the first 30 records of the short corpus in 3 shards; the manifest of the others."""
    first, second = write_lines(folder / "first.json", RECORDS[:30]), write_lines(folder / "second.json", RECORDS[30:])
    done = tarred(first, folder / "out", "--num-shards", 3, *BASE, *options)
    assert done.code == 0, done.err
    return folder / "out", second


def add(out: Path, manifest: Path, *options: object) -> dict[str, Any]:
    done = tarred(manifest, "--concat-to", out, *BASE, *options, "--json")
    assert done.code == 0, done.err
    assert prepcli("verify", out).code == 0
    return done.json


def undo(out: Path, *options: object) -> Outcome:
    return tarred("--concat-to", out, "--undo-concat", *options)


def metadata(out: Path, version: int) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((out / f"metadata_version_{version}.yaml").read_text())
    return found


def section(out: Path) -> dict[str, Any]:
    """The section that `train_ds.yaml` of the set holds."""
    found: dict[str, Any] = yaml.safe_load(out.with_name("out.prepcli").joinpath("train_ds.yaml").read_text())
    return found["train_ds"]  # type: ignore[no-any-return]


def of_range(pattern: str) -> list[str]:
    """The files that `audio__OP_0..4_CL_.tar` names."""
    head, _, rest = pattern.partition("_OP_")
    if not rest:
        return [pattern]
    numbers, _, tail = rest.partition("_CL_")
    first, last = map(int, numbers.split(".."))
    return [f"{head}{number}{tail}" for number in range(first, last + 1)]


@pytest.mark.parametrize("options", [[], ["--no-shard-manifests"], ["--no-index"]])
def test_the_files_of_the_set_decide_which_are_added(tmp_path: Path, options: list[str]) -> None:
    out, second = make(tmp_path, *options)
    outputs = add(out, second)["outputs"]
    for name in ("tarred_audio_filepaths", "manifest_filepath"):
        paths = of_range(outputs[name])
        assert len(paths) == (5 if "_OP_" in outputs[name] else 1)
        assert all(Path(path).is_file() for path in paths)
        assert section(out)[name] == outputs[name]
    assert (out / "sharded_manifests").exists() == (options != ["--no-shard-manifests"])
    assert bool(list(out.rglob("*.idx"))) == (options != ["--no-index"])
    for manifest in of_range(outputs["manifest_filepath"]):
        assert read_lines(Path(manifest))


def test_a_set_with_manifests_of_some_shards_is_refused(tmp_path: Path) -> None:
    out, second = make(tmp_path)
    (out / "sharded_manifests/manifest_1.json").unlink()
    done = tarred(second, "--concat-to", out, *BASE)
    assert done.code == 2
    assert "manifests of some shards only: sharded_manifests/manifest_1.json is missing" in done.error_line


def formats(out: Path, number: int) -> set[tuple[str, int]]:
    """Format and rate of the members of a shard."""
    with tarfile.open(out / f"audio_{number}.tar") as tar:
        infos = [soundfile.info(io.BytesIO(tar.extractfile(one).read())) for one in tar]  # type: ignore[union-attr]
    return {(info.format, info.samplerate) for info in infos}


@pytest.mark.parametrize("records", [True, False])
def test_the_options_of_the_set_are_the_defaults(tmp_path: Path, records: bool) -> None:
    """Also when OUT.prepcli is gone, and for the second addition."""
    own = [
        "--force-codec",
        "flac",
        "--target-sample-rate",
        16000,
        "--max-duration",
        6,
        "--shuffle",
        "--shuffle-seed",
        7,
    ]
    out, second = make(tmp_path, *own, "--dynamic-buckets-num", 4)
    if not records:
        shutil.rmtree(tmp_path / "out.prepcli")
    write_audio(tmp_path / "low.wav", 1.0, 8000)
    write_audio(tmp_path / "long.wav", 7.0, 8000)
    low = [{"audio_filepath": f"{name}.wav", "duration": d, "text": name} for name, d in (("low", 1.0), ("long", 7.0))]
    for version, manifest in ((1, second), (2, write_lines(tmp_path / "low.json", low))):
        done = tarred(manifest, "--concat-to", out, *(BASE if version == 1 else []), "--json")
        assert done.code == 0, done.err
        found = metadata(out, version)["dataset_config"]
        assert (found["force_codec"], found["max_duration"]) == ("flac", 6.0)
        assert (found["shuffle"], found["shuffle_seed"], found["num_buckets"]) == (True, 7, 4)
        assert formats(out, found["num_shards"] - 1) == {("FLAC", 16000)}
    assert done.json["rejects_by_reason"] == {"above_max_duration": 1}
    again = tmp_path / "again"
    assert tarred(second, again, "--num-shards", 2, *BASE, *own).code == 0
    order = [line["text"] for line in read_lines(again / "tarred_audio_manifest.json")]
    assert order != [record["text"] for record in RECORDS[30:]]
    assert [line["text"] for line in read_lines(out / "tarred_audio_manifest_version_1.json")[-18:]] == order


@pytest.mark.parametrize(
    ("made", "given", "both"),
    [
        (["--force-codec", "flac"], ["--force-codec", "wav"], "with --force-codec flac, and now --force-codec wav"),
        (
            ["--target-sample-rate", 16000],
            ["--target-sample-rate", 8000],
            "with --target-sample-rate 16000, and now --target-sample-rate 8000",
        ),
        (["--max-duration", 20], ["--max-duration", 15], "with --max-duration 20, and now --max-duration 15"),
        ([], ["--no-shard-manifests"], "without --no-shard-manifests, and now --no-shard-manifests"),
        ([], ["--no-index"], "without --no-index, and now --no-index"),
        ([], ["--slice-with-offset"], "without --slice-with-offset, and now --slice-with-offset"),
        ([], ["--only-manifests"], "without --only-manifests, and now --only-manifests"),
        (["--shuffle"], ["--no-shuffle"], "with --shuffle, and now --no-shuffle"),
        (["--shuffle", "--shuffle-seed", 1], ["--shuffle-seed", 9], "with --shuffle-seed 1, and now --shuffle-seed 9"),
        (["--remainder", "drop"], ["--remainder", "spread"], "with --remainder drop, and now --remainder spread"),
    ],
)
def test_an_option_that_contradicts_the_set_is_refused_with_both(
    tmp_path: Path, made: list[object], given: list[object], both: str
) -> None:
    out, second = make(tmp_path, *made)
    before = tree(tmp_path)
    done = tarred(second, "--concat-to", out, *BASE, *given)
    assert done.code == 2
    assert f"{out} was made {both} is given: leave it out" in done.error_line
    assert tree(tmp_path) == before


def test_what_the_set_was_made_without_may_be_given(tmp_path: Path) -> None:
    """It converts or limits what is added, and is not an option of the set from then on."""
    out, second = make(tmp_path)
    add(out, second, "--force-codec", "flac", "--max-duration", 5, "--sort-in-shards")
    found = metadata(out, 1)["dataset_config"]
    assert (found["force_codec"], found["max_duration"], found["sort_in_shards"]) == (None, None, False)
    assert {name for name, _ in formats(out, 3)} == {"FLAC"}


def test_the_seed_of_the_set_may_be_given(tmp_path: Path) -> None:
    out, second = make(tmp_path, "--shuffle", "--shuffle-seed", 1)
    add(out, second, "--shuffle-seed", 1)
    (tmp_path / "other").mkdir()
    other, third = make(tmp_path / "other")
    done = tarred(third, "--concat-to", other, *BASE, "--shuffle-seed", 1)
    assert (done.code, "--shuffle-seed has no effect without --shuffle" in done.error_line) == (2, True)


def test_each_version_has_its_own_number_of_bins(tmp_path: Path) -> None:
    out, second = make(tmp_path, "--dynamic-buckets-num", 5)
    add(out, second, "--dynamic-buckets-num", 7)
    found = metadata(out, 1)
    assert (found["prepcli"]["dynamic_buckets_num"], found["dataset_config"]["num_buckets"]) == (7, 7)
    assert found["history"][0]["prepcli"]["dynamic_buckets_num"] == 5
    assert section(out)["num_buckets"] == 7


def test_a_set_that_another_program_has_made(tmp_path: Path) -> None:
    """Its metadata have the keys of NeMo's script alone."""
    out, second = make(tmp_path, "--force-codec", "flac", "--no-index")
    shutil.rmtree(tmp_path / "out.prepcli")
    found = yaml.safe_load((out / "metadata.yaml").read_text())
    del found["prepcli"]
    for codec in ("m4a", "flac"):
        found["dataset_config"]["force_codec"] = codec
        (out / "metadata.yaml").write_text(yaml.safe_dump(found))
        done = tarred(second, "--concat-to", out, *BASE)
        assert (done.code, "metadata.yaml has an option that prepcli cannot follow" in done.err) == (
            (2, True) if codec == "m4a" else (0, False)
        )
    assert {name for name, _ in formats(out, 3)} == {"FLAC"}
    assert not list(out.rglob("*.idx"))
    assert undo(out).code == 0
    assert not (tmp_path / "out.prepcli/train_ds.yaml").exists()


def test_a_bucket_takes_what_is_in_its_range(tmp_path: Path) -> None:
    first = write_lines(tmp_path / "first.json", RECORDS[:30])
    options = ["--num-shards", 1, *BASE, "--buckets-num", 2, "--max-duration", 1]
    assert tarred(first, tmp_path / "out", *options).code == 0
    second = write_lines(tmp_path / "second.json", RECORDS[30:])
    add(tmp_path / "out/bucket1", second)
    durations = [line["duration"] for line in read_lines(tmp_path / "out/bucket1/tarred_audio_manifest_version_1.json")]
    assert max(durations) < 0.5
    assert prepcli("verify", tmp_path / "out").code == 0


def test_a_manifest_that_is_in_the_set_is_refused(tmp_path: Path) -> None:
    out, second = make(tmp_path)
    add(out, second)
    before = tree(tmp_path)
    for manifest in (tmp_path / "first.json", second):
        done = tarred(manifest, "--concat-to", out, *BASE, "--num-shards", 1)
        assert done.code == 2
        assert f"{manifest} is in {out} already; give --allow-duplicates" in done.error_line
    assert tree(tmp_path) == before
    assert add(out, second, "--num-shards", 1, "--allow-duplicates")["records_out"] == 18
    assert len(read_lines(out / "tarred_audio_manifest_version_2.json")) == 66
    # The same command again does nothing, with or without the option.
    for more in ([], ["--allow-duplicates"]):
        done = tarred(second, "--concat-to", out, *BASE, "--num-shards", 1, *more, "--json")
        assert done.json["status"] == "nothing_to_do"


@pytest.mark.parametrize("options", [[], ["--slice-with-offset"], ["--force-codec", "flac"]])
@pytest.mark.parametrize("records", [True, False])
def test_records_that_are_in_the_set_are_refused(tmp_path: Path, options: list[str], records: bool) -> None:
    """Known by file, segment and text; the manifest is another one, and has further fields."""
    corpus = read_lines(MINI_CORPUS / "segments.json")
    first = write_lines(tmp_path / "first.json", corpus[:4])
    base = ["--num-shards", 1, "--audio-base-dir", MINI_CORPUS]
    assert tarred(first, tmp_path / "out", *base, *options).code == 0
    if not records:
        shutil.rmtree(tmp_path / "out.prepcli")
    new = [corpus[4], corpus[5], corpus[1] | {"text": "other words"}, corpus[0] | {"duration": 0.5}]
    second = write_lines(tmp_path / "second.json", [*new, corpus[2] | {"more": 1}, corpus[1]])
    done = tarred(second, "--concat-to", tmp_path / "out", *base)
    assert done.code == 2
    name = corpus[2]["audio_filepath"]
    says = f"2 of 6 records are in {tmp_path}/out already, the first of them {name} ({second}:5); give a manifest"
    assert says in done.error_line
    assert not list((tmp_path / "out").glob("*version_1*"))
    assert tarred(write_lines(second, new), "--concat-to", tmp_path / "out", *base).code == 0
    twice = tarred(
        write_lines(tmp_path / "third.json", corpus[:3]), "--concat-to", tmp_path / "out", *base, "--dry-run"
    )
    assert (twice.code, "3 of 3 records" in twice.error_line) == (2, True)


def test_records_that_the_options_leave_out_do_not_count(tmp_path: Path) -> None:
    """The rest of a manifest, after a part of it by duration."""
    half = write_lines(tmp_path / "half.json", RECORDS)
    assert tarred(half, tmp_path / "out", "--num-shards", 2, *BASE).code == 0
    write_audio(tmp_path / "long.wav", 7.0)
    more = [*RECORDS[:3], {"audio_filepath": str(tmp_path / "long.wav"), "duration": 7.0, "text": "long"}]
    add(tmp_path / "out", write_lines(tmp_path / "more.json", more), "--min-duration", 6.9, "--num-shards", 1)


def test_allow_duplicates_needs_a_set(tmp_path: Path) -> None:
    done = tarred(SHORT_CORPUS / "manifest.json", tmp_path / "out", "--num-shards", 1, "--allow-duplicates")
    assert (done.code, "--allow-duplicates has no effect without --concat-to" in done.error_line) == (2, True)


def test_train_ds_names_the_newest_version(tmp_path: Path) -> None:
    """A file that a user has changed comes back with the version that it was for; one that is changed later stays."""
    out, second = make(tmp_path)
    file = tmp_path / "out.prepcli/train_ds.yaml"
    file.write_text(f"# mine\n{file.read_text()}")
    mine = file.read_text()
    assert add(out, second)["outputs"]["tarred_audio_filepaths"] == section(out)["tarred_audio_filepaths"]
    assert "0..4" in section(out)["tarred_audio_filepaths"]
    assert undo(out).code == 0
    assert file.read_text() == mine
    add(out, second)
    file.write_text("# later\n")
    assert add(out, second)["status"] == "nothing_to_do"
    done = undo(out)
    assert (done.code, file.read_text()) == (0, "# later\n")
    assert f"{file} was changed, and may still name version 1" in done.out


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--no-shard-manifests"], ["--no-index"]])
def test_undo_goes_back_one_version(tmp_path: Path, options: list[str]) -> None:
    out, second = make(tmp_path, *options)
    states = [tree(tmp_path)]
    add(out, second)
    states.append(tree(tmp_path))
    third = write_lines(tmp_path / "third.json", [RECORDS[0]])
    states = [state | {"third.json": tree(third)["."]} for state in states]
    add(out, third, "--allow-duplicates", "--num-shards", 1)
    assert prepcli("index", out).code == 0  # and what it may have added
    whole = tree(tmp_path)
    planned = undo(out, "--dry-run", "--json").json
    assert tree(tmp_path) == whole
    assert planned["version"] == 1
    for version in (1, 0):
        done = undo(out, "--json")
        assert done.code == 0, done.err
        assert done.json["details"]["version"] == version
        assert all(
            Path(file).exists() for name in done.json["outputs"] for file in of_range(done.json["outputs"][name])
        )
        found = tree(tmp_path)
        if options == ["--no-index"]:
            found = {name: digest for name, digest in found.items() if not name.endswith(".idx")}
        assert found == states[version]
        assert prepcli("verify", out).code == 0
    done = undo(out)
    assert (done.code, f"{out} has no earlier version" in done.error_line) == (2, True)
    add(out, second)
    found = tree(tmp_path / "out")
    assert {name: digest for name, digest in found.items() if not name.endswith(".idx")} == {
        name.removeprefix("out/"): digest
        for name, digest in states[1].items()
        if name.startswith("out/") and not name.endswith(".idx")
    }


def test_undo_of_an_addition_that_is_unfinished(tmp_path: Path) -> None:
    """It is not in the way of another one, and has changed nothing in the set."""
    out, second = make(tmp_path)
    before = tree(tmp_path)
    add_killed(out, second, "--num-shards", 4)
    assert tree(out) == tree_below(before, "out")
    other = write_lines(tmp_path / "other.json", RECORDS[30:40])
    add(out, other, "--num-shards", 1)
    assert sorted(path.name for path in out.glob("audio_*.tar")) == [f"audio_{number}.tar" for number in range(4)]
    late = tarred(second, "--concat-to", out, *BASE, "--num-shards", 4)
    assert (late.code, "10 of 18 records are in" in late.error_line) == (2, True)
    for _ in range(2):  # the finished one, then the unfinished one
        assert undo(out).code == 0
        assert tree(out) == tree_below(before, "out")
    other.unlink()
    assert tree(tmp_path) == before


def add_killed(out: Path, manifest: Path, *options: object) -> None:
    """An addition that is killed before its last shard is done, which was to be `audio_4.tar` or `audio_6.tar`."""

    last = f"/units/shard_{6 if 4 in options else 4:06}"

    def is_last(*paths: object) -> bool:
        return str(paths[-1]).endswith(last)

    assert is_killed_before(is_last, lambda: tarred(manifest, "--concat-to", out, *BASE, *options))


def tree_below(found: dict[str, str], name: str) -> dict[str, str]:
    return {path.removeprefix(f"{name}/"): digest for path, digest in found.items() if path.startswith(f"{name}/")}


def test_undo_is_refused_while_the_addition_runs(tmp_path: Path) -> None:
    out, second = make(tmp_path)
    add_killed(out, second)
    workspace = version_workspace(out, 1)
    other = workspace.owner._replace(pid=os.getppid(), started=0)
    progress = new_progress(detect_rank({}, None, None, None), other)
    write_json(progress_file(workspace, 0), progress, durable=False)
    before = tree(tmp_path)
    done = undo(out)
    assert (done.code, tree(tmp_path)) == (2, before)
    assert f"rank 0 is at work on version 1 of {out} (process {progress.pid} on " in done.error_line
    progress.state = "interrupted"
    write_json(progress_file(workspace, 0), progress, durable=False)
    assert undo(out).code == 0


def test_undo_of_an_unfinished_addition_that_is_finished_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It removed the state of the addition, whose files stayed in the set."""
    out, second = make(tmp_path)
    add_killed(out, second)
    checked = undoing._check_unchanged

    def meanwhile(addition: object) -> None:
        checked(addition)  # type: ignore[arg-type]
        add(out, second)

    monkeypatch.setattr(undoing, "_check_unchanged", meanwhile)
    done = undo(out)
    assert (done.code, "version 1 was finished meanwhile" in done.error_line) == (2, True)
    monkeypatch.undo()
    assert prepcli("verify", out).code == 0
    assert undo(out).code == 0
    assert prepcli("verify", out).code == 0


def test_undo_keeps_a_file_of_others_in_the_place_of_a_shard(tmp_path: Path) -> None:
    out, second = make(tmp_path)
    add_killed(out, second)
    tar = out / "audio_4.tar"
    tar.write_bytes(b"of others")
    refused = tarred(second, "--concat-to", out, *BASE)
    assert (refused.code, f"{tar} is there already" in refused.error_line) == (2, True)
    assert undo(out).code == 0
    assert tar.read_bytes() == b"of others"
    assert not (out / "audio_3.tar").exists()


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--no-shard-manifests"]])
def test_readers_of_a_folder_see_the_version_that_is_whole(tmp_path: Path, options: list[str]) -> None:
    out, second = make(tmp_path, *options)

    def reads() -> list[Any]:
        bins = prepcli("estimate-bins", out, "-b", 2, "--json").json["num_examples"]
        inspected = prepcli("inspect", out, "--json").json["records"]
        indexed = prepcli("index", out, "--check", "--json").json["files"]
        return [bins, inspected, indexed]

    before = reads()
    assert before[:2] == [30, 30]
    add(out, second)
    after = reads()
    assert after[:2] == [48, 48]
    assert undo(out).code == 0
    assert reads() == before
    add_killed(out, second)
    assert reads() == before
    assert prepcli("verify", out).code == 0


def test_undo_removes_nothing_that_it_does_not_know(tmp_path: Path) -> None:
    out, second = make(tmp_path)
    add(out, second)
    tar = out / "audio_4.tar"
    data = tar.read_bytes()
    os.utime(tar)  # another time alone is not another content
    assert undo(out, "--dry-run").code == 0
    for content in (data + b"\0" * 512, data[:-1] + b"\1"):
        tar.write_bytes(content)
        before = tree(tmp_path)
        done = undo(out)
        assert done.code == 2
        assert f"{tar} is not the file that --concat-to has written: move it away" in done.error_line
        assert tree(tmp_path) == before
    tar.rename(tmp_path / "kept.tar")
    shutil.copytree(tmp_path / "out.prepcli", tmp_path / "away")
    for folder in (tmp_path / "out.prepcli").glob("*/units/shard_000004"):
        shutil.rmtree(folder.parents[1])
    done = undo(out)
    assert (done.code, "what --concat-to has written for version 1" in done.error_line) == (2, True)
    shutil.rmtree(tmp_path / "out.prepcli")
    (tmp_path / "away").rename(tmp_path / "out.prepcli")
    (out / "audio_4.tar.mine").write_text("")
    assert undo(out).code == 0
    assert sorted(path.name for path in out.glob("audio_*")) == sorted(
        ["audio_4.tar.mine", *(f"audio_{number}.tar{end}" for number in range(3) for end in ("", ".idx"))]
    )


def test_records_without_a_text_are_counted(tmp_path: Path) -> None:
    records = [RECORDS[0] | {"text": ""}, RECORDS[1] | {"text": None}, dict(RECORDS[2]), *RECORDS[3:6]]
    del records[2]["text"]
    done = tarred(write_lines(tmp_path / "m.json", records), tmp_path / "out", "--num-shards", 2, *BASE, "--json")
    assert (done.code, done.json["records_out"]) == (0, 6)
    assert done.json["details"]["without_text"].startswith("3 records; ")


def test_new_records_for_a_set_that_exists(tmp_path: Path) -> None:
    """--overwrite is not the way to add them, so the way is said first."""
    out, second = make(tmp_path)
    done = tarred(second, out, "--num-shards", 3, *BASE)
    assert (done.code, "To add records to it, give --concat-to instead. Choose" in done.error_line) == (2, True)
    done = tarred(tmp_path / "first.json", out, "--num-shards", 2, *BASE)
    assert (done.code, "--concat-to" in done.error_line) == (2, False)


def test_undo_can_name_what_was_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, second = make(tmp_path)
    add(out, second)
    done = tarred(tmp_path / "first.json", "--concat-to", out, "--undo-concat")
    assert (done.code, f"the last addition to {out} (version 1) was {second}, not" in done.error_line) == (2, True)
    monkeypatch.chdir(tmp_path)
    done = tarred(second, "--concat-to", "out", *BASE, "--undo-concat", "--json")
    assert done.code == 0, done.err
    assert done.json["outputs"]["tarred_audio_filepaths"] == f"{out}/audio__OP_0..2_CL_.tar"
    done = tarred("--undo-concat", out)
    assert (done.code, "has no earlier version" in done.error_line) == (2, True)
    done = undo(tmp_path / "nothing")
    assert (done.code, "--undo-concat needs the folder of a set" in done.error_line) == (2, True)
    done = undo(out, "--rank", 0, "--world-size", 2)
    assert (done.code, "run it once, without ranks" in done.error_line) == (2, True)


def test_undo_without_a_name_does_not_touch_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, second = make(tmp_path)
    add(out, second)
    before = tree(out)
    monkeypatch.chdir(out)
    done = tarred("--undo-concat")
    assert (done.code, "--undo-concat needs the folder of a set" in done.error_line) == (2, True)
    assert tree(out) == before


def killed_before_change(step: int, work: Callable[[], object]) -> bool:
    """Do the work in a process that ends abruptly before its `step`th change of a name; whether it came so far."""
    left = iter(range(step, -1, -1))
    return is_killed_before(lambda *_: next(left) == 0, work)


def is_killed_before(is_reached: Callable[..., bool], work: Callable[[], object]) -> bool:
    """Do the work in a process that ends abruptly before a change of a name; whether it came so far."""
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1] != 0

    def until_killed(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any, **keywords: Any) -> Any:
            if is_reached(*arguments):
                os._exit(9)
            return change(*arguments, **keywords)

        return changed

    for name in ("unlink", "rename", "replace", "rmdir"):
        setattr(os, name, until_killed(getattr(os, name)))
    code = 0
    try:
        work()
    except BaseException:
        code = 1
    os._exit(code)


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--no-shard-manifests"]])
def test_an_undo_that_is_killed_leaves_a_version_and_can_be_repeated(tmp_path: Path, options: list[str]) -> None:
    """Killed before each of its steps: the set is whole at one of its versions, and the repetition completes it."""
    (tmp_path / "made").mkdir()
    out, second = make(tmp_path / "made", *options)
    before = tree(tmp_path / "made")
    add(out, second)
    states = set()
    for step in range(200):
        folder = tmp_path / str(step)
        shutil.copytree(tmp_path / "made", folder)
        is_killed = killed_before_change(step, lambda folder=folder: undo(folder / "out"))  # type: ignore[misc]
        number = len(list((folder / "out").glob("metadata_version_1.yaml")))
        assert prepcli("estimate-bins", folder / "out", "-b", 2, "--json").json["num_examples"] == (30, 48)[number]
        if not is_killed:
            break
        checked = prepcli("verify", folder / "out")
        is_pending = json.loads((folder / "out.prepcli/owner.json").read_text())["pending"] is not None
        states.add((number, is_pending))
        assert checked.code == (2 if is_pending else 0)
        assert ("or that was interrupted; complete it with: cd " in checked.err) == is_pending
        repeated = undo(folder / "out")
        if number or is_pending:
            assert repeated.code == 0, repeated.err
        else:
            assert "has no earlier version" in repeated.error_line
        for left in (*(folder / "out.prepcli").glob(".*~*"), *(folder / "out.prepcli").glob("commit.lock*")):
            left.unlink()
        assert tree(folder) == before
        shutil.rmtree(folder)
    assert step > 20
    assert states == {(0, True), (0, False), (1, True), (1, False)}
    assert tree(folder) == before


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--no-shard-manifests"]])
def test_an_addition_that_is_killed_leaves_a_version_and_can_be_repeated(tmp_path: Path, options: list[str]) -> None:
    """Killed before each of its steps: what `train_ds.yaml` names is there, and what a folder has is whole."""
    (tmp_path / "made").mkdir()
    make(tmp_path / "made", *options)
    out, command = tmp_path / "run/out", ("--concat-to", tmp_path / "run/out", *BASE)
    whole: dict[str, str] = {}
    seen = set()
    for step in range(400):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(tmp_path / "made", tmp_path / "run")
        is_killed = killed_before_change(step, lambda: tarred(tmp_path / "run/second.json", *command))
        number = len(list(out.glob("metadata_version_1.yaml")))
        assert prepcli("estimate-bins", out, "-b", 2, "--json").json["num_examples"] == (30, 48)[number]
        named = [of_range(section(out)[name]) for name in ("tarred_audio_filepaths", "manifest_filepath")]
        # The paths of the first folder stand there until the addition names its own.
        assert all(Path(path.replace("/made/", "/run/")).is_file() for paths in named for path in paths)
        seen.add((number, len(named[0])))
        done = tarred(tmp_path / "run/second.json", *command)
        assert done.code == 0, done.err
        whole = whole or tree(out)
        assert tree(out) == whole
        assert "0..4" in section(out)["tarred_audio_filepaths"]
        if not is_killed:
            break
    assert step > 20
    assert seen == {(0, 3), (1, 3), (1, 5)}
