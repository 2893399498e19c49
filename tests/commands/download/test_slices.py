"""Slices of conversations: recordings that are missing, damaged, or in a coding that needs another program."""

import os
import re
import shlex
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from prepcli.audio.probe import probe
from prepcli.commands.download import slices
from tests.commands.download.make_fisher import RATE, make_fisher, write_conversation
from tests.commands.download.published.test_fisher import (
    TALK,
    A,
    B,
    all_records,
    audio_file,
    check_slices,
    rejects,
    run,
)
from tests.conftest import read_lines, tree
from tests.support.sphere_files import Samples, shorten, shorten_ulaw, sphere, ulaw_sphere, with_real_rate
from tests.support.tools import need


def check_one_slice_a_speaker(dest: Path, source: Samples) -> None:
    """What slices of 5 s and more are made of TALK with what was not sure."""
    check_slices(dest, {"test/fe_03_00007_A_001.wav": (source, A[:3]), "test/fe_03_00007_B_001.wav": (source, B[:4])})


def test_recordings_that_are_missing_or_damaged(tmp_path: Path) -> None:
    for number in range(1, 7):
        write_conversation(tmp_path / "ldc", number, ["1.0 2.0 A: one", "2.0 3.0 B: two"], 4.0)
    audio_file(tmp_path / "ldc", 1).unlink()
    whole = audio_file(tmp_path / "ldc", 2).read_bytes()
    audio_file(tmp_path / "ldc", 2).write_bytes(whole[:-100])
    audio_file(tmp_path / "ldc", 3).write_bytes(b"")
    audio_file(tmp_path / "ldc", 4).write_bytes(ulaw_sphere(np.zeros((4 * RATE, 1), np.int16)))
    audio_file(tmp_path / "ldc", 6).rename(audio_file(tmp_path / "ldc", 6).with_name("fe_03_00077.sph"))
    done = run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 0, "--max-rejects", 100, "--json")
    assert done.code == 0, done.err
    found = [Path(record["audio_filepath"]).stem for record in all_records(tmp_path / "out")]
    assert found == ["fe_03_00004_A_001", "fe_03_00005_A_001", "fe_03_00005_B_001"]
    listed = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert [reject["reject_reason"] for reject in listed] == [
        *("missing_audio", "missing_audio", "unreadable_audio", "unreadable_audio"),
        *("unreadable_audio", "unreadable_audio", "bad_field", "missing_audio", "missing_audio"),
        "missing_transcript",
    ]
    unlisted = audio_file(tmp_path / "ldc", 6).with_name("fe_03_00077.sph")
    detail = f"{unlisted}: no transcript names it"
    assert (listed[-1]["audio_filepath"], listed[-1]["reject_detail"]) == (str(unlisted), detail)
    assert (done.json["notes"], done.json["left_out"]) == ([], 1)


def test_files_with_the_same_name(tmp_path: Path) -> None:
    """The second recording or transcript is a reject that names both, unless it is a link to the same file."""
    for number in (1, 2):
        write_conversation(tmp_path / "ldc", number, ["1.0 2.0 A: one", "2.0 3.0 B: two"], 4.0)
    audio = audio_file(tmp_path / "ldc", 1)
    copies = [tmp_path / "ldc/z" / name for name in (audio.name, "fe_03_00002.txt", "fe_03_00002.sph")]
    copies[0].parent.mkdir()
    shutil.copy(audio, copies[0])
    copies[1].write_text("1.0 2.0 A: other words\n")
    copies[2].symlink_to(audio_file(tmp_path / "ldc", 2))
    done = run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 0, "--max-rejects", 2, "--json")
    assert (done.code, done.json["records_in"], done.json["rejects_by_reason"]) == (0, 4 + 2, {"bad_field": 2})
    listed = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert {reject["audio_filepath"] for reject in listed} == {str(copies[0]), str(copies[1])}
    detail = f"{copies[0]}: the id fe_03_00001 is there twice, in {audio} and in {copies[0]}; the first is used"
    assert detail in [reject["reject_detail"] for reject in listed]
    assert "other words" not in str(all_records(tmp_path / "out"))


