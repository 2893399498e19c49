"""Advice with commands names files that can be there."""

from prepcli.manifest.remedies import conversion, new_name


def test_a_copy_of_an_object() -> None:
    """No shell command reads an address."""
    path = "s3://bucket/a/my chats.json.gz"
    new = new_name(path, suffix=".jsonl")
    assert new == "my chats.jsonl"
    wanted = "copy it to a disk, and there, gzip -cd 'my chats.json.gz' | jq -c . > 'my chats.jsonl'"
    assert conversion(path, "jq -c .", new) == wanted
    assert conversion("a/b.json", "jq -c .", "a/b.jsonl") == "jq -c . a/b.json > a/b.jsonl"
