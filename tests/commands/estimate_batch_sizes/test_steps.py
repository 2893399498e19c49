"""Real NeMo models, tiny and with random weights: their steps, their counted memory, and NeMo's loader as the judge."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from prepcli.commands.estimate_batch_sizes import child
from prepcli.commands.estimate_batch_sizes.buckets import Bound
from prepcli.commands.estimate_batch_sizes.job import BatchSizesJob
from prepcli.commands.estimate_batch_sizes.search import BucketResults, peak_of
from tests.commands.estimate_batch_sizes import tiny_models
from tests.commands.estimate_batch_sizes.asking import settings
from tests.commands.estimate_batch_sizes.tiny_models import AED, CTC, MAGPIE, aed_config, ctc_config, magpie_config
from tests.conftest import MINI_CORPUS
from tests.support.forks import FORKING
from tests.support.lazy import lazy
from tests.support.running import prepcli

if TYPE_CHECKING:
    import torch

    from prepcli.commands.estimate_batch_sizes.steps import ModelTrainer
else:
    torch = lazy("torch")

pytestmark = pytest.mark.nemo


@pytest.fixture(scope="module", autouse=True)
def nemo() -> Iterator[None]:
    pytest.importorskip("nemo.collections.asr")
    level = logging.root.manager.disable
    yield
    logging.disable(level)


def trainer(model_class: str, config: Path, **options: Any) -> ModelTrainer:
    from prepcli.commands.estimate_batch_sizes.steps import ModelTrainer

    words: dict[str, Any] = {
        "model_class": model_class,
        "config": config,
        "device": "cpu",
        "gpu_memory": "1TB",
        "memory_fraction": 1.0,
    }
    return ModelTrainer(settings(**words | options), "cpu")


@pytest.fixture(scope="module")
def ctc(tmp_path_factory: pytest.TempPathFactory) -> ModelTrainer:
    return trainer(CTC, ctc_config(tmp_path_factory.mktemp("ctc")))


def test_a_speech_language_model_is_made_as_nemo_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a dictionary, without a trainer; what it freezes only when it makes its own optimizer is frozen."""
    from prepcli.models.training import load_for_training, make_optimizer

    class Speech(torch.nn.Module):
        def __init__(self, cfg: dict[str, Any]) -> None:
            assert type(cfg) is dict
            super().__init__()
            self.llm = torch.nn.ModuleDict({name: torch.nn.Linear(2, 2) for name in ("lora", "layer")})
            self.perception = torch.nn.Linear(cfg["size"], 2)

    monkeypatch.setattr(tiny_models, "Speech", Speech, raising=False)
    frozen = "freeze_params: ['^llm\\..+$'], prevent_freeze_params: ['^.+lora']"
    (tmp_path / "salm.yaml").write_text(f"size: 4\nmodel: {{size: '${{size}}', {frozen}}}\n")
    model = load_for_training(None, f"{tiny_models.__name__}.Speech", tmp_path / "salm.yaml", "cpu")
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert trained == ["llm.lora.weight", "llm.lora.bias", "perception.weight", "perception.bias"]
    assert len(make_optimizer(model, "adamw").param_groups[0]["params"]) == 4


def check_lines(
    made: ModelTrainer, duration: float, tokens: int | None = None, sizes: tuple[int, ...] = (12,)
) -> list[tuple[int, int]]:
    """The lines of small steps without arithmetic against the counted peaks of other batches with it."""
    lines = made.count(duration, tokens).lines
    for size in sizes:
        peak = computed(made, duration, tokens, size)
        assert abs(peak_of(lines, size) - peak) <= 0.01 * peak, (duration, size)
        assert made.step(duration, tokens, size).peak == peak
    return lines


