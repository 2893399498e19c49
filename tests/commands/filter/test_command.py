"""filter keeps lines as they are, accounts for all others, and shows the cost of each rule first."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prepcli import filter
from prepcli.jobs import selection
from prepcli.manifest import scan
from tests.conftest import Lines, read_lines, write_lines
from tests.support.running import prepcli


def rejects(out: Path) -> Lines:
    return read_lines(out.with_name(out.name + ".prepcli") / "rejects.jsonl")


def record(number: int, **more: Any) -> dict[str, Any]:
    base = {"audio_filepath": f"a/{number}.wav", "duration": number % 7 + 0.5, "text": "one two " * (number % 5)}
    return base | {"speaker": f"s{number % 3}", "lang": ("en", "de")[number % 2]} | more


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "m.json", [record(number) for number in range(60)])


@pytest.fixture
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several ranges and units, with the cuts at other places."""
    monkeypatch.setattr(scan, "RANGE_BYTES", 1000)
    monkeypatch.setattr(selection, "MIN_UNIT_BYTES", 300)


@pytest.mark.usefixtures("small_units")
def test_lines_stay_as_they_are_and_others_are_listed(tmp_path: Path) -> None:
    lines = [json.dumps(record(number)).encode() for number in range(40)]
    lines[3] = b'{"duration":1.50,  "audio_filepath": "x.wav", "y": {"z": 1e2}, "text": "\\u00e9"}\r'
    lines[5:5] = [
        b"",
        b"{",
        b'{"audio_filepath": "b.wav"}',
        b'{"audio_filepath": "s.wav", "duration": 1, "_skipme": 1}',
    ]
    (tmp_path / "m.json").write_bytes(b"\n".join(lines))
    done = prepcli("filter", tmp_path / "m.json", tmp_path / "out.json", "--keep", "duration < 3", "--json")
    assert done.code == 0, done.err
    plain = [line.rstrip(b"\r") for line in lines if line.strip()]
    expected = [
        line for line in plain if b"_skipme" not in line and line != b"{" and json.loads(line).get("duration", 9) < 3
    ]
    assert (tmp_path / "out.json").read_bytes() == b"\n".join(expected) + b"\n"
    report = done.json
    assert (report["records_in"], report["records_out"], report["skipped"]) == (42, len(expected), 1)
    assert report["units"] > 3
    listed = rejects(tmp_path / "out.json")
    assert len(listed) + len(expected) == 42
    assert [one["manifest_line"] for one in listed] == sorted(one["manifest_line"] for one in listed)
    bad = [(one["manifest_line"], one["reject_reason"]) for one in listed if one["reject_reason"] != "filtered"]
    assert bad == [(7, "broken_json"), (8, "bad_duration")]
    assert {one["reject_detail"] for one in listed if one["reject_reason"] == "filtered"} == {"keep duration < 3"}


def test_the_table_comes_first(manifest: Path, tmp_path: Path) -> None:
    rules = ("--keep", "duration < 4", "--drop", "lang == 'en'", "--drop", "speaker == 's1'")
    done = prepcli("filter", manifest, tmp_path / "out.json", *rules, "--json")
    assert done.code == 0, done.err
    kept = read_lines(tmp_path / "out.json")
    records = read_lines(manifest)
    tests = [lambda r: r["duration"] >= 4, lambda r: r["lang"] == "en", lambda r: r["speaker"] == "s1"]
    details = done.json["details"]
    for test, rule in zip(tests, details["rules"], strict=True):
        alone = [r for r in records if test(r)]
        last = [r for r in alone if sum(other(r) for other in tests) == 1]
        assert (rule["alone"]["records"], rule["last"]["records"]) == (len(alone), len(last))
        assert rule["alone"]["hours"] == pytest.approx(sum(r["duration"] for r in alone) / 3600, abs=1e-4)
    assert details["together"]["records"] == 60 - len(kept)
    assert kept == [r for r in records if not any(test(r) for test in tests)]
    english = next(one for one in details["lang"] if one["name"] == "en")
    assert (english["of"]["records"], english["together"]["records"]) == (30, 30)
    assert sum(one["together"]["records"] for one in details["speaker"]) == 60 - len(kept)
    assert done.err.index("drop lang == 'en'") >= 0
    dry = prepcli("filter", manifest, tmp_path / "dry.json", *rules, "--dry-run", "--html", tmp_path / "page.html")
    assert "all together" in dry.out
    refused = prepcli("filter", manifest, manifest, *rules)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "would replace it" in refused.err
    assert "drop lang == &#x27;en&#x27;" in (tmp_path / "page.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.json", "out.json", "out.json.prepcli", "page.html"]


