"""One identity of audio: by it, filter and split find the records of a list and of an earlier split."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prepcli.jobs.same_audio import NUM_FORMS, Audio, forms
from tests.conftest import read_lines, write_lines
from tests.support.running import prepcli

RECORD = {"audio_filepath": "a/one.wav", "duration": 2.0, "text": "x"}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Five files in a folder `a`; a link to the folder, and one to a file."""
    folder = tmp_path / "corpus"
    (folder / "a").mkdir(parents=True)
    for name in ("one", "two", "three", "four", "five"):
        (folder / f"a/{name}.wav").touch()
    os.symlink("a", folder / "link")
    os.symlink("one.wav", folder / "a/other.wav")
    return folder


OTHER_NAMES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "the same": lambda folder: {},
    "absolute": lambda folder: {"audio_filepath": f"{folder}/a/one.wav"},
    "a link to the folder": lambda folder: {"audio_filepath": "link/one.wav"},
    "a link to the file": lambda folder: {"audio_filepath": f"{folder}/a/other.wav"},
    "up and down": lambda folder: {"audio_filepath": f"{folder}/a/../link/one.wav"},
    "a measured duration": lambda folder: {"duration": 2.0136},
    "an offset": lambda folder: {"offset": 0.0},
}
OTHERS: dict[str, dict[str, Any]] = {
    "another file": {"audio_filepath": "a/two.wav"},
    "another channel": {"channel": 1},
    "another span": {"offset": 2.0},
    "another length": {"duration": 1.0},
}


def kept(corpus: Path, changes: dict[str, Any]) -> tuple[list[str], str]:
    """The texts that filter keeps of a manifest with a record that a list names, and what it prints."""
    listed = [{**RECORD, "audio_filepath": str(corpus / "a/one.wav"), "duplicate_place": place} for place in (0, 1)]
    write_lines(corpus / "list.jsonl", listed)
    rest = [{"audio_filepath": f"a/{name}.wav", "duration": 3.0, "text": name} for name in ("three", "four", "five")]
    manifest = write_lines(corpus / "m.json", [RECORD | changes, *rest])
    done = prepcli("filter", manifest, corpus / "out.json", "--drop-listed", corpus / "list.jsonl")
    assert done.code == 0
    return [record["text"] for record in read_lines(corpus / "out.json")], done.out + done.err


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_listed_record_is_found_by_another_name(corpus: Path, name: str) -> None:
    texts, said = kept(corpus, OTHER_NAMES[name](corpus))
    assert texts == ["three", "four", "five"]
    assert "none of" not in said


@pytest.mark.parametrize("name", OTHERS)
def test_other_audio_is_kept_and_a_list_that_finds_nothing_is_told(corpus: Path, name: str) -> None:
    texts, said = kept(corpus, OTHERS[name])
    assert texts == ["x", "three", "four", "five"]
    assert "none of the 1 record that it lists after the first of a group is in the manifests" in " ".join(said.split())


def test_spans_a_hair_apart_are_the_same() -> None:
    """Wherever they lie between the steps."""
    for number in range(200):
        start, length = 0.0137 * number, 1 + 0.0091 * number
        here = forms([Audio("/a.wav", start, length)])[0, NUM_FORMS // 2]
        others = [(0.019, 0.0), (-0.019, 0.0), (0.0, 0.049), (0.0, -0.049), (0.019, -0.049)]
        near = forms([Audio("/a.wav", start + one, length + other) for one, other in others])
        assert (near == here).any(axis=1).all()
        far = forms([Audio("/a.wav", start + one, length + other) for one, other in ((0.06, 0.0), (0.0, 0.15))])
        assert not (far == here).any()


def test_equal_relative_names_of_two_corpora_are_two_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        lines = [{"audio_filepath": "a.wav", "duration": 1.0, "text": f"{name} {number}"} for number in range(2)]
        write_lines(tmp_path / name / "m.json", lines)
    os.symlink("two", tmp_path / "three")
    (tmp_path / "three/n.json").write_bytes((tmp_path / "two/m.json").read_bytes())
    manifests = f"{tmp_path}/one/m.json,{tmp_path}/two/m.json,{tmp_path}/three/n.json"
    assert prepcli("filter", manifests, tmp_path / "out.json", "--unique", "audio_filepath").code == 0
    assert [record["text"] for record in read_lines(tmp_path / "out.json")] == ["one 0", "two 0"]
    assert prepcli("filter", manifests, tmp_path / "out2.json", "--unique", "text,audio_filepath").code == 0
    texts = [record["text"] for record in read_lines(tmp_path / "out2.json")]
    assert texts == ["one 0", "one 1", "two 0", "two 1"]


def test_an_earlier_split_is_found_through_a_link_and_with_measured_durations(corpus: Path) -> None:
    names = ("one", "two", "three", "four", "five")
    lines = [{"audio_filepath": f"a/{name}.wav", "duration": 2.0, "text": name} for name in names]
    manifest = write_lines(corpus / "m.json", lines)
    shares = ("--part", "test=2", "--part", "train=rest", "--by", "none")
    assert prepcli("split", manifest, corpus / "first", *shares).code == 0
    test = [record["text"] for record in read_lines(corpus / "first/test.json")]
    moved = [line | {"audio_filepath": f"link/{line['text']}.wav", "duration": 2.013} for line in lines]
    manifest = write_lines(corpus / "moved.json", moved)
    again = (*shares, "--seed", 9, "--keep-parts", corpus / "first")
    assert prepcli("split", manifest, corpus / "second", *again).code == 0
    assert [record["text"] for record in read_lines(corpus / "second/test.json")] == test


def test_a_list_of_another_corpus_is_told_by_split(corpus: Path) -> None:
    lines = [{"audio_filepath": f"a/{name}.wav", "duration": 2.0, "text": name} for name in ("one", "two")]
    manifest = write_lines(corpus / "m.json", lines)
    listed = {"audio_filepath": "/other.wav", "duration": 2.0, "duplicate_place": 1, "duplicate_group": 1}
    (corpus / "list.jsonl").write_text(json.dumps(listed) + "\n")
    options = ("--part", "a=1", "--part", "b=rest", "--by", "none", "--disjoint-listed", corpus / "list.jsonl")
    done = prepcli("split", manifest, corpus / "parts", *options)
    assert done.code == 0
    assert "none of the 1 record that it lists" in " ".join((done.out + done.err).split())
