"""Which process of pytest-xdist runs which tests: those of a file stay together, and so do all that import NeMo."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@cache
def group_of(file: str) -> str:
    """The name of the group that the tests of a file belong to; `file` is relative to the repository."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return "nemo" if "mark.nemo" in text or "speaker_model: Path" in text or "codec_model: Path" in text else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Groups go to processes as these become free, in the order in which the tests were collected.

    Not by `--dist loadgroup`, which pytest-xdist 3.8 does not do with pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid.split("::", 1)[0])

    config.option.loadscopereorder = False
    return GroupScheduling(config, log)
