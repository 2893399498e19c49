"""Which process of pytest-xdist runs which tests: those of a file stay together, and so do all that import PyTorch.

An object store takes seconds to start, so the tests that use it share a process too.

PyTorch takes seconds to import, and makes each fork of its process dearer; NeMo takes many times as long. So only one
process imports NeMo, and one PyTorch, if that is not the same one.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NEMO = re.compile(r"mark\.nemo|(speaker|codec)_model: Path")
MODELS = re.compile(r"lazy\(|(import|from|importorskip\(\") ?lhotse|toy_codec|toy_voice|one_thread|\"resemblyzer\"")
STORE = re.compile(r"object_store: ObjectStore|bucket: Bucket")
FAST_TIER = "not slow"
"""The expression for marks of `scripts/test.sh`, in which nothing imports NeMo."""


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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Groups go to processes as these become free, in the order in which the tests were collected.

    Not by `--dist loadgroup`, which pytest-xdist 3.8 does not do with pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    has_nemo = config.option.markexpr != FAST_TIER

    class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid.split("::", 1)[0], has_nemo)

    config.option.loadscopereorder = False
    return GroupScheduling(config, log)
