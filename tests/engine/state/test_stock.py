"""Only what a run has recorded as its own, and what is as it has written it, is ever removed or replaced."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from prepcli.engine.publishing.recorded import set_aside
from prepcli.engine.state import workspace as workspace_module
from prepcli.engine.state.stock import clear_refused
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import UsageError
from prepcli.interface.printing import number_of
from tests.conftest import SHORT_CORPUS, read_lines, tree
from tests.engine.folder_runs import as_of_earlier, reference, run
from tests.engine.toy import ToyJob
from tests.support.old_records import record_as_0_3
from tests.support.running import Outcome, prepcli

MANIFEST = SHORT_CORPUS / "manifest.json"
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
    assert f"note: removing {number_of(len(made), 'file')} that the run of {command} of " in done.err
    assert f"others there stay ({len(names)}), such as {min(names)}" in done.err
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
    assert "holds 1 file that" in refused.error_line or not has_records
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
    assert "removing 3 files" in done.err
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
    told = "the input {} lies where this command writes its output" if is_ours else "{} exists, and may be yours"
    assert told.format(out) in refused.error_line


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
    out = tmp_path / "out"
    run(out)
    if records == "sha256":
        as_of_earlier(out)
        record_as_0_3(out)
    change(out / "unit_002.txt")
    before = tree(out)
    if change is copy_over:
        run(out, ToyJob(out, seed=1), overwrite=True)
        (out / "copy").unlink()
        assert tree(out) == reference(tmp_path, seed=1)
        return
    why = "write-protected" if change is protect else "changed since"
    with pytest.raises(UsageError, match=rf"unit_002.txt \({why}\)\. Nothing was removed"):
        run(out, ToyJob(out, seed=1), overwrite=True)
    assert tree(out) == before
    (out / "list/unit_002.txt").unlink()  # so that the unit is done again
    run(out)
    kept = tmp_path / "out.prepcli/kept/unit_002.txt"
    assert kept.is_symlink() if change is replace_by_link else kept.read_bytes().startswith(b"record 8")
    (out / "elsewhere").unlink(missing_ok=True)
    assert {name for name, digest in tree(out).items() if digest != before.get(name)} <= {"unit_002.txt"}
    assert run(out, ToyJob(out, seed=1), overwrite=True).status == "done"
    assert tree(out) == reference(tmp_path, seed=1)


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


def test_the_name_of_a_file_that_is_kept_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power failure must not lose it: it is in no other place."""
    workspace, flushed = Workspace(tmp_path / "out"), []
    workspace.prepare()
    monkeypatch.setattr(workspace_module, "flush_folders", lambda folders: flushed.extend(folders))
    set_aside(workspace, put(tmp_path / "out/mine.txt"), "mine.txt")
    assert (tmp_path / "out.prepcli/kept/mine.txt").read_bytes() == MINE
    assert tmp_path / "out.prepcli/kept" in flushed


def test_changed_files_are_named_when_others_are_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    run(out)
    append(out / "list/unit_002.txt")
    run(out, ToyJob(out, num_units=2), overwrite=True)
    assert f"note: {out}/list/unit_002.txt has changed since then, and stays" in capsys.readouterr().err


def test_write_protected_files_are_named_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    run(out)
    (out / "list/unit_002.txt").chmod(0o444)
    run(out, ToyJob(out, num_units=2), overwrite=True)
    assert f"note: {out}/list/unit_002.txt is write-protected, and stays" in capsys.readouterr().err


def test_a_refused_command_keeps_what_another_has_begun_beside_it(tmp_path: Path) -> None:
    """Both found no state folder; only what planning makes again may go."""
    workspace = Workspace(tmp_path / "out")
    kept = workspace.root / "0123456789abcdef/tmp/0000~of another/0.out"
    for path in (kept, workspace.root / "index" / "a", workspace.root / "spool" / "b"):
        path.parent.mkdir(parents=True)
        path.touch()
    clear_refused(workspace)
    assert [path for path in workspace.root.rglob("*") if path.is_file()] == [kept]
    shutil.rmtree(workspace.root / "0123456789abcdef")
    clear_refused(workspace)
    assert not workspace.root.exists()