def test_a_transcript_that_comes_back(tmp_path: Path) -> None:
    """`--retry-rejects` slices the conversation."""
    for number in (1, 2):
        write_conversation(tmp_path / "ldc", number, ["1.0 2.0 A: one", "2.0 3.0 B: two"], 4.0)
    (transcript,) = (tmp_path / "ldc").rglob("fe_03_00002.txt")
    text = transcript.read_bytes()
    transcript.unlink()
    words = (tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 0)
    done = run(*words)
    assert done.code == 0, done.err
    assert re.search(r"unlisted +1 named by no published transcript \(1 missing_transcript\), listed in ", done.out)
    assert run(*words, "--retry-rejects", "--json").json["status"] == "nothing_to_do"
    transcript.write_bytes(text)
    again = run(*words, "--retry-rejects", "--json")
    assert (again.code, again.json["records_in"], again.json["rejects_by_reason"]) == (0, 4, {})


def test_rows_of_the_table_of_speakers_are_counted(tmp_path: Path) -> None:
    make_fisher(tmp_path / "ldc", 2, 8.0)
    table = min((tmp_path / "ldc").rglob("*calldata.tbl"))
    head, first, *rows = table.read_text().splitlines()
    table.write_text("\n".join([head, f"{first.partition(',')[0]},,{first.partition(',')[2]}", *rows]) + "\n")
    done = run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 0, "--max-rejects", 99, "--json")
    assert done.json["notes"] == [
        f"{table}: 1 row has another number of columns than its first line; the speakers of these calls are named by "
        "call"
    ]


def test_no_slice_can_have_infinite_seconds(tmp_path: Path) -> None:
    make_fisher(tmp_path / "ldc", 1, 20.0)
    done = run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", "inf", "--max-rejects", "100")
    assert (done.code, done.error_line) == (2, "prepcli: --min-slice-duration takes seconds, not inf")
    assert not (tmp_path / "out").exists()


def test_a_transcript_that_changes_during_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_fisher(tmp_path / "ldc", 5, 20.0)
    transcripts = sorted((tmp_path / "ldc").rglob("*.txt"))
    survey = slices.survey

    def survey_and_change(*arguments: Any) -> list[slices.Surveyed]:
        surveyed = survey(*arguments)
        for path in transcripts:
            path.write_bytes(path.read_bytes() + b"\n")
        return surveyed

    monkeypatch.setattr(slices, "survey", survey_and_change)
    done = run(tmp_path / "ldc", tmp_path / "out")
    assert done.code == 1
    assert "was changed during the run" in done.error_line
    assert not list((tmp_path / "out").glob("**/*.wav"))


def test_a_recording_among_the_slices_is_kept(tmp_path: Path) -> None:
    make_fisher(tmp_path / "ldc", 1, 20.0)
    recording = audio_file(tmp_path / "ldc", 1)
    (tmp_path / "out/train").mkdir(parents=True)
    recording.rename(tmp_path / "out/train/a.wav")
    recording.symlink_to(tmp_path / "out/train/a.wav")
    before = tree(tmp_path)
    for _ in range(2):
        assert run(tmp_path / "ldc", tmp_path / "out", "--overwrite").code == 0
        assert before.items() <= tree(tmp_path).items()


def test_a_recording_that_would_be_removed_is_refused(tmp_path: Path) -> None:
    """It is a link to a slice of an earlier run."""
    write_conversation(tmp_path / "ldc", 1, ["1.0 2.0 A: one"], 4.0)
    words = (tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 0)
    assert run(*words).code == 0
    made = min((tmp_path / "out").rglob("*.wav"))
    recording = audio_file(tmp_path / "ldc", 1)
    recording.unlink()
    recording.symlink_to(made)
    done = run(*words, "--overwrite")
    assert done.code == 2
    assert f"the input {recording} (it is {made}) lies where this command writes its output" in done.error_line
    assert made.exists()


def test_a_destination_may_hold_the_slices_of_another_corpus(tmp_path: Path) -> None:
    write_conversation(tmp_path / "ldc", 1, ["1.0 2.0 A: one"], 4.0)
    (tmp_path / "out/audio").mkdir(parents=True)
    (tmp_path / "out/audio/en_4156_a_001.wav").write_bytes(b"another corpus")
    for more in ([], ["--overwrite"]):
        done = run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 0, *more)
        assert done.code == 0
        assert "already holds" not in done.err and "others there stay" not in done.err


