"""Arrow files and folders are refused with a line that makes Parquet of them, and the line works."""

import shlex
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pytest

from tests.conftest import MINI_CORPUS, read_lines
from tests.support.running import Outcome, prepcli, run_process

AUDIO = MINI_CORPUS / "s01/s01_u1.flac"


def table() -> pa.Table:
    return pa.table({"audio": [{"bytes": AUDIO.read_bytes(), "path": "a.flac"}] * 2, "text": ["a", "b"]})


def stream(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table().schema) as writer:
        writer.write_table(table())
    return path


def feather(path: Path) -> Path:
    pa.feather.write_feather(table(), path)
    return path


def follow(done: Outcome, folder: Path) -> Path:
    """Run the line of Python in the refusal, in `folder`; what it says to give then."""
    assert done.code == 2
    start, found, line = done.error_line.partition(": python -c ")
    assert found
    run = run_process([sys.executable, "-c", shlex.split(line)[0]], cwd=folder)
    assert run.code == 0, run.err
    return folder / start.partition("and give ")[2].removeprefix("a file of ")


@pytest.mark.parametrize("name", ["it's x.arrow", "b.feather", "c.arrow"])
def test_files(name: str, tmp_path: Path) -> None:
    path = feather(tmp_path / name) if name in ("b.feather", "c.arrow") else stream(tmp_path / name)
    for command in ("manifest-to-wenet", "make-manifest"):
        made = follow(prepcli(command, path, tmp_path / "out"), tmp_path)
        assert prepcli("verify", made).code == 0
    for command in ("verify", "inspect"):
        done = prepcli(command, path)
        assert (done.code, "(an Arrow file); `prepcli make-manifest" in done.error_line) == (2, True)


def test_a_folder_without_state(tmp_path: Path) -> None:
    """The cache of `datasets`."""
    stream(tmp_path / "cache" / "x-train.arrow")
    made = follow(prepcli("make-manifest", tmp_path / "cache", tmp_path / "m.json"), tmp_path)
    assert made.name == "x-train.parquet"
    assert prepcli("make-manifest", made, tmp_path / "m.json").code == 0


@pytest.mark.parametrize("splits", [(), ("train", "test")])
def test_the_names_in_a_folder_of_datasets_show_what_it_is(splits: tuple[str, ...], tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    for split in splits or ("",):
        stream(folder / split / "data-00000-of-00001.arrow")
        for name in ("state.json", "dataset_info.json"):
            (folder / split / name).write_text("{}")
    if splits:
        (folder / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    for command in (
        "make-manifest",
        "manifest-to-tarred",
        "convert-audio",
        "score",
        "find-duplicates",
        "verify",
        "inspect",
    ):
        out = [] if command in ("verify", "inspect") else [tmp_path / "out"]
        done = prepcli(command, folder, *out, *(["--num-shards", 1] if command == "manifest-to-tarred" else []))
        assert done.code == 2
        assert f"{folder} is in Arrow's format, which is not read; make Parquet of it, and give " in done.error_line
        assert "from datasets import load_from_disk" in done.error_line


@pytest.mark.slow
def test_folders_of_datasets(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    shutil.copy(AUDIO, tmp_path / "a.flac")
    one = datasets.Dataset.from_dict({"audio": [str(tmp_path / "a.flac")] * 2, "text": ["a", "b"]})
    one = one.cast_column("audio", datasets.Audio())
    one.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": one, "test": one}).save_to_disk(tmp_path / "dict")
    made = follow(prepcli("make-manifest", tmp_path / "one", tmp_path / "m.json"), tmp_path)
    assert prepcli("make-manifest", made, tmp_path / "m.json").code == 0
    assert [record["text"] for record in read_lines(tmp_path / "m.json")] == ["a", "b"]
    made = follow(prepcli("make-manifest", tmp_path / "dict", tmp_path / "n.json"), tmp_path)
    assert sorted(path.name for path in made.iterdir()) == [
        f"{name}-00000-of-00001.parquet" for name in ("test", "train")
    ]
    for path in made.iterdir():
        assert prepcli("make-manifest", path, tmp_path / f"{path.name}.json").code == 0
    done = prepcli("manifest-to-wenet", made, tmp_path / "wenet", "--split", "train")
    assert done.code == 0, done.err
    # A Parquet file that only names the files: what its rejects advise.
    one.to_parquet(tmp_path / "paths.parquet")
    done = prepcli("make-manifest", tmp_path / "paths.parquet", tmp_path / "p.json", "--max-rejects", 2)
    assert (done.code, read_lines(tmp_path / "p.json")) == (0, [])
    paths = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "paths.parquet"), split="train", cache_dir=str(tmp_path / "cache")
    )
    paths.save_to_disk(tmp_path / "embedded")
    made = follow(prepcli("make-manifest", tmp_path / "embedded", tmp_path / "q.json"), tmp_path)
    assert prepcli("make-manifest", made, tmp_path / "q.json").code == 0
