"""How a record is told from others that have its name, its length, or both."""

import pytest

from prepcli.commands.explain.found import Best, Found, num_places
from prepcli.formats.names import digest


def found(number: int = 0, **fields: object) -> Found:
    return Found(f"/in{number}/m.json", 1, {"duration": 2.0, **fields}, f"/in{number}", number)


def member(name: str, **fields: object) -> Found:
    return Found("/out/manifest_0.json", 1, {"audio_filepath": name, "duration": 2.0, **fields}, "/out")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (member(f"u-{digest(1, 'u.wav')}.wav"), [(1, 0.0)]),
        (member(f"u-{digest(1, 'u.wav')}_3_0_2_0.wav", source_audio_offset=3.0), [(1, 3.0)]),
        (member(f"u-{digest(0, 'u.wav')}-shard2.wav", offset=3.0), [(0, 3.0)]),
        (member("u.wav", offset=0.0), [(0, 0.0), (1, 0.0)]),
        (member("u.wav", duration=2.5), []),
        (member("v.wav"), []),
    ],
)
def test_best(made: Found, expected: list[tuple[int, float]]) -> None:
    best = Best(made)
    for number in (0, 1):
        for start in (0.0, 3.0):
            best.add(found(number, audio_filepath="u.wav", offset=start))
    assert [(one.number, one.start) for one in best.found] == expected
    assert num_places(best.found) == len(expected)


def test_fields_tell_records_of_one_place_apart() -> None:
    best = Best(member("u.wav", speaker="b"))
    for speaker in ("a", "b"):
        best.add(found(audio_filepath="u.wav", speaker=speaker))
    assert [one.fields["speaker"] for one in best.found] == ["b"]
