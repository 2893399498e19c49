"""What PyTorch's messages mean for a run: smaller batches, another device, or a bug."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import prepcli as prepcli_library
from prepcli.commands.estimate_batch_sizes import steps
from prepcli.commands.estimate_batch_sizes.steps import ModelTrainer
from prepcli.engine.ranks import launch
from prepcli.errors import IncompleteError
from prepcli.models import ranks
from prepcli.models.devices import Devices
from prepcli.models.faults import Fault, fault_of
from tests.conftest import MINI_CORPUS, tree
from tests.models import cuda_messages as messages
from tests.support.forks import FORKING
from tests.support.lazy import lazy
from tests.support.running import HANG_SECONDS, Outcome, clean_environment, prepcli, run_process
from tests.support.shar_sets import make
from tests.support.tools import need
from tests.support.toy_codec import ToyCodec, use_toy_codec

if TYPE_CHECKING:
    import torch

    from prepcli.models.protocols import Precision
else:
    torch = lazy("torch")

pytestmark = pytest.mark.usefixtures("one_thread")

MEANT = {
    Fault.MEMORY: messages.MEMORY,
    Fault.DEVICE: messages.DEVICE,
    Fault.KERNEL: messages.KERNEL,
    Fault.PROGRAM: messages.PROGRAM,
    None: messages.OTHER,
}


def error_of(text: str) -> Exception:
    """The error with a message, of the class that it has in PyTorch."""
    if text.startswith("CUDA out of memory"):
        return torch.OutOfMemoryError(text)
    return torch.AcceleratorError(text) if "Search for `cuda" in text else RuntimeError(text)


@pytest.mark.parametrize(
    ("fault", "name"),
    [pytest.param(fault, name, id=f"{fault and fault.name}-{name}") for fault, of in MEANT.items() for name in of],
)
def test_what_a_message_means(fault: Fault | None, name: str) -> None:
    assert fault_of(error_of(MEANT[fault][name])) is fault


def test_errors_of_python() -> None:
    assert fault_of(MemoryError()) is Fault.MEMORY
    assert fault_of(ValueError("CUDA error: out of memory")) is None


@pytest.fixture(scope="module")
def shar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini corpus as six shards, and so six units."""
    folder = tmp_path_factory.mktemp("shar") / "shar"
    make(MINI_CORPUS / "manifest.json", folder, "--shard-size", 8)
    return folder


