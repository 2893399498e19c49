"""extend-codec-codes called wrongly: one clear line, exit code 2, and nothing touched."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, copy_set, tree
from tests.support.running import prepcli
from tests.support.shar_sets import make
from tests.support.tars import write_tar


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("corpus") / "shar"
    make(MINI_CORPUS / "manifest_with_context.json", out, "--shard-size", 24)
    return out


@pytest.fixture
def shar(corpus: Path, tmp_path: Path) -> Path:
    return copy_set(corpus, tmp_path)


def nemo_file(path: Path, target: str) -> Path:
    """A `.nemo` file whose configuration names a class, and that holds nothing else."""
    return write_tar(path, {"./model_config.yaml": f"target: {target}\n".encode()})


def speaker_model(folder: Path) -> Path:
    return nemo_file(folder / "m.nemo", "nemo.collections.asr.models.label_models.EncDecSpeakerLabelModel")


def no_tar(folder: Path) -> Path:
    path = folder / "m.nemo"
    path.write_bytes(b"weights" * 1000)
    return path


def deep_configuration(folder: Path) -> Path:
    return with_configuration(folder, b"[" * 5000)


def impossible_date(folder: Path) -> Path:
    return with_configuration(folder, b"trained: 2020-13-45")


def with_configuration(folder: Path, text: bytes) -> Path:
    return write_tar(folder / "m.nemo", {"model_config.yaml": text})


def empty(folder: Path) -> Path:
    path = folder / "m.nemo"
    path.touch()
    return path


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (speaker_model, "contains a model of the class EncDecSpeakerLabelModel; the class AudioCodecModel is needed"),
        (no_tar, "is not a .nemo file"),
        (empty, "is not a .nemo file"),
        (deep_configuration, "is not a .nemo file"),
        (impossible_date, "is not a .nemo file"),
        (lambda folder: folder / "nowhere.nemo", "there is no such file"),
    ],
)
def test_wrong_models(shar: Path, tmp_path: Path, model: Callable[[Path], Path], message: str) -> None:
    path = model(tmp_path)
    before = tree(tmp_path)
    done = prepcli("extend-codec-codes", shar, "--codec-model", path, "--devices", "cpu")
    assert done.code == 2
    assert f"--codec-model {path}" in done.error_line
    assert message in done.error_line
    assert tree(tmp_path) == before


def no_set(shar: Path) -> None:
    shutil.rmtree(shar / "cuts")


def no_target(shar: Path) -> None:
    (shar / "target_audio/recording.000001.tar").unlink()


def torn_cuts(shar: Path) -> None:
    path = shar / "cuts/cuts.000001.jsonl.gz"
    path.write_bytes(path.read_bytes()[:100])


def no_cuts(shar: Path) -> None:
    path = shar / "cuts/cuts.000001.jsonl.gz"
    path.unlink()
    path.with_suffix("").write_text('{"id": "a", "duration": 1}\n[]\n')


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (no_set, "is not a Lhotse Shar set"),
        (no_target, "target_audio/recording.000001.tar is missing, but cuts.000001.jsonl.gz is"),
        (torn_cuts, "cuts.000001.jsonl.gz cannot be read"),
        (no_cuts, "cuts.000001.jsonl:2 is not a cut"),
    ],
)
@pytest.mark.usefixtures("one_thread")
def test_wrong_sets(shar: Path, tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(shar)
    before = tree(tmp_path)
    done = prepcli("extend-codec-codes", shar, "--codec-model", "some_name", "--devices", "cpu")
    assert done.code == 2
    assert message in done.error_line
    assert tree(tmp_path) == before


def test_a_name_of_codes_that_nemo_would_expand(corpus: Path) -> None:
    before = tree(corpus.parent)
    done = prepcli("extend-codec-codes", corpus, "--codec-model", "some_name", "--codec-name", "x_OP_")
    assert done.code == 2
    assert "NeMo takes '_OP_' in a path for a brace expression" in done.error_line
    assert tree(corpus.parent) == before


def test_an_unknown_precision(corpus: Path) -> None:
    done = prepcli("extend-codec-codes", corpus, "--codec-model", "some_name", "--precision", "fp16")
    assert done.code == 2
    assert "'fp16' is not one of 'fp32', 'tf32', 'bf16'" in done.err


@pytest.mark.usefixtures("one_thread")
def test_dry_run(corpus: Path) -> None:
    before = tree(corpus.parent)
    arguments = ("--codec-model", "some_name", "--devices", "cpu", "--pool-duration", 1, "--dry-run", "--json")
    done = prepcli("extend-codec-codes", corpus, *arguments, "--rank", 0, "--world-size", 2)
    assert done.code == 0, done.err
    assert (done.json["units"], done.json["records_in"], len(done.json["seconds_per_rank"])) == (2, 48, 2)
    assert tree(corpus.parent) == before
