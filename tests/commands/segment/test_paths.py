"""The paths in the manifest of segments are found by the commands that read it, and its RTTM files fit their audio."""

import shutil
from pathlib import Path

from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.running import prepcli

BY_WINDOWS = ("--by", "windows", "--window", 4)


def test_a_folder_elsewhere_and_moved_with_its_manifest(tmp_path: Path) -> None:
    """The manifest is not beside the folder of audio; nor are both where they were when it was written."""
    place = tmp_path / "place"
    shutil.copytree(MINI_CORPUS / "long", place / "audio/long")
    for number, folder in enumerate((place, tmp_path / "moved")):
        out = folder / "windows.json"
        if number:
            place.rename(folder)
        else:
            assert prepcli("segment", folder / "audio/long", out, *BY_WINDOWS).code == 0
        assert {line["audio_filepath"] for line in read_lines(out)} == {"audio/long/s01.flac"}
        for command in ("verify", "inspect"):
            done = prepcli(command, out, "--json")
            assert done.code == 0, done.out
            assert "does not exist" not in done.out


def test_files_of_segments_have_no_times_of_the_recording(tmp_path: Path) -> None:
    options = ("--rttm-out", tmp_path / "rttm", "--cut", tmp_path / "cut")
    done = prepcli("segment", MINI_CORPUS / "long", tmp_path / "windows.json", *BY_WINDOWS, *options)
    assert done.code == 2
    assert "times in --rttm-out are not right" in done.error_line
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_audio_needs_no_other_folder(tmp_path: Path) -> None:
    base = ("--audio-base-dir", MINI_CORPUS)
    done = prepcli("segment", MINI_CORPUS / "long", tmp_path / "windows.json", *BY_WINDOWS, *base)
    assert (done.code, list(tmp_path.iterdir())) == (2, [])
    assert "--audio-base-dir has no effect on a folder of audio" in done.err.splitlines()[-1]


def test_files_of_segments_do_not_become_recordings(tmp_path: Path) -> None:
    shutil.copytree(MINI_CORPUS / "long", tmp_path / "talks")
    (tmp_path / "link").symlink_to("talks")
    for cut in ("talks/cut", "link/cut", "talks"):
        done = prepcli("segment", "talks", "windows.json", *BY_WINDOWS, "--cut", cut, cwd=tmp_path)
        assert done.code == 2
        assert f"--cut {cut} lies in talks, whose audio files are the recordings" in done.error_line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "talks"]
    of_file = ("segment", "talks/s01.flac", "talks/windows.json", *BY_WINDOWS, "--cut", "talks/cut")
    assert [prepcli(*of_file, cwd=tmp_path).code for _ in range(2)] == [0, 0]


def test_a_dry_run_names_no_file_that_is_not_there(tmp_path: Path) -> None:
    """It leaves out the end of the recording, and lists that nowhere."""
    done = prepcli("segment", MINI_CORPUS / "long", tmp_path / "windows.json", *BY_WINDOWS, "--dry-run")
    assert (done.code, list(tmp_path.iterdir())) == (0, [])
    assert "left out    1 by your settings (1 below_min_duration)\n" in done.out


def test_ranks_name_files_of_segments_that_are_there(tmp_path: Path) -> None:
    short = ("--by", "windows", "--window", 0.5, "--min", 0.1)  # several units of files
    options = (*short, "--cut", tmp_path / "cut", "--world-size", 2)
    for rank in range(2):
        done = prepcli("segment", MINI_CORPUS / "manifest.json", tmp_path / "w.json", *options, "--rank", rank)
        assert done.code == 0, done.err
        assert all(Path(line.split()[1]).exists() for line in done.out.splitlines() if line.startswith("  files"))
    files = read_lines(tmp_path / "cut/manifest.json")
    assert [line["duration"] for line in files] == [line["duration"] for line in read_lines(tmp_path / "w.json")]


def test_a_dry_run_shows_the_account_of_many_rejects(tmp_path: Path) -> None:
    record = {"audio_filepath": str(MINI_CORPUS / "long/s01.flac"), "duration": 16.72}
    manifest = write_lines(tmp_path / "m.json", [record])
    done = prepcli("segment", manifest, tmp_path / "times.json", "--by", "times", "--dry-run")
    assert (done.code, list(tmp_path.iterdir())) == (0, [manifest])
    assert "1 (1 missing_field)\n" in done.out
    assert "16.72 s in = 0.00 s segments + 0.00 s pauses + 0.00 s overlap + 16.72 s rejects" in done.out


def test_files_of_segments_follow_repaired_audio(tmp_path: Path) -> None:
    """--retry-rejects made the manifest, and left the files as they were: it ended with exit code 2."""
    for name in ("a", "b"):
        shutil.copy(MINI_CORPUS / "long/s01.flac", tmp_path / f"{name}.flac")
    write_lines(tmp_path / "m.json", [{"audio_filepath": f"{name}.flac", "duration": 16.72} for name in ("a", "b")])
    (tmp_path / "b.flac").write_bytes(b"damaged")
    call = (tmp_path / "m.json", tmp_path / "w.json", *BY_WINDOWS, "--cut", tmp_path / "cut", "--max-rejects", 1)
    assert prepcli("segment", *call).code == 0
    assert len(read_lines(tmp_path / "cut/manifest.json")) == 4
    shutil.copy(MINI_CORPUS / "long/s01.flac", tmp_path / "b.flac")
    done = prepcli("segment", *call, "--retry-rejects")
    assert done.code == 0, done.err
    assert len(read_lines(tmp_path / "cut/manifest.json")) == len(read_lines(tmp_path / "w.json")) == 8
    assert prepcli("segment", *call).code == 0
