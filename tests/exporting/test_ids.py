"""Ids of records: unique over all manifests, whatever the files are called."""

import re
from pathlib import Path

import pytest

from prepcli.exporting.ids import ID_KEYS, file_id, path_id, plan_ids
from prepcli.manifest.record import Record
from prepcli.records import Records
from tests.conftest import Lines, write_lines


def ids_of(folder: Path, *manifests: Lines) -> list[str]:
    paths = []
    for number, lines in enumerate(manifests):
        (folder / str(number)).mkdir()
        paths.append(str(write_lines(folder / str(number) / "m.json", lines)))
    records = Records(paths, keys=ID_KEYS)
    ids = plan_ids(records.index, None)
    return [ids.id_of(records, number, Record.parse(records.line(number))) for number in range(len(records))]


def record(path: str, **more: float) -> dict[str, object]:
    return {"audio_filepath": path, "duration": 1.0, "text": ""} | more


def test_names_of_files_where_they_are_enough(tmp_path: Path) -> None:
    assert ids_of(tmp_path, [record("a/one.wav"), record("b/two x.flac")]) == ["one", "two_x"]


def test_whole_paths_where_names_are_not_unique(tmp_path: Path) -> None:
    assert ids_of(tmp_path, [record("a/1.wav"), record("b/1.wav"), record("c/2.wav")]) == ["a_1", "b_1", "c_2"]


def test_segments_and_repeated_records(tmp_path: Path) -> None:
    segments = [record("a/talk.wav", offset=0.0), record("a/talk.wav", offset=1.5), record("a/other.wav", offset=2.0)]
    assert ids_of(tmp_path, [*segments, segments[1]]) == [
        "talk@0_0_1_0",
        "talk@1_5_1_0",
        "other",
        "talk@1_5_1_0@n2",
    ]


@pytest.mark.parametrize("second", ["a.wav", "b/a.wav"])
def test_hostile_names_stay_apart(tmp_path: Path, second: str) -> None:
    """Different files with one stem, one file under two folders, and names that look like ids that were made."""
    paths = [
        "a/b/c.wav",
        "a_b/c.wav",
        "a/b_c.flac",
        "a/b/c@n2.wav",
        "a/b/c@0_0_1_0.wav",
        "a/b/c 0_0_1_0.wav",
        "x.y.wav",
    ]
    first = [record(path) for path in paths] + [record("a/b/c.wav", offset=0.0), record("a/b/c.wav", offset=1e-5)]
    ids = ids_of(tmp_path, first, [record("a/b/c.wav"), record(second)])
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[^\s./]+", id) for id in ids)


def test_long_and_odd_paths() -> None:
    assert file_id("deep/down/a\nb\tc@d.e.wav") == "a_b_c_d_e"
    assert path_id("deep/down/a.wav") == "deep_down_a"
    assert len(file_id("ü" * 300 + ".wav").encode()) <= 200
