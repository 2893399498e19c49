"""The recipe from folders of audio to a training config with two languages."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import MINI_CORPUS, read_lines
from tests.recipes.test_recipes import ROOT, run

pytestmark = pytest.mark.slow


def config_of(work: Path) -> Any:
    return yaml.safe_load((work / "train.yaml").read_text())


def test_own_audio_and_the_same_again(tmp_path: Path) -> None:
    pytest.importorskip("scipy")  # of `score`
    done = run("own_audio", tmp_path, "--mini", WORK="my work")
    assert done.returncode == 0, done.stderr
    work = tmp_path / "my work"
    config = config_of(work)["train_ds"]
    assert config["input_cfg"] == str(work / "input_cfg.yaml")
    assert config["num_buckets"] == 3
    entries = yaml.safe_load((work / "input_cfg.yaml").read_text())
    assert [entry["tags"] for entry in entries] == [{"lang": "en"}, {"lang": "it"}]
    assert sum(entry["weight"] for entry in entries) == pytest.approx(1)
    corpus = read_lines(MINI_CORPUS / "manifest.json")
    italian = sorted(record["text"] for record in corpus if record["lang"] == "it")
    assert sorted(record["text"] for record in read_lines(work / "it.json")) == italian
    assert "keep 0.5 <= duration <= 40 and chars_per_second <= 40" in done.stderr
    assert "drop clipped > 0.01 or peak_db < -50" in done.stderr
    dev = read_lines(work / "dev.json")
    assert all(record["bandwidth"] > 0 for record in dev)
    assert len(dev) == 2
    assert config_of(work)["validation_ds"]["manifest_filepath"] == str(work / "dev.json")
    for lang in ("en", "it"):
        records = [*read_lines(work / f"{lang}_parts/train.json"), *read_lines(work / f"{lang}_parts/dev.json")]
        assert len(records) == len(read_lines(work / f"{lang}.json")) == 6
        in_shards = {record["text"] for record in read_lines(work / lang / "tarred_audio_manifest.json")}
        assert in_shards == {record["text"] for record in records} - {record["text"] for record in dev}
    before = {path: path.read_bytes() for path in sorted(work.glob("*.*")) if path.is_file()}
    again = run("own_audio", tmp_path, "--mini", WORK="my work")
    assert again.returncode == 0, again.stderr
    assert " done, " not in again.stdout
    assert {path: path.read_bytes() for path in before} == before


def test_folders_start_from_where_the_user_is(tmp_path: Path) -> None:
    pytest.importorskip("scipy")  # of `score`
    for name in ("s01", "s07"):
        shutil.copytree(MINI_CORPUS / name, tmp_path / name)
        for audio in list((tmp_path / name).glob("*.*")):
            audio.with_suffix(".txt").write_text("some words\n")
    second = f"it:{tmp_path / 's07'}"
    done = run("own_audio", tmp_path, WORK="work", SHARDS="2", DEV="1", FIRST="en:s01", SECOND=second)
    assert f"make-manifest {tmp_path}/s01 " in done.stdout, done.stderr
    assert {record["text"] for record in read_lines(tmp_path / "work/en.json")} == {"some words"}
    assert (tmp_path / "work/input_cfg.yaml").exists()


def test_a_linked_environment_is_used_as_it_is(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    environment = os.path.realpath(sys.prefix)
    (tmp_path / ".venv").symlink_to(environment)
    done = subprocess.run([tmp_path / "scripts/setup.sh"], capture_output=True, text=True, check=True)
    assert f"up to date: .venv is a link to {environment}, which is used as it is" in done.stdout
    assert (tmp_path / ".venv").is_symlink()


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    done = run("own_audio", tmp_path, WORK="work")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "own_audio: set FIRST and SECOND to LANGUAGE:FOLDER, or give --mini\n"
    assert list(tmp_path.iterdir()) == []


LANGUAGES = {
    "en": "the quick brown fox jumps over the lazy dog and runs away",
    "ru": "съешь ещё этих мягких французских булок да выпей же чаю",
    "el": "ξεσκεπάζω την ψυχοφθόρα βδελυγμία και τρέχω στο σπίτι",
    "zh": " ".join(chr(0x4E00 + number) for number in range(0, 4000, 10)),
}


def test_tokenizer_of_four_languages_knows_every_character(tmp_path: Path) -> None:
    """Chinese alone has more characters than the tokenizer of an English corpus has pieces."""
    sentencepiece = pytest.importorskip("sentencepiece")
    texts = [" ".join(text.split()[start::5]) for text in LANGUAGES.values() for start in range(5)]
    records = [{"audio_filepath": "a.wav", "duration": 1.0, "text": text} for text in texts]
    records.append({"audio_filepath": "a.wav", "duration": 1.0})  # NeMo reads such lines, too
    manifest = tmp_path / "own.json"
    manifest.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    recipe = ROOT / "recipes/own_audio/small_ctc.py"
    subprocess.run([sys.executable, recipe, manifest, "mix.yaml", "model"], cwd=tmp_path, check=True)
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "model/tokenizer/tokenizer.model"))
    for text in texts:
        assert tokenizer.unk_id() not in tokenizer.encode(text)
        assert tokenizer.decode(tokenizer.encode(text)) == text
