from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

from prepcli.models.running import ModelRunner
from tests.models.cuda_messages import MEMORY
from tests.models.cuda_stand_ins import TO_HOST, stand_in_for_cuda
from tests.support.lazy import lazy
from tests.support.running import HANG_SECONDS

pytestmark = pytest.mark.torch

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")


@pytest.fixture(autouse=True)
def keep_number_of_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def double(rows: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return rows * 2, lengths


def test_results_are_those_of_the_batch_in_its_order() -> None:
    torch.set_num_threads(3)
    batches = [torch.arange(40.0).reshape(10, 4) + 100 * number for number in range(5)]
    with ModelRunner("cpu", 1) as runner:
        running = [runner.run(double, batch, torch.arange(10)) for batch in batches]
        for batch, one in zip(batches, running, strict=True):
            rows, lengths = one.result().tensors
            assert torch.equal(rows, batch * 2)
            assert torch.equal(lengths, torch.arange(10))
    assert runner.depth == 4


def test_a_batch_may_be_written_over_at_once() -> None:
    torch.set_num_threads(1)
    go_on = threading.Event()

    def wait_and_double(rows: torch.Tensor) -> torch.Tensor:
        go_on.wait(HANG_SECONDS)
        return rows * 2

    with ModelRunner("cpu", 1) as runner:
        batch = torch.ones(3, 2)
        running = runner.run(wait_and_double, batch)
        batch.zero_()
        go_on.set()
        assert torch.equal(running.result().tensors[0], torch.full((3, 2), 2.0))


@pytest.mark.parametrize(("rows", "sizes"), [(1, [1] * 7), (3, [3, 3, 1]), (None, [7])])
def test_pieces_and_threads(rows: int | None, sizes: list[int]) -> None:
    torch.set_num_threads(2)
    seen: list[tuple[int, int, int]] = []

    def note(batch: torch.Tensor) -> torch.Tensor:
        seen.append((len(batch), torch.get_num_threads(), threading.get_ident()))
        return batch

    with ModelRunner("cpu", rows) as runner:
        runner.run(note, torch.zeros(7, 2)).result()
    assert sorted(size for size, _, _ in seen) == sorted(sizes)
    assert {count for _, count, _ in seen} == {1}
    assert threading.get_ident() not in {thread for _, _, thread in seen}
    assert torch.get_num_threads() == 2  # here nothing has changed


def test_what_the_model_raises_is_raised() -> None:
    def fail(batch: torch.Tensor) -> torch.Tensor:
        if batch[0, 0] == 2:
            raise ValueError("no")
        return batch

    with ModelRunner("cpu", 1) as runner:
        running = runner.run(fail, torch.arange(5.0)[:, None])
        with pytest.raises(ValueError, match="no"):
            running.result()


def test_leaving_gives_up_what_has_not_begun() -> None:
    torch.set_num_threads(1)
    begun, go_on = threading.Event(), threading.Event()
    seen = []

    def hold(batch: torch.Tensor) -> torch.Tensor:
        seen.append(int(batch[0, 0]))
        begun.set()
        go_on.wait(HANG_SECONDS)
        return batch

    with ModelRunner("cpu", 1) as runner:
        runner.run(hold, torch.arange(5.0)[:, None])
        begun.wait(HANG_SECONDS)
        threading.Timer(0.2, go_on.set).start()
    assert seen == [0]


class OutOfMemory:
    """Fails for more values than `limit`, as a GPU and as a processor does."""

    def __init__(self, limit: int, error: Exception) -> None:
        self.limit = limit
        self.error = error
        self.sizes: list[int] = []

    def __call__(self, rows: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.sizes.append(len(rows))
        if int(lengths.sum()) > self.limit:
            raise self.error
        return rows * 2, lengths


@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize(
    "error",
    [MemoryError, *(partial(RuntimeError, text) for text in MEMORY.values())],
    ids=["python", *MEMORY],
)
def test_a_batch_that_does_not_fit_is_split(rows: int | None, error: Callable[[], Exception]) -> None:
    torch.set_num_threads(2)
    batch, lengths = torch.arange(28.0).reshape(7, 4), torch.tensor([1, 2, 9, 1, 1, 8, 2])
    with ModelRunner("cpu", rows) as runner:
        found = runner.run(OutOfMemory(4, error()), batch, lengths).result()
        assert found.too_large == [2, 5]
        assert found.fitting(7) == [0, 1, 3, 4, 6]
        assert torch.equal(found.tensors[0], batch[[0, 1, 3, 4, 6]] * 2)
        assert torch.equal(found.tensors[1], lengths[[0, 1, 3, 4, 6]])
        nothing = runner.run(OutOfMemory(0, error()), batch, lengths).result()
        assert (nothing.tensors, nothing.too_large) == ((), list(range(7)))
        whole = runner.run(OutOfMemory(100, error()), batch, lengths).result()
        assert whole.too_large == [] and torch.equal(whole.tensors[0], batch * 2)


def test_another_error_is_raised() -> None:
    with ModelRunner("cpu", None) as runner, pytest.raises(RuntimeError, match="mat1 and mat2"):
        runner.run(OutOfMemory(0, RuntimeError("mat1 and mat2 cannot be")), torch.ones(2, 2), torch.ones(2)).result()


def test_a_gpu_is_waited_for_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result of a batch does not wait for the batches that were started after it; these are ready in time."""
    noted = stand_in_for_cuda(monkeypatch)

    def events() -> list[str]:
        return [step for step in noted.steps if "event" in step]

    batches = [torch.full((3, 2), float(number)) for number in range(4)]
    with ModelRunner("cuda:0", 1, to_host=True) as runner:
        running = [runner.run(double, batch, torch.arange(3)) for batch in batches[: runner.depth + 1]]
        assert events() == [f"{TO_HOST}: event {number}" for number in range(3)]
        assert torch.equal(running[0].result().tensors[0], batches[0] * 2)
        running.append(runner.run(double, batches[3], torch.arange(3)))
        for batch, one in zip(batches[1:], running[1:], strict=True):
            assert torch.equal(one.result().tensors[0], batch * 2)
    waits = [f"CPU: waits for event {number}" for number in range(4)]
    assert events()[3:] == [waits[0], f"{TO_HOST}: event 3", *waits[1:]]
    assert runner.depth == 2


def test_a_gpu_batch_that_does_not_fit_is_split_too(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in_for_cuda(monkeypatch)
    batch, lengths = torch.arange(12.0).reshape(3, 4), torch.tensor([1, 9, 1])
    error = torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    with ModelRunner("cuda:0", None, to_host=True) as runner:
        found = runner.run(OutOfMemory(4, error), batch, lengths).result()
        assert found.too_large == [1]
        assert torch.equal(found.tensors[0], batch[[0, 2]] * 2)
