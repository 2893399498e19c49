"""Data sets on the Hugging Face hub as inputs: one commit for a run, whatever is pushed meanwhile."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from prepcli.engine.state.plan import StoredPlan
from prepcli.engine.state.workspace import Workspace, read_document
from tests.conftest import read_lines, tree
from tests.support.audio_files import write_short_corpus
from tests.support.containers import SOURCES
from tests.support.hub import Hub, hub_server
from tests.support.running import Outcome, prepcli
from tests.support.tools import slow

NAME = "data/train-00000-of-00001.parquet"
TOKEN = "hf_a-token-that-nobody-may-print"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[int, bytes]:
    """Parquet files of Hugging Face datasets by their numbers of records."""
    folder = tmp_path_factory.mktemp("rows")
    found = {}
    for count in (6, 4):
        place = folder / str(count)
        place.mkdir()
        SOURCES["parquet of datasets"](write_short_corpus(folder / f"corpus-{count}", count), place)
        found[count] = (place / NAME).read_bytes()
    return found


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub_server() as found:
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/nonexistent")
        yield found


def tarred(site: Hub, source: str, out: Path, *options: object, **environ: str) -> Outcome:
    return prepcli(
        *("manifest-to-tarred", source, out, "--num-shards", 2, "--json", *options), environ=site.environ | environ
    )


def test_the_same_bytes_as_of_a_copy(site: Hub, rows: dict[int, bytes], tmp_path: Path) -> None:
    commit = site.push("own/set", {NAME: rows[6], "README.md": b"about it"})
    (tmp_path / "data").mkdir()
    (tmp_path / NAME).write_bytes(rows[6])
    for name, source in (("a", str(tmp_path / "data")), ("b", "hf://datasets/own/set")):
        done = tarred(site, source, tmp_path / name)
        assert done.code == 0, done.err
        assert "the input is read as: Parquet, 1 file, 6 records" in done.json["notes"]
    assert tree(tmp_path / "a" / "sharded_manifests") == tree(tmp_path / "b" / "sharded_manifests")
    for tar in ("audio_0.tar", "audio_1.tar"):
        assert (tmp_path / "a" / tar).read_bytes() == (tmp_path / "b" / tar).read_bytes()
    assert "all" not in site.ranges
    done = prepcli("convert-audio", "hf://datasets/own/set", tmp_path / "c", environ=site.environ)
    assert done.code == 0, done.err
    assert len(read_lines(tmp_path / "c" / "manifest.json")) == 6
    plan = read_document(Workspace(tmp_path / "b").plan_file, StoredPlan)
    assert plan is not None
    assert plan.inputs[0]["path"] == f"hf://datasets/own/set@{commit}/{NAME}"


def test_names_of_records_are_read_by_other_commands(site: Hub, rows: dict[int, bytes], tmp_path: Path) -> None:
    commit = site.push("own/set", {NAME: rows[6]})
    source = f"hf://datasets/own/set@{commit}/{NAME}"
    lines = [{"audio_filepath": f"{source}::{row}", "duration": 1.0, "text": str(row)} for row in (4, 1)]
    (tmp_path / "m.json").write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    done = prepcli("fix-durations", tmp_path / "m.json", tmp_path / "fixed.json", environ=site.environ)
    assert done.code == 0, done.err
    assert [(one["text"], one["duration"] != 1.0) for one in read_lines(tmp_path / "fixed.json")] == [
        ("4", True),
        ("1", True),
    ]


@pytest.mark.parametrize("ranks", [slow(1), 2])
def test_a_run_is_continued_with_its_commit(site: Hub, rows: dict[int, bytes], tmp_path: Path, ranks: int) -> None:
    site.push("own/set", {NAME: rows[6]})
    assert tarred(site, "hf://datasets/own/set@main", tmp_path / "expected").code == 0
    begun = tarred(site, "hf://datasets/own/set@main", tmp_path / "out", "--rank", 0, "--world-size", 2)
    assert begun.json["status"] == "incomplete", begun.err
    site.push("own/set", {NAME: rows[4]})
    for rank in range(ranks):
        launch = ("--rank", rank, "--world-size", ranks) if ranks > 1 else ()
        done = tarred(site, "hf://datasets/own/set@main", tmp_path / "out", *launch)
    assert done.code == 0, done.err
    assert (done.json["records_in"], done.json["records_out"]) == (6, 6)
    assert tree(tmp_path / "out") == tree(tmp_path / "expected")
    site.asked.clear()
    again = tarred(site, "hf://datasets/own/set@main", tmp_path / "out")
    assert (again.code, again.json["records_out"]) == (0, 6)
    assert not [one for one in site.asked if "/revision/" in one]


@pytest.mark.slow
def test_other_revisions_are_other_inputs(site: Hub, rows: dict[int, bytes], tmp_path: Path) -> None:
    first = site.push("own/set", {NAME: rows[6]})
    assert tarred(site, "hf://datasets/own/set", tmp_path / "out").code == 0
    site.push("own/set", {NAME: rows[4]})
    v2 = site.push("own/set", {NAME: rows[4]}, "v2")
    assert tarred(site, "hf://datasets/own/set", tmp_path / "out").json["records_out"] == 6
    refused = tarred(site, "hf://datasets/own/set@v2", tmp_path / "out")
    assert refused.code == 2
    name = "hf://datasets/own/set"
    assert f"; the input was {name}@{first}/{NAME}, now {name}@{v2}/{NAME}. " in refused.err
    done = tarred(site, "hf://datasets/own/set", tmp_path / "out", "--overwrite")
    assert (done.code, done.json["records_out"]) == (0, 4)


def test_gated_data_and_no_token_in_the_state(site: Hub, rows: dict[int, bytes], tmp_path: Path) -> None:
    site.push("own/set", {NAME: rows[6]})
    site.tokens["own/set"] = TOKEN
    refused = tarred(site, "hf://datasets/own/set", tmp_path / "out")
    assert refused.code == 2
    assert "is gated; set HF_TOKEN (or run hf auth login), and accept the terms" in refused.error_line
    done = tarred(site, "hf://datasets/own/set", tmp_path / "out", HF_TOKEN=TOKEN)
    assert done.code == 0, done.err
    assert TOKEN not in done.out + done.err
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes()
    assert {server for server, _ in site.authorized} == {"hub"}


@pytest.mark.slow
def test_splits_and_configurations_are_never_mixed(site: Hub, rows: dict[int, bytes], tmp_path: Path) -> None:
    test = NAME.replace("train", "test")
    site.push("own/splits", {NAME: rows[6], test: rows[4]})
    refused = tarred(site, "hf://datasets/own/splits", tmp_path / "a")
    assert "has several splits, test, train: choose one with --split" in refused.error_line
    assert tarred(site, "hf://datasets/own/splits", tmp_path / "a", "--split", "test").json["records_out"] == 4
    assert tarred(site, f"hf://datasets/own/splits/{test}", tmp_path / "b").json["records_out"] == 4
    site.push("own/configs", {f"{name}/{NAME}": rows[4] for name in ("de", "en")})
    refused = tarred(site, "hf://datasets/own/configs", tmp_path / "c")
    assert "has several data sets, de, en: give the folder of one of them" in refused.error_line
    assert tarred(site, "hf://datasets/own/configs/de", tmp_path / "c").json["records_out"] == 4
    site.push("own/parts", {NAME.replace("00001.", "00002."): rows[4]})
    refused = tarred(site, "hf://datasets/own/parts", tmp_path / "d")
    assert "train-00001-of-00002.parquet is missing" in refused.error_line


def test_data_in_another_form(site: Hub, rows: dict[int, bytes], tmp_path: Path) -> None:
    site.push("own/set", {"script.py": b"", "README.md": b""})
    refused = tarred(site, "hf://datasets/own/set", tmp_path / "out")
    assert "give hf://datasets/own/set@refs/convert/parquet" in refused.error_line
    site.push("own/set", {"default/partial-train/0000.parquet": rows[4]}, "refs/convert/parquet")
    for alias in ("refs/convert/parquet", "~parquet", "refs%2Fconvert%2Fparquet"):
        done = tarred(site, f"hf://datasets/own/set@{alias}", tmp_path / "out")
        assert (done.code, done.json["records_out"]) == (0, 4), done.err
        assert "holds only the first part of the data set" in done.err


def test_shuffling_and_writing_are_refused(site: Hub, rows: dict[int, bytes], tmp_path: Path) -> None:
    site.push("own/set", {NAME: rows[4]})
    refused = tarred(site, "hf://datasets/own/set", tmp_path / "out", "--shuffle")
    assert "each record out of order would fetch a row group: leave out --shuffle" in refused.error_line
    assert "only read" in tarred(site, "hf://datasets/own/set", Path("hf://datasets/own/set/out")).error_line


@pytest.mark.slow
def test_inspect_verify_and_bins(site: Hub, rows: dict[int, bytes]) -> None:
    site.push("own/set", {NAME: rows[6]})
    for command in (("inspect",), ("verify",), ("estimate-bins", "-b", 2)):
        for source in ("hf://datasets/own/set", f"hf://datasets/own/set/{NAME}"):
            done = prepcli(*command, source, environ=site.environ)
            assert done.code == 0, done.err
            assert "6" in done.out
