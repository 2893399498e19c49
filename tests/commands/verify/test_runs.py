"""verify compares what a run's last step has written as well: it names every published file that has changed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, SHORT_CORPUS, copy_set, read_lines, write_lines
from tests.support.running import prepcli

BUCKETS = ["--buckets-num", 2, "--max-duration", 7.0]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set with a later version."""
    folder = tmp_path_factory.mktemp("whole")
    first, second = read_lines(SHORT_CORPUS / "manifest.json")[:24], read_lines(SHORT_CORPUS / "manifest.json")[24:]
    base = ["--audio-base-dir", SHORT_CORPUS, "--num-shards", 2]
    assert prepcli("manifest-to-tarred", write_lines(folder / "a.json", first), folder / "out", *base).code == 0
    more = write_lines(folder / "b.json", second)
    assert prepcli("manifest-to-tarred", more, "--concat-to", folder / "out", *base).code == 0
    return folder / "out"


def swap_two_lines(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))


def edit(path: Path) -> None:
    path.write_text(path.read_text().replace("num_samples_per_shard: ", "num_samples_per_shard: 1"))


@pytest.mark.parametrize("version", ["", "_version_1"])
@pytest.mark.parametrize(
    ("name", "change"), [("tarred_audio_manifest{}.json", swap_two_lines), ("metadata{}.yaml", edit)]
)
def test_changed_files_of_the_last_step(
    whole: Path, tmp_path: Path, name: str, change: Callable[[Path], None], version: str
) -> None:
    out = copy_set(whole, tmp_path, records=True)
    assert prepcli("verify", out).code == 0
    name = name.format(version)
    before = (out / name).read_bytes()
    change(out / name)
    assert (out / name).read_bytes() != before
    done = prepcli("verify", out, "--json")
    assert done.code == 1
    assert done.json["problems"] == [f"{name}: not the bytes that were published (its hash differs)"]


def test_a_later_version_that_is_unfinished(whole: Path, tmp_path: Path) -> None:
    """It has changed nothing in the set."""
    out = copy_set(whole, tmp_path, records=True)
    assert prepcli("manifest-to-tarred", "--concat-to", out, "--undo-concat").code == 0
    more = ["--concat-to", out, "--audio-base-dir", SHORT_CORPUS, "--num-shards", 2, "--rank", 0, "--world-size", 2]
    assert prepcli("manifest-to-tarred", whole.parent / "b.json", *more).code == 0
    assert json.loads(prepcli("status", out, "--json").out)[1]["units_done"] == 1
    done = prepcli("verify", out, "--json")
    assert (done.code, done.json["records"], done.json["problems"]) == (0, 24, [])


def test_a_change_that_was_interrupted(whole: Path, tmp_path: Path) -> None:
    """Readers are told the command that completes it."""
    out = copy_set(whole, tmp_path, records=True)
    ledger = tmp_path / "out.prepcli/owner.json"
    before = json.loads(ledger.read_text())
    pending = {"commits": before["commits"][:1], "run_with": "cd here && prepcli complete"}
    ledger.write_text(json.dumps(before | {"pending": pending}))
    for command in (["verify", out], ["verify", out, "--quick"]):
        done = prepcli(*command)
        assert done.code == 2
        assert done.error_line.endswith("that was interrupted; complete it with: cd here && prepcli complete")
    later = json.loads(prepcli("status", out, "--json").out)[1]
    assert (later["state"], later["continue_with"]) == ("stopped", "cd here && prepcli complete")
    assert prepcli("estimate-bins", out, "-b", 2).code == 0  # it is the addition that is being removed
    ledger.write_text(json.dumps(before | {"pending": pending | {"commits": []}}))
    done = prepcli("estimate-bins", out, "-b", 2)
    assert (done.code, "complete it with: cd here && prepcli complete" in done.error_line) == (2, True)


