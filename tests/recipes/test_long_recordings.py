"""The recipe from long recordings with subtitles to a training config."""

import json
import re
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest
import soundfile
import yaml

from tests.conftest import MINI_CORPUS, read_lines
from tests.recipes.test_recipes import ROOT, outputs, run
from tests.support.running import run_process
from tests.support.tools import need_package

pytestmark = pytest.mark.slow

MAKE = ROOT / "recipes/long_recordings/make_recordings.py"


def test_long_recordings_and_the_same_again(tmp_path: Path) -> None:
    for name in ("silero_vad", "pyloudnorm"):
        need_package(name)
    done = run("long_recordings", tmp_path, "--mini", WORK="my work")
    assert done.returncode == 0, done.stderr
    work = tmp_path / "my work"
    segments = read_lines(work / "texts.json")
    corpus = read_lines(MINI_CORPUS / "manifest.json")
    assert sorted(" ".join(record["text"] for record in segments).split()) == sorted(
        " ".join(record["text"] for record in corpus).split()
    )
    recordings = {path.stem: soundfile.info(path).duration for path in (work / "talks").glob("*.flac")}
    assert min(recordings.values()) > 40
    for manifest in ("texts.json", "speech.json"):
        account = json.loads((work / f"{manifest}.prepcli/report.json").read_text())["details"]["seconds"]
        assert account["in"] == pytest.approx(sum(recordings.values()))
        parts = sum(seconds for part, seconds in account.items() if part != "in")
        assert parts == pytest.approx(account["in"], abs=1e-6)
        lines = read_lines(work / manifest)
        assert account["segments"] == pytest.approx(sum(line["duration"] for line in lines), abs=1e-4)
        assert max(line["duration"] for line in lines) <= 10
    assert all("text" not in line for line in read_lines(work / "speech.json"))

    train, dev = (read_lines(work / f"parts/{part}.json") for part in ("train", "dev"))
    files = [{Path(line["audio_filepath"]).stem for line in lines} for lines in (train, dev)]
    assert files[0] | files[1] == set(recordings)
    assert not files[0] & files[1]
    in_shards = read_lines(work / "tarred/tarred_audio_manifest.json")
    assert sorted(line["text"] for line in in_shards) == sorted(line["text"] for line in train)
    assert all(line.get("offset", 0) == 0 for line in in_shards)
    config = yaml.safe_load((work / "train.yaml").read_text())
    assert config["train_ds"]["num_buckets"] == 3
    assert config["validation_ds"]["manifest_filepath"] == str(work / "parts/dev.json")
    named = re.sub(r"_OP_0\.\.(\d)_CL_", r"\1", config["train_ds"]["tarred_audio_filepaths"])
    assert sorted((work / "tarred").glob("*.tar"))[-1] == Path(named)
    places = re.findall(r"^  (/.+)$", done.stdout.partition("What to look at")[2], flags=re.MULTILINE)
    assert len(places) == 5
    assert [place for place in places if not Path(place).exists()] == []

    before = outputs(work)
    again = run("long_recordings", tmp_path, "--mini", WORK="my work")
    assert again.returncode == 0, again.stderr
    assert " done, " not in again.stdout
    assert outputs(work) == before


def test_each_sentence_is_where_its_cue_says(tmp_path: Path) -> None:
    """Its samples are those of the corpus."""
    done = run_process([sys.executable, MAKE, tmp_path / "talks"])
    assert done.code == 0, done.err
    known = {
        line["text"]: soundfile.read(MINI_CORPUS / line["audio_filepath"], dtype="int16")[0]
        for line in read_lines(MINI_CORPUS / "manifest.json")
    }
    found = []
    for path in sorted((tmp_path / "talks").glob("*.srt")):
        samples, rate = soundfile.read(path.with_suffix(".flac"), dtype="int16")
        for cue in path.read_text(encoding="utf-8").split("\n\n"):
            _, times, text = cue.strip().split("\n")
            start, end = (seconds(time) for time in times.split(" --> "))
            first = round(start * rate - 0.05 * rate)  # milliseconds need not be whole samples
            places = range(first - 12, first + 13)
            whole = known[text]
            assert any((samples[place : place + len(whole)] == whole).all() for place in places if place >= 0), text
            assert end - start == pytest.approx(len(whole) / rate - 0.1, abs=0.0011)
            found.append(text)
    assert sorted(found) == sorted(known)


def seconds(time: str) -> float:
    hours, minutes, rest = time.replace(",", ".").split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(rest)


def test_recordings_of_ones_own(tmp_path: Path) -> None:
    """A relative folder starts from where the user is; times lie in a file of all recordings; one has none."""
    for package in ("silero_vad", "pyloudnorm"):
        need_package(package)
    (tmp_path / "talks").mkdir()
    for number in range(24):
        speaker = f"s0{number % 4 + 1}"
        name = f"{speaker}_u{number % 6 + 1}.flac"
        shutil.copy(MINI_CORPUS / speaker / name, tmp_path / f"talks/t{number:02d}.flac")
    rows = [f"t{number:02d} 1 0.1 0.4 some\nt{number:02d} 1 0.5 0.5 words\n" for number in range(1, 24)]
    (tmp_path / "all.ctm").write_text("".join(rows))
    inputs = partial(run, "long_recordings", tmp_path, TALKS="talks", TIMES="all.ctm", WORK="work")
    done = inputs(SHARDS="2", DEV="2", KEEP="duration > 0")
    assert done.returncode == 0, done.stderr
    assert f"--times {tmp_path}/all.ctm" in done.stdout
    segments = read_lines(tmp_path / "work/texts.json")
    assert {record["text"] for record in segments} == {"some words"}
    assert len(segments) == 23
    (reject,) = read_lines(tmp_path / "work/texts.json.prepcli/rejects.jsonl")
    assert (Path(reject["audio_filepath"]).name, reject["reject_reason"]) == ("t00.flac", "missing_field")


def test_one_recording_cannot_be_divided_but_its_segments_can(tmp_path: Path) -> None:
    """The error says how, and the same command with `BY=none` goes on."""
    for package in ("silero_vad", "pyloudnorm"):
        need_package(package)
    assert run_process([sys.executable, MAKE, tmp_path / "all"]).code == 0
    (tmp_path / "talks").mkdir()
    for suffix in (".flac", ".srt"):
        shutil.copy(tmp_path / f"all/podcast{suffix}", tmp_path / "talks")
    inputs = partial(
        run, "long_recordings", tmp_path, TALKS="talks", WORK="work", SHARDS="1", DEV="2", LONGEST="10", BINS="2"
    )
    done = inputs()
    assert done.returncode == 2
    assert "BY=none draws each segment for itself" in done.stderr
    done = inputs(BY="none")
    assert done.returncode == 0, done.stderr
    assert len(read_lines(tmp_path / "work/parts/dev.json")) == 2


def test_wrong_use(tmp_path: Path) -> None:
    for options, message in (
        ([], "set TALKS to a folder of recordings with subtitles, or give --mini"),
        (["--tiny"], "the only option is --mini, not --tiny"),
    ):
        done = run("long_recordings", tmp_path, *options, WORK="work")
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"long_recordings: {message}\n")
        assert list(tmp_path.iterdir()) == []
