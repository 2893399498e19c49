"""Keys of members by both rules, and which rule an archive follows."""

import pytest

from prepcli.jobs.inputs.keys import KeyRule, Keys, split_at_first_dot, split_at_last_dot
from tests.support.tools import need_package


@pytest.mark.torch
@pytest.mark.parametrize("name", ["a.wav", "a/b.c/d.48k.Flac", "./a.b/c.json", "a", "a.b/c"])
def test_the_first_dot_is_that_of_webdataset(name: str) -> None:
    need_package("webdataset")
    import webdataset.tariterators as judge

    key, extension = judge.base_plus_ext(name)
    found = split_at_first_dot(name)
    assert found == (None if key is None else (key, extension.lower()))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a.b/c.1.WAV", ("a.b/c.1", "wav")),
        ("a.b/c", None),
        ("d/..wav", ("", "wav")),
        ("__MACOSX/._a.wav", None),
        ("d/._a.wav", None),
    ],
)
def test_the_last_dot(name: str, found: tuple[str, str] | None) -> None:
    assert split_at_last_dot(name) == found


@pytest.mark.parametrize(
    ("names", "keys", "audio", "expected"),
    [
        (("a.1.wav", "a.1.txt", "b.wav", "b.txt"), None, None, "a.1"),
        (("a.1.wav", "a.1.txt"), "webdataset", None, "a"),
        (("a.1.wav", "a.json"), None, None, "a"),
        (("a.1.wav", "a.json"), "wenet", None, "a.1"),
        (("a.1.wav", "a.json", "a.1.npy"), None, None, "a"),
        (("a.1.wav", "b.2.wav"), None, None, "a.1"),
        (("a.1.wav", "b.1.wav"), None, "1.wav", "a"),
        (("a.1.wav", "a.2.wav"), None, None, "a"),  # the reader refuses it
    ],
)
def test_which_rule_an_archive_follows(
    names: tuple[str, ...], keys: Keys | None, audio: str | None, expected: str
) -> None:
    found = KeyRule(keys, audio, lambda: names, is_zip=False).split(names[0])
    assert found is not None
    assert found.key == expected


def test_names_are_read_only_if_they_decide() -> None:
    rule = KeyRule(None, None, lambda: 1 / 0, is_zip=False)  # type: ignore[arg-type, return-value]
    assert rule.split("a.b/c.wav") == ("a.b/c", "wav")
    with pytest.raises(ZeroDivisionError):
        rule.split("c.1.wav")