@pytest.mark.parametrize("words", [("manifest-to-tarred", "out", "--num-shards", 2), ("prepare-texts", "out.json")])
def test_a_stopped_run_without_any_output(words: tuple[object, ...], tmp_path: Path) -> None:
    """The command that continues it is named. The third rank of two units has nothing to do."""
    command, out, *more = words
    make = [command, MINI_CORPUS / "manifest.json", tmp_path / str(out), *more]
    assert prepcli(*make, "--rank", 2, "--world-size", 3).code == 0
    done = prepcli("verify", tmp_path / str(out))
    assert done.code == 2
    assert f"{tmp_path / str(out)} is not finished: 0 of 2 units are done; continue with: " in done.error_line


def test_static_buckets(tmp_path: Path) -> None:
    out = tmp_path / "out"
    manifest = MINI_CORPUS / "manifest.json"
    assert prepcli("manifest-to-tarred", manifest, out, "--num-shards", 1, *BUCKETS).code == 0
    swap_two_lines(out / "bucket2/tarred_audio_manifest.json")
    done = prepcli("verify", out, "--json")
    assert done.code == 1
    assert [problem.partition(":")[0] for problem in done.json["problems"]] == ["bucket2/tarred_audio_manifest.json"]


@pytest.mark.usefixtures("toy_voice", "one_thread")
def test_outputs_that_are_not_shards(tmp_path: Path) -> None:
    """An extended manifest: only its bytes can be checked."""
    out = tmp_path / "out"
    manifest = MINI_CORPUS / "manifest.json"
    assert prepcli("extend-context-audio", manifest, out, "--speaker-model", "toy").code == 0
    assert prepcli("verify", out).code == 0
    (extended,) = out.glob("*.json")
    swap_two_lines(extended)
    assert f"{extended.name}: not the bytes that were published" in prepcli("verify", out).out


@pytest.mark.parametrize("other", ["shar", "tarred"])
def test_files_of_another_command_are_not_called_compared(other: str, tmp_path: Path) -> None:
    """Its OUT.prepcli is gone, so nothing tells what its bytes should be."""
    out = tmp_path / "out"
    commands = {"tarred": ("--num-shards", 2), "shar": ("--shard-size", 48)}
    known = next(name for name in commands if name != other)
    assert prepcli(f"manifest-to-{other}", SHORT_CORPUS / "manifest.json", out, *commands[other]).code == 0
    shutil.rmtree(tmp_path / "out.prepcli")
    assert prepcli(f"manifest-to-{known}", SHORT_CORPUS / "manifest.json", out, *commands[known]).code == 0
    checked = prepcli("verify", out)
    assert checked.code == 0
    count = {"tarred": 4, "shar": 2}[other]  # two tars with their manifests; cuts and recordings
    assert f"hashes   compared with what was published, except those of {count} files\n" in checked.out
    found = prepcli("verify", out, "--json").json
    assert (found["records"], found["files_not_compared"]) == (96, count)
    (note,) = found["notes"]
    assert f"{count} files, such as {'audio_0.tar' if other == 'tarred' else 'cuts/'}" in note
    assert f"of manifest-to-{known}, which did not write them" in note


def test_files_that_nobody_reads_are_named(tmp_path: Path) -> None:
    """Those that look like files of the set, and not what else the user keeps there, nor the indexes of the set."""
    out = tmp_path / "out"
    manifest = SHORT_CORPUS / "manifest.json"
    assert prepcli("manifest-to-tarred", manifest, out, "--num-shards", 2, "--no-index").code == 0
    assert prepcli("index", out).code == 0
    (out / "notes.txt").touch()
    assert prepcli("verify", out, "--json").json["notes"] == []
    for name in ("audio_9.tar.idx", "sharded_manifests/manifest_x.json"):
        (out / name).touch()
    (note,) = prepcli("verify", out, "--json").json["notes"]
    assert "2 files in the folders of the set do not belong to it" in note
    assert note.endswith(" audio_9.tar.idx, sharded_manifests/manifest_x.json")
