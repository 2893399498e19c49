"""Names whose encoding is not stated are found by their real names."""

from typing import get_args

import pytest

from prepcli.errors import RecordRejected, UsageError
from prepcli.storage.member_names import NameEncoding, decoded, name_as_stored

NAMES = {"gb18030": "张三", "cp932": "表示", "cp1251": "Анна", "cp949": "가수", "koi8_r": "Борис", "cp437": "é"}


@pytest.mark.parametrize("encoding", NAMES)
def test_a_name_is_found_without_its_encoding(encoding: NameEncoding) -> None:
    name = NAMES[encoding]
    raw = name.encode(encoding)
    assert decoded(raw, encoding, "x") == name
    for codec in ("utf-8", "cp437"):
        stored = raw.decode(codec, "surrogateescape")
        assert name_as_stored(name, {stored, "b"}, codec) == stored
        assert name_as_stored("other", {stored}, codec) is None
        assert name_as_stored("ü", {stored}, codec) is None


def test_a_name_that_may_be_two() -> None:
    stored = {"é".encode(encoding).decode("cp437") for encoding in ("cp437", "cp1252")}
    with pytest.raises(RecordRejected, match="may be"):
        name_as_stored("é", stored, "cp437")


def test_bytes_that_are_not_of_the_encoding() -> None:
    with pytest.raises(UsageError, match="is not euc_jp; give another"):
        decoded("é".encode("cp1252"), "euc_jp", "x")
    assert all(b"a".decode(encoding) == "a" for encoding in get_args(NameEncoding))
