"""Addresses of objects: parsed, joined, found within texts, and refused with credentials."""

import pytest

from prepcli.errors import UsageError
from prepcli.storage.addresses import Address, join, names_addresses, parse_address


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("s3://bucket/a/b.wav", Address("s3", "bucket", "a/b.wav")),
        ("s3://bucket/a/b/", Address("s3", "bucket", "a/b")),
        ("s3://bucket", Address("s3", "bucket", "")),
        ("ais://bucket/a", Address("ais", "bucket", "a")),
    ],
)
def test_addresses(text: str, parsed: Address) -> None:
    assert parse_address(text) == parsed
    assert parse_address(str(parsed)) == parsed


@pytest.mark.parametrize("text", ["hf://hf_secret@datasets/o/n", "hf://me:hf_secret@datasets/o/n@main/a"])
def test_a_message_does_not_repeat_a_token(text: str) -> None:
    with pytest.raises(UsageError, match=r"hf://\.\.\.@datasets/o/n") as refused:
        parse_address(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "text", ["s3://", "s3:///a", "s3://a", "gs://bucket/a", "hf://datasets/../n", "hf://datasets/o/../x"]
)
def test_no_addresses(text: str) -> None:
    with pytest.raises(UsageError, match="address"):
        parse_address(text)


@pytest.mark.parametrize("text", ["s3://KEY:SECRET@bucket/a", "s3://SECRET@bucket/a", "s3://KEY:SECRET/bucket/a"])
def test_credentials_in_an_address_are_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError, match="AWS_ACCESS_KEY_ID") as caught:
        parse_address(text)
    assert "SECRET" not in str(caught.value).replace("AWS_SECRET_ACCESS_KEY", "")


def test_addresses_within_a_text() -> None:
    assert names_addresses("[[s3://b/m.json,0.7],[n.json,0.3]]")
    assert names_addresses("manifest_filepath=s3://b/m.json")
    assert not names_addresses("reads s3 things://")


@pytest.mark.parametrize(
    ("folder", "name", "expected"),
    [
        ("s3://b/m", "./a", "s3://b/m/a"),
        ("s3://b/m/", "../x/./a", "s3://b/x/a"),
        ("s3://b/m", "a//b", "s3://b/m/a//b"),
        ("s3://b", "../a", "s3://b/../a"),
        ("s3://b/m", "..a/.b", "s3://b/m/..a/.b"),
        ("s3://b/m", "../../../a", "s3://b/../../a"),
        ("hf://datasets/o/n@v/m", "../x", "hf://datasets/o/n@v/x"),
        ("hf://datasets/o/n/m", "../../../secret/n/x", "hf://datasets/o/n/../../secret/n/x"),
        ("/x/", "../a", "/x/../a"),
        ("/", "a", "/a"),
        ("s3://b/m", "s3://c/d//e", "s3://c/d//e"),
    ],
)
def test_joined_addresses(folder: str, name: str, expected: str) -> None:
    assert join(folder, name) == expected
