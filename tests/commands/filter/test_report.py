"""The sums of what rules drop, and their tables."""

import numpy as np

from prepcli.commands.filter.report import RuleTally, table_of

GROUPS = [["en", "de"], ["s\x1b1"]]


def tally() -> RuleTally:
    made = RuleTally(2)
    for drops in ([0b01, 0b11, 0b00, 0b10], [0b01, 0b00, 0b00, 0b00]):
        group_of = np.array([[0, 1, -1, 0], [0, 0, 0, 0]], np.int32)
        made.add(np.array(drops, np.uint64), np.array([3600.0, 7200.0, 3600.0, 3600.0]), GROUPS, group_of)
    return made


def test_alone_last_and_together() -> None:
    found = tally()
    assert found.num_kept == 4
    facts = found.facts(["a", "b"])
    rules = [(one["rule"], *one["alone"].values(), *one["last"].values()) for one in facts["rules"]]
    assert rules == [("a", 3, 4.0, 2, 2.0), ("b", 2, 3.0, 1, 1.0)]
    assert facts["together"] == {"records": 4, "hours": 5.0}
    assert [(one["name"], *one["of"].values(), *one["together"].values()) for one in facts["lang"]] == [
        ("en", 4, 4.0, 3, 3.0),
        ("de", 2, 4.0, 1, 2.0),
    ]


def test_the_table_is_safe_to_print() -> None:
    text = table_of(tally().facts(["keep a\nb", "x" * 99]), ["a note"])
    assert "keep a b" in text
    assert "\x1b" not in text
    assert r"s\x1b1" in text
    assert text.splitlines()[-1] == "  note  a note"
    assert max(map(len, text.splitlines())) < 120