def computed(made: ModelTrainer, duration: float, tokens: int | None, size: int) -> int:
    """The counted peak of a step that computes all values."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("prepcli.models.counted_memory.make_without_computing", lambda *_: NotImplemented)
        return made.step(duration, tokens, size).peak


def test_the_lines_of_a_ctc_model(ctc: ModelTrainer) -> None:
    """Log every 0 steps, as a trainer without parts has it, would be a division by zero."""
    check_lines(ctc, 1.0, 20, (1, 12))
    (base, slope), *_ = check_lines(ctc, 4.0)
    parameters = sum(one.numel() * 4 for one in ctc._model.parameters())
    assert base > 4 * parameters  # the model, its copy for DDP, and two states of the optimizer
    assert slope > 4 * 16000 * 4  # the audio alone
    assert ctc.device_facts().model == "EncDecCTCModelBPE"


def test_the_lines_of_an_encoder_with_a_decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs: memory grows with both numbers. The search, with a limit of memory that steps must keep."""
    from nemo.utils.app_state import AppState

    monkeypatch.setattr(AppState(), "_all_model_restore_paths", ["earlier.nemo"])  # NeMo would look for parts in it
    made = trainer(AED, aed_config(tmp_path))
    wanted = ((2.0, 10, (1, 12)), (2.0, 60, (12,)), (4.0, 60, (12,)))
    peaks = [peak_of(check_lines(made, duration, tokens, sizes), 12) for duration, tokens, sizes in wanted]
    assert peaks == sorted(set(peaks))
    bounds: list[Bound] = [(1.0, 10), (1.0, 20), (3.0, 40)]
    limit = computed(made, 3.0, 40, 9)
    made._limit, found = limit, []
    for device in ("cpu", "cuda"):  # extrapolated, and searched
        results = [BucketResults() for _ in bounds]
        search = BatchSizesJob(settings(start_batch_size=4, device=device), made, device)  # type: ignore[arg-type]
        search._settle_all(bounds, results, limit)
        found.append([one.size for one in results])
    assert found[0] == found[1]
    assert found[0][-1] == 9
    assert found[0] == sorted(found[0], reverse=True)


def test_the_lines_of_a_magpie_model(tmp_path: Path, codec_model: Path) -> None:
    made = trainer(MAGPIE, magpie_config(tmp_path, codec_model))
    batch = made._schema.batch(2, (345, 13), "cpu")
    assert batch["audio_codes"].shape == (2, 4, 345)
    assert batch["align_prior_matrix"].shape == (2, 346, 13)
    assert batch["context_audio_codes"].shape[2] == 345  # one second
    check_lines(made, 0.5, sizes=(1, 12))
    check_lines(made, 1.0)


def test_a_step_above_the_limit_is_out_of_memory(ctc: ModelTrainer) -> None:
    peak = ctc.count(2.0, None).steps[0].peak
    before, ctc._limit = ctc._limit, peak
    try:
        assert ctc.step(2.0, None, 2).outcome == "fits"
        assert ctc.step(2.0, None, 3).outcome == "out_of_memory"
        assert ctc.step(2.0, None, 2).peak == peak  # nothing of the failed step is left
    finally:
        ctc._limit = before


def test_the_whole_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bins, batch sizes for a limit of memory, and a config that NeMo's loader takes."""
    monkeypatch.setattr(child, "subprocess", FORKING)
    config = ctc_config(tmp_path)
    manifest = MINI_CORPUS / "manifest.json"
    assert prepcli("estimate-bins", manifest, "-b", 4, "--write-config", config).code == 0
    words = ["--model-class", CTC, "--config", config, "--buckets-from", config, "--work", tmp_path / "sizes"]
    more = ["--device", "cpu", "--gpu-memory", "150MiB", "--json"]
    done = prepcli("estimate-batch-sizes", *words, *more)
    assert done.code == 0, done.err
    details = done.json["details"]
    assert len(details["bucket_batch_size"]) == 4
    assert details["bucket_batch_size"] == sorted(details["bucket_batch_size"], reverse=True)
    # The config is the model's as well: data that are written there are not another model.
    for _ in range(2):
        again = prepcli("estimate-batch-sizes", *words, *more, "--write-config", config)
        assert again.code == 0, again.err
        assert again.json["status"] == "nothing_to_do"
    check_with_nemos_loader(yaml.safe_load(config.read_text())["model"]["train_ds"], details)


def check_with_nemos_loader(section: dict[str, Any], details: dict[str, Any]) -> None:
    from nemo.collections.common.data.lhotse.dataloader import get_lhotse_dataloader_from_config
    from omegaconf import OmegaConf

    class Lengths(torch.utils.data.Dataset):
        def __getitem__(self, cuts: Any) -> list[float]:
            return [cut.duration for cut in cuts]

    section = section | {
        "manifest_filepath": str(MINI_CORPUS / "manifest.json"),
        "num_workers": 0,
        "shuffle": False,
        "use_lhotse": True,
    }
    loader = get_lhotse_dataloader_from_config(OmegaConf.create(section), 0, 1, Lengths())
    batches = list(loader)
    durations = [json.loads(line)["duration"] for line in (MINI_CORPUS / "manifest.json").open(encoding="utf-8")]
    assert sorted(one for batch in batches for one in batch) == pytest.approx(sorted(durations))
    for batch in batches:
        fitting = [
            size
            for bound, size in zip(details["bucket_duration_bins"], details["bucket_batch_size"], strict=True)
            if max(batch) <= bound
        ]
        assert len(batch) <= fitting[0]
