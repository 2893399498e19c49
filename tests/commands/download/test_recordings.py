"""The recordings of a corpus: which files they are, and those that no list names."""

import os
from pathlib import Path

from prepcli.commands.download.recordings import PublishedRecordings, files_in
from tests.commands.download.miniatures import write_files
from tests.support.audio_files import write_audio
from tests.support.running import prepcli


def test_files_of_a_pattern(tmp_path: Path) -> None:
    """At any depth, in any case of letters, through links, but not hidden ones, nor in a circle."""
    names = ("a/1.wav", "a/b/2.WAV", "a/b/c/3.wav", "a/b/3.txt", "a/._1.wav", "a/.d/4.wav", "x/5.wav", "other/6.wav")
    root = write_files(dict.fromkeys(names, b""), tmp_path)
    (root / "a/linked").symlink_to(root / "x")
    (root / "a/b/circle").symlink_to(root / "a")
    assert sorted(files_in(root, "a/**/*.wav")) == ["a/1.wav", "a/b/2.WAV", "a/b/c/3.wav", "a/linked/5.wav"]
    assert sorted(files_in(root, "**/*5.wav")) == ["a/linked/5.wav", "x/5.wav"]
    assert list(files_in(root, "none/**/*.wav")) == list(files_in(root, "a/1.wav/**/*.wav")) == []


def test_recordings_that_no_list_names(tmp_path: Path) -> None:
    root = write_files(dict.fromkeys([f"a/{number}.wav" for number in range(100)], b""), tmp_path)
    (Path(os.fsdecode(bytes(root) + b"/a/\xe9.wav"))).write_bytes(b"")
    listing = PublishedRecordings()
    assert len(listing.unlisted(root, ("a/**/*.wav",))) == 101
    for number in range(98):
        listing.add(f"a/{number}.wav" if number % 2 else f"./a//{number}.wav")
        listing.add(f"a/{number}.wav")
    listing.add("a/not there.wav")
    assert listing.unlisted(root, ("a/**/*.wav", "none/**/*.wav")) == ["a/98.wav", "a/99.wav", "a/\udce9.wav"]


def test_a_copy_without_transcripts_is_refused(tmp_path: Path) -> None:
    chapter = tmp_path / "copy/LibriSpeech/dev-clean/84/1"
    write_audio(chapter / "84-1-0000.flac", 1.0, 16000)
    words = ["--data-root", tmp_path / "out", "--data-sets", "dev_clean", "--extracted", tmp_path / "copy"]
    done = prepcli("download", "librispeech", *words)
    assert (done.code, "has no line of a transcript of librispeech" in done.error_line) == (2, True)
    (chapter / "84-1.trans.txt").write_text("84-1-0000 HELLO\n")
    assert prepcli("download", "librispeech", *words).code == 0
