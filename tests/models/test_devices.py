"""Which GPU a rank takes, how many there are, and what a rank does not take from the others. No GPU is needed."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from prepcli.models import devices
from prepcli.models.devices import Devices, find_devices
from prepcli.processes import workers as processes
from prepcli.processes.ranks import Rank, detect_rank
from tests.conftest import SHORT_CORPUS
from tests.support.running import prepcli


@pytest.fixture
def four_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_num_gpus", lambda: 4)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.delenv("SLURM_GPUS_ON_NODE", raising=False)


SLURM = {"SLURM_STEP_NUM_TASKS": "16", "SLURM_PROCID": "13", "SLURM_JOB_ID": "7"}
TORCHRUN = {"RANK": "9", "WORLD_SIZE": "16"}


@pytest.mark.parametrize(
    ("environ", "given", "device"),
    [
        (SLURM | {"SLURM_LOCALID": "3"}, (None, None), "cuda:3"),
        (TORCHRUN | {"LOCAL_RANK": "1"}, (None, None), "cuda:1"),
        ({}, (2, 8), "cuda:2"),  # nobody says where the others are: the GPUs in turn
        ({}, (6, 8), "cuda:2"),
        ({"LOCAL_RANK": "1"}, (6, 8), "cuda:1"),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "3"}, (6, 8), "cuda:3"),
        (SLURM | {"SLURM_LOCALID": "3", "LOCAL_RANK": "1"}, (6, 8), "cuda:1"),  # torchrun in a step is the inner one
        ({"PMI_RANK": "6", "PMI_SIZE": "8"}, (None, None), "cuda:2"),
        ({"PMI_RANK": "6", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1"}, (None, None), "cuda:1"),
        ({"JOB_COMPLETION_INDEX": "6"}, (None, 8), "cuda:2"),
        ({"SLURM_LOCALID": "0"}, (6, 8), "cuda:0"),
        ({"SLURM_ARRAY_TASK_ID": "5", "SLURM_JOB_ID": "7"}, (None, 8), "cuda:1"),
        ({"SLURM_ARRAY_TASK_ID": "5", "SLURM_JOB_ID": "7", "SLURM_LOCALID": "0"}, (None, 8), "cuda:1"),
    ],
)
@pytest.mark.usefixtures("four_gpus")
def test_the_gpu_of_a_rank(
    environ: dict[str, str],
    given: tuple[int | None, int | None],
    device: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert find_devices("auto", detect_rank(environ, *given)) == Devices(device, 1)


@pytest.mark.usefixtures("four_gpus")
def test_sharing_a_gpu_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    rank = detect_rank(SLURM | {"SLURM_LOCALID": "5"})
    said = (
        "rank 13 is number 5 on this machine and shares cuda:1, because 2 GPUs are used (--devices 2); give each rank "
        "a GPU (srun --gpus-per-task=1), or start fewer"
    )
    assert find_devices("2", rank) == Devices("cuda:1", 1, said)
    assert find_devices("2", Rank()) == Devices("cuda:0", 2)
    assert find_devices("cpu", rank) == Devices("cpu", 1)
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "4")  # of the step, which all its ranks see
    assert find_devices("2", rank).sharing == said
    assert "because 4 GPUs are used (those of the machine)" in find_devices("auto", rank).sharing


@pytest.mark.parametrize(
    ("local", "visible", "of_step", "device", "shares"),
    [
        (3, 1, 4, "cuda:0", False),  # srun --gpus-per-task=1: each rank sees its own
        (3, 2, 8, "cuda:1", False),  # --gpus-per-task=2
        (3, 1, 2, "cuda:0", True),  # --ntasks-per-gpu=2
        (3, 2, 2, "cuda:1", True),  # --gres=gpu:2 with four ranks
        (3, 4, 4, "cuda:3", False),
    ],
)
def test_ranks_that_slurm_gives_gpus_of_their_own(
    local: int, visible: int, of_step: int, device: str, shares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Slurm 22.05 sets for these options: `SLURM_GPUS_ON_NODE` has the GPUs of the step on the machine."""
    monkeypatch.setattr(devices, "_num_gpus", lambda: visible)
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", str(of_step))
    found = find_devices("auto", detect_rank(SLURM | {"SLURM_LOCALID": str(local)}))
    assert (found.device, bool(found.sharing)) == (device, shares)


def test_sharing_a_gpu_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prepcli.models.ranks.find_devices", lambda *_: Devices("cpu", 1, "two ranks share cuda:0"))
    done = prepcli("manifest-to-mels", SHORT_CORPUS / "manifest.json", tmp_path / "mels", "--dry-run")
    assert (done.code, done.err) == (0, "note: two ranks share cuda:0\n")


def stand_in_torch(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(devices, "_GPU_FILES", ("/dev/null",))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(device_count=lambda: count)))


def test_gpus_that_cuda_does_not_give_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With MIG a process gets one device of many."""
    stand_in_torch(monkeypatch, 7)
    monkeypatch.setattr(devices, "_COUNT", "print(1)")
    assert devices._num_gpus() == 1
    monkeypatch.setattr(devices, "_COUNT", "print(8)")
    assert devices._num_gpus() == 7
    for silent in ("print()", "import no_such_module", "raise SystemExit(1)"):  # not CUDA: PyTorch's number counts
        monkeypatch.setattr(devices, "_COUNT", silent)
        assert devices._num_gpus() == 7


def test_a_single_gpu_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a process was started"))
    for count in (0, 1):
        stand_in_torch(monkeypatch, count)
        assert devices._num_gpus() == count


def test_the_current_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    stand_in = SimpleNamespace(cuda=SimpleNamespace(set_device=taken.append))
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    devices.use_device("cpu")
    devices.use_device("cuda:3")
    assert taken == ["cuda:3"]


def test_ranks_of_a_launcher_share_the_processors_of_their_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(32), raising=False)
    names = ("SLURM_STEP_NUM_TASKS", "SLURM_CPUS_PER_TASK", "WORLD_SIZE", processes.LIFELINE)
    for name in (*names, *processes._RANKS_OF_MACHINE):
        monkeypatch.delenv(name, raising=False)
    assert processes.available_processors() == 32
    monkeypatch.setenv("WORLD_SIZE", "64")  # on all machines
    assert processes.available_processors() == 32
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert processes.available_processors() == 4
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2")
    assert processes.available_processors() == 16
    monkeypatch.setenv(processes.LIFELINE, "3")  # ranks that the command has started: all on this machine
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert processes.available_processors() == 16
