"""Damaged addresses of objects: each is an address or refused in one line, and never leaves its bucket."""

import contextlib

from hypothesis import example, given
from hypothesis import strategies as st

from prepcli.errors import UsageError
from prepcli.storage.addresses import is_address, join, names_several, parse_address
from tests.fuzz.examples import examples
from tests.fuzz.mutations import mutated

GOOD = (b"s3://bucket/a/b.json", b"ais://bucket/x_{0..3}.tar", b"s3://my-bucket/prefix/", b"s3://key:secret@host/a")


@examples(2000)
@given(st.sampled_from(GOOD).flatmap(lambda text: mutated(text, head=20)))
@example(b"s3://bucket/../../etc/passwd")
@example(b"s3://bucket/a/\0\n\x1b[2J")
@example(b"s3://..")
def test_addresses(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    names_several(text)
    if not is_address(text):
        return
    with contextlib.suppress(UsageError):
        address = parse_address(text)
        assert parse_address(str(address)) == address
        assert ".." not in address.key.split("/")
        assert join(str(address), "x") == f"{address}/x"
