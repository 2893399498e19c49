"""The recipes with `--mini`, as a user runs them: from a folder of one's own, without internet, and a second time."""

import hashlib
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import soundfile

from tests.commands.download.miniatures import utterances
from tests.conftest import Lines, read_lines, tree
from tests.support.running import HANG_SECONDS, clean_environment, prepcli

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Recipe:
    """What `recipes/<name>/run.sh --mini` makes: manifests in WORK with so many records, the first also in shards."""

    name: str
    manifests: dict[str, int]
    sampling_rate: int
    num_bins: int
    texts: dict[str, list[str]]
    """By manifest, of those that are made from the mini corpus."""


def texts_of(*speakers: str, most: int = 6) -> list[str]:
    return sorted(text.upper().lower() for speaker in speakers for _, text in utterances(speaker)[:most])


RECIPES = [
    Recipe(
        "an4",
        {"data/an4/train_manifest.json": 6, "data/an4/test_manifest.json": 3},
        16000,
        2,
        {
            "data/an4/train_manifest.json": texts_of("s01", "s02", most=3),
            "data/an4/test_manifest.json": texts_of("s03", most=3),
        },
    ),
    Recipe(
        "librispeech",
        {"data/train_clean_5.json": 18, "data/dev_clean_2.json": 12},
        22050,
        4,
        {"data/train_clean_5.json": texts_of("s03", "s04", "s05"), "data/dev_clean_2.json": texts_of("s01", "s02")},
    ),
    Recipe(
        "fisher",
        {"fisher/manifest_train.json": 63, "fisher/manifest_val.json": 8, "fisher/manifest_test.json": 8},
        8000,
        3,
        {},
    ),
]


