"""What a run says at its end, and what `status` says: results first, rejects by share, filters apart from rejects."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from prepcli.engine.run.report import Report, summary_lines
from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.running import Outcome, prepcli


def tarred(manifest: Path, *more: object, cwd: Path | None = None) -> Outcome:
    return prepcli("manifest-to-tarred", manifest, "out", "--num-shards", 2, *more, cwd=cwd or manifest.parent)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Twelve records, five of them without audio."""
    folder = Path(shutil.copytree(MINI_CORPUS, tmp_path / "corpus"))
    lines = read_lines(folder / "manifest.json")[:12]
    for number in range(5):
        (folder / lines[number]["audio_filepath"]).unlink()
    return write_lines(folder / "twelve.json", lines)


def report(**changes: object) -> Report:
    values = {
        "command": "toy",
        "status": "done",
        "out": "out",
        "records_in": 12,
        "records_out": 12,
        "rejects": 0,
        "rejects_by_reason": {},
        "skipped": 0,
        "units": 4,
        "units_done": 4,
        "seconds": 7200.0,
        "num_bytes": 1_500_000,
        "digest": "",
    }
    return Report(**(values | changes))  # type: ignore[arg-type]


def test_a_report_without_records_has_no_figures() -> None:
    names = ("records_in", "records_out", "units", "units_done", "num_bytes", "seconds")
    none = report(status="dry_run", details={"plan": 1}, **dict.fromkeys(names, 0))
    assert Report("toy", "dry_run", "out", details={"plan": 1}) == none


def rows(lines: list[str]) -> dict[str, str]:
    """The values of a summary by their names; blocks of several lines are left out."""
    found = [line[2:].split("  ", 1) for line in lines[1:] if "retry with: " not in line and "  " in line[2:].strip()]
    return {name: value.strip() for name, value in found if name}


def test_what_the_settings_leave_out_is_not_a_reject() -> None:
    reasons = {"no_similar_context": 228, "above_max_duration": 2, "missing_audio": 3}
    lines = rows(summary_lines(report(rejects=233, rejects_by_reason=reasons, rejects_filepath="/o/rejects.jsonl")))
    assert lines["left out"] == (
        "230 by your settings (2 above_max_duration, 228 no_similar_context), listed in /o/rejects.jsonl"
    )
    assert lines["rejects"] == "3 (3 missing_audio), listed in /o/rejects.jsonl"
    assert "rejects" not in rows(summary_lines(report(rejects=1, rejects_by_reason={"no_similar_context": 1})))


def test_filters_end_a_run_with_0(tmp_path: Path) -> None:
    done = prepcli(
        *("manifest-to-tarred", MINI_CORPUS / "manifest.json", tmp_path / "out", "--num-shards", 2),
        *("--max-duration", 3, "--json"),
    )
    assert done.code == 0
    assert done.json["left_out"] == done.json["rejects"] == 24
    plan = prepcli(
        "manifest-to-tarred", MINI_CORPUS / "manifest.json", "x", "--shard-size", 2, "--max-duration=3", "--dry-run"
    )
    assert f"  left out {done.json['left_out']} by your settings (" in plan.out
    assert "  rejects  none so far (the audio is not read yet)\n" in plan.out
    status = prepcli("status", tmp_path / "out").out
    assert f"  left out {done.json['left_out']} by the settings ({done.json['left_out']} above_max_duration)" in status
    assert "  rejects  none" in status
    head, row, _ = prepcli("status", tmp_path / "out", "absent").out.splitlines()
    assert re.split("  +", head)[-4:] == ["rejects", "left out", "records/s", "to go"]
    assert row.split()[-4:] == ["0", str(done.json["left_out"]), "-", "-"]
    text = " ".join(prepcli("manifest-to-tarred", "--help").out.split())
    assert "records that your settings leave out do not count" in text


def test_telemetry_only_with_verbose() -> None:
    one = report(
        details={"waited_for_audio": 0.004, "manifest": "out/m.json"},
        outputs={"manifest": "out/m.json"},
        telemetry=["waited_for_audio"],
    )
    assert [*rows(summary_lines(one))] == ["records", "audio", "manifest"]
    assert [*rows(summary_lines(one, verbose=True))] == ["records", "audio", "manifest", "units", "waited_for_audio"]
    assert "units" in rows(summary_lines(report(status="incomplete")))


