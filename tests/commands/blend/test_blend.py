"""blend: weights at every level, hours from reports, and NeMo draws what the table says."""

import json
import re
import shutil
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml

from prepcli.commands.blend import reading
from tests.conftest import MINI_CORPUS, copy_set, write_lines
from tests.support.running import Outcome, prepcli

Entries = list[dict[str, Any]]


def blend(*arguments: object, cwd: Path, code: int = 0) -> Outcome:
    done = prepcli("blend", *arguments, "--no-check", cwd=cwd)
    assert done.code == code, done.err
    return done


def entries(path: Path) -> Entries:
    found = yaml.safe_load(path.read_text())
    assert isinstance(found, list)
    return found


def weights(found: Entries) -> list[float]:
    return [entry["weight"] for entry in found]


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tarred set, Shar, a set in buckets, manifests of 1, 2 and 8 hours, cuts, and a config without weights."""
    folder = tmp_path_factory.mktemp("sets")
    manifest = MINI_CORPUS / "manifest.json"
    for command, out, *options in (
        ("manifest-to-tarred", "tarred", "--num-shards", 2),
        ("manifest-to-tarred", "buckets", "--num-shards", 1, "--buckets-num", 2, "--max-duration", 7),
        ("manifest-to-shar", "shar", "--shard-size", 30),
    ):
        done = prepcli(command, manifest, folder / out, *options)
        assert done.code == 0, done.err
    for hours in (1, 2, 8):
        record = {"audio_filepath": f"{hours}.wav", "duration": 360.0 * hours, "text": ""}
        write_lines(folder / f"{hours}h.json", [record] * 10)
    write_lines(folder / "cuts.jsonl", [{"id": "c", "type": "MonoCut", "duration": 7200.0}] * 5)
    config = [{"type": "nemo", "manifest_filepath": f"{folder}/{hours}h.json"} for hours in (1, 8)]
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder


def test_lines_that_cannot_be_used_are_told(sets: Path, tmp_path: Path) -> None:
    lines = (sets / "1h.json").read_text().splitlines()
    (tmp_path / "bad.json").write_text("\n".join([*lines[:2], '{"audio_filepath": "a', *lines[3:5], "{}"]))
    done = blend("bad=bad.json", f"good={sets}/2h.json", "mix.yaml", "--json", cwd=tmp_path)
    assert [one["records"] for one in done.json["sets"]] == [4, 10]
    note = done.json["notes"][0]
    assert note.startswith("bad: 2 lines cannot be used, and NeMo may stop there; the first is "), note
    assert "bad.json:3: " in note
    assert (
        "the weight must be a number above 0, not nothing" in blend("a=bad.json:", "m.yaml", cwd=tmp_path, code=2).err
    )


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
    assert "b has no weight, but others have one" in done.error_line


def shares(done: Outcome) -> dict[str, float]:
    return {one["name"]: one["share"] for one in done.json["sets"]}


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
    assert [note for note in done.json["notes"] if "duration" not in note] == [
        "en, it: weighed by hours, because no weights are given for them, only in en; en=:WEIGHT gives a group one",
        "--temperature does not change the weights that are given",
    ]
    done = blend(*some, "it=:0.5", "x.yaml", cwd=tmp_path, code=2)
    assert "en has no weight, but others have one; give it one (en=:WEIGHT), or leave out all" in done.err
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


def test_how_often_a_set_is_seen(sets: Path, tmp_path: Path) -> None:
    """Draws are of records: a set with records four times as long gives four times the hours."""
    done = blend(f"a={sets}/2h.json:1", f"b={sets}/8h.json:1", "mix.yaml", "--json", cwd=tmp_path)
    a, b = done.json["sets"]
    assert (a["share"], b["share"]) == (0.5, 0.5)
    assert (a["share_of_hours"], b["share_of_hours"]) == (0.2, 0.8)
    assert a["seen_per_1000_hours"] == pytest.approx(100)
    assert b["seen_per_1000_hours"] == pytest.approx(100)
    printed = [line.split() for line in (tmp_path / "mix.yaml").read_text().splitlines()]
    assert ["#", "a", "2.00", "10", "0.5", "50.00%", "20.00%", "100.0"] in printed


def test_finished_sets_are_not_read_again(sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_measured", None)
    done = blend(f"en/t={sets}/tarred", f"en/s={sets}/shar", "mix.yaml", "--json", cwd=tmp_path)
    tarred, shar = entries(tmp_path / "mix.yaml")[0]["input_cfg"]
    assert (tarred["weight"], shar["weight"]) == (0.5, 0.5)
    assert tarred["tarred_audio_filepaths"] == f"{sets}/tarred/audio__OP_0..1_CL_.tar"
    assert tarred["manifest_filepath"] == f"{sets}/tarred/sharded_manifests/manifest__OP_0..1_CL_.json"
    assert shar["shar_path"] == {
        "cuts": f"{sets}/shar/cuts/cuts._OP_000000..000001_CL_.jsonl.gz",
        "target_audio": f"{sets}/shar/target_audio/recording._OP_000000..000001_CL_.tar",
    }
    report = json.loads((sets / "tarred.prepcli/report.json").read_text())
    assert done.json["sets"][0]["hours"] == pytest.approx(report["seconds"] / 3600, abs=1e-4)


def test_a_set_without_its_report(sets: Path, tmp_path: Path) -> None:
    (tmp_path / "moved").symlink_to(sets / "tarred")
    (tmp_path / "copy").mkdir()
    for part in (sets / "tarred").iterdir():
        (tmp_path / "copy" / part.name).symlink_to(part)
    data = ("a=moved", "b=copy", f"c={sets}/buckets")
    done = blend(*data, "mix.yaml", "--json", cwd=tmp_path)
    hours = [one["hours"] for one in done.json["sets"]]
    assert hours[0] == hours[1] == pytest.approx(hours[2] + hours[3], abs=2e-4)
    assert [one["name"] for one in done.json["sets"]] == ["a", "b", "c/bucket1", "c/bucket2"]


def test_a_set_that_is_not_finished(sets: Path, tmp_path: Path) -> None:
    options = ("--num-shards", 4, "--rank", 0, "--world-size", 2)
    assert prepcli("manifest-to-tarred", MINI_CORPUS / "manifest.json", tmp_path / "half", *options).code == 0
    half = blend("a=half", "mix.yaml", cwd=tmp_path, code=2).error_line
    assert re.search(r"half is not finished: \d of 4 units are done; continue with: cd .* manifest-to-tarred", half)
    next((tmp_path / "half").glob("audio_*.tar")).unlink()  # now there are gaps
    gaps = blend("a=half", "mix.yaml", cwd=tmp_path, code=2).error_line
    assert "half is not finished: 1 of 4 units are done; continue with: " in gaps


def test_tags(sets: Path, tmp_path: Path) -> None:
    data = (f"en/a={sets}/1h.json", f"it={sets}/2h.json", "mix.yaml")
    tags = ("--lang", "en", "--lang", "it=it", "--tag", "en/a:domain=books", "--tag", "task=asr")
    blend(*data, *tags, cwd=tmp_path)
    group, it = entries(tmp_path / "mix.yaml")
    assert group["tags"] == {"lang": "en", "task": "asr"}
    assert group["input_cfg"][0]["tags"] == {"domain": "books"}
    assert it["tags"] == {"lang": "it", "task": "asr"}
    tagged = [entry | {"tags": {"lang": "de", "domain": "calls"}} for entry in entries(sets / "config.yaml")]
    (tmp_path / "tagged.yaml").write_text(yaml.safe_dump(tagged))
    blend("a=tagged.yaml", "again.yaml", "--lang", "a/entry0=it", cwd=tmp_path)
    (group,) = entries(tmp_path / "again.yaml")
    assert [entry["tags"]["lang"] for entry in group["input_cfg"]] == ["it", "de"]
    assert group["input_cfg"][0]["tags"]["domain"] == "calls"
    assert "there is no set or group xx" in blend(*data, "--lang", "xx=en", cwd=tmp_path, code=2).error_line


def test_again_and_elsewhere(sets: Path, tmp_path: Path) -> None:
    data = (f"a={sets}/1h.json", "mix.yaml")
    assert "a" in blend(*data, "--dry-run", cwd=tmp_path).out
    assert not (tmp_path / "mix.yaml").exists()
    blend(*data, cwd=tmp_path)
    assert blend(*data, cwd=tmp_path).out == "blend: nothing to do, mix.yaml is complete\n"
    other = (f"a={sets}/2h.json", "mix.yaml")
    assert "--overwrite to replace it" in blend(*other, cwd=tmp_path, code=2).error_line
    (tmp_path / "mix.yaml").rename(tmp_path / "kept.yaml").chmod(0o600)
    (tmp_path / "mix.yaml").symlink_to("kept.yaml")
    blend(*other, "--overwrite", cwd=tmp_path)
    assert (tmp_path / "mix.yaml").is_symlink()
    assert (tmp_path / "kept.yaml").stat().st_mode & 0o777 == 0o600
    done = blend("a=mix.yaml", f"b={sets}/1h.json", "mix.yaml", "--overwrite", cwd=tmp_path, code=2)
    assert "would replace the input mix.yaml" in done.error_line


def test_shar_sets_that_training_cannot_read(sets: Path, tmp_path: Path) -> None:
    shar = copy_set(sets / "shar", tmp_path)
    assert "holds neither" in blend(f"s={shar}/cuts", "mix.yaml", cwd=tmp_path, code=2).error_line
    for path in (*shar.glob("cuts/*.000001.*"), *shar.glob("target_audio/*.000001.*")):
        path.rename(path.with_name(path.name.replace("000001", "000002")))
    assert "the numbers of its shards have gaps" in blend(f"s={shar}", "mix.yaml", cwd=tmp_path, code=2).error_line


def _add_codes(folder: Path) -> None:
    folder.mkdir(parents=True)
    for number in range(2):
        (folder / f"codes.{number:06d}.tar").touch()


def test_codes_of_a_shar_set(sets: Path, tmp_path: Path) -> None:
    """Those of one codec are fields of the entry. Of several, training uses one, and blend cannot choose it."""
    shar = copy_set(sets / "shar", tmp_path)
    _add_codes(shar / "codes_a/target_codes")
    (shar / "codes_empty/target_codes").mkdir(parents=True)  # a config that names it cannot be loaded
    blend(f"s={shar}", "one.yaml", cwd=tmp_path)
    found = entries(tmp_path / "one.yaml")[0]["shar_path"]
    assert found["target_codes"] == f"{shar}/codes_a/target_codes/codes._OP_000000..000001_CL_.tar"
    _add_codes(shar / "codes_b/target_codes")
    blend(f"s={shar}", "two.yaml", cwd=tmp_path)
    assert list(entries(tmp_path / "two.yaml")[0]["shar_path"]) == ["cuts", "target_audio"]


def test_plain_and_tarred_together(sets: Path, tmp_path: Path) -> None:
    done = blend(f"a={sets}/1h.json", f"b={sets}/tarred", "mix.yaml", cwd=tmp_path)
    assert "NeMo needs force_iterable_dataset: true" in done.out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gaps", "gaps: its tars are not numbered from audio_0.tar without gaps"),
        ("set[1]", "NeMo could not load a data set from set[1]"),
    ],
)
def test_sets_that_nemo_could_not_load(name: str, message: str, sets: Path) -> None:
    shutil.copytree(sets / "tarred", sets / name, dirs_exist_ok=True)
    if name == "gaps":
        (sets / "gaps/audio_0.tar").unlink()
    assert message in blend(f"a={name}", "x.yaml", cwd=sets, code=2).error_line


@pytest.mark.nemo
@pytest.mark.slow
def test_nemo_draws_what_the_weights_say(sets: Path, tmp_path: Path) -> None:
    pytest.importorskip("nemo.collections.common")
    from prepcli.models.nemo_input import input_cuts

    en = ("en=:0.7", f"en/t={sets}/tarred:1", "en/s=:3", f"en/s/x={sets}/shar", f"en/s/y={sets}/tarred")
    data = (*en, f"it={sets}/buckets:0.3", "mix.yaml")
    tags = [word for name in ("en/t", "en/s/x", "en/s/y", "it") for word in ("--tag", f"{name}:set={name}")]
    done = prepcli("blend", *data, "--by", "records", *tags, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.json["checked"]
    assert "mix.yaml is written; NeMo reads it once, to check it (--no-check leaves this out)" in done.err
    counts = Counter(cut.set for cut in islice(input_cuts(tmp_path / "mix.yaml", seed=3), 6000))
    # Products of the weights of all levels; x and y have the same records.
    expected = {"en/t": 0.7 * 0.25, "en/s/x": 0.7 * 0.75 * 0.5, "en/s/y": 0.7 * 0.75 * 0.5, "it": 0.3}
    assert {name: count / 6000 for name, count in counts.items()} == pytest.approx(expected, abs=0.03)
    in_table = shares(done)
    in_table["it"] = in_table.pop("it/bucket1") + in_table.pop("it/bucket2")
    assert in_table == pytest.approx(expected)


@pytest.mark.nemo
@pytest.mark.slow
def test_a_config_that_nemo_cannot_read(sets: Path, tmp_path: Path) -> None:
    pytest.importorskip("nemo.collections.common")
    write_lines(tmp_path / "m.json", [{"audio_filepath": "gone.wav", "duration": 1.0, "text": ""}])
    done = prepcli("blend", "a=m.json", "mix.yaml", cwd=tmp_path)
    assert done.code == 2
    assert "NeMo cannot read mix.yaml: " in done.err
