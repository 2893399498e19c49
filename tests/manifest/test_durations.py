"""Durations of data sets, in the order of the files, for any number of workers."""

import json
from pathlib import Path

import numpy as np
import pytest

from prepcli.manifest.datasets import DataSet
from prepcli.manifest.durations import read_input
from prepcli.manifest.inputs import resolve_input
from tests.manifest.conftest import write
from tests.manifest.test_inputs import seconds


def test_mixed_cuts_end_with_their_last_track(tmp_path: Path) -> None:
    path = tmp_path / "cuts.jsonl"
    tracks = [{"cut": {"duration": 4}}, {"offset": 3.5, "cut": {"duration": 1.25}}]
    lines = [{"type": "MixedCut", "tracks": tracks}, {"type": "PaddingCut", "duration": 2}, {"type": "MonoCut"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_input(resolve_input(str(path)))
    assert sorted(found.seconds) == [2, 4.75]
    assert found.first_rejected == f"{path}:3: the cut has no duration above 0"


def test_numbers_that_no_double_holds_do_not_hide_a_mixed_cuts_duration(tmp_path: Path) -> None:
    path = tmp_path / "cuts.jsonl"
    path.write_text('{"type": "MixedCut", "tracks": [{"cut": {"duration": 4, "custom": {"score": 1e5000}}}]}\n')
    assert seconds(str(path)) == [4]


def test_the_first_unusable_line_is_named_with_its_place(files: Path) -> None:
    write(files / "b.json", 3, more=b'\n{"audio_filepath": "x"}\n{\n{"_skipme": 1}\n')
    found = read_input(resolve_input("[[a.json],[b.json]]"))
    assert (found.num_rejected, found.num_skipped) == (2, 1)
    assert found.first_rejected == "b.json:3: there is no duration"


def test_durations_are_in_the_order_of_the_files(files: Path) -> None:
    assert read_input(DataSet(("b.json", "a.json")), num_workers=2).seconds.tolist() == [3, 1, 2]


@pytest.mark.slow
def test_workers_change_nothing(tmp_path: Path) -> None:
    # Above the size from which workers are used.
    values = np.random.default_rng(0).uniform(0.1, 30, 150_000).round(3).tolist()
    path = write(tmp_path / "m.json", *values)
    with open(path, "ab") as file:  # noqa: PTH123
        file.write((b'{"audio_filepath": "%s", "duration": 1.0}\n' % (b"x" * 100)) * 40_000)
    assert Path(path).stat().st_size > 8 << 20
    alone = read_input(DataSet((path,))).seconds
    assert alone[:150_000].tolist() == values
    assert np.array_equal(read_input(DataSet((path, path)), num_workers=2).seconds, np.tile(alone, 2))