def test_verbose_of_a_run(corpus: Path) -> None:
    plain = tarred(corpus, "--max-rejects", 5)
    assert "units" not in plain.out
    again = tarred(corpus, "--max-rejects", 5, "--verbose")
    assert "  units                   2 of 2 done" in again.out


def test_printed_paths_are_absolute(corpus: Path) -> None:
    done = tarred(corpus, "--max-rejects", 5)
    lines = rows(done.out.splitlines())
    folder = corpus.parent
    assert lines["manifest_filepath"] == f"{folder}/out/sharded_manifests/manifest__OP_0..1_CL_.json"
    assert lines["tarred_audio_filepaths"] == f"{folder}/out/audio__OP_0..1_CL_.tar"
    assert lines["rejects"].endswith(f", listed in {folder}/out.prepcli/rejects.jsonl")


def test_the_first_of_rejects_that_are_all_alike(corpus: Path) -> None:
    done = tarred(corpus, "--max-rejects", 5)
    first = read_lines(corpus)[0]["audio_filepath"]
    assert rows(done.out.splitlines())["first reject"].startswith(f"line 1: {corpus.parent / first}")
    (corpus.parent / read_lines(corpus)[7]["audio_filepath"]).write_bytes(b"no audio at all")
    mixed = tarred(corpus, "--max-rejects", 6, "--overwrite")
    assert "first reject" not in mixed.out


def test_status_names_the_three_commonest_reasons(corpus: Path) -> None:
    lines = [*corpus.read_text().splitlines(), "[]", "[]", '{"text": 1}', '{"audio_filepath": "x", "duration": -1}']
    corpus.write_text("\n".join(lines) + "\n")
    assert tarred(corpus).code == 3
    status = prepcli("status", corpus.parent / "out")
    (line,) = [line for line in status.out.splitlines() if "rejects  " in line]
    assert ": 5 missing_audio, 2 broken_json, 1 bad_duration and 1 more reasons" in line


def test_mended_files_are_tried_again_with_the_command_that_is_printed(corpus: Path) -> None:
    """A file that is missing, one that is not audio, and one that was cut short."""
    folder = corpus.parent
    lines = read_lines(corpus)
    (folder / lines[6]["audio_filepath"]).write_bytes(b"no audio at all")
    cut = folder / lines[8]["audio_filepath"]
    lines[8]["duration"] += 1  # as if the file were longer, once whole
    write_lines(corpus, lines)
    done = tarred(corpus)
    assert (done.code, "beyond_audio" in done.out) == (3, True)
    assert tarred(corpus).code == 3
    (line,) = [line for line in done.out.splitlines() if "retry with: " in line]
    shutil.copytree(MINI_CORPUS, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.json"))
    longer = next(
        path for path in sorted(folder.rglob(f"*{cut.suffix}")) if path.stat().st_size > 1.9 * cut.stat().st_size
    )
    shutil.copy(longer, cut)
    command = shlex.split(line.partition("retry with: ")[2])
    again = prepcli(*command[1:], cwd=folder)
    assert again.code == 0
    assert "retry with" not in again.out
    assert prepcli("verify", folder / "out").code == 0


def test_status_tells_the_share_of_rejects_and_that_they_are_too_many(corpus: Path) -> None:
    assert tarred(corpus).code == 3
    status = prepcli("status", corpus.parent / "out")
    assert "manifest-to-tarred, finished with too many rejects" in status.out
    words = "  rejects  5, 41.7% of the records, more than --max-rejects allows (5.0% of the records): 5 missing_audio"
    assert words in status.out.splitlines()
    assert tarred(corpus, "--max-rejects", 5).code == 0  # nothing is done, but this is what is asked for now
    status = prepcli("status", corpus.parent / "out")
    assert "  rejects  5, 41.7% of the records: 5 missing_audio" in status.out.splitlines()
    assert "too many" not in status.out
    assert prepcli("status", corpus.parent / "out", "--json").json["too_many_rejects"] is False
