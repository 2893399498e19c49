"""The reports of several data sets, and what ends a download before anything is fetched."""

from pathlib import Path

import pytest

from prepcli.commands.download.data_set import Archive
from prepcli.commands.download.prepare import plan_fetching
from prepcli.commands.download.report import DownloadReport
from prepcli.engine.run.report import Report
from prepcli.errors import UsageError
from tests.commands.download.miniatures import checksum_list, librispeech, tar_gz
from tests.conftest import read_lines
from tests.support.running import prepcli


@pytest.mark.parametrize(
    ("states", "status"),
    [
        (("nothing_to_do", "done"), "done"),
        (("done", "nothing_to_do"), "done"),
        (("nothing_to_do", "nothing_to_do"), "nothing_to_do"),
        (("done", "too_many_rejects", "fetched"), "too_many_rejects"),
    ],
)
def test_the_status_is_that_of_the_first_that_is_not_done(states: tuple[str, ...], status: str) -> None:
    reports = {str(number): Report("download x", state, "out") for number, state in enumerate(states)}
    assert DownloadReport(reports).status == status


def test_too_many_rejects_do_not_keep_the_next_data_set_from_being_prepared(tmp_path: Path) -> None:
    broken = {name: b"fLaC" if name.endswith(".flac") else data for name, data in librispeech("a", ["s01"]).items()}
    files = {name.replace("/a/", "/dev-clean-2/"): data for name, data in broken.items()}
    archives = {
        "dev-clean-2.tar.gz": tar_gz(files),
        "train-clean-5.tar.gz": tar_gz(librispeech("train-clean-5", ["s02"])),
    }
    for name, data in archives.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "md5sum.txt").write_text(checksum_list(archives))
    given = [word for name in archives for word in ("--archive", tmp_path / name)]
    words = ["--data-sets", "mini", *given, "--checksums", tmp_path / "md5sum.txt", "--data-root", tmp_path / "data"]
    done = prepcli("download", "librispeech", *words, "--json")
    assert done.code == 3, done.err
    assert "6 of 6 records were rejected, more than --max-rejects allows" in done.err
    reports = done.json["data_sets"]
    assert {name: report["status"] for name, report in reports.items()} == {
        "dev_clean_2": "too_many_rejects",
        "train_clean_5": "done",
    }
    assert len(read_lines(tmp_path / "data/train_clean_5.json")) == 6


def test_a_dry_run_asks_for_an_archive_that_nobody_publishes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nobody publishes toy"):
        plan_fetching(Archive("toy.tar.gz", ()), tmp_path)
    planned = plan_fetching(Archive("toy.tar.gz", (), given=tmp_path / "mine.tar.gz"), tmp_path)
    assert planned["from"] == str(tmp_path / "mine.tar.gz")
