"""Sets of conversations are recognized by their names, and pairs by what they hold."""

import json
from pathlib import Path

import pytest

from prepcli.errors import UsageError
from prepcli.formats.conversations import ConversationSet, tar_of
from prepcli.formats.sets import open_set
from tests.conftest import SHORT_CORPUS, read_lines
from tests.support.running import prepcli
from tests.support.tars import write_tar

RECORDS = [
    record | {"audio_filepath": str(SHORT_CORPUS / record["audio_filepath"])}
    for record in read_lines(SHORT_CORPUS / "manifest.json")[:6]
]


def test_other_tars_with_an_index_of_wids(tmp_path: Path) -> None:
    """Samples of audio and texts stay a webdataset."""
    members = {}
    for number, record in enumerate(RECORDS):
        members[f"{number}.json"] = json.dumps({"text": record["text"]}).encode()
        members[f"{number}.flac"] = Path(record["audio_filepath"]).read_bytes()
    (tmp_path / "set").mkdir()
    write_tar(tmp_path / "set/train-0.tar", members)
    (tmp_path / "set/wids-meta.json").write_text('{"shardlist": [{"url": "train-0.tar", "nsamples": 6}]}')
    assert prepcli("make-manifest", tmp_path / "set", tmp_path / "m.json").code == 0
    assert [line["text"] for line in read_lines(tmp_path / "m.json")] == [record["text"] for record in RECORDS]
    assert "set: a folder with 1 tar\n" in prepcli("inspect", tmp_path / "set").out
    done = prepcli("conversations-to-tarred", tmp_path / "set", tmp_path / "out")
    assert (done.code, "has no conversations" in done.error_line) == (2, True)


def test_what_an_index_of_wids_lists(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"0.wav": b"", "0.json": b'{"conversations": []}'})
    (tmp_path / "wids-meta.json").write_text('{"shardlist": [{"url": "a.tar", "nsamples": 1}]}')
    stored = open_set(tmp_path)
    assert isinstance(stored, ConversationSet)
    assert list(stored.files()) == [tmp_path / "a.tar"]
    assert stored.entry()["type"] == "share_gpt_webdataset"
    for text in ('{"shards": []}', "[" * 100_000):
        (tmp_path / "wids-meta.json").write_text(text)
        damaged = open_set(tmp_path)
        assert isinstance(damaged, ConversationSet)
        with pytest.raises(UsageError, match=r"wids-meta\.json has no list of shards"):
            list(damaged.files())


def test_manifests_and_tars(tmp_path: Path) -> None:
    for name in ("manifest_0.jsonl", "manifest_1.jsonl", "audio_0.tar"):
        (tmp_path / name).touch()
    stored = open_set(tmp_path)
    assert isinstance(stored, ConversationSet)
    with pytest.raises(UsageError, match=r"lacks audio_1\.tar; copy it again"):
        stored.check_complete()
    assert tar_of(tmp_path / "manifest_0.jsonl") == tmp_path / "audio_0.tar"
    assert tar_of(tmp_path / "manifest_1.jsonl") is None
    assert tar_of(tmp_path / "chats.jsonl") is None
