"""Which process of pytest-xdist runs which tests: those of a file stay together, and so do all that import PyTorch.

An object store takes seconds to start, so the tests that use it share a process too.

PyTorch takes seconds to import, and makes each fork of its process ten times dearer; NeMo takes many times as long. So
only one process imports NeMo, and one PyTorch, and where there are enough processes these two run nothing else. Of a
file with few tests that need them the others stay with the light ones.
"""

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.torch_tests import imports_nemo, imports_torch

ROOT = Path(__file__).parents[2]
NEMO = re.compile(r"mark\.nemo|(speaker|codec)_model: Path|\"blend\"|hf_models")
"""Signs of NeMo: `blend` lets it read what it has written. It imports transformers, so codecs of these are with it."""
MODELS = re.compile(r"lazy\(|(import|from|importorskip\(\") ?lhotse|toy_codec|toy_voice|one_thread|\"resemblyzer\"")
STORE = re.compile(r"object_store: ObjectStore|bucket: Bucket")
APART = frozenset({"nemo", "models"})
"""Groups whose processes are large."""
FAST_TIER = "not slow"
"""The expression for marks of `scripts/test.sh`, in which only `blend` imports NeMo."""


@cache
def group_of(file: str, has_nemo: bool = True) -> str:
    """The name of the group that the tests of a file belong to; `file` is relative to the repository."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if has_nemo and NEMO.search(text):
        return "nemo"
    if STORE.search(text):
        return "store"
    # Kill matrices leave the models to their victims.
    has_models = (NEMO.search(text) or MODELS.search(text)) and "kill_matrix" not in file
    return "models" if has_models else file


def group_of_test(test: str, has_nemo: bool = True) -> str:
    """The group of a test, by its id: that of its file, but only tests that import NeMo or PyTorch share a process."""
    file, _, name = test.partition("::")
    return _group_of_name(file, re.split(r"\W", name, maxsplit=1)[0], has_nemo)


@cache
def _group_of_name(file: str, name: str, has_nemo: bool) -> str:
    group = group_of(file, has_nemo)
    if group == "nemo" and name and not imports_nemo(ROOT / file, name):
        group = group_of(file, has_nemo=False)
    is_light = group == "models" and name and not imports_torch(ROOT / file, name)
    return file if is_light else group


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Processes for `-n auto`: the processors, one for each group of `APART`, and one more, as tests also wait.

    Those of `APART` end early; services, signals and Slurm wait most.
    """
    return len(os.sched_getaffinity(0)) + _num_apart(config) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Groups go to processes as these become free, in the order in which the tests were collected.

    Where at least two processes are left for the others, one that has run a group of `APART` runs nothing else.

    Not by `--dist loadgroup`, which pytest-xdist 3.8 does not do with pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    has_nemo = config.option.markexpr != FAST_TIER

    class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of_test(nodeid, has_nemo)

        def _next_group(self, node: Any) -> str | None:
            has_run = self.assigned_work[node]
            if has_run and self.numnodes >= 2 + _num_apart(config):
                if APART.intersection(has_run):
                    return None
                # Of `APART` only what a process has left that died.
                return min(self.workqueue, key=APART.__contains__, default=None)
            return next(iter(self.workqueue), None)

        def _reschedule(self, node: Any) -> None:
            if self._next_group(node) is not None:
                super()._reschedule(node)
            elif not node.shutting_down:
                node.shutdown()

        def _assign_work_unit(self, node: Any) -> None:
            self.workqueue.move_to_end(self._next_group(node), last=False)
            super()._assign_work_unit(node)

        def remove_node(self, node: Any) -> str | None:
            """Groups that a process has ended before it died are not given to another, which would wait for tests."""
            self.assigned_work[node] = {
                name: tests for name, tests in self.assigned_work[node].items() if not all(tests.values())
            }
            test: str | None = super().remove_node(node)
            return test

    config.option.loadscopereorder = False
    return GroupScheduling(config, log)


def _num_apart(config: pytest.Config) -> int:
    return len(APART) if config.option.markexpr != FAST_TIER else 1
