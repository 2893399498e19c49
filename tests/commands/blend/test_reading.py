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
from tests.conftest import MINI_CORPUS, SHORT_CORPUS, copy_set, read_lines, write_lines
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


def shares(done: Outcome) -> dict[str, float]:
    return {one["name"]: one["share"] for one in done.json["sets"]}


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
        "recording": f"{sets}/shar/recording/recording._OP_000000..000001_CL_.tar",
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
    assert re.search(r"half is not finished: 2 of 4 units are done; continue with: cd .* manifest-to-tarred", half)


def test_an_addition_that_is_not_finished_is_not_counted(tmp_path: Path) -> None:
    records = read_lines(SHORT_CORPUS / "manifest.json")
    first, second = write_lines(tmp_path / "a.json", records[:24]), write_lines(tmp_path / "b.json", records[24:])
    base = ("--num-shards", 2, "--audio-base-dir", SHORT_CORPUS)
    assert prepcli("manifest-to-tarred", first, tmp_path / "set", *base).code == 0
    more = ("--concat-to", tmp_path / "set", *base)
    assert prepcli("manifest-to-tarred", second, *more, "--rank", 0, "--world-size", 2).code == 0
    for count in (24, 48):
        (found,) = blend("a=set", "mix.yaml", "--overwrite", "--json", cwd=tmp_path).json["sets"]
        assert found["records"] == count
        assert prepcli("manifest-to-tarred", second, *more).code == 0


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
    for path in (*shar.glob("cuts/*.000001.*"), *shar.glob("recording/*.000001.*")):
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
    assert list(entries(tmp_path / "two.yaml")[0]["shar_path"]) == ["cuts", "recording"]


def test_a_shar_for_magpie_alone_is_mixed_with_its_kind_only(sets: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        words = (SHORT_CORPUS / "manifest.json", tmp_path / name, "--audio-field", "target_audio")
        assert prepcli("manifest-to-shar", *words).code == 0
    blend("a=one", "b=two", "magpie.yaml", cwd=tmp_path)
    for other in ("shar", "tarred"):
        done = blend("a=one", f"b={sets}/{other}", "mixed.yaml", cwd=tmp_path, code=2)
        assert "no loader reads both a and b: the Shar a has the audio of its cuts in target_audio" in done.error_line
    blend(f"a={sets}/shar", f"b={sets}/tarred", "asr.yaml", cwd=tmp_path)


def test_plain_and_tarred_together(sets: Path, tmp_path: Path) -> None:
    done = blend(f"a={sets}/1h.json", f"b={sets}/tarred", "mix.yaml", cwd=tmp_path)
    assert "NeMo needs force_iterable_dataset: true" in done.out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gaps", "gaps: its tars are not numbered from audio_0.tar without gaps"),
        ("set[1]", "NeMo could not read set[1]"),
    ],
)
def test_sets_that_nemo_could_not_load(name: str, message: str, sets: Path) -> None:
    shutil.copytree(sets / "tarred", sets / name, dirs_exist_ok=True)
    if name == "gaps":
        (sets / "gaps/audio_0.tar").unlink()
    assert message in blend(f"a={name}", "x.yaml", cwd=sets, code=2).error_line


@pytest.mark.parametrize("name", ["x{1..2}.json", "x[1].json", "x,y.json"])
def test_a_manifest_for_which_nemo_would_read_another(name: str, sets: Path, tmp_path: Path) -> None:
    """Paths that exist are read as they are, by prepcli alone: NeMo expands each. A comma does no harm to either."""
    for file in (name, "x1.json", "x2.json"):
        shutil.copy(sets / "1h.json", tmp_path / file)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump([{"type": "nemo", "manifest_filepath": name}]))
    for spec in (name, "mine.yaml"):
        done = prepcli("blend", f"a={spec}", "mix.yaml", "--no-check", "--overwrite", cwd=tmp_path)
        is_refused = f"{name} is read for " in done.err and "and NeMo would look for " in done.err
        assert (done.code, is_refused) == ((0, False) if "," in name else (2, True)), done.err
    shutil.copytree(sets / "buckets", tmp_path / "set(1)")
    assert "NeMo could not read set(1)" in blend("a=set(1)", "x.yaml", cwd=tmp_path, code=2).error_line


def test_a_list_with_commas_in_a_config(sets: Path, tmp_path: Path) -> None:
    """NeMo takes the text for the name of one file."""
    names = ",".join(f"{sets}/{hours}h.json" for hours in (1, 2))
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump([{"type": "nemo", "manifest_filepath": names}]))
    done = blend("a=mine.yaml", "mix.yaml", cwd=tmp_path, code=2)
    assert f"{sets}/1h.json is read for {names}, and NeMo would look for {names}; " in done.error_line


@pytest.mark.nemo
@pytest.mark.slow
def test_nemo_draws_what_the_weights_say(sets: Path, tmp_path: Path) -> None:
    pytest.importorskip("nemo.collections.common")
    from prepcli.models.nemo_input import input_cuts

    en = ("en=:0.7", f"en/t={sets}/tarred:1", "en/s=:3", f"en/s/x={sets}/shar", f"en/s/y={sets}/tarred")
    data = (*en, f"it={sets}/buckets:0.3", "mix.yaml")
    tags = [word for name in ("en/t", "en/s/x", "en/s/y", "it") for word in ("--tag", f"{name}:set={name}")]
    done = prepcli("blend", *data, "--by", "records", *tags, "--check", "nemo", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "blend: NeMo reads mix.yaml once, to check it; its start takes long" in done.err
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
    write_lines(tmp_path / "m.json", [{"audio_filepath": "m.json", "duration": 1.0, "text": ""}])
    done = prepcli("blend", "a=m.json", "mix.yaml", "--check", "nemo", cwd=tmp_path)
    assert done.code == 2
    assert "NeMo cannot read mix.yaml: " in done.err


def test_a_manifest_that_lies_in_another_folder_than_its_paths_start_from(tmp_path: Path) -> None:
    fixed = tmp_path / "other/fixed.json"
    fixed.parent.mkdir()
    options = ("--audio-base-dir", SHORT_CORPUS)
    assert prepcli("fix-durations", SHORT_CORPUS / "manifest.json", fixed, *options).code == 0
    done = prepcli("blend", f"a={fixed}", "mix.yaml", cwd=tmp_path)
    first = read_lines(fixed)[0]["audio_filepath"]
    assert (done.code, (tmp_path / "mix.yaml").exists()) == (2, False)
    assert f"a: {fixed} names its audio relative to its folder, and {fixed.parent} has no {first}" in done.error_line
