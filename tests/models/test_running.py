import threading
from collections.abc import Iterator

import pytest
import torch

from prepcli.models.running import ModelRunner
from tests.running import HANG_SECONDS


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
            rows, lengths = one.result()
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
        assert torch.equal(running.result()[0], torch.full((3, 2), 2.0))


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
