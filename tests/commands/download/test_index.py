"""The index of a corpus: lines without an utterance, lines that cannot be used, and audio that comes back."""

from pathlib import Path

import pytest

from tests.commands.download.conftest import Serve
from tests.commands.download.miniatures import aishell2, write_files
from tests.conftest import read_lines, tree
from tests.support.running import prepcli


def test_an4_lines_without_an_utterance(serve: Serve, tmp_path: Path) -> None:
    from tests.commands.download.miniatures import an4, tar_gz

    files = an4()
    name = "an4/etc/an4_train.transcription"
    files[name] = b"<s> NO ID </s>\n<s> </s> (an251-fs01-b)\n" + files[name]
    site = serve({"an4_sphere.tar.gz": tar_gz(files)})
    done = prepcli("download", "an4", "--data-root", tmp_path / "d", "--base-url", site.url, "--max-rejects", 3)
    assert done.code == 0, done.err
    rejects = read_lines(tmp_path / "d.prepcli/sets/an4/rejects.jsonl")
    assert [reject["reject_detail"] for reject in rejects] == [
        f"{name}:1: the line does not end with a file id in brackets",
        f"{name}:2: the line has no words",
    ]


@pytest.mark.parametrize("nemo_layout", [False, True])
def test_aishell2_whose_audio_was_away(tmp_path: Path, nemo_layout: bool) -> None:
    """When it was indexed; `--retry-rejects` indexes it again, unless more than the audio has changed."""
    corpus = write_files(aishell2(nemo_layout), tmp_path / "corpus")
    speaker = corpus / ("wav/dev/D0012" if nemo_layout else "iOS/dev/wav/D0012")
    transcript = corpus / ("transcript/dev/trans.txt" if nemo_layout else "iOS/dev/trans.txt")
    arguments = ["download", "aishell2", "--audio-folder", corpus, "--max-rejects", 12, "--json"]
    whole = prepcli(*arguments, "--data-root", tmp_path / "whole")
    assert whole.code == 0

    speaker.rename(tmp_path / "away")
    arguments += ["--data-root", tmp_path / "data"]
    without = prepcli(*arguments)
    assert without.json["rejects_by_reason"] == {"missing_audio": 4}
    assert prepcli("status", tmp_path / "data", "--json").json["retry_with"].endswith(" --retry-rejects")
    assert prepcli(*arguments, "--retry-rejects").json["status"] == "nothing_to_do"
    (tmp_path / "away").rename(speaker)
    refused = prepcli(*arguments)
    assert refused.code == 2
    assert "has another content" in refused.error_line

    text = transcript.read_bytes()
    transcript.write_bytes(text.replace("也".encode(), "后".encode()))
    assert prepcli(*arguments, "--retry-rejects").code == 2
    transcript.write_bytes(text)
    again = prepcli(*arguments, "--retry-rejects")
    assert (again.code, again.json["records_out"], again.json["rejects_by_reason"]) == (0, 12, {})
    assert tree(tmp_path / "data") == tree(tmp_path / "whole")
    for more in ([], ["--retry-rejects"]):
        assert prepcli(*arguments, *more).json["status"] == "nothing_to_do"