@pytest.mark.usefixtures("small_units")
def test_manifests_are_merged_and_paths_follow(tmp_path: Path) -> None:
    for name, folder in (("a", tmp_path / "a"), ("b", tmp_path / "b")):
        folder.mkdir()
        paths = [f"{name}.wav", "./x.wav", f"{tmp_path}/abs.wav", "s3://bucket/a.wav"]
        write_lines(folder / "m.json", [{"audio_filepath": path, "duration": 1.0} for path in paths])
    odd = [
        {"audio_filepath": "o.wav", "duration": 1, "extra": {"audio_filepath": "stays"}, "context_audio_filepath": "c"}
    ]
    (tmp_path / "b/z.json.gz").write_bytes(gzip.compress(json.dumps(odd[0]).encode()))
    inputs = ",".join(map(str, (tmp_path / "a/m.json", tmp_path / "b/m.json", tmp_path / "b/z.json.gz")))
    done = prepcli("filter", inputs, tmp_path / "a/all.json")
    assert done.code == 0, done.err
    found = read_lines(tmp_path / "a/all.json")
    folders = [tmp_path / name for name in "ab"]
    expected = [str(path) for f in folders for path in (f / f"{f.name}.wav", f / "x.wav", tmp_path / "abs.wav", "s3")]
    assert [r["audio_filepath"].replace("s3://bucket/a.wav", "s3") for r in found[:8]] == expected
    assert found[8]["audio_filepath"] == str(tmp_path / "b/o.wav")
    assert found[8]["context_audio_filepath"] == str(tmp_path / "b/c")
    assert found[8]["extra"] == {"audio_filepath": "stays"}
    assert prepcli("filter", tmp_path / "a/m.json", tmp_path / "a/same.json").code == 0
    assert (tmp_path / "a/same.json").read_bytes() == (tmp_path / "a/m.json").read_bytes()


def test_a_quantile_is_that_of_all_records(tmp_path: Path) -> None:
    values = np.random.default_rng(3).normal(size=500).round(3).tolist()
    lines = [record(number, x=value) for number, value in enumerate(values)] + [record(9), record(9, x=None)]
    manifest = write_lines(tmp_path / "m.json", lines)
    done = prepcli("filter", manifest, tmp_path / "out.json", "--keep", "x <= quantile(x, 0.93)")
    assert done.code == 0, done.err
    limit = np.quantile(values, 0.93)
    assert [r["x"] for r in read_lines(tmp_path / "out.json")] == [x for x in values if x <= limit]


@pytest.mark.usefixtures("small_units")
def test_unique_keeps_the_first_that_the_others_keep(tmp_path: Path) -> None:
    lines = [record(number, id=number % 10, text=("x", None)[number % 2]) for number in range(50)]
    write_lines(
        tmp_path / "m.json", [*lines[:25], {"audio_filepath": "no duration"}, *lines[25:], record(1), record(2)]
    )
    manifest = tmp_path / "m.json"
    rules = ("--unique", "id", "--drop", "audio_filepath in ['a/0.wav', 'a/11.wav']")
    done = prepcli("filter", manifest, tmp_path / "out.json", *rules, "--json")
    assert done.code == 0, done.err
    kept = [r["audio_filepath"] for r in read_lines(tmp_path / "out.json")]
    assert kept == [f"a/{number}.wav" for number in (*range(1, 11), 1, 2)]  # two have no id
    unique = done.json["details"]["rules"][1]
    assert (unique["rule"], unique["alone"]["records"], unique["last"]["records"]) == ("unique id", 40, 38)


@pytest.mark.usefixtures("small_units")
def test_a_sample_depends_on_the_seed_and_not_on_the_order(manifest: Path, tmp_path: Path) -> None:
    def sample(source: Path, *options: object) -> set[str]:
        out = tmp_path / "out.json"
        done = prepcli("filter", source, out, *options, "--overwrite")
        assert done.code == 0, done.err
        return {r["audio_filepath"] for r in read_lines(out)}

    first = sample(manifest, "--sample", 20, "--drop", "lang == 'de'")
    assert len(first) == 20
    assert sample(manifest, "--sample", 20, "--drop", "lang == 'de'", "--seed", 1) != first
    assert len(sample(manifest, "--sample", 0.25)) == 15
    back = write_lines(tmp_path / "back.json", read_lines(manifest)[::-1])
    assert sample(back, "--sample", 20, "--drop", "lang == 'de'") == first
    assert len(sample(manifest, "--sample", 100)) == 60


def test_skipme_marks_and_keeps_what_others_have_marked(tmp_path: Path) -> None:
    lines = [record(0), record(1, _skipme="other: reason"), record(2), record(3, _skipme=0)]
    manifest = write_lines(tmp_path / "m.json", lines)
    done = prepcli("filter", manifest, tmp_path / "out.json", "--skipme", "--drop", "duration > 2", "--json")
    assert done.code == 0, done.err
    mark = {"_skipme": "filter: drop duration > 2"}
    assert read_lines(tmp_path / "out.json") == [lines[0], lines[1], lines[2] | mark, lines[3] | mark]
    assert (done.json["records_out"], done.json["rejects"], done.json["skipped"]) == (3, 0, 1)
    assert done.json["seconds"] == sum(one["duration"] for one in (lines[0], lines[2], lines[3]))
    assert prepcli("filter", tmp_path / "out.json", tmp_path / "kept.json").code == 0
    assert read_lines(tmp_path / "kept.json") == lines[:1]


