import pytest

from prepcli.formats.pairs import UnpairedError, pair_members


def pairs_of(*names: str) -> list[tuple[str, str]]:
    return list(pair_members(iter(names), lambda name: name))


def test_data_and_manifest_alternate() -> None:
    names = ("a.1.flac", "a.1.json", "b.nodata", "b.nometa", "c.npy", "c.json")
    assert pairs_of(*names) == list(zip(names[::2], names[1::2], strict=True))
    assert pairs_of() == []


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (("a.flac", "a.json", "b.flac"), "b.flac has no manifest after it"),
        (("a.flac", "b.json"), "a.flac is followed by b.json, not by its manifest"),
        (("a.flac", "a.txt"), "a.flac is followed by a.txt, not by its manifest"),
    ],
)
def test_what_is_not_a_pair(names: tuple[str, ...], problem: str) -> None:
    with pytest.raises(UnpairedError, match=f"^{problem}$"):
        pairs_of(*names)
