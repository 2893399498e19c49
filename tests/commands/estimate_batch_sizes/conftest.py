"""A search with a toy in the place of a model."""

from pathlib import Path

import pytest

from prepcli.commands.estimate_batch_sizes import job
from tests.commands.estimate_batch_sizes import fake_child


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(job, "ModelTrainer", fake_child.make)
    monkeypatch.setattr(job, "check_device", lambda device: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy.yaml").write_text("model: {}\n")
    return tmp_path
