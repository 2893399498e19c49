"""Units of lines: together they are all lines, and each knows its records; paths in joined lines are absolute."""

import json
from pathlib import Path

import numpy as np
import pytest

from prepcli.engine.state.workspace import Workspace
from prepcli.jobs import selection
from prepcli.jobs.selection import Selector, did_you_mean
from prepcli.manifest import scan
from prepcli.manifest.parts import Columns, Part


@pytest.mark.parametrize("range_bytes", [64, 500, 1 << 20])
@pytest.mark.parametrize("unit_bytes", [1, 130, 10_000])
def test_units_cover_all_lines(
    range_bytes: int, unit_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "RANGE_BYTES", range_bytes)
    monkeypatch.setattr(selection, "MIN_UNIT_BYTES", unit_bytes)
    draw = np.random.default_rng(range_bytes + unit_bytes)
    good = [
        json.dumps({"audio_filepath": f"{n}.wav", "duration": n + 1.0, "text": "x" * int(draw.integers(90))})
        for n in range(40)
    ]
    lines = [*good]
    for odd in ("", "{", "[]", '{"audio_filepath": "s.wav", "duration": 1, "_skipme": true}', "", ""):
        lines.insert(int(draw.integers(len(lines) + 1)), odd)
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path in paths:
        path.write_text("\n".join(lines))
    selector = Selector([str(path) for path in paths], None, tmp_path)

    def on_part(source: int, part: Part) -> None:
        codes = part.duration.astype(np.uint8) % 2
        selector.add(source, part, codes, codes == 0)

    index = selector.read(Columns(), Workspace(tmp_path / "out"), 1, on_part)
    plan = selector.plan(index, {})
    contents = plan.contents
    found = [
        (unit.source, number, line.decode()) for unit in plan.units for number, line in contents.slices.lines(unit)
    ]
    expected = [(source, n + 1, line) for source in (0, 1) for n, line in enumerate(lines) if line]
    assert found == expected
    assert plan.records_in == sum(unit.num_records for unit in plan.units) == 84
    for unit in plan.units:
        here = dict(contents.slices.lines(unit))
        num_lines = contents.slices.block(unit).rstrip(b"\n").count(b"\n") + 1
        gaps, problems = contents.without_record(unit, num_lines)
        usable = [json.loads(line) for number, line in here.items() if number not in gaps]
        assert unit.num_records == len(usable) + len(problems)
        codes = contents.verdicts[unit.first_record :][: len(usable)].tolist()
        assert codes == [int(one["duration"]) % 2 for one in usable]
        assert unit.seconds == sum(one["duration"] for one in usable if one["duration"] % 2 == 0)
    assert (len(plan.units) > 20) == (unit_bytes < 200)


def test_the_nearest_field_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{\n\n{"audio_filepath": "a.wav", "duration": 1, "speaker": "x"}')
    assert did_you_mean("speker", [str(tmp_path / "m.json")]) == " (did you mean speaker?)"
    assert did_you_mean("speker", []) == ""
    assert did_you_mean("chars", [], ["charms"]) == " (did you mean charms?)"
