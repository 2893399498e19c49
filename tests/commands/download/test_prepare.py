"""download through the command line: servers, archives and calls that are wrong; each has one clear line."""

import gzip
import io
import sys
import tarfile
from pathlib import Path

import pytest

from tests.commands.download.conftest import Serve
from tests.commands.download.miniatures import (
    ARCHIVES,
    Files,
    an4,
    checksum_list,
    librispeech,
    tar,
    tar_gz,
    write_files,
)
from tests.commands.download.server import Site
from tests.conftest import MINI_CORPUS, read_lines, tree
from tests.support.running import Outcome, prepcli, run_process


def download_an4(data: Path, site: Site, *more: object) -> Outcome:
    return prepcli("download", "an4", "--data-root", data, "--base-url", site.url, *more)


def an4_records(data: Path) -> int:
    return len(read_lines(data / "an4/train_manifest.json")) + len(read_lines(data / "an4/test_manifest.json"))


def test_a_wrong_checksum_is_named_and_mended(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    site = serve(damaged=1)
    done = download_an4(tmp_path / "data", site, "--checksums", checksums)
    assert done.code == 0, done.err
    assert f"an4_sphere.tar.gz from {site.url}/an4_sphere.tar.gz is damaged (md5:" in done.error_line
    assert done.error_line.endswith("fetching it again")
    assert an4_records(tmp_path / "data") == 9


@pytest.mark.parametrize("address", ["server/path", "ftp://server"])
def test_a_base_url_that_is_not_an_address(address: str, tmp_path: Path) -> None:
    done = prepcli("download", "an4", "--data-root", tmp_path / "data", "--base-url", address)
    assert (done.code, done.out) == (2, "")
    assert f"--base-url {address} is not an address: it begins with http:// or https://" in done.error_line
    assert list(tmp_path.iterdir()) == []


def test_a_file_for_the_data_root(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    done = prepcli("download", "an4", "--data-root", tmp_path / "data")
    assert done.code == 2
    assert f"cannot write to {tmp_path}/data: it is a file; choose another --data-root" in done.error_line
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_damaged_archive_of_ones_own_leaves_nothing(is_there: bool, tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(b"not an archive")
    if is_there:
        (tmp_path / "deep/data").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    done = prepcli("download", "an4", "--data-root", tmp_path / "deep/data", "--archive", tmp_path / "archive")
    assert (done.code, "is damaged" in done.error_line) == (2, True)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_published_checksum_holds_for_a_base_url(serve: Serve, tmp_path: Path) -> None:
    """A mirror has the same files; ours has miniatures, which are not LibriSpeech."""
    arguments = ["--data-root", tmp_path / "data", "--data-sets", "dev_clean_2", "--base-url", serve().url]
    done = prepcli("download", "librispeech", *arguments)
    assert done.code == 1
    assert "was damaged 3 times (it should be md5:6d7ab67ac6a1d2c993d050e16d61080d)" in done.err.splitlines()[-1]
    assert "Traceback" not in done.err
    assert not tree(tmp_path / "data")


def test_a_truncated_gzip_is_found_without_any_checksum(serve: Serve, tmp_path: Path) -> None:
    whole = ARCHIVES["an4_sphere.tar.gz"]()
    site = serve({"an4_sphere.tar.gz": whole[: len(whole) // 2]})
    done = download_an4(tmp_path / "data", site)
    assert done.code == 1
    lines = done.err.splitlines()
    assert len(lines) == 3
    assert "an4_sphere.tar.gz is damaged (Compressed file ended" in lines[0]
    assert "3 times" in lines[2]
    assert not tree(tmp_path / "data")
    site.files["an4_sphere.tar.gz"] = whole
    assert download_an4(tmp_path / "data", site).code == 0
    assert an4_records(tmp_path / "data") == 9


@pytest.mark.parametrize("evil", ["../evil", "/tmp/prepcli-evil", "link"])
def test_an_archive_that_reaches_out_leaves_nothing(serve: Serve, tmp_path: Path, evil: str) -> None:
    buffer = io.BytesIO(tar(an4()))
    with tarfile.open(fileobj=buffer, mode="a") as out:
        member = tarfile.TarInfo("an4/link" if evil == "link" else evil)
        if evil == "link":
            member.type, member.linkname = tarfile.SYMTYPE, "../../../etc"
        out.addfile(member)
    site = serve({"an4_sphere.tar.gz": gzip.compress(buffer.getvalue())})
    done = download_an4(tmp_path / "d/data", site)
    assert done.code == 1
    assert "not to be trusted" in done.error_line
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {"lock"}
    assert not Path("/tmp/prepcli-evil").exists()


def test_404(serve: Serve, tmp_path: Path) -> None:
    done = download_an4(tmp_path / "data", serve({}))
    assert done.code == 1
    assert "an4_sphere.tar.gz is not where it should be" in done.error_line
    assert "404 Not Found" in done.error_line


def test_503_is_waited_for(serve: Serve, tmp_path: Path) -> None:
    site = serve(refusals=[(503, {"Retry-After": "0"})] * 2)
    done = download_an4(tmp_path / "data", site)
    assert (done.code, done.err) == (0, "")
    assert site.answered == [503, 503, 200]


def test_a_503_for_ever_is_incomplete(serve: Serve, tmp_path: Path) -> None:
    done = download_an4(tmp_path / "data", serve(refusals=[(503, {"Retry-After": "0"})] * 99), "--json")
    assert done.code == 4
    assert done.json["status"] == "incomplete"
    assert "503 Service Unavailable" in done.error_line
    assert "Continue with: prepcli download an4 --data-root" in done.error_line


def test_an_archive_on_the_disk(serve: Serve, archives: dict[str, bytes], checksums: Path, tmp_path: Path) -> None:
    own = tmp_path / "my copy.tgz"
    own.write_bytes(archives["an4_sphere.tar.gz"])
    site = serve({})
    done = download_an4(tmp_path / "data", site, "--archive", own, "--checksums", checksums)
    assert (done.code, done.err) == (0, "")
    assert site.asked == []
    assert own.exists()
    assert an4_records(tmp_path / "data") == 9


@pytest.mark.parametrize("is_link", [False, True])
def test_an_archive_of_the_user_where_fetched_ones_go(
    is_link: bool, archives: dict[str, bytes], tmp_path: Path
) -> None:
    """It is an input, and stays; that of an earlier `--keep-archives`, for instance."""
    kept = tmp_path / "data/archives/an4_sphere.tar.gz"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(archives["an4_sphere.tar.gz"])
    given = kept
    if is_link:
        given = tmp_path / "an4_sphere.tar.gz"
        given.symlink_to(kept)
    for more in ([], [], ["--overwrite"]):
        done = prepcli("download", "an4", "--data-root", tmp_path / "data", "--archive", given, *more)
        assert done.code == 0, done.err
        assert given.read_bytes() == archives["an4_sphere.tar.gz"]


def test_an_archive_in_the_tree_that_unpacking_replaces(archives: dict[str, bytes], tmp_path: Path) -> None:
    own = tmp_path / "data/an4/an4_sphere.tar.gz"
    own.parent.mkdir(parents=True)
    own.write_bytes(archives["an4_sphere.tar.gz"])
    before = tree(tmp_path)
    done = prepcli("download", "an4", "--data-root", tmp_path / "data", "--archive", own, "--overwrite")
    assert (done.code, tree(tmp_path)) == (2, before)
    assert "which may be replaced; move it elsewhere" in done.error_line


def test_a_damaged_archive_on_the_disk_is_not_removed(
    archives: dict[str, bytes], checksums: Path, tmp_path: Path
) -> None:
    own = tmp_path / "dev-clean-2.tar.gz"
    own.write_bytes(archives["train-clean-5.tar.gz"])
    arguments = ["--data-root", tmp_path / "data", "--data-sets", "dev_clean_2", "--archive", own]
    done = prepcli("download", "librispeech", *arguments, "--checksums", checksums)
    assert done.code == 2
    assert f"--archive {own}: dev-clean-2.tar.gz is damaged (md5:" in done.error_line
    assert own.exists()
    assert not tree(tmp_path / "data")


def test_an_archive_that_nobody_asked_for(archives: dict[str, bytes], tmp_path: Path) -> None:
    own = tmp_path / "test-other.tar.gz"
    own.write_bytes(b"")
    done = prepcli("download", "librispeech", "--data-root", tmp_path / "data", "--archive", own)
    assert done.code == 2
    assert "is not one of the archives of this command: dev-clean.tar.gz" in done.error_line
    assert not (tmp_path / "data").exists()


def test_a_kept_archive_that_is_damaged_is_fetched_again(serve: Serve, checksums: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "archives").mkdir(parents=True)
    (data / "archives/an4_sphere.tar.gz").write_bytes(b"rubbish")
    done = download_an4(data, serve(), "--checksums", checksums, "--keep-archives")
    assert done.code == 0
    assert "an4_sphere.tar.gz is damaged (md5:" in done.error_line
    assert (data / "archives/an4_sphere.tar.gz").read_bytes() == ARCHIVES["an4_sphere.tar.gz"]()


def test_a_kept_archive_is_not_fetched(serve: Serve, archives: dict[str, bytes], tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "archives").mkdir(parents=True)
    (data / "archives/an4_sphere.tar.gz").write_bytes(archives["an4_sphere.tar.gz"])
    site = serve({})
    assert download_an4(data, site).code == 0
    assert site.asked == []


def test_an_unknown_data_set(tmp_path: Path) -> None:
    done = prepcli("download", "librispeech", "--data-root", tmp_path / "data", "--data-sets", "dev_clear")
    assert done.code == 2
    assert "has no data set dev_clear; choose of dev_clean, dev_other" in done.error_line


def test_what_prepcli_did_not_make_is_not_replaced(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_files(an4(), data)
    (data / "an4/mine.txt").write_text("mine")
    site = serve()
    done = download_an4(data, site)
    assert done.code == 2
    assert f"{data / 'an4'} exists, but" in done.error_line
    assert site.asked == []
    assert (data / "an4/mine.txt").exists()
    done = download_an4(data, site, "--overwrite")
    assert done.code == 0
    assert an4_records(data) == 9
    kept = tmp_path / "data.prepcli/sets/an4/kept/an4"
    assert f"{data / 'an4'} was there already, and is replaced by what was unpacked; it is kept as {kept}" in done.err
    assert (kept / "mine.txt").read_text() == "mine"


def test_a_requeued_job_may_still_replace_what_it_has_not_reached(serve: Serve, tmp_path: Path) -> None:
    """Its first start ended while it fetched; the third has nothing to fetch."""
    data = tmp_path / "data"
    write_files(an4(), data)

    def start(site: Site, restarts: int) -> Outcome:
        command = ("download", "an4", "--data-root", data, "--base-url", site.url, "--overwrite")
        job = {"SLURM_JOB_ID": "77", "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_RESTART_COUNT": str(restarts)}
        return prepcli(*command, environ=job)

    assert start(serve({}), 0).code == 1
    site = serve()
    for restarts in (1, 2):
        done = start(site, restarts)
        assert done.code == 0, done.err
        assert an4_records(data) == 9
        assert len(site.asked) == 1


def test_an_archive_without_the_corpus(serve: Serve, tmp_path: Path) -> None:
    site = serve({"dev-clean-2.tar.gz": tar_gz({"LibriSpeech/README.TXT": b"no more"})})
    listed = tmp_path / "md5sum.txt"
    listed.write_text(checksum_list(site.files))
    arguments = ["--data-sets", "dev_clean_2", "--base-url", site.url, "--checksums", listed]
    done = prepcli("download", "librispeech", "--data-root", tmp_path / "data", *arguments)
    assert done.code == 1
    assert (
        "dev-clean-2.tar.gz is not the published archive: an utterance of dev_clean_2 is not in it" in done.error_line
    )


def test_an_archive_without_a_transcript(serve: Serve, tmp_path: Path) -> None:
    files = an4()
    del files["an4/etc/an4_test.transcription"]
    done = download_an4(tmp_path / "data", serve({"an4_sphere.tar.gz": tar_gz(files)}))
    assert done.code == 1
    assert "is not the published archive: an4/etc/an4_test.transcription is not in it" in done.error_line
    assert not tree(tmp_path / "data")


def broken_librispeech() -> Files:
    """Every oddity: no audio, no words, no transcript, broken FLAC, an id that reaches out or comes twice, no UTF-8."""
    files = librispeech("dev-clean-2", ["s01", "s02"])
    chapter = "LibriSpeech/dev-clean-2/101/1011/101-1011"
    del files[f"{chapter}-0001.flac"]
    files[f"{chapter}-0009.flac"] = files[f"{chapter}-0000.flac"]
    transcript = files[f"{chapter}.trans.txt"]
    files[f"{chapter}.trans.txt"] = transcript.replace(b"\n", b"\n\n", 1) + b"101-1011-0007\n../../../evil X\n"
    second = "LibriSpeech/dev-clean-2/102/1021/102-1021"
    whole = files[f"{second}-0000.flac"]
    files[f"{second}-0000.flac"] = whole[: len(whole) // 2]
    data = (MINI_CORPUS / "s02/s02_u2.flac").read_bytes()  # has several frames: the damaged one is not the last
    middle = len(data) // 2
    files[f"{second}-0001.flac"] = data[:middle] + bytes(200) + data[middle + 200 :]
    files[f"{second}.trans.txt"] += b"102-1021-0003 AGAIN\n"
    files[f"{second}.trans.txt"] = files[f"{second}.trans.txt"].replace(b"0002 ", b"0002 CAF\xe9 ")
    return files


@pytest.mark.parametrize("audio_format", ["wav", "flac"])
def test_bad_data_is_rejected_with_its_place(serve: Serve, tmp_path: Path, audio_format: str) -> None:
    site = serve({"dev-clean-2.tar.gz": tar_gz(broken_librispeech())})
    listed = tmp_path / "md5sum.txt"
    listed.write_text(checksum_list(site.files))
    data = tmp_path / "data"
    arguments = ["--data-sets", "dev_clean_2", "--base-url", site.url, "--checksums", listed, "--json"]
    done = prepcli(
        "download", "librispeech", "--data-root", data, *arguments, "--max-rejects", 9, "--audio-format", audio_format
    )
    assert done.code == 0, done.err
    rejects = read_lines(tmp_path / "data.prepcli/sets/dev_clean_2/rejects.jsonl")
    found = {(reject["reject_reason"], reject["reject_detail"].partition(": ")[0]) for reject in rejects}
    chapter = "LibriSpeech/dev-clean-2/101/1011/101-1011"
    second = "LibriSpeech/dev-clean-2/102/1021/102-1021"
    expected = {
        ("missing_audio", f"{chapter}.trans.txt:3"),
        ("missing_field", f"{chapter}.trans.txt:6"),
        ("bad_field", f"{chapter}.trans.txt:7"),
        ("missing_transcript", f"{chapter}-0009.flac"),
        ("unreadable_audio", f"{second}.trans.txt:1"),
        ("not_utf8", f"{second}.trans.txt:3"),
        ("bad_field", f"{second}.trans.txt:5"),
    }
    if audio_format == "wav":  # what stays as it is is not decoded
        expected |= {("unreadable_audio", f"{second}.trans.txt:2")}
    assert found == expected
    report = done.json
    assert report["records_in"] == report["records_out"] + report["rejects"]
    assert [reject["manifest_line"] for reject in rejects] == sorted(reject["manifest_line"] for reject in rejects)
    index = read_lines(tmp_path / "data.prepcli/sets/dev_clean_2/index.jsonl")
    for reject in rejects:
        assert reject["reject_detail"].startswith(index[reject["manifest_line"] - 1]["where"] + ": ")
    assert "unpacking" not in str(rejects)
    assert len(read_lines(data / "dev_clean_2.json")) == report["records_out"]
    assert not list(tmp_path.rglob("evil*"))


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]"])
def test_a_damaged_marker_of_unpacking(serve: Serve, tmp_path: Path, content: bytes) -> None:
    """The archive is fetched and unpacked again."""
    data = tmp_path / "data"
    arguments = ["download", "an4", "--data-root", data, "--base-url", serve().url]
    assert prepcli(*arguments).code == 0
    before = tree(data)
    marker = next(data.with_name("data.prepcli").glob("sets/*/unpacked.json"))
    marker.write_bytes(content)
    again = prepcli(*arguments)
    assert again.code == 0, again.err
    assert f"note: {marker} is damaged" in again.err
    assert tree(data) == before


@pytest.mark.slow
def test_a_signal_between_unpacking_and_converting_stops_in_good_order(tmp_path: Path) -> None:
    name = "dev-clean-2.tar.gz"
    archive = tar_gz(librispeech("dev-clean-2", ["s01"]))
    (tmp_path / name).write_bytes(archive)
    (tmp_path / "md5sum.txt").write_text(checksum_list({name: archive}))
    script = (
        "import os, signal, prepcli.commands.download.prepare as fetching\n"
        "from prepcli.cli.app import main\n"
        "fetching.ensure_index = lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)\n"
        "main()\n"
    )
    arguments = ["--data-sets", "dev_clean_2", "--archive", tmp_path / name, "--checksums", tmp_path / "md5sum.txt"]
    command = ["download", "librispeech", "--data-root", tmp_path / "data", *arguments]
    done = run_process([sys.executable, "-c", script, *command])
    assert done.code == 4, done.err
    assert "stopped by SIGTERM" in done.err
