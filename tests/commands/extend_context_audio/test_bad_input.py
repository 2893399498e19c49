"""extend-context-audio called wrongly: one line that says what to do, exit code 2, and nothing written."""

from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.running import prepcli
from tests.support.tars import write_tar

MINI = MINI_CORPUS / "manifest.json"


@pytest.mark.nemo
def test_weights_that_cannot_be_loaded(tmp_path: Path) -> None:
    """Found out by loading, but still before anything is written; and nothing of NeMo's chatter."""
    pytest.importorskip("nemo.collections.asr")
    config = b"target: nemo.collections.asr.models.label_models.EncDecSpeakerLabelModel\ndecoder: {num_classes: 2}\n"
    write_tar(tmp_path / "broken.nemo", {"model_config.yaml": config, "model_weights.ckpt": b"no weights"})
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
