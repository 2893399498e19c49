"""The account: the seconds of recordings in segments, pauses, overlap and rejects."""

from collections import Counter

import pytest

from prepcli.commands.segment.account import PARTS, add_rejected, add_to, details_of, samples_of
from prepcli.commands.segment.packing import Piece
from prepcli.engine.publishing.publish import AccountingError
from prepcli.errors import RejectReason


@pytest.mark.parametrize("reason", [None, RejectReason.TOO_LONG])
def test_pieces_that_do_not_fit_are_a_bug(reason: RejectReason | None) -> None:
    assert set(samples_of([Piece(0, 10, 0, 1)], 10)) == set(PARTS)
    with pytest.raises(AccountingError):
        samples_of([Piece(0, 11, 0, 1, reason)], 10)
    with pytest.raises(AccountingError):
        samples_of([Piece(0, 6, 0, 1, RejectReason.TOO_LONG), Piece(5, 10, 0, 1, reason)], 10)


def test_what_two_windows_share_is_negative_overlap() -> None:
    counts = samples_of([Piece(0, 6, 0, 1), Piece(4, 10, 0, 1)], 10)
    assert counts == {"segments": 12, "pauses": 0, "overlap": -2, "rejects": 0}


def test_details_of_recordings_at_several_rates() -> None:
    totals: Counter[str] = Counter()
    add_to(totals, [Piece(0, 800, 0, 1), Piece(900, 1000, 1, 2, RejectReason.TOO_LONG)], 1600, 100, 1000)
    add_to(totals, [Piece(0, 9600, 0, 1), Piece(9600, 10000, 1, 2, RejectReason.OVERLAP)], 20000, 1000, 10000)
    add_rejected(totals, 2.5)
    details = details_of(totals, 10.0)
    assert details["seconds"] == {"in": 38.5, "segments": 17.6, "pauses": 17.0, "overlap": 0.4, "rejects": 3.5}
    assert (details["recordings"], details["segments"]) == (3, 2)
    assert details["lengths"]["segments"] == [0, 0, 0, 0, 0, 0, 0, 0, 1, 1]
    assert details["accounted"] == "38.50 s in = 17.60 s segments + 17.00 s pauses + 0.40 s overlap + 3.50 s rejects"


def test_a_segment_of_the_longest_length_is_in_the_last_bin() -> None:
    totals: Counter[str] = Counter()
    add_to(totals, [Piece(0, 1000, 0, 1)], 1000, 100, 1000)
    assert details_of(totals, 10.0)["lengths"]["segments"][-1] == 1


def test_hours_are_shown_as_hours() -> None:
    totals: Counter[str] = Counter()
    add_rejected(totals, 36000.0)
    assert details_of(totals, 20.0)["accounted"].startswith("10.00 h in = 0.00 h segments")


def test_without_segments_there_is_no_histogram() -> None:
    totals: Counter[str] = Counter()
    add_rejected(totals, 10.0)
    assert "lengths of segments" not in details_of(totals, 20.0)
    add_to(totals, [Piece(0, 1000, 0, 1)], 1000, 100, 1000)
    assert "█" in details_of(totals, 20.0)["lengths of segments"]
