"""`prepcli index`, and the indexes that manifest-to-tarred, manifest-to-shar and extend-codec-codes write."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from prepcli.commands.index import indexing as index_files
from prepcli.commands.index.sets import DataFile
from prepcli.formats.indexes import make_index, mirrored
from prepcli.manifest.sources import expand_paths
from tests.commands.index.conftest import CONTEXT, PLAIN
from tests.conftest import SHORT_CORPUS, copy_set, make_set, read_lines, tree, write_lines
from tests.support.running import Outcome, prepcli
from tests.support.toy_codec import use_toy_codec


def indexes_in(folder: Path) -> dict[str, str]:
    return {name: digest for name, digest in tree(folder).items() if name.endswith(".idx")}


def index(*arguments: object) -> Outcome:
    return prepcli("index", *arguments)


def pasted(done: Outcome) -> dict[str, Any]:
    """The YAML that a command has printed."""
    lines = done.out.partition("config_with_indexes\n")[2].splitlines()
    text = "\n".join(line[4:] for line in lines if line.startswith("    "))
    config = yaml.safe_load(text)
    assert isinstance(config, dict)
    return config


def kind_of(path: Path) -> Any:
    return "jsonl" if "json" in path.name else "nemo_tar" if path.name.startswith("audio_") else "shar_tar"


def test_a_file_for_the_folder_of_indexes(sets: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = index(sets / "bare", "--indexes-root", tmp_path / "file")
    assert (done.code, done.out) == (2, "")
    assert "is a file; give a folder" in done.error_line


def test_a_tarred_set_has_indexes(sets: Path) -> None:
    found = indexes_in(sets / "tarred")
    names = [name for n in range(3) for name in (f"audio_{n}.tar", f"sharded_manifests/manifest_{n}.json")]
    assert sorted(found) == sorted(f"{name}.idx" for name in names)
    for name in names:
        data, own = sets / "tarred" / name, sets / f"tarred/{name}.idx"
        assert own.read_bytes() == make_index(data, kind_of(data))
        assert own.stat().st_mtime_ns >= data.stat().st_mtime_ns
    assert indexes_in(sets / "bare") == {}


def test_the_command_writes_what_the_job_writes(sets: Path, tmp_path: Path) -> None:
    out = copy_set(sets / "bare", tmp_path)
    plan = index(out, "--dry-run", "--json").json
    assert (plan["status"], plan["written"]) == ("dry_run", 6)
    assert tree(out) == tree(sets / "bare")
    done = index(out, "--json").json
    assert (done["status"], done["written"], done["records"], done["problems"]) == ("done", 6, 96, [])
    assert indexes_in(out) == indexes_in(sets / "tarred")
    again = index(out)
    assert (again.code, again.out) == (0, f"index: nothing to do, {out}\n")
    assert index(out, "--check").code == 0
    assert prepcli("verify", out).code == 0


def test_ranks_share_the_files(sets: Path, tmp_path: Path) -> None:
    out = copy_set(sets / "bare", tmp_path)
    counts = [index(out, "--rank", rank, "--world-size", 4, "--json").json["written"] for rank in range(4)]
    assert counts == [2, 2, 1, 1]
    assert indexes_in(out) == indexes_in(sets / "tarred")


def test_a_shar_set_with_indexes(sets: Path, tmp_path: Path) -> None:
    out = sets / "shar"
    data = [path for path in out.rglob("*") if path.is_file() and path.suffix != ".idx"]
    assert {path.parent.name for path in data} == {"cuts", "target_audio", "context_audio"}
    assert {path.suffix for path in (out / "cuts").iterdir()} == {".jsonl"}
    for path in data:
        own = out / "index" / mirrored(path)
        assert own.read_bytes() == make_index(path, kind_of(path))
        assert own.stat().st_mtime_ns >= path.stat().st_mtime_ns
    assert len(indexes_in(out)) == len(data)
    again = prepcli("manifest-to-shar", CONTEXT, out, "--shard-size", 20, "--indexed", "--audio-format", "wav")
    assert (again.code, "nothing to do" in again.out) == (0, True)
    copy = copy_set(out, tmp_path)
    shutil.rmtree(copy / "index")
    assert index(copy).code == 0
    assert sorted(indexes_in(copy).values()) == sorted(indexes_in(out).values())
    assert index(copy, "--index-beside", "--json").json["written"] == len(data)
    assert (copy / "cuts/cuts.000000.jsonl.idx").exists()


def test_without_the_option_shar_sets_are_as_before(tmp_path: Path) -> None:
    make_set("manifest-to-shar", PLAIN, tmp_path / "out", "--shard-size", 24, "--audio-format", "original")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["cuts", "recording"]
    done = index(tmp_path / "out")
    assert done.code == 2
    compressed = "cuts.000000.jsonl.gz is compressed, and nothing can seek in it"
    assert f"{compressed}: make the set again with manifest-to-shar --indexed" in done.error_line


def test_stale_indexes_are_named(sets: Path, tmp_path: Path) -> None:
    out = copy_set(sets / "bare", tmp_path)
    index(out)
    lines = out / "sharded_manifests/manifest_1.json"
    whole = out / "tarred_audio_manifest.json"
    texts = [path.read_bytes() for path in (lines, whole)]
    for path in (lines, whole):  # a text is corrected: the lines behind it begin elsewhere
        path.write_bytes(path.read_bytes().replace(b"Die", b"Diese", 1).replace(b"Im Garten", b"In dem Garten", 1))
        assert path.read_bytes() not in texts
    for call in (index(out, "--check"), prepcli("verify", out)):
        assert call.code == 1, call.out
        assert "manifest_1.json" in call.out
        assert "readers do not notice and read wrong bytes" in call.out
    assert "1 problems" in index(out, "--check").out
    assert index(out, "--json").json["written"] == 1
    assert index(out, "--check").code == 0
    assert prepcli("verify", out).code == 0


def test_stale_indexes_of_a_shar_set_are_named(sets: Path, tmp_path: Path) -> None:
    out = copy_set(sets / "shar", tmp_path)
    assert index(out, "--rebase").code == 0
    own = out / "index" / mirrored(out / "target_audio/recording.000001.tar")
    offsets = own.read_bytes()
    own.write_bytes(offsets[8:16] + offsets[8:])
    checked = prepcli("verify", out)
    assert checked.code == 1
    assert "target_audio/recording.000001.tar.idx: its record 0 begins at byte" in checked.out
    done = index(out, "--check")
    assert (done.code, "recording.000001.tar: is not what its index" in done.out) == (1, True)


def test_what_check_finds(sets: Path, tmp_path: Path) -> None:
    out = copy_set(sets / "bare", tmp_path)
    index(out)
    tar = out / "audio_0.tar"
    own = Path(f"{tar}.idx")
    right = own.read_bytes()
    own.write_bytes(right[:-8])
    assert "16 records" not in index(out, "--check").out
    assert "it has 15 records, the data 16" in index(out, "--check").out
    own.unlink()
    assert "has no index; readers make one in every process" in index(out, "--check").out
    own.write_bytes(right)
    os.utime(own, ns=(0, tar.stat().st_mtime_ns - 10**9))
    assert "is newer than its index, which fits" in index(out, "--check").out
    assert prepcli("verify", out).code == 0  # a copy may have given the files any age
    assert index(out, "--json").json["written"] == 1
    assert index(out, "--check").code == 0


def test_a_damaged_tar_is_a_problem_and_the_rest_goes_on(sets: Path, tmp_path: Path) -> None:
    out = copy_set(sets / "bare", tmp_path)
    tar = out / "audio_1.tar"
    tar.write_bytes(tar.read_bytes()[:-11000])  # of them 10,240 for the end of a tar, at most
    done = index(out, "--json")
    assert done.code == 1
    (problem,) = done.json["problems"]
    assert problem.startswith(f"{tar}: has no index: it is cut off in the member at byte")
    assert (done.json["written"], done.json["status"]) == (5, "broken")
    assert not Path(f"{tar}.idx").exists()


def test_data_that_change_meanwhile_get_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"{}\n")

    def slow_index(data: Path, kind: Any) -> bytes:
        found = make_index(data, kind)
        data.write_bytes(b"{}\n{}\n")
        return found

    monkeypatch.setattr(index_files, "make_index", slow_index)
    outcome = index_files.write_index(DataFile(path, "jsonl", Path(f"{path}.idx")))
    assert outcome.problem is not None
    assert "it was changed while it was read" in outcome.problem
    assert sorted(one.name for one in tmp_path.iterdir()) == ["x.jsonl"]


def test_an_index_that_the_disk_does_not_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It must be on the disk before it has its name: after a power failure readers would not notice."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"{}\n")

    def fail(file: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    assert index(path).code == 1
    assert [one.name for one in tmp_path.iterdir()] == ["x.jsonl"]


def test_an_index_is_never_older_than_its_data(tmp_path: Path) -> None:
    """Also where the clock of the file system is behind."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"{}\n")
    later = path.stat().st_mtime_ns + 3600 * 10**9
    os.utime(path, ns=(later, later))
    assert index(path).code == 0
    assert (tmp_path / "x.jsonl.idx").stat().st_mtime_ns >= later
    assert "nothing to do" in index(path).out


