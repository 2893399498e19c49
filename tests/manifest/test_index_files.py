"""The files of an index: mapped, damaged, and one for each set of keys."""

import os
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from prepcli.manifest import index as index_module
from prepcli.manifest import scan, shared_index
from prepcli.manifest.index import index_manifests
from prepcli.manifest.parts import FieldKey, KeyFunction
from tests.manifest.test_shared_index import RANGE, assert_same, make, one_large, upper, workspace

ODD = [b"", b"{oops", b'{"audio_filepath": "a.wav", "duration": -1, "speaker": "a"}', b'{"_skipme": true}']


KEYS: dict[str, KeyFunction] = {"name": upper, "speaker": FieldKey("speaker", upper)}


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is shared, and a range is short."""
    monkeypatch.setattr(shared_index, "MIN_SHARED_BYTES", 0)
    for module in (scan, shared_index, index_module):
        monkeypatch.setattr(module, "RANGE_BYTES", RANGE)


def test_columns_are_mapped_and_cannot_be_written(tmp_path: Path) -> None:
    found = make(tmp_path, one_large(tmp_path))
    assert isinstance(found.duration.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        found.duration[0] = 1


def test_other_keys_have_an_index_of_their_own(tmp_path: Path) -> None:
    paths = one_large(tmp_path)
    make(tmp_path, paths)
    keys = {"speaker": FieldKey("speaker", partial(re.sub, re.compile("s"), "t"))}
    found = shared_index.shared_index(paths, workspace(tmp_path), keys=keys)
    assert_same(found, index_manifests(paths, keys=keys))


def test_damaged_columns_are_made_again(tmp_path: Path) -> None:
    paths = one_large(tmp_path)
    expected = index_manifests(paths, keys=KEYS)
    make(tmp_path, paths)
    folder = next((tmp_path / "out.prepcli" / "index").iterdir())
    os.truncate(folder / "start.npy", 200)
    assert_same(make(tmp_path, paths), expected)
    (folder / "key.name.npy").unlink()
    assert_same(make(tmp_path, paths), expected)
