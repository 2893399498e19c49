from pathlib import Path

import pytest

from prepcli.errors import UsageError
from prepcli.formats.shar_set import CodesSet, SharSet
from tests.formats.test_sets import SHAR, make


def test_the_entry_of_a_shar_set(tmp_path: Path) -> None:
    one = SharSet(make(tmp_path, *SHAR, "context_audio/recording.000000.tar"))
    fields = one.entry()["shar_path"]
    assert list(fields) == ["cuts", "target_audio", "context_audio", "target_codes"]
    assert fields["target_codes"] == f"{tmp_path}/{SHAR[2]}"
    assert len(list(one.files())) == 4


def test_codes_of_several_codecs_are_ambiguous(tmp_path: Path) -> None:
    assert SharSet(make(tmp_path, *SHAR)).ambiguous_fields == []
    make(tmp_path, "codes_y/target_codes/codes.000000.tar")
    assert SharSet(tmp_path).ambiguous_fields == ["target_codes", "target_codes"]


def test_gaps_in_the_numbers_of_shards(tmp_path: Path) -> None:
    make(tmp_path, *SHAR, "cuts/cuts.000002.jsonl", "target_audio/recording.000001.tar")
    one = SharSet(tmp_path)
    rule = "missing; the shards of every field must be numbered 0 to 2"
    assert one.gaps() == [
        f"cuts/cuts.000001.jsonl.gz: {rule}",
        f"target_audio/recording.000002.tar: {rule}",
        "codes_x/target_codes/codes.000002.tar: missing",
    ]
    assert CodesSet(tmp_path).gaps({}) == ["codes_x/target_codes/codes.000000.tar: there are no such cuts"]
    with pytest.raises(UsageError, match="the numbers of its shards have gaps"):
        one.check_loadable()


def test_the_mirror_of_a_flat_set_is_beside_it(tmp_path: Path) -> None:
    make(tmp_path / "set", "cuts.000000.jsonl.gz")
    assert SharSet(tmp_path / "set").mirror == tmp_path / "set/index"
    assert SharSet(tmp_path / "set", is_flat=True).mirror == tmp_path / "set.index"