def test_drafts_of_killed_processes_go(tmp_path: Path) -> None:
    """Those in which nothing has been written for an hour: others may belong to a process at work."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"{}\n")
    new, old = (tmp_path / f".x.jsonl.idx~{name}" for name in ("new", "old"))
    for draft in (new, old):
        draft.write_bytes(b"half")
    os.utime(old, (0, 0))
    assert index(path).code == 0
    assert new.exists()
    assert not old.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "missing argument"),
        (["x", "--check", "--overwrite"], "--overwrite has no effect with --check: leave one of them out"),
        (["x", "--rebase", "--index-beside"], "--index-beside has no effect with --rebase"),
        (["x", "--indexes-root", "d", "--index-beside"], "name two places"),
    ],
)
def test_options_that_exclude_each_other(options: list[str], message: str) -> None:
    done = index(*options)
    assert done.code == 2
    assert message in done.err


@pytest.mark.slow
@pytest.mark.torch
def test_codes_of_a_set_with_indexes(sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toy_codec(monkeypatch.setattr)
    shar = copy_set(sets / "shar", tmp_path)
    assert index(shar, "--rebase").code == 0
    arguments = ("--codec-model", "toy", "--codec-name", "x", "--devices", "cpu", "--num-workers", 1)
    done = prepcli("extend-codec-codes", shar, *arguments)
    assert done.code == 0, done.err
    config = pasted(done)
    assert set(config["input_cfg"][0]["shar_path"]) == {
        "cuts", "target_audio", "context_audio", "target_codes", "context_codes",
    }  # fmt: skip
    assert index(shar, "--check", "--json").json["files"] == 15
    assert prepcli("verify", shar).code == 0
    elsewhere = tmp_path / "codes only"
    done = prepcli("extend-codec-codes", shar, "--output-dir", elsewhere, *arguments)
    root = Path(pasted(done)["indexes_root"])
    assert root == elsewhere / "index"
    for spec in pasted(done)["input_cfg"][0]["shar_path"].values():
        assert all((root / mirrored(path)).exists() for path in expand_paths(spec))
    assert index(elsewhere, "--check").code == 0
    # The indexes of a set without a mirror lie beside the data, and so do those of its codes.
    shutil.rmtree(shar / "index")
    assert index(shar, "--index-beside").code == 0
    done = prepcli("extend-codec-codes", shar, *arguments, "--overwrite")
    assert done.code == 0, done.err
    assert not (shar / "index").exists()
    assert (shar / "codes_x/target_codes/codes.000002.tar.idx").exists()


@pytest.mark.torch
def test_codes_of_a_set_without_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toy_codec(monkeypatch.setattr)
    make_set("manifest-to-shar", PLAIN, tmp_path / "shar", "--shard-size", 48, "--audio-format", "wav")
    arguments = ("--codec-model", "toy", "--codec-name", "x", "--devices", "cpu", "--num-workers", 1)
    done = prepcli("extend-codec-codes", tmp_path / "shar", *arguments)
    assert (done.code, "config_with_indexes" in done.out) == (0, False)
    assert indexes_in(tmp_path / "shar") == {}


def test_long_names_are_warned_of(tmp_path: Path) -> None:
    name = "a" * 90 + ".wav"
    shutil.copy(SHORT_CORPUS / read_lines(PLAIN)[0]["audio_filepath"], tmp_path / name)
    record = read_lines(PLAIN)[0] | {"audio_filepath": name}
    manifest = write_lines(tmp_path / "m.json", [record])
    done = prepcli("manifest-to-shar", manifest, tmp_path / "out", "--indexed", "--audio-format", "original")
    assert "1 cut has ids of more than 100 bytes with the extension; lhotse 2 misreads their audio" in done.out
    plain = prepcli("manifest-to-shar", manifest, tmp_path / "gz", "--audio-format", "original")
    assert "misreads" not in plain.out
