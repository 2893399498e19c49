"""A recording that crashes the decoder: its record becomes a reject; a worker that somebody kills is another matter."""

import errno
import faulthandler
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prepcli.audio import probe as probing
from prepcli.commands.manifest_to_tarred import making as tarred
from prepcli.engine.publishing.publish import Marker
from prepcli.engine.run import crashes
from prepcli.engine.run.crashes import DECODING, MAX_CRASHES, Crashes, map_refusing_crashes, note_crash, survive_crashes
from prepcli.engine.state.plan import Unit
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RecordRejected
from prepcli.interface.calls import called
from prepcli.jobs.prefetch import Batch, DecodingPool
from prepcli.processes.in_hand import noting, read_note, take_in_hand
from prepcli.processes.pools import WorkerDiedError, map_in_order
from tests.conftest import SHORT_CORPUS, read_lines, tree, write_lines
from tests.support.running import prepcli
from tests.support.tools import slow

pytestmark = pytest.mark.usefixtures("forking")

MANIFEST = SHORT_CORPUS / "manifest.json"
CRASHING = "s03/s03_u3.flac"


def die(number: int) -> None:
    faulthandler.disable()  # pytest's would tell at length
    os.kill(os.getpid(), number)


def crash_at(monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], number: int) -> None:
    """Let the decoder die of some files, in the workers (they are forked)."""
    module: Any = probing

    def dying(real: Any) -> Any:
        def probe(*arguments: Any) -> Any:
            if str(arguments[-1]).endswith(names):
                die(number)
            return real(*arguments)

        return probe

    monkeypatch.setattr(module, "_probe", dying(module._probe))


def test_what_has_crashed_twice() -> None:
    """The crash before anybody took notes is that of the first audio that crashed with them, and of no other."""
    assert Crashes(deaths={"a": 1, "b": 2}).refused == {"b"}
    assert Crashes(unknown=1, deaths={"a": 1, "b": 1}).refused == {"a"}
    assert Crashes(unknown=1).refused == set()


def test_whether_another_attempt_can_tell_more() -> None:
    found = Crashes()
    assert found.add(None)  # the next attempt takes notes
    assert not found.add("")  # notes were taken, and no audio was in hand
    assert found.add("a")
    assert (found.unknown, found.deaths) == (2, {"a": 1})


def test_crashes_without_end_are_not_about_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[int] = []

    def attempt(units: list[Unit]) -> Iterator[Marker]:
        attempts.append(len(units))
        yield from ()
        raise WorkerDiedError("a worker died; run it again", {1: -signal.SIGSEGV})

    monkeypatch.setattr(crashes, "note_crash", lambda *_: len(attempts) < 2 * MAX_CRASHES)
    with pytest.raises(WorkerDiedError), called(["toy"], progress=False):
        list(survive_crashes(Workspace(tmp_path / "out"), [Unit("u", 1.0, 1)], attempt))
    assert len(attempts) == MAX_CRASHES


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [1, slow(3)])
@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("manifest-to-tarred", ["--num-shards", 3]),
        ("manifest-to-shar", ["--shard-size", 16]),
    ],
)
def test_the_record_becomes_a_reject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, options: list[object], num_workers: int
) -> None:
    names = (CRASHING, "s08/s08_u1.flac")
    crash_at(monkeypatch, names, signal.SIGSEGV)
    done = prepcli(command, MANIFEST, tmp_path / "out", *options, "--num-workers", num_workers, "--json")
    assert done.code == 0, done.err
    assert done.json["rejects_by_reason"] == {"crashed_decoder": 2}
    rejects = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert [reject["audio_filepath"] for reject in rejects] == list(names)
    assert "has crashed the decoder twice" in rejects[0]["reject_detail"]
    assert "SIGSEGV" in done.err
    assert list(tmp_path.glob("out.prepcli/**/tmp/*")) == []
    monkeypatch.undo()
    # All else is as if those two had been rejected for anything else.
    missing = [
        line | {"audio_filepath": f"none/{line['audio_filepath']}"} if line["audio_filepath"] in names else line
        for line in read_lines(MANIFEST)
    ]
    manifest = write_lines(tmp_path / "m.json", missing)
    other = prepcli(command, manifest, tmp_path / "other", *options, "--audio-base-dir", SHORT_CORPUS)
    assert other.code == 0, other.err
    theirs, ours = tree(tmp_path / "other"), tree(tmp_path / "out")
    theirs.pop("metadata.yaml", None), ours.pop("metadata.yaml", None)  # holds the time of the manifest
    assert ours == theirs
    assert prepcli("verify", tmp_path / "out").code == 0


