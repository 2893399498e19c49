"""What is said of a model's name, of a device and of an output directory before anything heavy is imported."""

import importlib.machinery
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from prepcli.models import devices, pretrained
from prepcli.models.nemo import notes_on_name
from prepcli.processes.ranks import Rank
from tests.conftest import MINI_CORPUS
from tests.support.running import prepcli

CLASS = "EncDecSpeakerLabelModel"
MANIFEST = MINI_CORPUS / "manifest.json"


@pytest.fixture
def nemo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NeMo's source file with its list of models, which is read and not imported."""
    models = tmp_path / "nemo/collections/asr/models"
    models.mkdir(parents=True)
    (models / "a.py").write_text('class Other(M):\n    x = P(pretrained_model_name="other_model")\n')
    lines = "".join(
        f'    x = P(\n        pretrained_model_name="{name}",\n    )\n' for name in ("titanet_large", "ecapa")
    )
    (models / "label_models.py").write_text(f"class {CLASS}(M):\n{lines}raise SystemExit\n")
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path / "nemo")])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("titanet_large", None),
        ("nvidia/speaker_model", None),
        ("titanet_larg", "NeMo has no EncDecSpeakerLabelModel of this name; did you mean titanet_large?"),
        ("other_model", "of this name; it has titanet_large, ecapa"),
        ("a/b/c", "there is no such file, and a name is one of NeMo's or owner/name"),
        ("two words", "there is no such file"),
        ("/models/titanet", "there is no such file"),
        ("./titanet_large", "there is no such file"),
        ("titanet.ckpt", "there is no such file"),
    ],
)
def test_names(nemo: None, name: str, words: str | None) -> None:
    found = pretrained.problem_of(name, CLASS, "asr")
    assert found is None if words is None else words in str(found)
    notes = notes_on_name(name, "--speaker-model", CLASS, "asr")
    assert notes == ([] if found is None else [f"--speaker-model {name} cannot be fetched: {found}"])


def test_a_class_without_a_list_stands_for_all(nemo: None, tmp_path: Path) -> None:
    (tmp_path / "nemo/collections/asr/models/asr_model.py").write_text("class ASRModel(M):\n    pass\n")
    more = "".join(f'x = P(pretrained_model_name="more_{number}")\n' for number in range(9))
    (tmp_path / "nemo/collections/asr/models/more.py").write_text(more)
    assert pretrained.problem_of("other_model", "ASRModel", "asr") is None
    assert "did you mean ecapa?" in str(pretrained.problem_of("ecap", "ASRModel", "asr"))
    assert "more_4 and 4 more" in str(pretrained.problem_of("unknown", "ASRModel", "asr"))


def test_an_unknown_model_for_batch_sizes_leaves_no_folder(
    nemo: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither `batch_sizes` in the current folder, nor its records."""
    (tmp_path / "nemo/collections/asr/models/asr_model.py").write_text("class ASRModel(M):\n    pass\n")
    monkeypatch.setattr("prepcli.commands.estimate_batch_sizes.job.check_packages", lambda: None)
    words = ("--model", "unknown", "--buckets", "[1,2]", "--device", "cpu", "--gpu-memory", "64MiB")
    done = prepcli("estimate-batch-sizes", *words, cwd=tmp_path)
    assert (done.code, "--model unknown cannot be fetched: NeMo has no ASRModel" in done.error_line) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["nemo"]


def test_without_nemo_a_name_may_be_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert pretrained.problem_of("titanet_larg", CLASS, "asr") is None


def test_nemos_own_list_is_found() -> None:
    if importlib.machinery.PathFinder.find_spec("nemo") is None:
        pytest.skip("NeMo is not installed")
    assert "titanet_large" in pretrained.listed_models(CLASS, "asr")
    assert pretrained.listed_models("AudioCodecModel", "tts")


def test_offline_only_what_was_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert "HF_HUB_OFFLINE is set" in str(pretrained.problem_of("nvidia/some_model", CLASS, "asr"))
    (tmp_path / "models--nvidia--some_model").mkdir()
    assert pretrained.problem_of("nvidia/some_model", CLASS, "asr") is None


def test_a_misspelled_model_is_said_at_once_and_noted_in_a_dry_run(
    nemo: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nemo", None)  # importing it fails
    out = tmp_path / "out"
    arguments = ["extend-context-audio", MANIFEST, out, "--speaker-model", "titanet_larg", "--devices", "cpu"]
    done = prepcli(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "--speaker-model titanet_larg cannot be fetched; give a .nemo file, or resemblyzer" in done.error_line
    planned = prepcli(*arguments, "--dry-run")
    assert planned.code == 0
    assert "--speaker-model titanet_larg cannot be fetched: NeMo has no EncDecSpeakerLabelModel" in planned.out
    assert not (tmp_path / "out.prepcli").exists()


def test_cheap_checks_come_before_the_model_and_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`find_devices` imports PyTorch, and `load_model` loads the model: neither is called."""
    monkeypatch.setattr("prepcli.models.ranks.find_devices", lambda *_: pytest.fail("PyTorch was imported"))
    (tmp_path / "file").write_text("")
    out = tmp_path / "out"
    for arguments, words in (
        (
            ["extend-context-audio", MANIFEST, tmp_path / "file/out"],
            f"{tmp_path}/file is a file; choose another output",
        ),
        (["extend-context-audio", MANIFEST, tmp_path / "file"], "is a file; choose another output directory"),
        (
            ["extend-context-audio", MANIFEST, out, "--context-min-ssim", 3],
            "--context-min-ssim must be 1 or less, not 3.0",
        ),
        (["extend-context-audio", MANIFEST, out, "--batch-duration", 0], "--batch-duration must be above 0, not 0.0"),
        (["extend-codec-codes", tmp_path, "--codec-model", "none.nemo"], "none.nemo: there is no such file"),
        (["extend-codec-codes", tmp_path, "--codec-model", "x", "--codec-name", "a/b"], "--codec-name 'a/b'"),
    ):
        done = prepcli(*arguments)
        assert (done.code, done.out) == (2, ""), done.err
        assert words in done.error_line
    assert sorted(os.listdir(tmp_path)) == ["file"]


def test_gpus_are_not_counted_where_there_is_no_device_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_GPU_FILES", ("/dev/no-such-device*",))
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it fails
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    assert devices.find_devices("auto", Rank()) == devices.Devices("cpu", 1)
    monkeypatch.setattr(devices, "_GPU_FILES", ("/dev/null",))
    with pytest.raises(ImportError):
        devices.find_devices("auto", Rank())
