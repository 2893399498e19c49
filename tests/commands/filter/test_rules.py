"""The columns that a range gives for the rules of a call."""

from pathlib import Path
from typing import Any

import pytest

from prepcli.commands.filter.grammar import read_fields
from prepcli.commands.filter.presets import PRESETS, UNMEASURED
from prepcli.commands.filter.rules import Collected, RuleCollector, rules_of, unique_fields
from prepcli.commands.score.command import FIELDS
from prepcli.errors import RecordRejected


def collected(collector: RuleCollector, *records: dict[str, Any]) -> Collected:
    for some in (records[:1], records[1:]):
        collector.add([[record.get(name) for record in some] for name in collector.fields])
    return collector.result()


def collector_of(
    preset: tuple[str, ...] = (), keep: tuple[str, ...] = (), drop: tuple[str, ...] = (), unique: str | None = None
) -> RuleCollector:
    return RuleCollector(rules_of(preset, keep, drop), unique_fields(unique))


def test_each_rule_has_a_bit() -> None:
    rules = collector_of(preset=("mls-pt",), keep=("n > 1",), drop=("lang == 'en'",))
    records = [
        {"duration": 1.0, "text": "ab", "n": n, "lang": lang} for n, lang in ((1, "en"), (2, "en"), (None, None))
    ]
    found = collected(rules, *records)
    assert found.drops.tolist() == [0b110, 0b100, 0b010]
    assert found.present == {"duration": 3, "lang": 2, "n": 2, "text": 3, "speaker": 0}


def test_names_of_groups_are_numbered_in_each_range() -> None:
    found = collected(collector_of(), *({"lang": lang, "speaker": [1]} for lang in ("de", None, "en", "de")))
    languages = [found.groups[0][number] if number >= 0 else None for number in found.group_of[0].tolist()]
    assert languages == ["de", None, "en", "de"]
    assert found.groups[1] == ["[1]"]


def test_records_without_the_fields_have_no_key() -> None:
    found = collected(collector_of(unique="a,b"), {"a": 1}, {"a": 1, "b": None}, {"a": "1"}, {}, {"a": 1, "b": 2})
    keys = found.unique.tolist()
    assert keys[0] == keys[1]
    assert keys[3] == 0
    assert len({*keys}) == 4


def test_a_record_that_cannot_be_used_adds_nothing() -> None:
    collector = collector_of(keep=("n > 1",))
    with pytest.raises(RecordRejected, match="n is"):
        collector.add([["a", 2] if name == "n" else [None, None] for name in collector.fields])
    assert len(collector.result().drops) == 0


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_expressions(name: str) -> None:
    assert len(rules_of((name,), (), ())) == len(PRESETS[name].keep)


def test_it_is_known_what_measures_the_fields_of_presets() -> None:
    needed = {
        name for preset in PRESETS for rule in rules_of((preset,), (), ()) for name in read_fields(rule.condition)
    }
    measured = {name for names in FIELDS.values() for name in names}
    given = {"text", "duration", "lang", "context_speaker_similarity"}
    assert needed - measured - given == set(UNMEASURED)
    documented = Path("docs/curation.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in documented for name in UNMEASURED)