def test_another_run_knows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever does the unit again need not crash for it."""
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        crash_at(patch, (CRASHING,), signal.SIGSEGV)
        assert prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", 3).code == 0
        before = tree(out)
        (out / "audio_1.tar").unlink()
        again = prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", 3)
    assert (again.code, again.err) == (0, "")
    assert tree(out) == before


def test_a_killed_worker_accuses_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        crash_at(patch, (CRASHING,), signal.SIGKILL)
        for _ in range(3):
            assert prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", 3).code == 4
    done = prepcli("manifest-to-tarred", MANIFEST, out, "--num-shards", 3, "--json")
    assert done.json["records_out"] == 48


def test_a_crash_that_is_not_about_a_record_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No endless loop where notes tell nothing."""

    def crash(*_: object) -> None:
        die(signal.SIGABRT)

    monkeypatch.setattr(tarred, "write_shard", crash)
    done = prepcli("manifest-to-tarred", MANIFEST, tmp_path / "out", "--num-shards", 3, "--num-workers", 1)
    assert done.code == 4
    assert "died (SIGABRT)" in done.err.splitlines()[-1]


class Decoder:
    ahead = staticmethod(iter)

    def decode(self, item: int) -> Any:
        import numpy as np

        take_in_hand(f"item {item}")
        if item == 2:
            die(signal.SIGSEGV)
        return np.full(10, item, np.float32)


def test_batches_for_a_model_go_on_at_the_third_run(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "out")
    workspace.prepare()

    def run() -> list[Any]:
        batches: Iterator[Batch[int]] = iter([Batch((0, 1), 10), Batch((2, 3), 10)])
        with DecodingPool(Decoder(), 100, 1, workspace) as pool:
            return [(one.audio.copy(), one.rejects) for one in pool.decoded(batches, lambda: None)]

    for _ in range(2):
        with pytest.raises(WorkerDiedError, match="SIGSEGV") as died:
            run()
        note_crash(workspace, died.value, DECODING)
    (_, none), (audio, rejects) = run()
    assert none == {}
    assert {row: rejected.reason.value for row, rejected in rejects.items()} == {0: "crashed_decoder"}
    assert (audio[1] == 3).all()
    assert list(workspace.tmp.iterdir()) == []


def test_a_note_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pwrite(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    file = tmp_path / "note"
    with noting(file, ()), monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", pwrite)
        with pytest.raises(OSError, match="Input/output error") as caught:
            take_in_hand("a.wav")
    assert caught.value.filename == str(file)


def test_a_name_that_is_not_utf8_is_recognised_in_the_next_attempt(tmp_path: Path) -> None:
    file = tmp_path / "note"
    with noting(file, ()):
        take_in_hand("a/much/longer/name.wav", 0.0, 1.0)
        take_in_hand("a\udcff.wav", 0.0, 1.0)
        note = read_note(file)
    assert note == r"a\xff.wav 0.0 1.0"
    with noting(file, {note}), pytest.raises(RecordRejected, match="crashed_decoder"):
        take_in_hand("a\udcff.wav", 0.0, 1.0)
    assert read_note(file) is None


def crash(task: int | tuple[int, ...]) -> list[int]:
    """Read audio; 2, 5 and those above 10 crash their decoder, and 7 is killed."""
    read = []
    for number in task if isinstance(task, tuple) else (task,):
        try:
            take_in_hand(number)
        except RecordRejected:
            read.append(-number)
            continue
        if number in (2, 5) or number > 10:
            die(signal.SIGSEGV)
        if number == 7:
            die(signal.SIGKILL)
        read.append(number)
    return read


@pytest.mark.parametrize("num_workers", [slow(1), 2])
def test_calls_reject_what_crashes_and_nothing_else(num_workers: int) -> None:
    assert list(map_refusing_crashes(crash, [0, 1, 2, 3, 4, 5, 6], num_workers)) == [
        [0],
        [1],
        [-2],
        [3],
        [4],
        [-5],
        [6],
    ]
    assert list(map_refusing_crashes(crash, [(0, 1, 2), (3, 5, 6)], num_workers)) == [[0, 1, -2], [3, -5, 6]]


@pytest.mark.parametrize("tasks", [[0, 7], [2, 7]])
def test_a_killed_worker_has_not_crashed(tasks: list[int]) -> None:
    """Even after a crash: where memory is short, the others would be killed in turn."""
    with pytest.raises(WorkerDiedError, match=r"was killed \(SIGKILL\)"):
        list(map_refusing_crashes(crash, tasks, 1))


def test_a_call_ends_after_some_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """If all audio crashes, the decoder is the cause."""
    monkeypatch.setattr(crashes, "MAX_CRASHES", 4)
    attempts = []

    def counted(*arguments: Any) -> Iterator[int]:
        attempts.append(arguments)
        return map_in_order(*arguments)

    monkeypatch.setattr(crashes, "map_in_order", counted)
    with pytest.raises(WorkerDiedError, match="SIGSEGV"):
        list(map_refusing_crashes(crash, range(11, 20), 1))
    assert len(attempts) == 4


def crash_without_audio(_: int) -> None:
    die(signal.SIGABRT)


def test_a_crash_that_no_audio_explains_ends_the_call() -> None:
    with pytest.raises(WorkerDiedError, match=r"died \(SIGABRT\)"):
        list(map_refusing_crashes(crash_without_audio, [0], 1))
