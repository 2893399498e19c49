"""Arrays in small pieces."""

import pytest

from prepcli.planning import arrays, hashing


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups and pieces are small, and every array is in a file."""
    monkeypatch.setattr(hashing, "GROUP_SIZE", 16)
    monkeypatch.setattr(hashing, "CHUNK_SIZE", 7)
    monkeypatch.setattr(arrays, "_MIN_BYTES", 1)
