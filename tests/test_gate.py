"""The gate: missing values, what a field may hold, where a segment may lie, ids that occur once."""

import math
import random
from typing import Any

import pytest

from prepcli.errors import RecordRejected, RejectReason
from prepcli.gate import ROUNDING, FirstPlaces, SeenIds, checked_fields, fit, is_missing


@pytest.mark.parametrize("value", [None, float("nan")])
def test_null_and_nan_are_missing(value: object) -> None:
    assert is_missing(value)
    assert checked_fields({"text": value, "speaker": value, "lang": value, "id": value, "other": value}) == {}


@pytest.mark.parametrize("value", [0, "", False, [], float("inf"), "nan"])
def test_other_values_are_not_missing(value: object) -> None:
    assert not is_missing(value)
    assert checked_fields({"other": value}) == {"other": value}


@pytest.mark.parametrize("value", [12, 1.5, True, ["a", "b"], {"a": 1}, float("inf")])
@pytest.mark.parametrize("name", ["text", "normalized_text"])
def test_a_text_is_a_string(name: str, value: Any) -> None:
    with pytest.raises(RecordRejected, match=rf"^bad_field: {name} is .*; it must be a string$"):
        checked_fields({name: value})


@pytest.mark.parametrize("value", [1.5, True, ["a"], {"a": 1}])
@pytest.mark.parametrize("name", ["speaker", "lang", "id"])
def test_a_name_is_a_string_or_an_integer(name: str, value: Any) -> None:
    assert checked_fields({name: 12}) == {name: 12}
    with pytest.raises(RecordRejected, match=rf"^bad_field: {name} is .*; it must be a string or an integer$"):
        checked_fields({name: value})


def test_a_segment_within_its_container_is_unchanged() -> None:
    assert fit(0.1, 0.2, 0.3, "the segment", "its file") == (0.1, 0.2, False)
    assert fit(0.0, 5.0, math.inf, "the segment", "its file") == (0.0, 5.0, False)


def test_a_segment_that_is_outside_by_rounding_ends_at_the_bound() -> None:
    assert fit(-0.01, 1.01, 5.0, "the segment", "its file") == (0.0, 1.0, True)
    assert fit(4.0, 1.009, 5.0, "the segment", "its file") == (4.0, 1.0, True)
    # One sample at 22.05 Hz, of a sensor, is more than the written decimals.
    assert fit(4.0, 1.04, 5.0, "the segment", "its file", rate=22.05) == (4.0, 1.0, True)


@pytest.mark.parametrize(
    ("start", "duration", "reason"),
    [
        (-0.011, 1.0, RejectReason.BAD_OFFSET),
        (-3.0, 2.0, RejectReason.BAD_OFFSET),
        (-0.005, 0.004, RejectReason.BEYOND_AUDIO),
        (4.0, 1.011, RejectReason.BEYOND_AUDIO),
        (5.0, 0.005, RejectReason.BEYOND_AUDIO),
        (7.0, 1.0, RejectReason.BEYOND_AUDIO),
        (2.0, 0.0, RejectReason.BAD_DURATION),
        (2.0, -1.0, RejectReason.BAD_DURATION),
        (float("nan"), 1.0, RejectReason.BAD_OFFSET),
        (0.0, float("inf"), RejectReason.BAD_OFFSET),
    ],
)
def test_other_segments_are_rejects(start: float, duration: float, reason: RejectReason) -> None:
    with pytest.raises(RecordRejected) as caught:
        fit(start, duration, 5.0, "the segment x", "its cut")
    assert caught.value.reason is reason
    assert "the segment x" in caught.value.detail


@pytest.mark.parametrize("decimals", [2, 3, 8])
def test_rounded_times_are_never_rejects(decimals: int) -> None:
    rng = random.Random(7)
    for _ in range(2000):
        length = rng.uniform(1, 3600)
        start = rng.uniform(0, length - 0.5)
        fitted = fit(round(start, decimals), round(length - start, decimals), length, "the segment", "its file")
        assert 0 <= fitted.start < length
        assert fitted.start + fitted.duration <= length + 1e-9
        assert abs(fitted.start - start) <= ROUNDING


def test_the_second_of_an_id_is_a_reject_that_names_both_places() -> None:
    seen = SeenIds()
    ids = ["a", "b", "a", "c", "a"]
    for id in ids:
        seen.add(id)
    assert seen.repeated() == {hash("a")}
    places = FirstPlaces(seen.repeated())
    rejected = []
    for number, id in enumerate(ids, 1):
        try:
            places.check(id, f"text:{number}")
        except RecordRejected as error:
            rejected.append(error.detail)
    assert rejected == [
        "the id a is there twice, in text:1 and in text:3; the first is used",
        "the id a is there twice, in text:1 and in text:5; the first is used",
    ]


def test_ids_with_equal_hashes_are_compared_by_their_text() -> None:
    places = FirstPlaces(frozenset({hash("a"), hash("b")}))  # as if both had one hash
    places.check("a", "text:1")
    places.check("b", "text:2")
    assert SeenIds().repeated() == frozenset()
