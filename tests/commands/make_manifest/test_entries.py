"""The catalog of a source gives back its entries."""

from pathlib import Path

import numpy as np

from prepcli.commands.make_manifest.entries import SourceEntry, write_catalog


def test_a_catalog_gives_back_its_entries(tmp_path: Path) -> None:
    """Also long ones, and those with bytes that are not UTF-8, as rejects."""
    entries = [
        SourceEntry(f"{number}{'n' * (number % 5) * 997}.wav", key=str(number % 9_000)) for number in range(9_010)
    ]
    entries[4100].path = "\udcff.wav"
    catalog = write_catalog(iter(entries), tmp_path, True)
    numbered = [one for unit in catalog.slices.units for one in catalog.read(unit)]
    assert [number for number, _ in numbered] == list(range(len(entries)))
    found = [entry for _, entry in numbered]
    assert found[4100].reason == "not_utf8"
    assert found[:4100] == entries[:4100]
    assert found[4101:] == entries[4101:]
    assert catalog.ambiguous is not None
    assert np.flatnonzero(catalog.ambiguous).tolist() == [*range(10), *range(9_000, 9_010)]
