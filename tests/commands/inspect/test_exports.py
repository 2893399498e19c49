"""What `inspect` says of exports, as folders and as single files."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prepcli.commands.inspect import exports, kinds
from prepcli.errors import UsageError
from prepcli.formats import sets
from tests.commands.inspect.conftest import look
from tests.conftest import SHORT_CORPUS
from tests.support.audio_files import write_short_corpus
from tests.support.containers import SOURCES
from tests.support.running import prepcli

MANIFEST = SHORT_CORPUS / "manifest.json"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini corpus as each export."""
    folder = tmp_path_factory.mktemp("exports")
    for command, out, *options in (
        ("manifest-to-wenet", "shards", "--shard-size", 16),
        ("manifest-to-wenet", "raw", "--raw"),
        ("manifest-to-mels", "lists", "--lists-only"),
        ("manifest-to-parquet", "parquet", "--shard-size", 16),
    ):
        assert prepcli(command, MANIFEST, folder / str(out), *options).code == 0
    return folder


def test_each_kind_of_set_is_looked_at() -> None:
    assert {kind.kind for kind in sets.KINDS} == set(kinds.SUBJECTS) | set(exports.LOOKS)


@pytest.mark.parametrize("part", ["shards", "shards/shards.list"])
def test_shards_for_wenet(made: Path, part: str) -> None:
    found = look(made / part)
    assert (found.kind, found.title) == ("wenet", "3 shards for WeNet (data_type: shard)")
    assert [run.command for run in found.runs] == ["manifest-to-wenet"]
    assert (found.tars[0].members, found.tars[0].extensions) == (96, {"txt": 48, "flac": 48})
    assert (found.audio[0].looked_at, found.audio[0].unreadable) == (48, 0)


@pytest.mark.parametrize("part", ["raw", "raw/data.list"])
def test_a_data_list(made: Path, part: str) -> None:
    found = look(made / part, num_audio_files=10)
    assert (found.kind, found.records) == ("wenet", 48)
    assert (found.audio[0].looked_at, found.audio[0].missing) == (10, 0)
    assert found.notes == ["data.list has 48 lines"]


@pytest.mark.parametrize("part", ["lists", "lists/filelists", "lists/filelists/manifest_audio_text_filelist.txt"])
def test_file_lists(made: Path, part: str) -> None:
    found = look(made / part)
    assert (found.kind, found.records, found.audio[0].looked_at) == ("mels", 48, 48)


@pytest.mark.parametrize(("part", "records"), [("parquet", 48), ("parquet/data-000001.parquet", 16)])
def test_parquet(made: Path, part: str, records: int) -> None:
    found = look(made / part)
    assert (found.kind, found.records) == ("parquet", records)
    assert list(found.fields) == ["id", "audio", "duration", "text", "speaker", "lang"]
    assert found.hours > 0
    assert (found.audio[0].looked_at, found.audio[0].formats) == (records, {"flac PCM_16": records})


def test_rows_of_others_are_measured_and_splits_are_told_apart(tmp_path: Path) -> None:
    """Hugging Face's form: no durations, a file for each split, in a folder below that of the data set."""
    (tmp_path / "source").mkdir()
    folder = SOURCES["parquet of datasets"](write_short_corpus(tmp_path / "corpus", 4), tmp_path / "source")
    train = folder / "data/train-00000-of-00001.parquet"
    for path in (train, folder / "data", folder):
        found = look(path)
        assert (found.records, found.speakers, found.audio[0].looked_at) == (4, 1, 4)
        assert (found.duration["p0"] > 0, found.parts, found.extensions) == (True, [], {"none": 4})
    assert prepcli("estimate-bins", folder, "-b", 2).code == 0
    shutil.copy(train, folder / "data/test-00000-of-00001.parquet")
    for path in (folder / "data", folder):
        found = look(path)
        assert found.records == 8
        assert [(Path(part.files).name[:5], part.records) for part in found.parts] == [("test-", 4), ("train", 4)]
        assert len(prepcli("inspect", folder, "--json").json["parts"]) == 2
    assert prepcli("estimate-bins", train, "-b", 2).code == 0
    mixed = prepcli("estimate-bins", folder, "-b", 2)
    assert (mixed.code, "has several splits, test, train; `prepcli make-manifest" in mixed.error_line) == (2, True)
    refused = prepcli("inspect", folder, "--record", 0)
    assert (refused.code, "--record takes manifests, cuts" in refused.error_line) == (2, True)


def test_rows_that_are_not_read_say_why(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    folder = SOURCES["parquet of datasets"](write_short_corpus(tmp_path / "corpus", 4), tmp_path / "source")
    train = folder / "data/train-00000-of-00001.parquet"
    first = train.rename(train.with_name("train-00000-of-00002.parquet"))
    found = look(folder / "data")
    assert (found.records, found.hours) == (4, 0)
    missing = "train-00001-of-00002.parquet is missing; download it too"
    assert [note for note in found.notes if note.startswith("its hours are not known") and missing in note]
    for place in "de", "fr":
        (tmp_path / "both" / place).mkdir(parents=True)
        shutil.copy(first, tmp_path / "both" / place / "train.parquet")
    for command in ("inspect", "verify", "estimate-bins"):
        assert missing in prepcli(command, folder).error_line
        done = prepcli(command, tmp_path / "both")
        assert (done.code, "has several data sets, de, fr" in done.error_line) == (2, True), done.err


def test_a_table_without_audio_has_no_hours(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "t.parquet")
    done = prepcli("inspect", tmp_path / "t.parquet")
    assert "records  2" in done.out
    assert "\n  audio" not in done.out


def test_the_command_prints_all_kinds(made: Path) -> None:
    for part in ("shards/shards.list", "raw", "lists", "parquet"):
        done = prepcli("inspect", made / part)
        assert done.code == 0, done.err
        assert json.loads(prepcli("inspect", made / part, "--json").out)["kind"] in ("wenet", "mels", "parquet")


def test_missing_and_damaged_parts_are_named(made: Path, tmp_path: Path) -> None:
    (tmp_path / "shards.list").write_text("gone_000000000.tar\n")
    found = look(tmp_path / "shards.list")
    assert found.notes == [f"missing of the list: 1 shard, the first is {tmp_path}/gone_000000000.tar"]
    shutil.copy(made / "parquet/data-000000.parquet", tmp_path / "data-000000.parquet")
    (tmp_path / "data-000001.parquet").write_bytes(b"PAR1, but not for long")
    (tmp_path / "shards.list").unlink()
    found = look(tmp_path)
    assert found.records == 16
    assert found.notes[0].startswith("damaged: data-000001.parquet")
    broken = tmp_path / "data.list"
    broken.write_text((made / "raw/data.list").read_text() + '{"key": 1}\n')
    with pytest.raises(UsageError, match=r"data\.list:49 is not a line of a data list"):
        look(broken)
