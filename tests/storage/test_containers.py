"""Names of records in containers."""

import pytest

from prepcli.storage.containers import Place, Row, name_in, own_name, place_of, row_of

ODD = "a/../b::c.x y 'q\"%2F\n"
"""The name of a column with everything that names of records and paths give a meaning."""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("a/b.tar::c/d.flac", ("a/b.tar", "c/d.flac")),
        ("s3://x/b.TAR.GZ::c::d.wav", ("s3://x/b.TAR.GZ", "c::d.wav")),
        ("a.parquet::7", ("a.parquet", "7")),
        ("a::b.wav", None),
        ("a.tar", None),
    ],
)
def test_names(path: str, place: tuple[str, str] | None) -> None:
    assert place_of(path) == place


def test_names_in_outputs_are_those_of_members() -> None:
    assert own_name("/x/a.tar::spk/u.1.wav") == "spk/u.1.wav"
    assert own_name("/x/data-000001.parquet::12") == "data-000001_12"
    assert own_name("plain::a.wav") == "plain::a.wav"


@pytest.mark.parametrize("column", [None, "clean", "", "1", ODD])
def test_names_of_rows(column: str | None) -> None:
    name = name_in("a/b.parquet", Row(7, column))
    place = place_of(name)
    assert place == Place("a/b.parquet", str(Row(7, column)))
    assert place.row == row_of(place.member) == Row(7, column)
    assert own_name(name) == "b_7"
    assert place.fields() == {"shard": "a/b.parquet", "row": 7} | ({} if column is None else {"column": column})
    assert "/" not in name.removeprefix("a/b.parquet")


@pytest.mark.parametrize("member", ["", "-1", "²", "1.0", "x::1", "9" * 5000])
def test_members_that_name_something_else(member: str) -> None:
    assert row_of(member) is None
