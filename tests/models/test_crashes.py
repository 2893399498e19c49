"""Jobs with a model and audio that kills: a worker's decoder, a worker that reads tars, or the model itself."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prepcli.audio import segments
from prepcli.audio.opening import AudioSource, read_whole
from prepcli.commands.extend_codec_codes import file_segments, shard_index
from prepcli.commands.extend_codec_codes.command import extend_codec_codes
from prepcli.commands.extend_codec_codes.plan import find_input
from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.run.crashes import MAX_CRASHES, crashed_notes, has_crashed, noting_in_flight
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report
from prepcli.errors import IncompleteError, PrepcliError
from prepcli.models import ranks
from prepcli.processes.workers import LIFELINE
from tests.conftest import MINI_CORPUS, copy_set, read_lines, tree, write_lines
from tests.engine.run.test_crashes import die
from tests.support.codes_sets import read_codes
from tests.support.engine_options import call_with, codes_workspace
from tests.support.lazy import lazy
from tests.support.running import prepcli
from tests.support.shar_sets import Stored, make, recordings
from tests.support.toy_codec import ToyCodec, use_toy_codec

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

pytestmark = pytest.mark.usefixtures("one_thread")
SHARD = "recording/recording.000001.tar"
ROW = 2
"""The segment over which something dies: in the middle of the second shard."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve records as three shards."""
    folder = tmp_path_factory.mktemp("corpus")
    manifest = write_lines(folder / "m.json", read_lines(MINI_CORPUS / "manifest.json")[:12])
    make(manifest, folder / "shar", "--shard-size", 4, "--audio-base-dir", MINI_CORPUS)
    return folder / "shar"


@pytest.fixture
def shar(corpus: Path, tmp_path: Path) -> Path:
    return copy_set(corpus, tmp_path)


