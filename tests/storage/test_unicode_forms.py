"""File systems that do not distinguish A from a, such as exFAT: imitated by their listings."""

import io
import os
import tarfile
import unicodedata
from pathlib import Path

import pytest

from prepcli.commands.download.corpus_unpack import UnsafeArchiveError, unpack
from prepcli.storage.input_files import same_file
from prepcli.storage.one_name import are_one_file, folded, same_when_folded
from tests.conftest import read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli

COMPOSED = "é.wav"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)


@pytest.fixture
def ignores_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder lists the first of several names that differ in case only."""
    listdir = os.listdir

    def names(folder: str) -> list[str]:
        return list({folded(name): name for name in sorted(listdir(folder), reverse=True)}.values())

    monkeypatch.setattr(os, "listdir", names)


def test_names_with_one_folded_form() -> None:
    assert folded(COMPOSED) == folded(DECOMPOSED) == folded("É.WAV")
    assert folded("a/B_1.pt") == "a/b_1.pt"
    names = ["a/x.pt", "b", "A/x.pt", "c", COMPOSED, DECOMPOSED, "1"]
    assert list(same_when_folded(names)) == [("a/x.pt", "A/x.pt"), (COMPOSED, DECOMPOSED)]
    assert list(same_when_folded(names[1:2] * 3)) == []


def test_two_files_where_names_are_distinguished(tmp_path: Path) -> None:
    for name in ("A", "a"):
        (tmp_path / name).touch()
    assert not are_one_file(f"{tmp_path}/A", f"{tmp_path}/a")
    assert same_file([tmp_path / "A"], [tmp_path / "a"]) is None


def test_one_file_under_two_names(tmp_path: Path, ignores_case: None) -> None:
    """FUSE may give it two inode numbers, so an output was not taken for the input that it replaces."""
    for name in ("A", "a"):
        (tmp_path / name).touch()
    assert are_one_file(f"{tmp_path}/A", f"{tmp_path}/a")
    assert same_file([tmp_path / "A"], [tmp_path / "a"]) == (tmp_path / "A", f"{tmp_path}/a")


@pytest.mark.usefixtures("one_thread")
def test_an_output_whose_files_replace_each_other(tmp_path: Path, ignores_case: None) -> None:
    """The run was done, and a mel of another record stood in the place of the first."""
    for name in ("A.wav", "a.wav"):
        write_audio(tmp_path / name, 1.0, 16000)
    records = [{"audio_filepath": name, "duration": 1.0, "text": "t"} for name in ("A.wav", "a.wav")]
    manifest = write_lines(tmp_path / "m.json", records)
    done = prepcli("manifest-to-mels", manifest, tmp_path / "out", "--sampling-rate", 16000, "--devices", "cpu")
    assert done.code == 1
    assert "mels/A.pt and mels/a.pt are one file in the file system of" in done.error_line


def test_members_of_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as out:
        for data in (b"1", b"2"):
            member = tarfile.TarInfo("corpus/x")
            member.size = 1
            out.addfile(member, io.BytesIO(data))
    unpack(tmp_path / "a.tar", tmp_path / "out")
    assert (tmp_path / "out/corpus/x").read_bytes() == b"2"
    monkeypatch.setattr(os, "listdir", lambda _: ["X"])
    with pytest.raises(UnsafeArchiveError, match="does not distinguish its name from that of another member"):
        unpack(tmp_path / "a.tar", tmp_path / "again")


def test_names_in_another_form_of_unicode(tmp_path: Path) -> None:
    """They look the same, and so the message alone could not be understood."""
    write_audio(tmp_path / "a" / DECOMPOSED, 1.0)
    write_audio(tmp_path / "a" / "x.wav", 1.0)
    records = [{"audio_filepath": f"a/{name}", "duration": 1.0} for name in (COMPOSED, "x.wav")]
    hint = "a name that looks the same is there, in another form of Unicode (NFC or NFD)"
    manifest = write_lines(tmp_path / "m.json", records[:1])
    words = ("fix-durations", manifest, tmp_path / "out.json", "--max-rejects", 1)
    refused = prepcli("manifest-to-wenet", manifest, tmp_path / "wenet")
    assert (refused.code, hint in refused.error_line) == (2, True)
    write_lines(manifest, records)
    assert prepcli(*words).code == 0
    (tmp_path / "t.txt").write_text(f"{COMPOSED.removesuffix('.wav')} one\nx two\n")
    made = ("make-manifest", tmp_path / "a", tmp_path / "made.json", "--transcripts", tmp_path / "t.txt")
    assert prepcli(*made, "--max-rejects", 1).code == 0
    for name in ("out.json", "made.json"):
        (reject,) = read_lines(tmp_path / f"{name}.prepcli" / "rejects.jsonl")
        assert hint in reject["reject_detail"]