def test_shorten_compressed_pcm(tmp_path: Path) -> None:
    need("ffmpeg")
    source = write_conversation(tmp_path / "ldc", 7, TALK, 15.0)
    body = shorten([source[:, channel].tolist() for channel in range(2)])
    audio_file(tmp_path / "ldc", 7).write_bytes(sphere(body, "pcm,embedded-shorten-v2.00", len(source), 2))
    done = run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 5, "--keep-low-conf")
    assert done.code == 0, done.err
    check_one_slice_a_speaker(tmp_path / "out", source)


def test_shorten_compressed_ulaw(tmp_path: Path) -> None:
    need("sph2pipe")
    source = write_conversation(tmp_path / "ldc", 7, TALK, 15.0)
    data = sphere(shorten_ulaw(source), "ulaw,embedded-shorten-v2.00", len(source), 2, width=1)
    audio_file(tmp_path / "ldc", 7).write_bytes(data)
    done = run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 5, "--keep-low-conf")
    assert done.code == 0, done.err
    check_one_slice_a_speaker(tmp_path / "out", source)


STAND_IN = """#!{python}
# In the place of sph2pipe: takes the options that we give, and answers with a WAV file that was prepared.
import shutil, sys
assert sys.argv[1:] == ["-p", "-f", "wav", "/dev/stdin"], sys.argv
assert open(sys.argv[-1], "rb").read().startswith(b"NIST_1A")
with open({wav!r}, "rb") as wav:
    shutil.copyfileobj(wav, sys.stdout.buffer)
"""


@pytest.fixture
def shortened(tmp_path: Path) -> Samples:
    """A tree whose recording is mu-law compressed with shorten."""
    source = write_conversation(tmp_path / "ldc", 7, TALK, 15.0)
    data = sphere(shorten_ulaw(source), "ulaw,embedded-shorten-v2.00", len(source), 2, width=1)
    audio_file(tmp_path / "ldc", 7).write_bytes(data)
    return source


def test_shorten_compressed_ulaw_asks_for_sph2pipe(tmp_path: Path, shortened: Samples) -> None:
    bare = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = run(tmp_path / "ldc", tmp_path / "out", environ=bare)
    assert done.code == 2
    assert "1 recordings are compressed with shorten (ulaw,embedded-shorten-v2.00" in done.error_line
    assert "lhotse install-sph2pipe" in done.error_line
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("place", ["bin", ".lhotse/tools/sph2pipe-2.5"])
@pytest.mark.parametrize("missing", [0, 1])
def test_sph2pipe_is_called_as_it_wants(tmp_path: Path, shortened: Samples, place: str, missing: int) -> None:
    """Our side of the call only; `test_shorten_compressed_ulaw` has the real one, where it is installed."""
    soundfile.write(tmp_path / "decoded.wav", shortened[: len(shortened) - missing], RATE)
    tool = tmp_path / place / "sph2pipe"
    tool.parent.mkdir(parents=True)
    tool.write_text(STAND_IN.format(python=sys.executable, wav=str(tmp_path / "decoded.wav")))
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    there = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    done = run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 5, "--keep-low-conf", environ=there)
    if missing:
        assert done.code == 3
        assert {reason for reason, _ in rejects(tmp_path / "out")} == {"unreadable_audio"}
        return
    assert done.code == 0, done.err
    check_one_slice_a_speaker(tmp_path / "out", shortened)


def test_a_header_that_only_sox_reads(tmp_path: Path) -> None:
    """The file is decoded once, not once an utterance."""
    counting = tmp_path / "bin/sox"
    counting.parent.mkdir()
    counting.write_text(f'#!/bin/sh\necho "$@" >> {shlex.quote(str(tmp_path / "calls"))}\nexec {need("sox")} "$@"\n')
    counting.chmod(0o755)
    source = write_conversation(tmp_path / "ldc", 7, TALK, 15.0)
    path = audio_file(tmp_path / "ldc", 7)
    path.write_bytes(with_real_rate(path.read_bytes()))
    assert probe(path).format == "sox"
    there = {"PATH": f"{counting.parent}:{os.environ['PATH']}"}
    done = run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 5, "--keep-low-conf", environ=there)
    assert done.code == 0, done.err
    calls = (tmp_path / "calls").read_text().splitlines()
    assert len([call for call in calls if "-t wav" in call]) == 2  # to learn its length, and for its samples
    check_one_slice_a_speaker(tmp_path / "out", source)
