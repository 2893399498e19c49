"""Bins of conversations in the form of ShareGPT, whose durations are those of the audio."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.conversations import share_gpt_of
from tests.support.running import Outcome, prepcli
from tests.support.tars import write_tar
from tests.support.tokenizer_models import train_sentencepiece


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini corpus with 12 conversations, the same in NeMo's form, as a set of pairs, and as lines of a tar."""
    made = Path(shutil.copytree(MINI_CORPUS, tmp_path_factory.mktemp("chats") / "corpus"))
    lines = share_gpt_of(read_lines(made / "manifest.json")[:12])
    write_lines(made / "chats.jsonl", lines)
    assert prepcli("filter", made / "chats.jsonl", made / "nemo.jsonl", "--keep", "duration > 0").code == 0
    form = ("--form", "sharegpt-webdataset", "--num-shards", 2)
    assert prepcli("conversations-to-tarred", made / "chats.jsonl", made / "set", *form).code == 0
    names = [f"{number}.flac" for number in range(12)]
    audio = [(made / line["sound"]).read_bytes() for line in lines]
    write_tar(made / "sounds.tar", dict(zip(names, audio, strict=True)))
    write_lines(made / "tarred.jsonl", [line | {"sound": name} for line, name in zip(lines, names, strict=True)])
    (made / "elsewhere").mkdir()
    shutil.copy(made / "chats.jsonl", made / "elsewhere")
    train_sentencepiece(made / "bpe.model")
    return made


def bins(folder: Path, entry: str) -> Outcome:
    (folder / "cfg.yaml").write_text(f"- {{{entry.replace('@', f'{folder}/')}, audio_locator_tag: '[audio]'}}\n")
    return prepcli("estimate-token-bins", folder / "cfg.yaml", "-t", folder / "bpe.model", "-b", 3, "--json")


@pytest.mark.parametrize(
    "entry",
    [
        "type: share_gpt, manifest_filepath: '@chats.jsonl'",
        "type: share_gpt, manifest_filepath: '@elsewhere/chats.jsonl', audio_root: '@'",
        "type: share_gpt, manifest_filepath: '@tarred.jsonl', tarred_audio_filepaths: '@sounds.tar'",
        "type: share_gpt_webdataset, data_dir: '@set'",
    ],
)
def test_they_are_as_long_as_in_nemos_form(entry: str, folder: Path) -> None:
    wanted, found = bins(folder, "type: multimodal_conversation, manifest_filepath: '@nemo.jsonl'"), bins(folder, entry)
    assert (wanted.code, found.code) == (0, 0), found.err
    assert (wanted.json["num_examples"], wanted.json["num_rejected"]) == (12, 0)
    assert found.json == wanted.json


def test_other_placeholders_and_lines_that_cannot_be_used(folder: Path) -> None:
    """Without audio, the placeholder is missing: each line is counted as one that cannot be used."""
    lines = read_lines(folder / "chats.jsonl")
    for line in lines[:5]:
        line["conversations"][0]["value"] = "[A]"
    lines[5]["sound"] = "none.flac"
    write_lines(folder / "odd.jsonl", lines)
    entry = "type: share_gpt, manifest_filepath: '@odd.jsonl'"
    usual, more = bins(folder, entry).json, bins(folder, f"{entry}, audio_placeholders: ['[A]', '<sound>']").json
    assert (usual["num_examples"], usual["num_rejected"]) == (6, 6)
    assert "odd.jsonl:1: the line has 1 audio, and its turns have 0 placeholders" in usual["first_rejected"]
    assert (more["num_examples"], more["num_rejected"]) == (11, 1)
    assert "odd.jsonl:6: turn 2: " in more["first_rejected"]


@pytest.mark.parametrize(
    "entry", ["type: share_gpt", "type: share_gpt_webdataset", "type: share_gpt_webdataset, data_dir: '@s01'"]
)
def test_entries_without_data(entry: str, folder: Path) -> None:
    done = bins(folder, entry)
    assert (done.code, len(done.err.splitlines())) == (2, 1), done.err
