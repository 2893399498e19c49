"""Published hashes carry their kind, and content is compared with the kind that was published."""

import hashlib
from pathlib import Path

import pytest

from prepcli.engine.publishing.hashes import ContentHash, hash_of, sha256_of
from prepcli.engine.publishing.output_files import PublishedFile

SHA256 = hashlib.sha256(b"abc").hexdigest()
XXH3 = "xxh3:06b05ab6733a618578af5f94892f3950"


@pytest.mark.parametrize(("published", "text"), [(None, XXH3), (XXH3, XXH3), (SHA256, SHA256)])
def test_the_kind_is_that_of_the_published_hash(published: str | None, text: str, tmp_path: Path) -> None:
    content = ContentHash(published, b"a")
    content.update(b"bc")
    (tmp_path / "file").write_bytes(b"abc")
    assert content.text == hash_of(tmp_path / "file", published).text == text
    assert not content.differs
    content.update(b"d")
    assert content.differs == (published is not None)
    assert sha256_of(tmp_path / "file") == SHA256


def test_records_of_both_kinds() -> None:
    assert PublishedFile(3, XXH3.removeprefix("xxh3:")).hash == XXH3
    assert PublishedFile(3, sha256=SHA256).hash == SHA256
    assert ContentHash(PublishedFile(3).hash, b"abc").differs  # a record without a hash shows nothing
