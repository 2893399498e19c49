"""The processes that run groups of tests: which gets what, and what becomes of the work of one that dies."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.scheduling import APART, FAST_TIER, group_of, group_of_test, pytest_xdist_make_scheduler
from tests.support.torch_tests import imports_torch, names_with_torch

NEMO = "tests/commands/extend_context_audio/test_nemo.py"
MODELS = "tests/commands/extend_codec_codes/test_input.py"
LIGHT = ("tests/formats/test_npy.py", "tests/formats/test_tar.py", "tests/engine/test_claim.py")


class Node:
    """A process that is told what to run."""

    def __init__(self, files: list[str]) -> None:
        self.files = files
        self.given: list[str] = []
        self.shutting_down = False
        self.gateway = SimpleNamespace(id="node")

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.given += [self.files[number].partition("::")[0] for number in numbers]

    def shutdown(self) -> None:
        self.shutting_down = True


def scheduled(count: int, files: tuple[str, ...], markexpr: str = "") -> tuple[Any, list[Node]]:
    pytest.importorskip("xdist")
    option = SimpleNamespace(markexpr=markexpr)
    config = SimpleNamespace(option=option, getvalue=lambda name: ["popen"] * count)
    scheduler = pytest_xdist_make_scheduler(config, None)  # type: ignore[arg-type]
    tests = [f"{file}::test_{number}" for file in files for number in range(4)]
    nodes = [Node(tests) for _ in range(count)]
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, tests)
    scheduler.schedule()
    return scheduler, nodes


def run_all(scheduler: Any, node: Node) -> None:
    done = sum(list(unit.values()).count(True) for unit in scheduler.assigned_work[node].values())
    while done < len(node.given):
        file = node.given[done]
        number = node.given[:done].count(file)
        scheduler.mark_test_complete(node, node.files.index(f"{file}::test_{number}"))
        done += 1


def test_the_groups_of_these_files() -> None:
    assert (group_of(NEMO), group_of(MODELS)) == ("nemo", "models")
    assert APART.isdisjoint(map(group_of, LIGHT))


FILE = """
from tests.conftest import tree
from tests.support.toy_codec import use_toy_codec
if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

COMMANDS = [["extend-context-audio", "--speaker-model", "resemblyzer"]]

@pytest.fixture
def made():
    use_toy_codec()

def check(rows):
    return torch.zeros(rows)

def test_light(tmp_path): tree(tmp_path)
def test_import(): import lhotse
def test_helper(): check(1)
def test_fixture(made): tree(made)
@pytest.mark.parametrize("command", COMMANDS)
def test_table(command): prepcli(*command)
class TestCodec:
    def test_it(self): use_toy_codec()
"""


def test_which_tests_import_torch(tmp_path: Path) -> None:
    file, of_all, by_fixture = (tmp_path / name for name in "abc")
    file.write_text(FILE)
    found = {name for name in names_with_torch(file) if name.startswith(("test", "Test"))}
    assert found == {"test_import", "test_helper", "test_fixture", "test_table", "TestCodec"}
    assert (imports_torch(file, "test_light"), imports_torch(file, "test_helper")) == (False, True)
    of_all.write_text('pytestmark = pytest.mark.usefixtures("one_thread")\ndef test_light(): pass\n')
    by_fixture.write_text("@pytest.fixture(autouse=True)\ndef made(one_thread): pass\ndef test_light(): pass\n")
    assert imports_torch(of_all, "test_light") and imports_torch(by_fixture, "test_light")


def test_a_file_is_divided() -> None:
    file = "tests/commands/index/test_index.py"
    groups = [group_of_test(f"{file}::{name}") for name in ("test_codes_of_a_set_with_indexes", "test_a_tarred_set[1]")]
    assert groups == ["models", file]
    assert group_of_test("tests/formats/test_npy.py::test_x") == "tests/formats/test_npy.py"
    file = "tests/commands/exports/parquet/test_job.py"
    names = ("test_nemo_reads_it", "test_much_audio_makes_more_row_groups", "test_columns_that_would_collide")
    assert [group_of_test(f"{file}::{name}") for name in names] == ["nemo", "models", file]


def test_large_processes_run_nothing_else() -> None:
    scheduler, (nemo, models, *others) = scheduled(4, (NEMO, MODELS, *LIGHT))
    assert (nemo.shutting_down, models.shutting_down) == (True, True)
    for node in (nemo, models, *others):
        run_all(scheduler, node)
    assert (set(nemo.given), set(models.given)) == ({NEMO}, {MODELS})
    assert sorted({*others[0].given, *others[1].given}) == sorted(LIGHT)
    assert len(others[0].given) + len(others[1].given) == 4 * len(LIGHT)
    assert not scheduler.has_pending


@pytest.mark.parametrize(("count", "markexpr"), [(1, ""), (2, ""), (3, ""), (2, FAST_TIER)])
def test_few_processes_share_all(count: int, markexpr: str) -> None:
    scheduler, nodes = scheduled(count, (MODELS, *LIGHT), markexpr)
    assert not nodes[0].shutting_down
    for node in nodes * 2:
        run_all(scheduler, node)
    assert sorted(file for node in nodes for file in node.given) == sorted((MODELS, *LIGHT) * 4)
    assert not scheduler.has_pending


def test_the_rest_of_a_large_process_that_died_is_run_by_another() -> None:
    scheduler, (models, *others) = scheduled(3, (MODELS, *LIGHT), FAST_TIER)
    scheduler.mark_test_complete(models, models.files.index(f"{MODELS}::test_0"))
    assert scheduler.remove_node(models) == f"{MODELS}::test_1"
    for node in others * 2:
        run_all(scheduler, node)
    given = [file for node in others for file in node.given]
    assert sorted(given) == sorted([MODELS] * 3 + list(LIGHT) * 4)


def test_what_a_process_had_ended_before_it_died_is_given_to_nobody() -> None:
    """pytest-xdist would give it to a process that waits for its next test, and for ever."""
    scheduler, (dying, other) = scheduled(2, (*LIGHT, "tests/formats/test_shar.py"), FAST_TIER)
    first = dying.given[0]
    for number in range(4):
        scheduler.mark_test_complete(dying, dying.files.index(f"{first}::test_{number}"))
    assert scheduler.remove_node(dying) is not None
    assert first not in {*scheduler.workqueue, *scheduler.assigned_work[other]}
    run_all(scheduler, other)
    assert not scheduler.has_pending
