"""download aishell2: its two layouts, and recordings outside of the copy."""

from pathlib import Path

import pytest

from tests.commands.download.miniatures import MANDARIN, aishell2, write_files
from tests.conftest import read_lines, tree
from tests.support.running import prepcli


@pytest.mark.parametrize("nemo_layout", [False, True])
def test_aishell2(tmp_path: Path, nemo_layout: bool) -> None:
    corpus = write_files(aishell2(nemo_layout), tmp_path / "corpus")
    before = tree(corpus)
    arguments = ["download", "aishell2", "--audio-folder", corpus, "--data-root", tmp_path / "data"]
    planned = prepcli(*arguments, "--dry-run", "--json")
    assert planned.json["records_in"] == 12
    assert not (tmp_path / "data").exists()
    done = prepcli(*arguments)
    assert (done.code, done.err) == (0, "")
    records = read_lines(tmp_path / "data/train.json")
    assert len(records) == len(MANDARIN)
    assert records[1]["text"] == "也成为地方政府的眼中钉 YES"
    assert records[1]["duration"] == 0.12
    assert Path(records[1]["audio_filepath"]).is_file()
    vocabulary = (tmp_path / "data/vocab.txt").read_text().splitlines()
    assert sorted(vocabulary) == sorted({*"".join(MANDARIN), *"YES"})
    assert tree(corpus) == before
    assert "nothing to do" in prepcli(*arguments).out
    (corpus / ("transcript/dev/trans.txt" if nemo_layout else "iOS/dev/trans.txt")).write_text("ID0012W0009 后\n")
    changed = prepcli(*arguments)
    assert changed.code == 2
    assert "has another content" in changed.error_line


@pytest.mark.parametrize("outside", ["../../../away.wav", "/away.wav"])
def test_a_recording_outside_of_a_copy_is_a_reject(tmp_path: Path, outside: str) -> None:
    corpus = write_files(aishell2(nemo_layout=False), tmp_path / "corpus")
    scp = corpus / "iOS/dev/wav.scp"
    first = scp.read_text().splitlines()[0].split("\t")[1]
    (scp.parent / first).rename(tmp_path / "away.wav")
    path = outside if outside.startswith("..") else str(tmp_path / "away.wav")
    scp.write_text(scp.read_text().replace(first, path))
    done = prepcli(
        "download", "aishell2", "--audio-folder", corpus, "--data-root", tmp_path / "data", "--max-rejects", 1
    )
    assert done.code == 0, done.err
    (reject,) = read_lines(tmp_path / "data.prepcli/sets/aishell2/rejects.jsonl")
    assert (reject["reject_reason"], "may lie outside of the corpus" in reject["reject_detail"]) == ("bad_field", True)


def test_aishell2_is_not_there(tmp_path: Path) -> None:
    done = prepcli("download", "aishell2", "--audio-folder", tmp_path, "--data-root", tmp_path / "data")
    assert done.code == 2
    assert "holds no part of AISHELL-2: looked for iOS/data/trans.txt" in done.error_line
