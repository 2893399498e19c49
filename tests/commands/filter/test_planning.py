"""The bits of rules over all records, also of those that compare records with each other."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prepcli.commands.filter.planning import FilterPlanning, FilterSettings
from prepcli.commands.filter.rules import rules_of
from prepcli.engine.state.workspace import FileWorkspace
from prepcli.errors import UsageError
from prepcli.jobs.selection import SelectionPlan
from prepcli.manifest import scan
from tests.conftest import write_lines

Plan = Callable[..., SelectionPlan]


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setattr(scan, "RANGE_BYTES", 200)

    def planned(
        values: list[Any], keep: tuple[str, ...] = (), drop: tuple[str, ...] = (), **wanted: Any
    ) -> SelectionPlan:
        lines = [{"audio_filepath": f"{n}.wav", "duration": 1.0, "x": value} for n, value in enumerate(values)]
        manifest = write_lines(tmp_path / "m.json", lines)
        out = tmp_path / "out.json"
        asked = FilterSettings(rules=rules_of((), keep, drop), **wanted)
        return FilterPlanning([str(manifest)], asked, tmp_path, FileWorkspace(out), 1).plan()

    return planned


def test_bits_are_in_the_order_of_the_rules(plan: Plan) -> None:
    found = plan([1, 5, 5, 2, 2, 3], keep=("x >= 2",), drop=("x == 3",), unique=("x",), sample=1)
    codes = found.contents.verdicts.tolist()
    assert [code & 0b111 for code in codes] == [0b001, 0, 0b100, 0, 0b100, 0b010]
    assert sum(code == 0 for code in codes) == 1
    assert [code for code in codes if code & 0b1000] == [0b1000]
    assert found.contents.verdicts.dtype == np.uint8


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.77, 1])
def test_quantiles_are_those_of_numpy(share: float, plan: Plan) -> None:
    values = np.random.default_rng(1).normal(size=37).tolist()
    found = plan([*values, None], keep=(f"x <= quantile(x, {share})",))
    kept = found.contents.verdicts == 0
    assert kept.tolist() == [*(np.array(values) <= np.quantile(values, share)).tolist(), False]


def test_quantiles_say_what_they_leave_out(plan: Plan) -> None:
    found = plan([4, "a", 1, [2], None, 3], keep=("duration <= quantile(x, 0.5) and not missing(x)",))
    assert found.contents.verdicts.tolist() == [0, 0, 0, 0, 1, 0]
    assert found.notes == ['quantile leaves out 2 records, such as: x is "a", and quantile needs a number']
    with pytest.raises(UsageError, match='no record has a number for quantile: x is "a"'):
        plan(["a", None], keep=("duration <= quantile(x, 0.5)",))


def test_fields_of_score_are_named(plan: Plan) -> None:
    with pytest.raises(UsageError, match="no record has the field snr; prepcli score --fields basic measures it"):
        plan([1], keep=("snr > 20",))
    with pytest.raises(UsageError, match="speech_share; prepcli score --fields speech measures it"):
        plan([1], drop=("speech_share < 0.5",))


def test_all_problems_are_kept_when_parts_wait(tmp_path: Path, plan: Plan) -> None:
    found = plan([1, "a", 2, 1], keep=("x >= 1",), unique=("x",))
    assert [(one.line, one.reason.value) for one in found.contents.problems] == [(2, "bad_field")]
    assert (found.records_in, found.contents.verdicts.tolist()) == (4, [0, 0, 0b10])


def test_nothing_is_left(plan: Plan) -> None:
    with pytest.raises(UsageError, match="`keep x > 9` alone drops 2"):
        plan([1, 2], keep=("x > 9",))
