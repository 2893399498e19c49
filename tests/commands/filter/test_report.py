"""The sums of what rules drop, and their tables."""

from pathlib import Path

import numpy as np

from prepcli.commands.filter.report import RuleTally, table_of, write_page

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
    assert [[amount["hours"] for amount in one["alone"]] for one in facts["lang"]] == [[2.0, 1.0], [2.0, 2.0]]


def test_the_table_is_safe_to_print() -> None:
    text = table_of(tally().facts(["keep a\nb", "x" * 99]), ["a note"])
    assert "keep a b" in text
    assert "\x1b" not in text
    assert r"s\x1b1" in text
    assert text.splitlines()[-1] == "  note  a note"
    assert max(map(len, text.splitlines())) < 120


def test_the_page_has_the_hours_of_each_rule(tmp_path: Path) -> None:
    write_page(tally().facts(["keep a", "drop b"]), [], "title", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<th>keep a: hours</th><th>drop b: hours</th>" in page
    assert "<td>de</td><td>2</td><td>4.00</td><td>1</td><td>2.00</td><td>2.00</td><td>2.00</td>" in page
