"""--extracted: corpora from a folder that the user has unpacked, as NeMo's process_an4_data.py takes AN4."""

import shutil
from pathlib import Path

import pytest

from prepcli.commands.download.corpus_unpack import unpack
from tests.commands.download.conftest import Serve
from tests.commands.download.miniatures import aishell, an4, librispeech, ljspeech, write_files
from tests.conftest import read_lines, tree
from tests.support.running import Outcome, prepcli


def download(corpus: str, copy: Path, data: Path, *more: object, code: int = 0) -> Outcome:
    done = prepcli("download", corpus, "--extracted", copy, "--data-root", data, "--max-rejects", 3, *more)
    assert done.code == code, done.err
    return done


def test_an4(serve: Serve, tmp_path: Path) -> None:
    """The same manifests and recordings as from the archive, whichever part of the copy is named, also in place."""
    fetched = tmp_path / "fetched"
    assert prepcli("download", "an4", "--data-root", fetched, "--base-url", serve().url).code == 0
    made = {name: hash for name, hash in tree(fetched).items() if name.endswith((".json", ".wav"))}
    copy = write_files(an4(), tmp_path / "copy")
    before = tree(copy)
    (tmp_path / "linked").symlink_to(copy / "an4")
    for number, named in enumerate((copy, copy / "an4", tmp_path / "linked")):
        data = tmp_path / f"data{number}"
        planned = download("an4", named, data, "--dry-run", "--json").json
        assert (planned["records_in"], data.exists()) == (9, False)
        download("an4", named, data)
        assert tree(data) == made
        assert "nothing to do" in download("an4", named, data).out
    assert tree(copy) == before

    refused = prepcli("download", "an4", "--data-root", copy, "--base-url", serve().url)
    assert f"or give --extracted {copy} if it is the corpus, unpacked" in refused.error_line
    download("an4", copy, copy)
    assert tree(copy) == before | made


def test_ljspeech(tmp_path: Path) -> None:
    """Recordings that are used as they are stay in the copy, and every path names them."""
    copy = write_files(ljspeech(), tmp_path / "copy")
    data = tmp_path / "data"
    sizes = ("--val-size", 3, "--test-size", 5)
    download("ljspeech", copy / "LJSpeech-1.1", data, *sizes)
    assert not list(data.rglob("*.wav"))
    for part, count in (("train", 16), ("val", 3), ("test", 5)):
        records = read_lines(data / f"LJSpeech-1.1/{part}_manifest.json")
        lines = (data / f"filelists/ljs_audio_text_{part}_filelist.txt").read_text().splitlines()
        assert len(records) == len(lines) == count
        for record, line in zip(records, lines, strict=True):
            assert record["audio_filepath"] == line.split("|")[0]
            assert Path(record["audio_filepath"]).parent == copy / "LJSpeech-1.1/wavs"
            assert Path(record["audio_filepath"]).is_file()
    before = tree(copy)
    download("ljspeech", copy, copy, *sizes)
    records = read_lines(copy / "LJSpeech-1.1/train_manifest.json")
    assert records[0]["audio_filepath"].startswith("wavs/")
    assert before.items() <= tree(copy).items()


def test_librispeech(tmp_path: Path) -> None:
    copy = write_files(librispeech("dev-clean-2", ["s01"]), tmp_path / "copy")
    data = tmp_path / "data"
    for name in ("dev_clean_2", "dev-clean-2"):
        download("librispeech", copy / "LibriSpeech/dev-clean-2", data, "--data-sets", name, "--num-workers", 2)
    records = read_lines(data / "dev_clean_2.json")
    assert records[0]["audio_filepath"] == "LibriSpeech/dev-clean-2-processed/101-1011-0000.wav"
    assert (data / records[0]["audio_filepath"]).is_file()
    flac = tmp_path / "flac"
    for rank in range(2):
        shape = ("--data-sets", "dev_clean_2", "--audio-format", "flac", "--rank", rank, "--world-size", 2)
        download("librispeech", copy, flac, *shape)
    assert [path.name for path in flac.iterdir()] == ["dev_clean_2.json"]
    record = read_lines(flac / "dev_clean_2.json")[0]
    assert record["audio_filepath"] == str(copy / "LibriSpeech/dev-clean-2/101/1011/101-1011-0000.flac")
    missing = download("librispeech", copy, data, "--data-sets", "mini", code=2).error_line
    assert f"--extracted {copy} holds no LibriSpeech/train-clean-5: give the folder in which" in missing


def test_aishell_with_archives_in_the_archive(tmp_path: Path) -> None:
    copy = write_files(aishell(), tmp_path / "copy")
    refused = download("aishell", copy, tmp_path / "data", code=2).error_line
    assert f"{copy}/data_aishell/wav holds archives that are not unpacked, such as S0" in refused
    for archive in sorted((copy / "data_aishell/wav").glob("*.tar.gz")):
        unpack(archive, archive.parent)
    download("aishell", copy, tmp_path / "data")
    records = read_lines(tmp_path / "data/data_aishell/train.json")
    assert len(records) == 7
    assert records[0]["audio_filepath"].startswith(f"{copy}/data_aishell/wav/train/S0002/")
    assert (tmp_path / "data/data_aishell/vocab.txt").is_file()


@pytest.mark.parametrize("option", [("--base-url", "http://x"), ("--fetch-only",), ("--keep-archives",)])
def test_options_of_archives_have_no_effect(option: tuple[str, ...], tmp_path: Path) -> None:
    refused = download("an4", tmp_path, tmp_path / "data", *option, code=2).error_line
    assert f"{option[0]} has no effect with --extracted: leave one of them out" in refused


def test_a_copy_that_has_changed(tmp_path: Path) -> None:
    copy = write_files(an4(), tmp_path / "copy")
    download("an4", copy, tmp_path / "data")
    shutil.rmtree(copy / "an4/wav/an4test_clstk")
    changed = download("an4", copy, tmp_path / "data", code=2).error_line
    assert "has another content" in changed
