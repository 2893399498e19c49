"""Weights of sets and groups: by hours, given, and with a temperature at every level."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands.blend.test_reading import blend, entries, shares
from tests.conftest import SHORT_CORPUS, make_set

Entries = list[dict[str, Any]]


def weights(found: Entries) -> list[float]:
    return [entry["weight"] for entry in found]


def test_hours_are_weights(sets: Path, tmp_path: Path) -> None:
    done = blend(f"a={sets}/1h.json", f"b={sets}/2h.json", f"c={sets}/cuts.jsonl", "mix.yaml", "--json", cwd=tmp_path)
    assert weights(entries(tmp_path / "mix.yaml")) == pytest.approx([1 / 13, 2 / 13, 10 / 13], abs=1e-6)
    assert [entry["type"] for entry in entries(tmp_path / "mix.yaml")] == ["nemo", "nemo", "lhotse"]
    assert [(one["hours"], one["records"]) for one in done.json["sets"]] == [(1, 10), (2, 10), (10, 5)]
    blend(f"a={sets}/1h.json", f"b={sets}/cuts.jsonl", "records.yaml", "--by", "records", cwd=tmp_path)
    assert weights(entries(tmp_path / "records.yaml")) == pytest.approx([2 / 3, 1 / 3], abs=1e-6)


def test_the_temperature_holds_at_every_level(sets: Path, tmp_path: Path) -> None:
    """NeMo's estimate_data_weights.py applies a single temperature to the top level only."""
    data = (f"x/a={sets}/1h.json", f"x/b={sets}/8h.json", f"y={sets}/2h.json", f"z={sets}/config.yaml")
    blend(*data, "half.yaml", "--temperature", 0.5, cwd=tmp_path)
    found = entries(tmp_path / "half.yaml")
    total = 3 + 2**0.5 + 3
    assert weights(found) == pytest.approx([3 / total, 2**0.5 / total, 3 / total], abs=1e-6)
    inner = pytest.approx([1 / (1 + 8**0.5), 8**0.5 / (1 + 8**0.5)], abs=1e-6)
    assert weights(found[0]["input_cfg"]) == inner
    assert weights(found[2]["input_cfg"]) == inner
    blend(*data, "levels.yaml", "--temperature", 0, "--temperature", 1, cwd=tmp_path)
    found = entries(tmp_path / "levels.yaml")
    assert weights(found) == pytest.approx([1 / 3] * 3, abs=1e-6)
    assert weights(found[0]["input_cfg"]) == pytest.approx([1 / 9, 8 / 9], abs=1e-6)
    done = blend(*data, "x.yaml", *["--temperature", 1] * 3, cwd=tmp_path, code=2)
    assert "is given 3 times for 2 levels" in done.error_line


def test_given_weights(sets: Path, tmp_path: Path) -> None:
    blend(f"a={sets}/1h.json:3", f"b={sets}/8h.json:1", "mix.yaml", "--temperature", 0.5, cwd=tmp_path)
    assert weights(entries(tmp_path / "mix.yaml")) == [0.75, 0.25]
    blend("again=mix.yaml", f"c={sets}/1h.json", "more.yaml", cwd=tmp_path)
    assert weights(entries(tmp_path / "more.yaml")[0]["input_cfg"]) == [0.75, 0.25]
    done = blend(f"a={sets}/1h.json:3", f"b={sets}/8h.json", "x.yaml", cwd=tmp_path, code=2)
    assert "'b' has no weight, but others have one" in done.error_line


def test_weights_of_groups(sets: Path, tmp_path: Path) -> None:
    """Weights at each level in one call: a share is the product of the levels, as NeMo draws."""
    data = (
        "en=:0.7",
        f"en/a={sets}/1h.json:0.6",
        f"en/b/x={sets}/2h.json:3",
        f"en/b/y={sets}/8h.json:1",
        "en/b=:0.4",
        f"c={sets}/config.yaml:0.2",
        "c/entry1=:1",
        "c/entry0=:4",
        f"d={sets}/buckets:0.1",
    )
    done = blend(*data, "mix.yaml", "--json", cwd=tmp_path)
    en, c, d = entries(tmp_path / "mix.yaml")
    assert weights([en, c, d]) == [0.7, 0.2, 0.1]
    assert weights(en["input_cfg"]) == [0.6, 0.4]
    assert weights(en["input_cfg"][1]["input_cfg"]) == [0.75, 0.25]
    assert weights(c["input_cfg"]) == [0.8, 0.2]
    expected = {"en/a": 0.42, "en/b/x": 0.21, "en/b/y": 0.07, "c/entry0": 0.16, "c/entry1": 0.04}
    buckets = {name: share for name, share in shares(done).items() if name not in expected}
    assert shares(done) | expected == pytest.approx(shares(done))
    assert sum(buckets.values()) == pytest.approx(0.1)
    groups = {one["name"]: (one["weight"], one["share"], one["hours"]) for one in done.json["groups"]}
    assert groups["en"] == (0.7, pytest.approx(0.7), 11)
    assert groups["en/b"] == (0.4, pytest.approx(0.28), 10)
    printed = [line.split()[1:5] for line in (tmp_path / "mix.yaml").read_text().splitlines() if line.startswith("#")]
    assert printed[2:5] == [
        ["en/", "11.00", "30", "0.7"],
        ["en/a", "1.00", "10", "0.6"],
        ["en/b/", "10.00", "20", "0.4"],
    ]


