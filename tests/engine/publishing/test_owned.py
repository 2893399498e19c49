"""Only what a run has noted as its own, and what is as it has written it, is ever removed or replaced."""

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prepcli.engine.publishing.owned import Owned, set_aside
from prepcli.engine.publishing.publish import UnitWriter
from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.run import run_job
from prepcli.engine.state import workspace as workspace_module
from prepcli.engine.state.plan import StoredPlan, Unit
from prepcli.engine.state.workspace import Workspace, write_json
from prepcli.errors import PrepcliError, UsageError
from tests.conftest import SHORT_CORPUS, read_lines, tree
from tests.engine.toy import ToyJob
from tests.support.old_records import record_as_0_3
from tests.support.running import Outcome, prepcli

MANIFEST = SHORT_CORPUS / "manifest.json"
OPTIONS = RunOptions(budget=Budget(1))
MINE = b"of the user"


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(MINE)
    return path


def tarred(out: Path, *more: object, shards: int = 2) -> Outcome:
    return prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", shards, *more)


COMMANDS: dict[str, tuple[tuple[object, ...], tuple[str, ...]]] = {
    "manifest-to-tarred": (("--num-shards", 2), ("audio_backup.tar", "audio_1.old.tar", "metadata-mine.yaml")),
    "manifest-to-parquet": ((), ("data-mine.parquet", "data-000000.old.parquet")),
    "manifest-to-wenet": ((), ("shards_backup.tar", "shards_0000000000.tar", "my.list")),
    "convert-audio": ((), ("s01/mine.flac", "mine.json")),
    "manifest-to-mels": (("--devices", "cpu"), ("mels/mine.pt", "filelists/mine.txt")),
    "manifest-to-shar": (("--shard-size", 24), ("cuts/cuts.mine.jsonl.gz", "target_audio/recording.mine.tar")),
}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("command", COMMANDS)
def test_overwrite_keeps_what_others_have_put_among_the_files_of_a_set(command: str, tmp_path: Path) -> None:
    options, names = COMMANDS[command]
    out = tmp_path / "out"
    assert prepcli(command, MANIFEST, out, *options).code == 0
    made = tree(out)
    for name in names:
        put(out / name)
    before = tree(out)
    done = prepcli(command, MANIFEST, out, *options, "--overwrite")
    assert done.code == 0, done.err
    assert f"note: removing {len(made)} file(s) that the run of {command} of " in done.err
    assert f"{len(names)} other file(s) there stay, such as {min(names)}" in done.err
    assert tree(out).keys() == before.keys()
    assert all((out / name).read_bytes() == MINE for name in names)