@pytest.fixture(scope="module")
def whole(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What an undisturbed run gives, made once."""
    folder = copy_set(corpus, tmp_path_factory.mktemp("whole"))
    with pytest.MonkeyPatch.context() as patch:
        use_toy_codec(patch.setattr)
        run(folder)
    return tree(folder / "codes_toy")


def run(folder: Path, **changes: Any) -> Report:
    engine = RunOptions(num_workers=1, budget=Budget(1))
    return call_with(engine, extend_codec_codes, folder, "toy", codec_name="toy", devices="cpu", **changes)


def in_a_process(function: Callable[[], object]) -> int:
    """Call a function in a fork of this process; returns its exit code (-11: SIGSEGV), 1 after an exception."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fatal(folder: Path) -> Stored:
    return recordings(folder / SHARD)[ROW]


def check_the_one_reject(folder: Path, whole: dict[str, str]) -> None:
    """All codes are there but one, which has a placeholder."""
    (reject,) = read_lines(folder.with_name("shar.prepcli") / "codes_toy/rejects.jsonl")
    assert (reject["reject_reason"], reject["id"]) == ("crashed_decoder", fatal(folder).manifest["id"])
    found = tree(folder / "codes_toy")
    assert [name for name in whole if found[name] != whole[name]] == ["target_codes/codes.000001.tar"]
    codes = read_codes(folder / "codes_toy/target_codes/codes.000001.tar")
    assert [stored.codes is None for stored in codes] == [row == ROW for row in range(4)]
    workspace = codes_workspace(folder, "toy")
    assert not workspace.tmp.exists()


def crash_in(monkeypatch: pytest.MonkeyPatch, function: str, folder: Path, number: int = signal.SIGSEGV) -> None:
    """Let a function that decodes members die of the fatal one; only in worker processes."""
    module = segments if function == "read_segment" else shard_index
    real, data, here = getattr(module, function), fatal(folder).data, os.getpid()

    def call(given: AudioSource, *arguments: Any, **more: Any) -> Any:
        if read_whole(given, "") == data:
            assert os.getpid() != here, "it would have ended the run"
            die(number)
        return real(given, *arguments, **more)

    monkeypatch.setattr(module, function, call)


@pytest.mark.slow
@pytest.mark.parametrize("function", ["read_segment", "probe_bytes"])
def test_audio_that_crashes_a_worker_is_a_reject_of_the_same_run(
    function: str, shar: Path, whole: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is decoded for the codec (`read_segment`) or looked at while a tar is indexed (`probe_bytes`)."""
    use_toy_codec(monkeypatch.setattr)
    crash_in(monkeypatch, function, shar)
    report = run(shar)
    assert (report.status, report.records_out, report.rejects_by_reason) == ("done", 11, {"crashed_decoder": 1})
    check_the_one_reject(shar, whole)
    (shar / SHARD).touch()  # so that it is read again before anything else
    assert run(shar).status == "nothing_to_do"


def test_another_tar_that_crashes_when_it_is_read_again(shar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is not yet known; the workers find it, and the content is judged all the same."""
    use_toy_codec(monkeypatch.setattr)
    run(shar)
    crash_in(monkeypatch, "probe_bytes", shar)
    (shar / SHARD).touch()
    assert run(shar).status == "nothing_to_do"


@pytest.mark.slow
def test_a_killed_worker_accuses_no_segment(shar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toy_codec(monkeypatch.setattr)
    with monkeypatch.context() as patch:
        crash_in(patch, "read_segment", shar, signal.SIGKILL)
        for _ in range(3):
            with pytest.raises(IncompleteError, match="SIGKILL"):
                run(shar)
    assert run(shar).records_out == 12


class FatalCodec(ToyCodec):
    """Kills its process over one segment."""

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__()
        member = shard_index.index_shard(find_input(folder)[1]).fields["target_audio"][ROW]
        assert isinstance(member, file_segments.UsedSegment)
        self._samples = torch.from_numpy(file_segments.UsedSegmentDecoder(self.sampling_rate).decode(member))
        self._signal = number

    def encode(self, audio: torch.Tensor, *others: Any) -> tuple[torch.Tensor, torch.Tensor]:
        length = len(self._samples)
        if any(len(row) >= length and torch.equal(row[:length], self._samples) for row in audio):
            signal.raise_signal(self._signal)  # in this thread, as a fault of the model is
        return super().encode(audio, *others)


def test_a_segment_that_crashes_the_model_is_a_reject_of_the_third_start(
    shar: Path, whole: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first crash leaves all that was in flight, the second one this segment alone."""
    use_toy_codec(monkeypatch.setattr, lambda _: FatalCodec(shar, signal.SIGSEGV))
    assert not has_crashed(codes_workspace(shar, "toy"))
    assert in_a_process(lambda: run(shar)) == -signal.SIGSEGV
    workspace = codes_workspace(shar, "toy")
    assert has_crashed(workspace)
    (first,) = crashed_notes(workspace)
    assert len(first) > 1
    assert in_a_process(lambda: run(shar)) == -signal.SIGSEGV
    (alone,) = [keys for keys in crashed_notes(workspace) if len(keys) == 1]
    assert alone[0] in first
    assert in_a_process(lambda: run(shar)) == 0
    check_the_one_reject(shar, whole)


@pytest.mark.slow
def test_a_killed_model_accuses_no_segment(shar: Path, whole: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    use_toy_codec(monkeypatch.setattr, lambda _: FatalCodec(shar, signal.SIGKILL))
    for _ in range(3):
        assert in_a_process(lambda: run(shar)) == -signal.SIGKILL
    assert crashed_notes(codes_workspace(shar, "toy")) == []
    use_toy_codec(monkeypatch.setattr)
    assert run(shar).records_out == 12
    assert tree(shar / "codes_toy") == whole


def test_a_model_that_crashes_over_everything_ends_the_run(shar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is not the audio's fault, and there is no endless loop of starts."""
    use_toy_codec(monkeypatch.setattr, lambda _: FatalCodec(shar, signal.SIGSEGV))
    assert in_a_process(lambda: run(shar)) == -signal.SIGSEGV
    use_toy_codec(monkeypatch.setattr)
    notes = codes_workspace(shar, "toy").run / "crashes/model"
    for number in range(2 * MAX_CRASHES):
        (notes / f"{number}.keys").write_bytes(b"key%d\0" % (number // 2))
        (notes / f"{number}.crashed").write_text("Fatal Python error: Segmentation fault")
    with pytest.raises(PrepcliError, match="most likely the cause is not the audio"):
        run(shar)


def test_faults_are_shown_on_stderr_again_afterwards(tmp_path: Path) -> None:
    workspace = codes_workspace(tmp_path / "out", "toy")
    before = faulthandler.is_enabled()
    with noting_in_flight(workspace) as notes:
        assert faulthandler.is_enabled()
        notes.end(notes.begin(["a"]))
    assert faulthandler.is_enabled() == before
    assert crashed_notes(workspace) == []


@pytest.mark.slow
def test_the_second_start_of_the_command_is_the_last(
    shar: Path, whole: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs the model in a process of its own, and starts that again."""
    use_toy_codec(monkeypatch.setattr, lambda _: FatalCodec(shar, signal.SIGSEGV))
    codes: list[int] = []

    def spawn(words: list[str], num_ranks: int, *_: object) -> int:
        """As `spawn_ranks`, which `engine/ranks/test_launch` tests, but forks: the toy codec is in this process."""
        lifeline, _held = os.pipe()
        one = {"RANK": "0", "WORLD_SIZE": str(num_ranks), "LOCAL_RANK": "0", LIFELINE: str(lifeline)}
        while not codes or codes[-1] == -signal.SIGSEGV:
            codes.append(in_a_process(lambda: os._exit(prepcli(*words, environ=one).code)))
        return codes[-1]

    monkeypatch.setattr(ranks, "spawn_ranks", spawn)
    command = ["extend-codec-codes", shar, "--codec-model", "toy", "--devices", "cpu", "--max-rejects", 1, "--json"]
    assert in_a_process(lambda: prepcli(*command)) == -signal.SIGSEGV
    done = prepcli(*command)
    assert codes == [-signal.SIGSEGV, 0]
    assert (done.code, done.json["rejects_by_reason"]) == (0, {"crashed_decoder": 1})
    check_the_one_reject(shar, whole)
    assert prepcli(*command).json["status"] == "nothing_to_do"
    assert codes == [-signal.SIGSEGV, 0]  # a finished run needs no process of its own
