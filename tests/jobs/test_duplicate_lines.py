"""The lines of `find-duplicates`, found in manifests."""

from pathlib import Path

import pytest

from prepcli.errors import UsageError
from prepcli.jobs.duplicate_lines import DuplicateLine, pairs_of, read_duplicate_lines
from prepcli.jobs.same_audio import NUM_FORMS, Audio, forms
from tests.conftest import write_lines


def test_a_record_has_a_key_for_each_of_its_groups() -> None:
    listed = [
        DuplicateLine("/b/a.wav", 1.0, 0, 1, "text"),
        DuplicateLine("/b/a.wav", 1.0, 0, 1, "audio"),
        DuplicateLine("/b/c.wav", 1.0, 1, 1, "audio", offset=2.0),
        DuplicateLine("/b/z.wav", 1.0, 1, 1, "text"),
    ]
    audio = [Audio("/b/a.wav", 0.0, 1.0), Audio("/b/x.wav", 0.0, 1.0), Audio("/b/c.wav", 2.0, 1.0)]
    pairs = pairs_of(listed, forms([*audio, audio[0]])[:, NUM_FORMS // 2])
    keys: dict[int, set[int]] = {}
    for record, key in zip(pairs.records.tolist(), pairs.keys.tolist(), strict=True):
        keys.setdefault(record, set()).add(key)
    assert {record: len(found) for record, found in keys.items()} == {0: 2, 2: 1, 3: 2}
    assert keys[0] == keys[3] > keys[2]


def test_other_files_are_refused(tmp_path: Path) -> None:
    other = write_lines(tmp_path / "x.jsonl", [{"audio_filepath": "a.wav", "duration": 1}])
    with pytest.raises(UsageError, match="not the output of find-duplicates"):
        read_duplicate_lines("--disjoint-listed", other)