def test_weights_that_a_user_might_expect_to_count(sets: Path, tmp_path: Path) -> None:
    """A weight that has no effect is refused, and what is weighed by hours beside given weights is named."""
    alone = (f"en/a={sets}/1h.json:0.7", f"it/b={sets}/2h.json:0.3")
    done = blend(*alone, "x.yaml", cwd=tmp_path, code=2)
    assert (
        "the weight of en/a has no effect, because it is alone in en; give the weight to the group: en=:0.7" in done.err
    )
    done = blend(*alone, "en=:0.7", "it=:0.3", "mix.yaml", "--json", cwd=tmp_path)
    assert shares(done) == {"en/a": 0.7, "it/b": 0.3}
    assert not [note for note in done.json["notes"] if "weight" in note]
    some = (f"en/a={sets}/1h.json:3", f"en/b={sets}/2h.json:1", f"it={sets}/2h.json")
    done = blend(*some, "y.yaml", "--temperature", 0.5, "--json", cwd=tmp_path)
    assert [note for note in done.json["notes"] if "duration" not in note and "same set" not in note] == [
        "en, it: weighed by hours, because no weights are given for them, only in en; en=:WEIGHT gives a group one",
        "--temperature does not change the weights that are given",
    ]
    done = blend(*some, "it=:0.5", "x.yaml", cwd=tmp_path, code=2)
    assert "'en' has no weight, but others have one; give it one (en=:WEIGHT), or leave out all" in done.err
    assert shares(blend(*some, "it=:0.5", "en=:0.5", "z.yaml", "--json", cwd=tmp_path))["en/a"] == 0.375


def test_a_temperature_that_the_table_would_not_show(sets: Path, tmp_path: Path) -> None:
    group = {"type": "group", "reweight_temperature": [0.5], "input_cfg": entries(sets / "config.yaml")}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump([group]))
    assert (
        "a group of a.yaml has a reweight_temperature" in blend("a=a.yaml", "x.yaml", cwd=tmp_path, code=2).error_line
    )


def test_a_high_temperature(sets: Path, tmp_path: Path) -> None:
    """The power of the hours alone is more than a float holds."""
    blend(f"a={sets}/2h.json", f"b={sets}/2h.json", "mix.yaml", "--temperature", 1e9, cwd=tmp_path)
    assert weights(entries(tmp_path / "mix.yaml")) == [0.5, 0.5]
    done = blend(f"a={sets}/1h.json", f"b={sets}/2h.json", "x.yaml", "--temperature", 1e9, cwd=tmp_path, code=2)
    assert "the weight of a is too small beside the others; lower the --temperature" in done.error_line


@pytest.mark.parametrize("weight", [0, -1, ".inf", ".nan", "'0.5'", "[1]"])
def test_weights_of_a_config_that_are_none(weight: object, sets: Path, tmp_path: Path) -> None:
    entry = f"{{type: nemo, manifest_filepath: {sets}/1h.json, weight: "
    (tmp_path / "a.yaml").write_text(f"- {entry}{weight}}}\n- {entry}1}}\n")
    done = blend("a=a.yaml", "mix.yaml", cwd=tmp_path, code=2)
    assert "the weight of entry0 in a must be a number above 0, not " in done.error_line


def test_one_set_under_two_names_is_a_note(sets: Path, tmp_path: Path) -> None:
    """Also by another path, and with another weight; two weights may be meant."""
    data = (f"a={sets}/1h.json:0.2", f"x/b={sets}/../{sets.name}/1h.json:0.3", f"c={sets}/2h.json:0.5", "x=:0.5")
    done = blend(*data, "mix.yaml", "--json", cwd=tmp_path)
    found = [note for note in done.json["notes"] if "same set" in note]
    assert found == ["a and x/b are the same set, whose records are seen for each of these names"]


def test_one_shar_under_two_names_is_a_note(tmp_path: Path) -> None:
    make_set("manifest-to-shar", SHORT_CORPUS / "manifest.json", tmp_path / "shar")
    (tmp_path / "link").symlink_to("shar")
    done = blend(f"a={tmp_path}/shar", f"b={tmp_path}/link", "mix.yaml", "--json", cwd=tmp_path)
    assert "a and b are the same set, whose records are seen for each of these names" in done.json["notes"]
