"""Splits inside an archive: its folders are called after them, and one is chosen, or asked for."""

import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.conftest import SHORT_CORPUS, read_lines
from tests.support.running import prepcli

AUDIO = sorted(SHORT_CORPUS.glob("s0*/*.flac"))[:5]
NAMES = ("data/train/a.flac", "data/train/b.flac", "data/eval/c.flac", "data/eval/d.flac", "data/e.flac")
TABLE = "file_name,transcription\n" + "".join(f"{name},{name[-6]}\n" for name in NAMES)


def archive(folder: Path, kind: str) -> Path:
    """Two files of each split, and one outside; a zip has a table of texts."""
    path = folder / "corpus" / f"speech.{kind}"
    path.parent.mkdir()
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as zipped:
            zipped.writestr("metadata.csv", TABLE)
            for name, audio in zip(NAMES, AUDIO, strict=True):
                zipped.write(audio, name)
    else:
        with tarfile.open(path, "w") as tar:
            for name, audio in zip(NAMES, AUDIO, strict=True):
                tar.add(audio, name)
    return path


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_one_split_is_read(kind: str, tmp_path: Path) -> None:
    source = archive(tmp_path, kind)
    refused = prepcli("make-manifest", source, tmp_path / "all.json")
    assert refused.code == 2
    assert "has members of several splits, test and train: choose one with --split" in refused.error_line
    for split, names in (("test", "cde"), ("eval", "cde"), ("train", "abe")):
        out = tmp_path / f"{split}.json"
        done = prepcli("make-manifest", source, out, "--split", split)
        assert done.code == 0, done.err
        assert [Path(record["audio_filepath"]).stem for record in read_lines(out)] == list(names)
        assert "  records   3 of 3\n" in done.out
    missing = prepcli("make-manifest", source, tmp_path / "dev.json", "--split", "dev")
    assert (missing.code, "has no split dev; it has test, train" in missing.error_line) == (2, True)


def test_folders_of_one_split_need_no_choice(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "speech.zip", "w") as zipped:
        for number, audio in enumerate(AUDIO):
            zipped.write(audio, f"train/{number}.flac")
    assert prepcli("make-manifest", tmp_path / "speech.zip", tmp_path / "out.json").code == 0
    assert len(read_lines(tmp_path / "out.json")) == 5
    assert prepcli("inspect", archive(tmp_path, "tar"), "--json").json["records"] == 5
