"""The catalog of a source gives back its entries."""

from pathlib import Path

import numpy as np
import pytest

from prepcli.commands.make_manifest.entries import MatchBy, SourceEntry, write_catalog


def test_a_catalog_gives_back_its_entries(tmp_path: Path) -> None:
    """Also long ones, and those with bytes that are not UTF-8, as rejects."""
    entries = [
        SourceEntry(f"{number}{'n' * (number % 5) * 997}.wav", key=str(number % 9_000)) for number in range(9_010)
    ]
    entries[4100].path = "\udcff.wav"
    catalog = write_catalog(iter(entries), tmp_path, True, match_by="key")
    numbered = [one for unit in catalog.slices.units for one in catalog.read(unit)]
    assert [number for number, _ in numbered] == list(range(len(entries)))
    found = [entry for _, entry in numbered]
    assert found[4100].reason == "not_utf8"
    assert found[:4100] == entries[:4100]
    assert found[4101:] == entries[4101:]
    assert catalog.ambiguous is not None
    assert np.flatnonzero(catalog.ambiguous).tolist() == [*range(10), *range(9_000, 9_010)]


@pytest.mark.parametrize(("match_by", "ambiguous"), [("key", [0, 2]), ("path", [1, 2])])
def test_names_by_which_files_are_matched(match_by: MatchBy, ambiguous: list[int], tmp_path: Path) -> None:
    entries = [SourceEntry("a/x.wav", key="x"), SourceEntry("b/x.wav", key="y"), SourceEntry("b/x.flac", key="x")]
    catalog = write_catalog(iter(entries), tmp_path, True, match_by=match_by)
    assert catalog.ambiguous is not None
    assert np.flatnonzero(catalog.ambiguous).tolist() == ambiguous
    assert catalog.repeated == {}


def test_the_second_entry_with_an_explicit_id_is_repeated(tmp_path: Path) -> None:
    entries = [SourceEntry("x.wav", line, key) for line, key in enumerate(["a", "b", "", "a", "", "a"], 1)]
    catalog = write_catalog(iter(entries), tmp_path, True, ids_of="segments")
    assert catalog.ambiguous is None
    assert catalog.repeated == {
        number: f"the id a is there twice, in segments:1 and in segments:{number + 1}; the first is used"
        for number in (3, 5)
    }
