"""Copies beside the computation: what waits for what, and how long memory is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from prepcli.models import running
from prepcli.models.running import ModelRunner
from tests.models.cuda_stand_ins import COMPUTING, TO_DEVICE, TO_HOST, Noted, OnDevice, stand_in_for_cuda
from tests.support.lazy import lazy

pytestmark = pytest.mark.torch

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Noted:
    return stand_in_for_cuda(monkeypatch)


def run(noted: Noted, runner: ModelRunner, batch: torch.Tensor, fails: int = 0) -> Any:
    failures = iter(range(fails))

    def prepare(rows: torch.Tensor) -> tuple[Any, ...]:
        noted.add(f"prepare {len(rows)}")
        return (OnDevice(noted, "rows", rows),)

    def model(rows: Any) -> Any:
        noted.add(f"compute {len(rows.host)}")
        if next(failures, None) is not None:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return OnDevice(noted, "results", rows.host * 2), rows.host[:, 0]

    return runner.run(model, batch, prepare=prepare)


def steps(num_rows: int) -> list[str]:
    """Of one batch: each copy in a stream of its own, each use behind what it uses."""
    return [
        f"{TO_DEVICE}: prepare {num_rows}",
        f"{COMPUTING}: waits for {TO_DEVICE}",
        f"{COMPUTING}: keeps rows",
        f"{COMPUTING}: compute {num_rows}",
        f"{TO_HOST}: waits for {COMPUTING}",
        f"{TO_HOST}: copy",
        f"{TO_HOST}: keeps results",
    ]


def test_each_stream_waits_for_what_it_uses(noted: Noted) -> None:
    batches = [torch.full((rows, 2), float(rows)) for rows in (3, 4)]
    with ModelRunner("cuda:0", None, to_host=True) as runner:
        running = [run(noted, runner, batch) for batch in batches]
        for batch, one in zip(batches, running, strict=True):
            assert torch.equal(one.result().tensors[0], batch * 2)
    started = [*steps(3), f"{TO_HOST}: event 0", *steps(4), f"{TO_HOST}: event 1"]
    # The copy of the second batch waits for nothing: not for the computation of the first, nor for its results.
    assert not any(step.startswith(f"{TO_DEVICE}: waits") for step in started)
    assert noted.steps == [*started, "CPU: waits for event 0", "CPU: waits for event 1"]


def test_a_divided_batch_is_complete_behind_one_event(noted: Noted) -> None:
    batch = torch.arange(8.0).reshape(4, 2)
    with ModelRunner("cuda:0", None, to_host=True) as runner:
        assert torch.equal(run(noted, runner, batch, fails=1).result().tensors[0], batch * 2)
    failed = steps(4)[:4]
    assert noted.steps == [*failed, *steps(2), *steps(2), f"{TO_HOST}: event 0", "CPU: waits for event 0"]


def test_results_may_stay_on_the_device(noted: Noted) -> None:
    with ModelRunner("cuda:0", None) as runner:
        run(noted, runner, torch.ones(3, 2))
    assert noted.steps == steps(3)[:4]


def test_what_is_on_the_cpu_already_is_not_copied() -> None:
    """Numbers of frames of codecs that take them from there."""
    frames = torch.arange(3)
    assert running._copy_to_host(frames) is frames
    running._keep([frames], None)  # type: ignore[arg-type]


def test_a_processor_prepares_and_computes_in_one_thread(noted: Noted) -> None:
    batch = torch.ones(3, 2)
    with ModelRunner("cpu", None, to_host=True) as runner:
        found = runner.run(lambda rows: rows + 1, batch, prepare=lambda rows: (rows * 2,)).result()
    assert torch.equal(found.tensors[0], batch * 3)
    assert noted.steps == []