def encode(
    monkeypatch: pytest.MonkeyPatch, shar: Path, out: Path, fails: Callable[[], Exception | None] = lambda: None
) -> Outcome:
    """Encode with a codec that asks before each batch whether it fails."""

    class Failing(ToyCodec):
        def encode(
            self, audio: torch.Tensor, lengths: torch.Tensor, precision: Precision
        ) -> tuple[torch.Tensor, torch.Tensor]:
            error = fails()
            if error is not None:
                raise error
            return super().encode(audio, lengths, precision)

    use_toy_codec(monkeypatch.setattr, Failing)
    options = ("--codec-model", "toy", "--codec-name", "x", "--pool-duration", 1, "--num-workers", 1)
    return prepcli("extend-codec-codes", shar, *options, "--output-dir", out, "--devices", "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("text", [messages.ECC, messages.KERNEL["xid 31"]], ids=["ecc", "xid"])
def test_a_device_that_fails_in_the_middle(
    text: str, shar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 4, with what PyTorch says; the same command continues with what is missing."""
    out, num_batches = tmp_path / "out", 0

    def fails() -> Exception | None:
        nonlocal num_batches
        num_batches += 1
        return error_of(text) if num_batches > 20 else None

    stopped = encode(monkeypatch, shar, out, fails)
    assert stopped.code == 4
    what = text.splitlines()[0].removeprefix("CUDA error: ")
    assert f"prepcli: the device has failed: cpu: {what} (" in stopped.error_line
    assert f"PyTorch {torch.version.__version__} is for" in stopped.error_line
    assert ", or --devices cpu. Continue with: prepcli extend-codec-codes" in stopped.error_line
    done = list((tmp_path / "out.prepcli").rglob("units/*/unit.json"))
    assert 0 < len(done) < 6
    assert encode(monkeypatch, shar, out).code == 0
    assert encode(monkeypatch, shar, tmp_path / "whole").code == 0
    assert tree(out) == tree(tmp_path / "whole")


def test_a_wrong_call_is_a_bug_on_every_device(shar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = encode(monkeypatch, shar, tmp_path / "out", lambda: error_of(messages.PROGRAM["assert"]))
    assert done.code == 1
    assert "a bug in prepcli: AcceleratorError: CUDA error: device-side assert triggered" in done.err


def start_two_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with two GPUs, but on the processor."""
    monkeypatch.setattr(ranks, "find_devices", lambda _, rank: Devices("cpu", 2 if rank.launcher == "none" else 1))
    monkeypatch.setattr(launch, "subprocess", FORKING)


@pytest.mark.slow
def test_the_other_ranks_do_the_work_of_a_broken_card(
    shar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_two_ranks(monkeypatch)

    def fails() -> Exception | None:
        if os.environ.get("RANK") == "1":
            (tmp_path / "has failed").touch()
            return error_of(messages.BUSY)
        end = time.monotonic() + HANG_SECONDS  # this rank must not take all units before the other has any
        while not (tmp_path / "has failed").exists() and time.monotonic() < end:
            time.sleep(0.01)
        return None

    done = encode(monkeypatch, shar, tmp_path / "out", fails)
    assert done.code == 0, done.err
    assert "the device has failed: cpu: CUDA-capable device(s) is/are busy or unavailable (" in done.err
    assert done.err.endswith("note: a rank has ended early; the others have done its units\n")
    monkeypatch.undo()
    assert encode(monkeypatch, shar, tmp_path / "whole").code == 0
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")


def test_all_cards_are_broken(shar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_two_ranks(monkeypatch)
    done = encode(monkeypatch, shar, tmp_path / "out", lambda: error_of(messages.BUSY))
    assert done.code == 4
    assert done.err.count("prepcli: the device has failed") == 2
    assert "a bug" not in done.err


def test_what_an_error_of_a_step_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """A size that ends the context of CUDA does not fit; a card that is broken says nothing of the size."""
    monkeypatch.setattr(steps, "_refuse_shared", lambda device, limit: None)
    trainer = ModelTrainer.__new__(ModelTrainer)
    trainer._device, trainer._on_gpu, trainer._limit = "cuda:0", True, 1 << 30
    for texts, outcome in (
        (messages.MEMORY, "out_of_memory"),
        (messages.KERNEL | messages.PROGRAM, "cuda_error"),
        (messages.OTHER, None),
    ):
        for text in texts.values():
            step = trainer._outcome(error_of(text), 8)
            assert (step and step.outcome) == outcome
    for text in messages.DEVICE.values():
        with pytest.raises(IncompleteError, match=r"^the device has failed: cuda:0: "):
            trainer._outcome(error_of(text), 8)


DRIVER = "int cuDriverGetVersion(int *version) { *version = 12020; return 0; } int cuInit(unsigned flags) { return 0; }"
COUNT = (
    "int nvmlInit(void) { return 0; } int nvmlDeviceGetCount_v2(int *count) { *count = 1; return 0; } "
    "int nvmlShutdown(void) { return 0; }"
)


@pytest.mark.slow
@pytest.mark.parametrize("counts", [True, False], ids=["nvml", "no nvml"])
def test_a_driver_that_is_too_old(counts: bool, tmp_path: Path) -> None:
    """PyTorch's own check, with a library in the place of the driver's that says its version."""
    if torch.version.cuda is None or os.path.exists("/dev/nvidia0"):
        pytest.skip("needs PyTorch for CUDA, and no GPU")
    compiler = need("gcc", "cc")
    libraries = {"libcuda.so.1": DRIVER} | ({"libnvidia-ml.so.1": COUNT} if counts else {})
    for name, text in libraries.items():
        (tmp_path / "text.c").write_text(text)
        words = [tmp_path / name, tmp_path / "text.c"]
        subprocess.run([compiler, "-shared", "-fPIC", "-nostdlib", "-o", *map(str, words)], check=True)
    code = (
        "from prepcli.cli.app import main\n"
        "from prepcli.models import devices\n"
        "devices._GPU_FILES = ('/dev/null',)\n"
        "main()"
    )
    command = ["manifest-to-mels", MINI_CORPUS / "manifest.json", tmp_path / "mels", "--num-workers", 1]
    environ = clean_environment(LD_LIBRARY_PATH=str(tmp_path))
    done = run_process([sys.executable, "-c", code, *command], env=environ)
    assert done.code == 4, done.err
    assert "the device has failed: " + ("cuda:0: " if counts else "the GPUs of this machine: ") in done.error_line
    version = torch.version
    versions = f"(its driver is for CUDA 12.2, and PyTorch {version.__version__} is for CUDA {version.cuda})"
    assert f"{messages.OLD_DRIVER} {versions}" in done.error_line
    assert "Continue with: prepcli manifest-to-mels" in done.error_line
    assert prepcli(*command, "--devices", "cpu").code == 0
    if counts:  # the process that makes steps finds it out
        (tmp_path / "toy.yaml").write_text("model: {}\n")
        model = ("--model-class", "toys.Toy", "--config", tmp_path / "toy.yaml", "--buckets", "[1.0]")
        command = ["estimate-batch-sizes", *model, "--work", tmp_path / "sizes"]
        sizes = run_process([sys.executable, "-c", code, *command], env=environ)
        assert sizes.code == 4, sizes.err
        assert f"the device has failed: cuda:0: {messages.OLD_DRIVER} {versions}" in sizes.error_line


def test_ranks_that_python_starts_give_the_message(
    shar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    start_two_ranks(monkeypatch)
    for name in set(clean_environment()) ^ set(os.environ):
        monkeypatch.delenv(name, raising=False)

    class Failing(ToyCodec):
        def to(self, device: str) -> None:
            raise error_of(messages.ECC)

    use_toy_codec(monkeypatch.setattr, Failing)
    with pytest.raises(IncompleteError) as raised:
        prepcli_library.extend_codec_codes(shar, codec_model="toy", codec_name="x", output_dir=tmp_path, devices="cpu")
    assert str(raised.value).startswith("the device has failed: cpu: uncorrectable ECC error encountered (")
    assert str(raised.value).count("Continue with: ") == 1
    assert raised.value.continue_with is not None
    assert capfd.readouterr() == ("", "")