def run(
    name: str,
    folder: Path,
    *options: str,
    root: Path = ROOT,
    **environ: str,
) -> "subprocess.CompletedProcess[str]":
    """Run a recipe in `folder`, behind a proxy that answers nobody."""
    web = {"http_proxy": "http://127.0.0.1:9", "no_proxy": "", "LDC_ROOT": "", "PREPCLI_PYTHON": sys.executable}
    return subprocess.run(
        ["bash", root / "recipes" / name / "run.sh", *options],
        cwd=folder,
        env=clean_environment(**web | environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def check_manifest(path: Path, count: int, sampling_rate: int) -> Lines:
    """Every record has its audio, as long as it says."""
    records = read_lines(path)
    assert len(records) == count
    for record in records:
        info = soundfile.info(path.parent / record["audio_filepath"])
        assert (info.samplerate, info.channels) == (sampling_rate, 1)
        assert record["duration"] == pytest.approx(info.duration, abs=0.001)
        assert record["text"].strip()
    return records


def check_shards(out: Path, manifest: Path, records: Lines) -> None:
    """Members and lines of each shard are aligned; all together they are the files and texts of the manifest."""
    audio, lines = [], []
    for number in range(2):
        listed = read_lines(out / f"sharded_manifests/manifest_{number}.json")
        with tarfile.open(out / f"audio_{number}.tar") as tar:
            assert tar.getnames() == [line["audio_filepath"] for line in listed]
            for member, line in zip(tar.getmembers(), listed, strict=True):
                file = tar.extractfile(member)
                assert file is not None
                assert line["duration"] == pytest.approx(soundfile.info(file).duration, abs=0.001)
                file.seek(0)
                audio.append((digest(file.read()), line["text"]))
        lines += listed
    assert sorted(audio) == sorted(
        (digest((manifest.parent / record["audio_filepath"]).read_bytes()), record["text"]) for record in records
    )
    assert read_lines(out / "tarred_audio_manifest.json") == lines
    done = prepcli("verify", out)
    assert done.code == 0, done.out


def check_bins(printed: str, count: int, records: Lines) -> None:
    """As many buckets as were asked for, with edges that rise up to the longest record."""
    assert f"Used {len(records)} examples for the estimation." in printed
    assert f"num_buckets={count}\n" in printed
    (found,) = re.findall(r"bucket_duration_bins=\[(.*)\]", printed)
    edges = [float(edge) for edge in found.split(",")]
    assert len(edges) == count - 1
    assert edges == sorted(edges)
    assert min(record["duration"] for record in records) < edges[0]
    assert edges[-1] <= max(record["duration"] for record in records) + 0.01


def outputs(work: Path) -> dict[str, str]:
    """All but what the miniature web site says of itself: its address is another each time."""
    return {name: digest for name, digest in tree(work).items() if not name.startswith("site/")}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_recipe_and_the_same_again(recipe: Recipe, awkward: Path) -> None:
    done = run(recipe.name, awkward, "--mini", WORK="my work")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert [path.name for path in awkward.iterdir()] == ["my work"]
    work = awkward / "my work"
    manifests = {
        name: check_manifest(work / name, count, recipe.sampling_rate) for name, count in recipe.manifests.items()
    }
    for name, texts in recipe.texts.items():
        assert sorted(record["text"] for record in manifests[name]) == texts
    first, records = next(iter(manifests.items()))
    check_shards(work / "tarred", work / first, records)
    check_bins(done.stdout, recipe.num_bins, records)
    places = re.findall(re.escape(str(work)) + r"([^\n, ]+)", done.stdout.partition("What to look at")[2])
    assert len(places) >= 2
    for place in places:
        assert Path(f"{work}{place}").exists(), place

    before = outputs(work)
    again = run(recipe.name, awkward, "--mini", WORK="my work")
    assert again.returncode == 0, again.stderr
    assert outputs(work) == before
    assert " done, " not in again.stdout
    assert "manifest-to-tarred: nothing to do" in again.stdout


def test_ljspeech_to_mels_and_the_same_again(tmp_path: Path) -> None:
    done = run("ljspeech", tmp_path, "--mini", WORK="work")
    assert done.returncode == 0, done.stderr
    work = tmp_path / "work"
    listed = {}
    for part in ("train", "val", "test"):
        lines = (work / f"filelists/ljs_mel_text_{part}_filelist.txt").read_text(encoding="utf-8").splitlines()
        records = read_lines(work / f"data/LJSpeech-1.1/{part}_manifest.json")
        assert [line.split("|")[1] for line in lines] == [record["normalized_text"] for record in records]
        listed[part] = [line.split("|")[0] for line in lines]
        made = work / f"LJSpeech-1.1/filelists/{part}_manifest_mel_text_filelist.txt"
        assert [f"LJSpeech-1.1/{line}" for line in made.read_text(encoding="utf-8").splitlines()] == lines
    assert all(listed.values())
    assert sorted(path for paths in listed.values() for path in paths) == sorted(
        f"LJSpeech-1.1/mels/{path.name}" for path in (work / "LJSpeech-1.1/mels").iterdir()
    )
    before = outputs(tmp_path / "work")
    again = run("ljspeech", tmp_path, "--mini", WORK="work")
    assert again.returncode == 0, again.stderr
    assert outputs(tmp_path / "work") == before
    assert "manifest-to-mels: nothing to do" in again.stdout


def test_without_another_python_it_is_that_of_the_virtual_environment(tmp_path: Path) -> None:
    """In a tree whose .venv is up to date, with nothing to install; each command is a process of its own."""
    root = tmp_path / "clone"
    (root / ".venv/bin").mkdir(parents=True)
    for name in ("prepcli", "pyproject.toml", "recipes", "scripts", "tests"):
        (root / name).symlink_to(ROOT / name)
    python = root / ".venv/bin/python"
    python.write_text(f"#!/bin/sh\necho \"$@\" >>'{tmp_path}/calls'\nexec '{sys.executable}' \"$@\"\n")
    python.chmod(0o755)
    checksum = subprocess.run(["cksum"], stdin=(ROOT / "pyproject.toml").open(), capture_output=True, text=True).stdout
    (root / ".venv/.prepcli-setup").write_text(f"{root}\n{checksum}all\n")
    setup = (ROOT / "scripts/setup.sh").read_text(encoding="utf-8")
    (lhotse2,) = re.findall(r"^lhotse2=lhotse==(\S+)$", setup, flags=re.MULTILINE)
    (root / f".venv/lhotse2/lhotse-{lhotse2}.dist-info").mkdir(parents=True)
    (root / ".venv/pyav/av").mkdir(parents=True)
    (root / ".venv/object_store").mkdir()
    (root / ".venv/object_store/cannot-be-installed").touch()
    offline = "1"
    done = run(
        "fisher",
        tmp_path,
        "--mini",
        root=root,
        WORK="work",
        PREPCLI_PYTHON="",
        UV_OFFLINE=offline,
        PIP_NO_INDEX=offline,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("setup: up to date")
    calls = (tmp_path / "calls").read_text()
    for command in ("tests.commands.download.make_fisher", "prepcli download fisher", "prepcli verify"):
        assert f"-m {command}" in calls


@pytest.mark.parametrize("name", [recipe.name for recipe in RECIPES])
def test_wrong_use(name: str, tmp_path: Path) -> None:
    done = run(name, tmp_path, "--tiny", WORK="work")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{name}: the only option is --mini, not --tiny\n")
    assert list(tmp_path.iterdir()) == []


def test_fisher_without_its_licensed_tree(tmp_path: Path) -> None:
    done = run("fisher", tmp_path, WORK="work")
    assert (done.returncode, done.stdout) == (2, "")
    assert "set LDC_ROOT" in done.stderr
    assert list(tmp_path.iterdir()) == []
