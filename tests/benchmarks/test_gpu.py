"""`benchmarks/gpu.py --dry-cpu`: every step runs, every check holds, and the report has all of it."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.tools import need_package

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.nemo, pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


def test_all_steps_run_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_package("nemo")
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    import gpu

    assert gpu.main(["--dry-cpu", "--out", str(tmp_path)]) == 0
    report = json.loads((tmp_path / "gpu.json").read_text())
    assert report["dry_run"] and report["good"]
    steps = {figure["step"] for figure in report["figures"]}
    assert len(steps) == len(report["seconds"]) == len(gpu.steps())
    checks = [figure for figure in report["figures"] if figure["good"] is not None]
    assert len(checks) > 20
    table = (tmp_path / "gpu.md").read_text()
    assert all(figure["what"] in table for figure in report["figures"])
