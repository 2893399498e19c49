"""`benchmarks/gpu.py --dry-cpu`: every step runs, every check holds, and the report has all of it."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.tools import need_package

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.nemo, pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    need_package("nemo")
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")


def test_all_steps_run_on_a_cpu(tmp_path: Path) -> None:
    import gpu

    assert gpu.main(["--dry-cpu", "--out", str(tmp_path)]) == 0
    report = json.loads((tmp_path / "gpu.json").read_text())
    assert report["dry_run"] and report["good"]
    steps = {figure["step"] for figure in report["figures"]}
    assert len(steps) == len(report["seconds"]) == len(gpu.steps())
    checks = [figure for figure in report["figures"] if figure["good"] is not None]
    assert len(checks) > 20
    assert all(0 < len(kernels) <= 40 for kernels in report["kernels"].values())
    table = (tmp_path / "gpu.md").read_text()
    assert all(figure["what"] in table for figure in report["figures"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpu.json", "gpu.md"]


def test_all_variants_run_on_a_cpu(tmp_path: Path) -> None:
    import gpu_variants

    assert gpu_variants.main(["--dry-cpu", "--out", str(tmp_path)]) == 0
    (file,) = tmp_path.iterdir()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert {row["what"] for row in rows} == {"copy", "matmul", "encoder", "titanet", "convolution", "variant"}
    assert all(value > 0 for row in rows for value in row.values() if isinstance(value, float))


def test_the_codec_has_the_size_of_a_real_one() -> None:
    """31 million parameters in the encoder, and 43 GFLOP for a second of audio; without memory for them."""
    import torch
    from gpu_models import REAL_SIZE
    from torch.utils.flop_counter import FlopCounterMode

    from prepcli.models.nemo import quiet
    from prepcli.models.nemo_codec import Rows, _hifigan, fold_weight_norm

    with quiet():
        from nemo.collections.tts.modules.audio_codec_modules import HiFiGANEncoder
    with torch.device("meta"):
        encoder = HiFiGANEncoder(encoded_dim=32, down_sample_rates=[2, 2, 4, 8, 8], **REAL_SIZE)
        fold_weight_norm(encoder)
        assert round(sum(one.numel() for one in encoder.parameters()) / 1e6) == 31
        audio = torch.zeros(1, 43 * 1024)
        with FlopCounterMode(display=False) as counter, torch.inference_mode():
            assert _hifigan(encoder, audio, Rows(None)).shape == (1, 32, 43)
    assert round(counter.get_total_flops() / (audio.shape[1] / 22050) / 1e9) == 43


def test_a_kernel_is_counted_once() -> None:
    """Events of the device, not of the operators that have launched them."""
    from types import SimpleNamespace

    from gpu_speed import kernels_of

    def event(name: str, device: str, us: float) -> SimpleNamespace:
        return SimpleNamespace(
            name=name,
            device_type=SimpleNamespace(name=device),
            time_range=SimpleNamespace(elapsed_us=lambda: us),
            self_device_time_total=us,
        )

    events = [
        event("aten::conv1d", "CPU", 900.0),
        event("gemm", "CUDA", 400.0),
        event("gemm", "CUDA", 200.0),
        event("pad", "CUDA", 700.0),
    ]
    profiler = SimpleNamespace(events=lambda: events)
    assert kernels_of(profiler, "CUDA") == [("pad", 1, 0.7), ("gemm", 2, 0.6)]


def test_open_files_of_the_driver_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gpu_models

    notes = tmp_path / "forks.txt"
    monkeypatch.setenv(gpu_models.FORKS, str(notes))
    gpu_models._note_fork()
    monkeypatch.setattr("os.readlink", lambda _: "/dev/nvidiactl")
    gpu_models._note_fork()
    assert notes.read_text() == "01"
