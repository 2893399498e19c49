"""Audio that was away during a run and has come back; and a run that has no audio at all."""

import itertools
import json
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from prepcli.engine.publishing.publish import Marker
from prepcli.engine.publishing.rejects import Budget
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.run import run_job
from prepcli.engine.run.share import MIN_RECORDS, MissingAudioError, MissingAudioWatch
from prepcli.engine.run.unit import Execution
from prepcli.engine.runs import FolderRun
from prepcli.engine.state.workspace import Workspace
from prepcli.errors import RejectReason
from tests.conftest import SHORT_CORPUS, read_lines, tree, write_lines
from tests.engine.state_files import markers
from tests.engine.toy import ToyJob, ToyPlan, ToyUnit
from tests.support.running import Outcome, prepcli

SHARDS = ["--num-shards", 4, "--max-rejects", 48]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A copy of the mini corpus; returns its folder."""
    return Path(shutil.copytree(SHORT_CORPUS, tmp_path / "corpus"))


def run(corpus: Path, out: Path, *more: object) -> Outcome:
    return prepcli("manifest-to-tarred", corpus / "manifest.json", out, *SHARDS, *more)


@pytest.fixture
def without_s05(corpus: Path, tmp_path: Path) -> Path:
    """A finished set, made while one folder was away; it is back now."""
    out = tmp_path / "out"
    (corpus / "s05").rename(tmp_path / "away")
    done = run(corpus, out, "--json")
    assert done.json["rejects_by_reason"] == {"missing_audio": 6}
    (tmp_path / "away").rename(corpus / "s05")
    return out


def test_only_the_units_concerned_are_done_again(corpus: Path, without_s05: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    assert run(corpus, whole).code == 0
    before = markers(without_s05)
    finished = run(corpus, without_s05).out.splitlines()
    assert finished[0].startswith("manifest-to-tarred: nothing to do")
    assert finished[-1].startswith("  when the audio is repaired, retry with: prepcli manifest-to-tarred ")
    assert finished[-1].endswith(" --retry-rejects")
    assert [line.split()[0] for line in finished[1:-1]] == ["records", "audio", "rejects", "first"]
    again = run(corpus, without_s05, "--retry-rejects", "--json")
    assert (again.code, again.json["records_out"], again.json["rejects"]) == (0, 48, 0)
    changed = [name for name, when in markers(without_s05).items() if when != before[name]]
    assert 0 < len(changed) < 4
    assert tree(without_s05) == tree(whole)
    assert read_lines(without_s05.with_name("out.prepcli") / "rejects.jsonl") == []
    assert run(corpus, without_s05, "--retry-rejects").out.startswith("manifest-to-tarred: nothing to do")


def test_status_says_that_it_exists(without_s05: Path) -> None:
    status = prepcli("status", without_s05)
    (line,) = [line for line in status.out.splitlines() if "retry" in line]
    command = shlex.split(line.partition(" && ")[2])
    assert command[-1] == "--retry-rejects"
    assert prepcli(*command[1:]).code == 0
    assert "retry" not in prepcli("status", without_s05).out


def test_several_ranks_divide_the_units(corpus: Path, without_s05: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    assert run(corpus, whole).code == 0
    ranks = [["--rank", rank, "--world-size", 3, "--launch-id", "again", "--retry-rejects"] for rank in range(3)]
    alone = run(corpus, without_s05, *ranks[0][:4], "--retry-rejects")
    assert alone.code == 2
    assert "--launch-id" in alone.error_line
    times = []
    for rank in ranks:
        assert run(corpus, without_s05, *rank).code == 0
        times.append(markers(without_s05))
    for earlier, later in itertools.pairwise(times):
        assert earlier.items() <= later.items()  # no rank does again what another has done
    assert tree(without_s05) == tree(whole)


def test_rejects_that_remain_are_not_tried_by_every_rank(corpus: Path, without_s05: Path, tmp_path: Path) -> None:
    """A rank that comes late finds rejects in what has been done again, and leaves them."""
    (corpus / "s05").rename(tmp_path / "away")
    ranks = [["--rank", rank, "--world-size", 2, "--launch-id", "again", "--retry-rejects"] for rank in range(2)]
    times = []
    for rank in ranks * 2:
        assert run(corpus, without_s05, *rank).code == 0
        times.append(markers(without_s05))
    for earlier, later in itertools.pairwise(times):
        assert earlier.items() <= later.items()
    assert len(times[1]) == 4
    assert len(read_lines(without_s05.with_name("out.prepcli") / "rejects.jsonl")) == 6
    # The command that is printed is of another launch, which tries all of them.
    (line,) = [line for line in run(corpus, without_s05, *ranks[0]).out.splitlines() if "retry with: " in line]
    (tmp_path / "away").rename(corpus / "s05")
    assert prepcli(*shlex.split(line.partition("retry with: ")[2])[1:]).code == 0
    assert not read_lines(without_s05.with_name("out.prepcli") / "rejects.jsonl")


def test_a_retry_that_is_stopped_goes_on_without_the_option(
    corpus: Path, without_s05: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "whole"
    assert run(corpus, whole).code == 0

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("prepcli.engine.run.function.FunctionJob.execute", full)
        assert run(corpus, without_s05, "--retry-rejects").code == 1
    finished, stopped = json.loads(prepcli("status", without_s05, "--json").out)
    assert [(one["state"], one["units_done"]) for one in (finished, stopped)] == [("finished", 4), ("stopped", 3)]
    words = shlex.split(stopped["continue_with"].partition(" && ")[2])
    assert "--retry-rejects" not in words
    assert prepcli(*words[1:]).code == 0
    assert prepcli("status", without_s05, "--json").json["state"] == "finished"
    assert tree(without_s05) == tree(whole)


@pytest.fixture
def large(corpus: Path) -> Path:
    """A manifest of 96 records, each file twice."""
    records = read_lines(corpus / "manifest.json")
    return write_lines(corpus / "large.json", records + records)


def test_a_folder_that_is_not_mounted_stops_the_run(corpus: Path, large: Path, tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    arguments = ["manifest-to-tarred", large, out, "--num-shards", 8, "--num-workers", 1]
    assert prepcli(*arguments[:2], whole, *arguments[3:]).code == 0
    for folder in set(corpus.glob("s0*")) - {corpus / "s05"}:  # without it, the sample before the work is missing
        folder.rename(tmp_path / folder.name)
    stopped = prepcli(*arguments)
    assert stopped.code == 1
    assert "of the first 60 records is missing" in stopped.error_line
    assert f"{corpus}/s0" in stopped.error_line
    assert "probably not mounted, or relative paths start from another one (--audio-base-dir)" in stopped.error_line
    for folder in tmp_path.glob("s0*"):
        folder.rename(corpus / folder.name)
    assert prepcli(*arguments).code == 0  # without any option
    assert tree(out) == tree(whole)


def test_a_run_that_may_lose_so_many_is_not_stopped(corpus: Path, large: Path, tmp_path: Path) -> None:
    """--max-rejects says so; and of few records the missing ones are rejects."""
    for folder in corpus.glob("s0*"):
        shutil.rmtree(folder)
    allowed = prepcli("manifest-to-tarred", large, tmp_path / "a", "--num-shards", 8, "--max-rejects", 96)
    assert allowed.code == 0
    write_lines(corpus / "few.json", read_lines(corpus / "manifest.json")[:19])
    lost = {line["audio_filepath"] for line in read_lines(corpus / "few.json")[1:]}
    for record in read_lines(corpus / "few.json"):
        if record["audio_filepath"] not in lost:
            (corpus / record["audio_filepath"]).parent.mkdir()
            shutil.copy(SHORT_CORPUS / record["audio_filepath"], corpus / record["audio_filepath"])
    few = prepcli("manifest-to-tarred", corpus / "few.json", tmp_path / "b", "--num-shards", 8, "--json")
    assert (few.code, few.json["rejects_by_reason"]) == (3, {"missing_audio": 18})


def test_half_of_the_audio_may_be_missing(tmp_path: Path) -> None:
    """With one more missing file the run stops."""
    out = tmp_path / "out"
    workspace = Workspace(out)
    workspace.prepare()
    watch = MissingAudioWatch(FolderRun(ToyJob(out), workspace, RunOptions()), Budget(), 2 * MIN_RECORDS)

    def marker(unit: str, records: int, missing: int) -> Marker:
        rejects = {"missing_audio": missing} if missing else {}
        return Marker(unit, "", records, rejects, seconds=1.0, files={}, work_files={}, wall_seconds=1.0)

    watch.look(marker("a", MIN_RECORDS, MIN_RECORDS), {})
    with pytest.raises(MissingAudioError, match="probably not mounted"):
        watch.look(marker("b", 0, 1), {})


def test_units_published_while_a_run_is_being_stopped_are_done_again(tmp_path: Path) -> None:
    """Those with missing audio, which the loop over the units has not seen any more; nothing else."""
    out = tmp_path / "out"
    job, options = ToyJob(out, bad=frozenset({5, 9}), reason=RejectReason.MISSING_AUDIO), RunOptions()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FolderRun, "_commit", FolderRun._report)
        run = FolderRun(job, Workspace(out), options)
        run.execute()
    known = set(markers(out))
    assert known == {unit.id for unit in run.plan.units}
    MissingAudioWatch(run, Budget(1), 48).drop_others(run.plan.units, run.digest, {})
    assert set(markers(out)) == known - {"unit_001", "unit_002"}


def test_they_are_looked_for_when_the_workers_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Job(ToyJob):
        def execute(self, plan: ToyPlan, units: Sequence[ToyUnit], execution: Execution) -> Iterator[Marker]:
            try:
                yield from super().execute(plan, units, execution)
            finally:
                events.append("the workers have ended")

    def stop(*_: object) -> None:
        raise MissingAudioError("it is missing")

    monkeypatch.setattr(MissingAudioWatch, "look", stop)
    monkeypatch.setattr(MissingAudioWatch, "drop_others", lambda *_: events.append("others are dropped"))
    with pytest.raises(MissingAudioError):
        run_job(Job(tmp_path / "out"), Workspace(tmp_path / "out"), RunOptions())
    assert events == ["the workers have ended", "others are dropped"]


@pytest.mark.parametrize("command", ["fix-durations", "manifest-to-tarred"])
def test_advice_fits_the_rejects(command: str, corpus: Path, tmp_path: Path) -> None:
    """Broken lines are not repaired with the audio, and fix-durations does not advise itself."""
    lines = (corpus / "manifest.json").read_text().splitlines()[:5]
    beyond = lines[2].replace('"duration"', '"offset": 900, "duration"')
    bad = ["{broken", lines[1].replace("s01/", "gone/"), beyond]
    (corpus / "bad.json").write_text("\n".join([lines[0], *bad, ""]))
    out = tmp_path / "out.json"
    shape = ("--num-shards", 1) if command == "manifest-to-tarred" else ()
    done = prepcli(command, corpus / "bad.json", out, *shape, "--max-rejects", 3)
    assert done.code == 0, done.err
    assert "  when the audio of 2 of the 3 rejects is repaired, retry with: prepcli" in done.out
    assert "  when the audio of 2 of the 3 rejects is repaired, retry with: " in prepcli("status", out).out
    again = f"prepcli fix-durations {out}.prepcli/rejects.jsonl fixed.json --audio-base-dir {corpus}"
    for text in (done.out, prepcli("status", out).out):
        assert (f"if durations are wrong, measure them: {again}" in text) == (command == "manifest-to-tarred")
    (corpus / "bad.json").write_text("\n".join([lines[0], "{broken", ""]))
    done = prepcli(command, corpus / "bad.json", tmp_path / "other.json", *shape, "--max-rejects", 3)
    assert "retry" not in done.out
