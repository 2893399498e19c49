"""extend-context-audio called wrongly: one line that says what to do, exit code 2, and nothing written."""

import io
import tarfile
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.running import prepcli
from tests.support.tools import need_package

MINI = MINI_CORPUS / "manifest.json"
RESEMBLYZER = ["--speaker-model", "resemblyzer"]

WRONG_CALLS: dict[str, tuple[list[object], str]] = {
    "missing manifest": (["nowhere.json", "OUT", *RESEMBLYZER], "manifest not found: nowhere.json"),
    "missing model file": (
        [MINI, "OUT", "--speaker-model", "no.nemo"],
        "--speaker-model no.nemo: there is no such file",
    ),
    "a folder as model": ([MINI, "OUT", "--speaker-model", "."], "there is no such file"),
    "no model file": ([MINI, "OUT", "--speaker-model", "text.nemo"], "text.nemo is not a .nemo file"),
    "an archive of something": (
        [MINI, "OUT", "--speaker-model", "empty.nemo"],
        "it does not contain model_config.yaml",
    ),
    "another kind of model": (
        [MINI, "OUT", "--speaker-model", "asr.nemo"],
        "asr.nemo contains a model of the class EncDecCTCModel; the class EncDecSpeakerLabelModel is needed",
    ),
    "unknown grouping": ([MINI, "OUT", *RESEMBLYZER, "--group-by", "voice"], "--group-by voice is not known"),
    "broken pattern": ([MINI, "OUT", *RESEMBLYZER, "--group-by", "regex:speaker:("], "is not a regular expression"),
    "similarity above 1": ([MINI, "OUT", *RESEMBLYZER, "--context-min-ssim", 60], "not a cosine similarity"),
    "negative duration": ([MINI, "OUT", *RESEMBLYZER, "--context-min-duration", -1], "not a number of seconds"),
    "no batch": ([MINI, "OUT", *RESEMBLYZER, "--batch-duration", 0], "--batch-duration 0.0"),
    "more GPUs than there are": ([MINI, "OUT", *RESEMBLYZER, "--devices", 99], "GPUs that can be used"),
    "no device": ([MINI, "OUT", *RESEMBLYZER, "--devices", "tpu"], "auto, cpu or a number of GPUs, not tpu"),
}


def write_nemo(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_wrong_call(name: str, tmp_path: Path) -> None:
    need_package("resemblyzer")
    (tmp_path / "text.nemo").write_text("no archive\n" * 99)
    write_nemo(tmp_path / "empty.nemo", {"model_weights.ckpt": b""})
    config = b"target: nemo.collections.asr.models.ctc_models.EncDecCTCModel\n"
    write_nemo(tmp_path / "asr.nemo", {"./model_config.yaml": config, "./model_weights.ckpt": b""})
    before = sorted(tmp_path.iterdir())
    arguments, words = WRONG_CALLS[name]
    done = prepcli("extend-context-audio", *arguments, cwd=tmp_path)
    assert done.code == 2, done.err
    assert words in done.error_line
    assert done.out == ""
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.nemo
def test_weights_that_cannot_be_loaded(tmp_path: Path) -> None:
    """Found out by loading, but still before anything is written; and nothing of NeMo's chatter."""
    pytest.importorskip("nemo.collections.asr")
    config = b"target: nemo.collections.asr.models.label_models.EncDecSpeakerLabelModel\ndecoder: {num_classes: 2}\n"
    write_nemo(tmp_path / "broken.nemo", {"model_config.yaml": config, "model_weights.ckpt": b"no weights"})
    for more in ([], ["--overwrite"]):
        done = prepcli(
            "extend-context-audio", MINI, tmp_path / "OUT", "--speaker-model", tmp_path / "broken.nemo", *more
        )
        assert done.code == 2, done.err
        assert "broken.nemo cannot be loaded:" in done.error_line
        assert done.out == ""
        assert [path.name for path in tmp_path.iterdir()] == ["broken.nemo"]


@pytest.mark.usefixtures("toy_voice")
def test_nobody_has_a_partner(tmp_path: Path) -> None:
    """All records rejected while planning: listed, counted, exit code 3."""
    records = [dict(record, speaker=str(number)) for number, record in enumerate(read_lines(MINI))]
    manifest = write_lines(tmp_path / "m.json", records)
    done = prepcli("extend-context-audio", manifest, tmp_path / "out", "--speaker-model", "toy")
    assert done.code == 3
    assert "more than --max-rejects allows" in done.error_line
    assert len(read_lines(tmp_path / "out.prepcli/rejects.jsonl")) == 48
