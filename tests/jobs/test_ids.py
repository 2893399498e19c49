"""Ids of records: unique over all manifests, whatever the files are called."""

import re
from pathlib import Path

import pytest

from prepcli.jobs.ids import GIVEN_ID, ID_KEYS, file_id, path_id, plan_ids
from prepcli.jobs.records import Records
from prepcli.manifest.record import Record
from tests.conftest import Lines, write_lines


def ids_of(folder: Path, *manifests: Lines) -> list[str]:
    paths = []
    for number, lines in enumerate(manifests):
        (folder / str(number)).mkdir()
        paths.append(str(write_lines(folder / str(number) / "m.json", lines)))
    records = Records(paths, keys=ID_KEYS | {"id": GIVEN_ID})
    ids = plan_ids(records.index, None)
    return [ids.id_of(records, number, Record.parse(records.line(number))) for number in range(len(records))]


def record(path: str, **more: object) -> dict[str, object]:
    return {"audio_filepath": path, "duration": 1.0, "text": ""} | more


@pytest.mark.parametrize("ids", [("x", "y", 3), ("utt.1-a", "Ä+@", "n2")])
def test_ids_that_all_records_have(tmp_path: Path, ids: tuple[object, ...]) -> None:
    lines = [record("a/1.wav", id=id) for id in ids]
    assert ids_of(tmp_path, lines[:2], lines[2:]) == [str(id) for id in ids]


@pytest.mark.parametrize("odd", ["x", None, "", "a b", "a/b", "a\0", "x" * 201])
def test_one_id_that_cannot_be_used(tmp_path: Path, odd: object) -> None:
    """Then none is, so that each id is made in the same way."""
    assert ids_of(tmp_path, [record("a/1.wav", id="x"), record("a/2.wav", id=odd)]) == ["1", "2"]
    (tmp_path / "without").mkdir()
    assert ids_of(tmp_path / "without", [record("a/1.wav", id=odd), record("a/2.wav")]) == ["1", "2"]


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


@pytest.mark.parametrize("path", ["/", "//", ".", "s3://"])
def test_paths_without_a_name(path: str) -> None:
    """Such records become rejects when their audio is opened; before, they have an id as others have."""
    assert file_id(path)
    assert path_id(path)
