"""`--keep` of commands that only count."""

from pathlib import Path

import pytest

from tests.conftest import make_set, read_lines, write_lines
from tests.support.running import prepcli


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    lines = [
        {"audio_filepath": f"{n}.wav", "duration": 1.0 + n % 7, "snr": float(n % 40), "text": "x" * (n % 9)}
        for n in range(200)
    ]
    return write_lines(tmp_path / "m.json", lines)


def kept(manifest: Path) -> list[float]:
    return [record["duration"] for record in read_lines(manifest) if record["snr"] >= 20 and record["text"]]


KEEP = ("--keep", "snr >= 20", "--keep", "len(text) > 0")


def test_bins_of_the_records_that_pass(manifest: Path, tmp_path: Path) -> None:
    passing = write_lines(
        tmp_path / "p.json", [{"audio_filepath": "a", "duration": duration} for duration in kept(manifest)]
    )
    expected = prepcli("estimate-bins", passing, "-b", 4, "--json").json
    found = prepcli("estimate-bins", manifest, "-b", 4, *KEEP, "--json")
    assert found.json == expected
    assert f"{len(kept(manifest))} of 200 records pass --keep" in found.err
    few = prepcli("estimate-bins", manifest, "-b", 2, *KEEP, "-n", 20, "--json").json
    assert few == prepcli("estimate-bins", passing, "-b", 2, "-n", 20, "--json").json


def test_a_blend_weighs_the_records_that_pass(manifest: Path, tmp_path: Path) -> None:
    other = write_lines(tmp_path / "o.json", [one | {"snr": 30} for one in read_lines(manifest)[:50]])
    sets = (f"a={manifest}", f"b={other}", tmp_path / "mix.yaml", "--no-check", "--json")
    found = prepcli("blend", *sets, *KEEP).json
    assert [one["records"] for one in found["sets"]] == [len(kept(manifest)), len(kept(other))]
    hours = [sum(kept(one)) / 3600 for one in (manifest, other)]
    assert [one["hours"] for one in found["sets"]] == pytest.approx(hours, abs=1e-4)
    assert found["sets"][0]["weight"] == pytest.approx(hours[0] / sum(hours), abs=1e-5)
    assert found["notes"][0] == f"a: {len(kept(manifest))} of 200 records pass --keep; all are in the set"


def test_a_finished_set_is_read_again(tmp_path: Path) -> None:
    corpus = Path("tests/data/short_corpus/manifest.json").absolute()
    make_set("manifest-to-tarred", corpus, tmp_path / "set", "--num-shards", 2)
    found = prepcli(
        "blend", f"a={tmp_path / 'set'}", tmp_path / "m.yaml", "--no-check", "--json", "--keep", "duration < 0.3"
    )
    count = sum(record["duration"] < 0.3 for record in read_lines(corpus))
    assert found.json["sets"][0]["records"] == count > 0


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("snt > 3", "no record has the field snt (did you mean snr?)"),
        ("snr > 'x'", "the types do not compare"),
        ("snr > quantile(snr, 0.5)", "takes no quantile(...) here"),
        ("snr > 99", "m.json passes"),
        ("snr >", "a field or a value is missing"),
    ],
)
def test_wrong_expressions_are_refused(manifest: Path, tmp_path: Path, expression: str, message: str) -> None:
    for command in (("estimate-bins", manifest), ("blend", f"a={manifest}", tmp_path / "mix.yaml", "--no-check")):
        done = prepcli(*command, "--keep", expression)
        assert done.code == 2
        assert message in done.err


def test_other_lines_have_no_fields(tmp_path: Path) -> None:
    cuts = write_lines(
        tmp_path / "cuts.jsonl", [{"id": "a", "type": "MonoCut", "start": 0, "duration": 1.0, "channel": 0}]
    )
    done = prepcli("estimate-bins", f"cuts_path={cuts}", "-b", 2, "--keep", "duration > 0")
    assert done.code == 2
    assert "has no lines of NeMo" in done.err
    listed = prepcli("blend", f"a={tmp_path}", tmp_path / "mix.list", "--keep", "duration > 0")
    assert "a list for WeNet does not have" in listed.err