def test_listed_duplicates_are_dropped(manifest: Path, tmp_path: Path) -> None:
    listed = [
        {"audio_filepath": f"{tmp_path}/a/{n}.wav", "duration": n % 7 + 0.5, "duplicate_place": n - 4}
        for n in (4, 5, 6)
    ]
    other = {"audio_filepath": f"{tmp_path}/a/7.wav", "duration": 9.5, "duplicate_place": 1}  # another segment
    groups = write_lines(tmp_path / "groups.jsonl", [*listed, other])
    done = prepcli("filter", manifest, tmp_path / "out.json", "--drop-listed", groups)
    assert done.code == 0, done.err
    assert {r["audio_filepath"] for r in rejects(tmp_path / "out.json")} == {"a/5.wav", "a/6.wav"}
    wrong = prepcli("filter", manifest, tmp_path / "x.json", "--drop-listed", manifest)
    assert "is not the output of find-duplicates" in wrong.error_line


def test_a_preset_needs_its_fields_in_each_manifest(manifest: Path, tmp_path: Path) -> None:
    scored = write_lines(tmp_path / "s.json", [record(n, bandwidth=9000 + 1000 * n, snr=30 + n) for n in range(8)])
    done = prepcli("filter", scored, tmp_path / "out.json", "--preset", "hifitts", "--json")
    assert done.code == 0, done.err
    assert [r["snr"] for r in read_lines(tmp_path / "out.json")] == [34, 35, 36, 37]
    assert "arXiv 2104.01497" in done.err
    both = prepcli("filter", f"{scored},{manifest}", tmp_path / "x.json", "--preset", "hifitts")
    assert both.code == 2
    assert f"preset hifitts needs the field bandwidth, and no record of {manifest} has it" in both.error_line
    other = prepcli("filter", scored, tmp_path / "y.json", "--preset", "emilia")
    assert other.error_line.endswith("has it; no command of prepcli measures it, so it must be in the manifest already")


def test_values_that_do_not_compare_are_rejects(tmp_path: Path) -> None:
    lines = [record(n, x=x) for n, x in enumerate([1, 2, "3", float("nan"), float("inf"), None, [1]])]
    manifest = tmp_path / "m.json"
    manifest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = prepcli("filter", manifest, tmp_path / "out.json", "--keep", "x > 1", "--max-rejects", 2)
    assert done.code == 0, done.err
    refused = prepcli("filter", manifest, tmp_path / "more.json", "--keep", "x > 1", "--max-rejects", 1)
    assert (refused.code, "2 of 7 records were rejected, more than" in refused.err) == (3, True)
    assert [r["audio_filepath"] for r in read_lines(tmp_path / "out.json")] == ["a/1.wav", "a/4.wav"]
    assert [(r["reject_reason"], r["manifest_line"]) for r in rejects(tmp_path / "out.json")] == [
        ("filtered", 1),
        ("bad_field", 3),
        ("filtered", 4),
        ("filtered", 6),
        ("bad_field", 7),
    ]


@pytest.mark.usefixtures("small_units")
def test_ranks_give_the_same_bytes(manifest: Path, tmp_path: Path) -> None:
    rules = ("--drop", "duration > quantile(duration, 0.8)", "--unique", "text,speaker")
    assert prepcli("filter", manifest, tmp_path / "one.json", *rules).code == 0
    for rank in (1, 0, 2):
        done = prepcli("filter", manifest, tmp_path / "three.json", *rules, "--rank", rank, "--world-size", 3)
        assert done.code == 0, done.err
    assert (tmp_path / "three.json").read_bytes() == (tmp_path / "one.json").read_bytes()
    assert rejects(tmp_path / "three.json") == rejects(tmp_path / "one.json")
    again = prepcli("filter", manifest, tmp_path / "one.json", *rules)
    assert (again.code, again.err.strip()) == (0, "")
    assert again.out.strip() == f"filter: nothing to do, {tmp_path / 'one.json'} is complete"
    assert "--drop was" in prepcli("filter", manifest, tmp_path / "one.json", "--unique", "text").error_line
    assert prepcli("verify", tmp_path / "one.json").code == 1  # there is no audio
    assert "finished" in prepcli("status", tmp_path / "one.json").out


def test_a_printed_report_has_the_table_that_the_command_line_shows_before_the_work(
    manifest: Path, tmp_path: Path
) -> None:
    done = prepcli("filter", manifest, tmp_path / "a.json", "--keep", "duration > 2")
    table = done.err.splitlines()
    assert "alone: records" in table[0]
    assert table[0] not in done.out
    report = filter(manifest, out=tmp_path / "b.json", keep=["duration > 2"])
    assert str(report).splitlines() == [*done.out.replace("a.json", "b.json").splitlines(), *table]
