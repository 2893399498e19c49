"""The Magpie-TTS recipe from `prepcli download libritts` to codes, with miniatures and toys in the place of models."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.commands.download.conftest import Serve, archives, checksums, serve  # noqa: F401 - fixtures
from tests.conftest import read_lines, tree
from tests.support.running import HANG_SECONDS, clean_environment, prepcli
from tests.support.toy_models import toy_python

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "recipes/magpietts"
CORPORA = {
    "libritts": ("dev_clean", "LibriTTS/dev_clean.json", "LibriTTS"),
    "hifitts": (None, "hi_fi_tts_v0/audio/{clean,other}_train.json", "hi_fi_tts_v0/audio"),
}


def write_config(folder: Path, *download: object) -> Path:
    """The config of the recipe for the miniatures; `download` are more options of the first step."""
    config = yaml.safe_load((RECIPE / "config.yaml").read_text())
    toys = {"codec_model": "toy", "codec_name": "random", "speaker_model": "toy", "shard_size": 8}
    where = {"output": str(folder / "out"), "corpora": str(folder / "corpora")}
    config["defaults"] |= toys | where | {"context_min_duration": 0.05, "context_min_ssim": -1.0}
    mine = config["data_sets"].pop()
    config["data_sets"] = [one for one in config["data_sets"] if one["name"] in CORPORA]
    for one in config["data_sets"]:
        parts, manifest, base = CORPORA[one["corpus"]]
        published = one["manifest"].removeprefix("/corpora/").replace("train_clean_{100,360}", "dev_clean")
        assert (published, one["audio_base_dir"]) == (manifest, f"/corpora/{base}")
        places = {"manifest": f"{folder}/corpora/{manifest}", "audio_base_dir": f"{folder}/corpora/{base}"}
        one |= places | {"parts": parts}
    assert "corpus" not in mine
    config["steps"][0]["command"] += "".join(f" {word}" for word in ("--max-rejects", 9, *download))
    config["steps"][2]["command"] += " --max-rejects 9"  # voices of one utterance
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def test_from_the_archive_to_codes_and_the_same_again(
    serve: Serve,  # noqa: F811
    checksums: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    config = write_config(tmp_path, "--base-url", serve().url, "--checksums", checksums)
    python = toy_python(tmp_path)

    def run() -> str:
        environ = clean_environment(PREPCLI_PYTHON=str(python), PYTHONPATH=str(ROOT), no_proxy="127.0.0.1")
        done = subprocess.run(
            ["bash", str(RECIPE / "run.sh"), str(config)],
            env=environ,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run()
    out = tmp_path / "out"
    made = read_lines(tmp_path / "corpora/LibriTTS/dev_clean.json")
    clean = read_lines(out / "libritts/clean/manifest.json")
    assert [record["speaker"] for record in clean] == [record["speaker"] for record in made]
    (context,) = (out / "libritts/context").glob("manifest_withContextAudio*.json")
    with_context = read_lines(context)
    assert len(with_context) == 12
    for record in with_context:  # another sentence of the same chapter: the preset reads the path
        assert Path(record["context_audio_filepath"]).parent == Path(record["audio_filepath"]).parent
        assert record["context_audio_filepath"] != record["audio_filepath"]
        assert record["context_audio_normalized_text"].endswith("fourteen fifty-five")
    for name, count in (("libritts", 12), ("hifitts", 8)):
        checked = prepcli("verify", out / name / "shar", "--json")
        assert checked.code == 0, checked.out
        assert len(list((out / name / "shar/codes_random").iterdir())) == 2
        assert checked.json["records"] == count
    before = tree(tmp_path)
    assert "download libritts dev_clean: nothing to do" in run()
    assert tree(tmp_path) == before