@pytest.mark.parametrize("name", ["audio_7.tar", "sharded_manifests/manifest_7.json.idx", "metadata_version_1.yaml"])
@pytest.mark.parametrize("has_records", [True, False])
def test_what_readers_would_take_for_a_part_of_the_set(name: str, has_records: bool, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert tarred(out, shards=4).code == 0
    put(out / name)
    if not has_records:
        shutil.rmtree(tmp_path / "out.prepcli")
    before = tree(tmp_path)
    refused = tarred(out, "--overwrite")
    assert (refused.code, tree(tmp_path)) == (2, before)
    assert "holds 1 file(s)" in refused.error_line or not has_records
    assert name in refused.error_line or not has_records
    assert ("which would tell how they were made, is not there" in refused.error_line) == (not has_records)
    if has_records:
        (out / name).unlink()
        assert tarred(out, "--overwrite").code == 0
        assert not (out / "audio_2.tar").exists()


@pytest.fixture
def kaldi(tmp_path: Path) -> Path:
    """A Kaldi directory with a command for each recording; its audio lies in the folder for audio of `m.json`."""
    (tmp_path / "kaldi").mkdir()
    (tmp_path / "m_audio").mkdir()
    for number, record in enumerate(read_lines(MANIFEST)[:2]):
        shutil.copy(SHORT_CORPUS / record["audio_filepath"], tmp_path / f"m_audio/source{number}.wav")
    lines = (f"u{number} cat {tmp_path}/m_audio/source{number}.wav |\n" for number in range(2))
    (tmp_path / "kaldi/wav.scp").write_text("".join(lines))
    return tmp_path / "kaldi"


def make(source: Path, out: Path, *more: object) -> Outcome:
    return prepcli("make-manifest", source, out, *more, "--json")


def test_audio_that_commands_read_is_kept(kaldi: Path, tmp_path: Path) -> None:
    """What the commands have made is removed, unless one of them reads it."""
    out = tmp_path / "m.json"
    assert make(kaldi, out, "--run-commands").json["records_out"] == 2
    assert make(kaldi, out, "--run-commands", "--overwrite").code == 2  # a command names the whole folder
    for path in (tmp_path / "m_audio").glob("source*"):
        path.rename(tmp_path / path.name)
    scp = kaldi / "wav.scp"
    scp.write_text(scp.read_text().replace("m_audio/", ""))
    put(tmp_path / "m_audio/mine.wav")
    done = make(kaldi, out, "--run-commands", "--overwrite")
    assert (done.code, done.json["records_out"]) == (0, 2)
    assert "removing 3 file(s)" in done.err
    (tmp_path / "link").symlink_to("m_audio")
    scp.write_text(f"u0 sox <'{tmp_path}/link/u1.flac' |\n")
    before = tree(tmp_path)
    refused = make(kaldi, out, "--run-commands", "--overwrite")
    assert (refused.code, tree(tmp_path)) == (2, before)
    assert "link/u1.flac (it is " in refused.error_line


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_transcript_is_an_input(is_ours: bool, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(SHORT_CORPUS / read_lines(MANIFEST)[0]["audio_filepath"], data / "u0.wav")
    out = data / "u0.json"
    if is_ours:
        assert make(data, out).code == 0
    else:
        out.write_text("a transcript")
    before = tree(data)
    refused = make(data, out, "--text-suffix", ".json", "--overwrite")
    assert (refused.code, tree(data)) == (2, before)
    assert f"the input {out} lies where this command writes its output" in refused.error_line


def test_audio_made_by_an_earlier_run_is_an_input(kaldi: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.json"
    assert make(kaldi, out, "--run-commands").code == 0
    before = tree(tmp_path)
    refused = make(tmp_path / "m_audio", out, "--overwrite")
    assert (refused.code, tree(tmp_path)) == (2, before)
    assert "m_audio/u0.flac lies where this command writes" in refused.error_line


def test_the_files_of_another_command_are_not_removed(tmp_path: Path) -> None:
    """They may be its inputs, and then it would find nothing."""
    out = tmp_path / "out"
    assert tarred(out).code == 0
    before = tree(tmp_path)
    refused = prepcli("manifest-to-wenet", MANIFEST, out, "--overwrite")
    assert (refused.code, tree(tmp_path)) == (2, before)
    assert "that manifest-to-tarred has written; manifest-to-wenet does not remove them" in refused.error_line


def killed_at(
    monkeypatch: pytest.MonkeyPatch, function: str, when: Callable[..., bool], run: Callable[[], object]
) -> None:
    """Run in a process that is killed, with its workers, when it calls a function of `os` for which `when` is true."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        real = getattr(os, function)

        def dying(*arguments: object, **more: object) -> object:
            if when(*arguments):
                os.killpg(0, signal.SIGKILL)
            return real(*arguments, **more)

        monkeypatch.setattr(os, function, dying)
        try:
            run()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("unit", ["unit_003", "finish"])
@pytest.mark.parametrize("continues", [True, False])
def test_a_kill_between_publishing_and_marking_leaves_no_file_without_owner(
    unit: str, continues: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    killed_at(
        monkeypatch,
        "replace",
        lambda source, target: str(target).endswith(f"done/{unit}.json"),
        lambda: run_job(ToyJob(out, num_units=8), Workspace(out), OPTIONS),
    )
    assert (out / ("all.txt" if unit == "finish" else f"{unit}.txt")).exists()
    number = 8 if continues else 3
    run_job(ToyJob(whole, num_units=number), Workspace(whole), OPTIONS)
    report = run_job(ToyJob(out, num_units=number), Workspace(out), replace(OPTIONS, overwrite=not continues))
    assert report.status == "done"
    assert tree(out) == tree(whole)
    assert list(Workspace(out).owned.glob("*.json")) == []


@pytest.mark.parametrize("field", ["mtime_ns", "all"])
def test_records_of_an_earlier_version(field: str, tmp_path: Path) -> None:
    """It noted SHA-256 and no times: then the content decides. What it has not marked, because it was killed, stays."""
    out = tmp_path / "out"
    run_job(ToyJob(out, num_units=4), Workspace(out), OPTIONS)
    workspace = Workspace(out)
    record_as_0_3(out, mtime_ns=0)
    if field == "all":
        (workspace.done / "unit_001.json").unlink()
    assert run_job(ToyJob(out, num_units=4), Workspace(out), OPTIONS).status == (
        "done" if field == "all" else "nothing_to_do"
    )
    again = replace(OPTIONS, overwrite=True)
    if field == "all":
        with pytest.raises(UsageError, match=r"take for a part of the new set, .*: unit_001.txt\. Nothing was removed"):
            run_job(ToyJob(out, num_units=2), Workspace(out), again)
        (out / "unit_001.txt").unlink()
        (out / "list/unit_001.txt").unlink()
    run_job(ToyJob(out, num_units=1), Workspace(out), again)
    assert tree(out).keys() == {"unit_000.txt", "list/unit_000.txt", "all.txt"}


def test_a_file_of_others_in_the_place_of_one_that_a_unit_publishes(tmp_path: Path) -> None:
    """No pattern has it, because no reader would look for it. Of the very content, it stays and is not ours."""
    out, whole = tmp_path / "out", tmp_path / "whole"
    run_job(ToyJob(whole), Workspace(whole), OPTIONS)
    mine = put(out / "list/unit_002.txt")
    with pytest.raises(UsageError, match=r"list/unit_002.txt is there already, and no record in"):
        run_job(ToyJob(out), Workspace(out), OPTIONS)
    assert mine.read_bytes() == MINE
    shutil.copy(whole / "list/unit_002.txt", mine)
    state = mine.stat()
    assert run_job(ToyJob(out), Workspace(out), OPTIONS).status == "done"
    assert tree(out) == tree(whole)
    assert run_job(ToyJob(out, num_units=2), Workspace(out), replace(OPTIONS, overwrite=True)).status == "done"
    assert (mine.stat().st_ino, mine.stat().st_mtime_ns) == (state.st_ino, state.st_mtime_ns)


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + MINE)


def replace_by_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def protect(path: Path) -> None:
    path.chmod(0o444)


def copy_over(path: Path) -> None:
    """Its content stays, and so it is ours."""
    shutil.copyfile(shutil.copyfile(path, path.with_name("copy")), path)


@pytest.mark.parametrize("records", ["xxh3", "sha256"])
@pytest.mark.parametrize("change", [append, replace_by_link, protect, copy_over])
def test_a_file_of_ours_that_has_changed(change: Callable[[Path], None], records: str, tmp_path: Path) -> None:
    """`--overwrite` does not remove it; a unit that is done again moves it aside."""
    out, whole = tmp_path / "out", tmp_path / "whole"
    run_job(ToyJob(out), Workspace(out), OPTIONS)
    run_job(ToyJob(whole, seed=1), Workspace(whole), OPTIONS)
    if records == "sha256":
        record_as_0_3(out)
    change(out / "unit_002.txt")
    before = tree(out)
    again = replace(OPTIONS, overwrite=True)
    if change is copy_over:
        run_job(ToyJob(out, seed=1), Workspace(out), again)
        (out / "copy").unlink()
        assert tree(out) == tree(whole)
        return
    with pytest.raises(UsageError, match=r"unit_002.txt \(changed since\)\. Nothing was removed"):
        run_job(ToyJob(out, seed=1), Workspace(out), again)
    assert tree(out) == before
    (out / "list/unit_002.txt").unlink()  # so that the unit is done again
    run_job(ToyJob(out), Workspace(out), OPTIONS)
    kept = tmp_path / "out.prepcli/kept/unit_002.txt"
    assert kept.is_symlink() if change is replace_by_link else kept.read_bytes().startswith(b"record 8")
    (out / "elsewhere").unlink(missing_ok=True)
    assert {name for name, digest in tree(out).items() if digest != before.get(name)} <= {"unit_002.txt"}
    assert run_job(ToyJob(out, seed=1), Workspace(out), again).status == "done"
    assert tree(out) == tree(whole)


def test_indexes_go_with_their_data(tmp_path: Path) -> None:
    """Those of `prepcli index`, or of a reader that makes them itself; not what only has such a name."""
    out = tmp_path / "out"
    assert tarred(out, "--no-index").code == 0
    assert prepcli("index", out).code == 0
    assert tarred(out, "--no-index", "--overwrite").code == 0
    assert not list(out.rglob("*.idx"))
    put(out / "audio_1.tar.idx")
    before = tree(out)
    refused = tarred(out, "--no-index", "--overwrite")
    assert (refused.code, tree(out)) == (2, before)
    assert "audio_1.tar.idx. Nothing was removed" in refused.error_line


def test_an_edited_training_config_is_kept(tmp_path: Path) -> None:
    out, config = tmp_path / "out", tmp_path / "out.prepcli/train_ds.yaml"
    assert tarred(out).code == 0
    written = config.read_text()
    assert tarred(out, "--overwrite").code == 0
    assert not (tmp_path / "out.prepcli/kept").exists()
    config.write_text(written + "# mine\n")
    assert tarred(out, "--overwrite", shards=3).code == 0
    assert (tmp_path / "out.prepcli/kept/train_ds.yaml").read_text() == written + "# mine\n"
    assert "0..2" in config.read_text()


def test_the_name_of_a_file_that_is_kept_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power failure must not lose it: it is in no other place."""
    workspace, flushed = Workspace(tmp_path / "out"), []
    workspace.prepare()
    monkeypatch.setattr(workspace_module, "flush_folders", lambda folders: flushed.extend(folders))
    set_aside(workspace, put(tmp_path / "out/mine.txt"), "mine.txt")
    assert (tmp_path / "out.prepcli/kept/mine.txt").read_bytes() == MINE
    assert tmp_path / "out.prepcli/kept" in flushed


def test_a_file_that_a_unit_makes_no_more_remains_ours(tmp_path: Path) -> None:
    """Done again with fewer files, its earlier marker is kept as a note of the others."""
    workspace, unit = Workspace(tmp_path / "out"), Unit("unit_000", cost=1.0, num_records=0)
    workspace.prepare()
    for names in (("a.txt", "b.txt"), ("a.txt",)):
        with UnitWriter(workspace, "digest", unit) as writer:
            for name in names:
                writer.open(name).write(name.encode())
            writer.publish()
        workspace = Workspace(tmp_path / "out")
    noted = Owned(workspace)
    assert noted.files.keys() == {"a.txt", "b.txt"}
    assert noted.fits(workspace.out / "b.txt", "b.txt", (tmp_path / "out/b.txt").stat())


def test_changed_files_are_named_when_others_are_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    run_job(ToyJob(out), Workspace(out), OPTIONS)
    append(out / "list/unit_002.txt")
    run_job(ToyJob(out, num_units=2), Workspace(out), replace(OPTIONS, overwrite=True))
    assert f"note: {out}/list/unit_002.txt has changed since then, and stays" in capsys.readouterr().err


def test_what_a_run_publishes_when_another_one_has_just_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its look at the plan and the mark: its files stay noted, for the other run to remove."""
    workspace = Workspace(tmp_path / "out")
    workspace.prepare()
    plan = StoredPlan("test", "mine", {}, [], 0, 0, {}, 0.0, "", "")
    workspace.claim(plan)
    workspace.hold("mine")
    publish = UnitWriter._publish_all

    def late(writer: UnitWriter, files: Any) -> Any:
        published = publish(writer, files)
        write_json(workspace.plan_file, msgspec.structs.replace(plan, digest="another"))
        put(workspace.folder / "b.txt")
        return published

    monkeypatch.setattr(UnitWriter, "_publish_all", late)
    with UnitWriter(workspace, "mine", Unit("a", 1.0, 0)) as writer:
        for name in ("a.txt", "b.txt"):
            writer.open(name).write(b"mine")
        with pytest.raises(PrepcliError, match="another command has started again in"):
            writer.publish()
    assert {path.name: path.read_bytes() for path in workspace.out.iterdir()} == {"a.txt": b"mine", "b.txt": MINE}
    assert Owned(workspace).files.keys() == {"a.txt", "b.txt"}
    assert list(workspace.done.iterdir()) == []
