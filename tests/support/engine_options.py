"""Calls a function of the Python API with given options of the engine, in this process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prepcli.engine.run import function as running
from prepcli.engine.run.job import RunOptions
from prepcli.engine.run.report import Report
from prepcli.engine.state.work_folder import work_folder
from prepcli.engine.state.workspace import Workspace
from prepcli.formats.codes import CODES_FOLDER
from prepcli.models import ranks


def call_with(
    engine: RunOptions,
    command: Callable[..., Report],
    *arguments: Any,
    workspace: Workspace | None = None,
    **more: Any,
) -> Report:
    """Call a command; a command with a model is not started again as a new process after a crash.

    `workspace`: the object that the run uses, for tests that look at it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "run_options", lambda _: engine)
        if workspace is not None:
            patch.setattr(running, "Workspace", lambda *_, **__: workspace)
        patch.setattr(ranks, "has_crashed", lambda _: False)
        return command(*arguments, **more)


def codes_workspace(out: Path, codec_name: str) -> Workspace:
    """The workspace of the run that writes a codec's codes into `out`."""
    return Workspace(out, work_folder(out) / CODES_FOLDER.format(codec_name))
