"""Sizes of memory as users give them."""

import pytest

from prepcli.commands.estimate_batch_sizes.settings import parse_memory
from prepcli.errors import UsageError


def test_sizes_of_memory() -> None:
    assert [parse_memory(text) for text in ("80GiB", "80 GB", "1.5k", "24000MB", "7")] == [
        80 * 2**30,
        80 * 10**9,
        1500,
        24 * 10**9,
        7,
    ]
    for text in ("0GiB", "-1GiB", "80XB", "GiB"):
        with pytest.raises(UsageError):
            parse_memory(text)
