"""Fetching from servers that break off, refuse, lie and send rubbish. Each fault has its test."""

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from prepcli.commands.download.data_set import Archive
from prepcli.commands.download.fetch import fetch, read_checksums
from prepcli.commands.download.prepare import note_scarce_space
from prepcli.errors import IncompleteError, UsageError
from prepcli.storage import transfer
from prepcli.storage.transfer import FetchError, PartialFile
from tests.commands.download.conftest import PartsOf, Serve

DATA = b"".join(hashlib.sha256(str(n).encode()).digest() for n in range(100_000))  # 3.2 MB that differ everywhere
CHECKSUM = f"sha256:{hashlib.sha256(DATA).hexdigest()}"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "BACKOFF", 0.001)


def get(folder: Path, *urls: str, checksum: str | None = CHECKSUM) -> bytes:
    path = fetch(Archive("a.tgz", tuple(f"{url}/a.tgz" for url in urls), None, checksum), folder, lambda *_: None)
    assert sorted(entry.name for entry in folder.iterdir()) == ["a.tgz"]
    return path.read_bytes()


@pytest.mark.parametrize("checksum", [CHECKSUM, f"md5:{hashlib.md5(DATA).hexdigest()}", None])
def test_whole(serve: Serve, tmp_path: Path, checksum: str | None) -> None:
    assert get(tmp_path, serve({"a.tgz": DATA}).url, checksum=checksum) == DATA


def test_progress_is_told(serve: Serve, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    fetch(Archive("a.tgz", (f"{serve({'a.tgz': DATA}).url}/a.tgz",)), tmp_path, lambda *step: told.append(step))
    assert told == sorted(told)
    assert told[-1] == (len(DATA), len(DATA))


def test_cut_connections_are_continued_where_they_broke(serve: Serve, tmp_path: Path) -> None:
    site = serve({"a.tgz": DATA}, cut_after=[1_000_000, 700_000, 0, 0, 1_000_000])
    assert get(tmp_path, site.url) == DATA
    starts = [int(wanted[6:-1]) for _, wanted in site.asked if wanted]
    assert starts == [1_000_000, 1_700_000, 1_700_000, 1_700_000, 2_700_000]
    assert site.answered == [200, 206, 206, 206, 206, 206]


@pytest.mark.parametrize("checksum", [CHECKSUM, None])
@pytest.mark.parametrize("without", [[], ["ETag"], ["ETag", "Last-Modified"]])
def test_an_earlier_process_is_continued(
    serve: Serve, tmp_path: Path, checksum: str | None, without: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "MAX_FAILURES", 1)
    site = serve({"a.tgz": DATA}, cut_after=[1_000_000], without=frozenset(without))
    with pytest.raises(IncompleteError, match="1,000,000 bytes were fetched and are kept"):
        get(tmp_path, site.url, checksum=checksum)
    assert get(tmp_path, site.url, checksum=checksum) == DATA
    # Where neither server nor checksum could tell whether the rest belongs to it, everything is fetched again.
    continued = checksum is not None or len(without) < 2
    assert site.asked[-1][1] == ("bytes=1000000-" if continued else None)


@pytest.mark.parametrize("checksum", [CHECKSUM, None])
def test_a_file_that_has_changed_meanwhile_is_fetched_from_the_start(
    serve: Serve, tmp_path: Path, checksum: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "MAX_FAILURES", 1)
    site = serve({"a.tgz": DATA[::-1]}, cut_after=[1_000_000])
    with pytest.raises(IncompleteError):
        get(tmp_path, site.url, checksum=checksum)
    site.files["a.tgz"] = DATA
    assert get(tmp_path, site.url, checksum=checksum) == DATA
    assert site.answered == [200, 200]


def test_a_server_without_ranges_starts_over(serve: Serve, tmp_path: Path) -> None:
    site = serve({"a.tgz": DATA}, ranges=False, cut_after=[1_000_000, 2_000_000])
    assert get(tmp_path, site.url) == DATA
    assert site.answered == [200, 200, 200]


def test_a_server_that_always_breaks_off_at_the_same_byte_is_given_up(serve: Serve, tmp_path: Path) -> None:
    site = serve({"a.tgz": DATA}, ranges=False, cut_after=[1_000_000] * 100)
    with pytest.raises(IncompleteError, match="1,000,000 of 3,200,000 bytes"):
        get(tmp_path, site.url)
    assert len(site.asked) == transfer.MAX_FAILURES


def test_a_connection_that_ends_early_without_a_stated_length(serve: Serve, tmp_path: Path) -> None:
    """Nothing but the checksum can tell."""
    site = serve({"a.tgz": DATA}, without=frozenset({"Content-Length"}), cut_after=[1_000_000])
    assert get(tmp_path, site.url) == DATA
    assert site.answered == [200, 200]


def test_wrong_bytes_are_named_and_fetched_again(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = serve({"a.tgz": DATA}, damaged=2)
    assert get(tmp_path, site.url) == DATA
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert f"a.tgz from {site.url}/a.tgz is damaged (sha256:" in errors[0]
    assert CHECKSUM in errors[0]


def test_damaged_again_and_again_is_an_error_and_nothing_is_kept(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="was damaged 3 times"):
        get(tmp_path, serve({"a.tgz": DATA}, damaged=99).url)
    assert list(tmp_path.iterdir()) == []


def test_after_damage_the_next_mirror_is_asked(serve: Serve, tmp_path: Path) -> None:
    first, second = serve({"a.tgz": DATA}, damaged=99), serve({"a.tgz": DATA})
    assert get(tmp_path, first.url, second.url) == DATA
    assert (len(first.asked), len(second.asked)) == (1, 1)


@pytest.mark.parametrize("checksum", [CHECKSUM, None])
def test_another_mirror_continues_only_what_a_checksum_holds_together(
    serve: Serve, tmp_path: Path, checksum: str | None
) -> None:
    """Both mirrors call their files by the same date; without a checksum nothing tells that they are the same."""
    other = DATA if checksum else DATA[::-1]
    without = frozenset({"ETag"})
    first, second = (
        serve({"a.tgz": other}, cut_after=[1_000_000] + [0] * 99, without=without),
        serve({"a.tgz": DATA}, without=without),
    )
    assert get(tmp_path, first.url, second.url, checksum=checksum) == DATA
    assert second.asked[-1][1] == ("bytes=1000000-" if checksum else None)


def test_the_proxy_gets_its_password(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = serve({"http://nowhere.invalid/a.tgz": DATA})
    monkeypatch.setenv("http_proxy", site.url.replace("http://", "http://me:secret@"))
    assert get(tmp_path, "http://nowhere.invalid") == DATA
    assert site.proxy_authorization == "Basic bWU6c2VjcmV0"


def test_404_is_final_at_once(serve: Serve, tmp_path: Path) -> None:
    site = serve({})
    with pytest.raises(FetchError, match=r"a\.tgz is not where it should be: .*404 Not Found; give --base-url"):
        get(tmp_path, site.url)
    assert len(site.asked) == 1


def test_404_asks_the_next_mirror(serve: Serve, tmp_path: Path) -> None:
    assert get(tmp_path, serve({}).url, serve({"a.tgz": DATA}).url) == DATA


def test_503_is_tried_again_when_the_server_says(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("prepcli.storage.transfer.time.sleep", waited.append)
    site = serve({"a.tgz": DATA}, refusals=[(503, {"Retry-After": "7"}), (503, {}), (429, {"Retry-After": "9999"})])
    assert get(tmp_path, site.url) == DATA
    assert waited == [7, transfer.BACKOFF * 2, transfer.MAX_RETRY_AFTER]


def test_503_for_ever_is_incomplete(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(IncompleteError, match="503 Service Unavailable"):
        get(tmp_path, serve({"a.tgz": DATA}, refusals=[(503, {})] * 99).url)


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(IncompleteError, match=r"a\.tgz: Failed to establish a new connection: .*Connection refused"):
        get(tmp_path, "http://127.0.0.1:9")


def test_a_redirect_is_followed(serve: Serve, tmp_path: Path) -> None:
    target = serve({"a.tgz": DATA})
    site = serve({}, refusals=[(302, {"Location": f"{target.url}/a.tgz"})])
    assert get(tmp_path, site.url) == DATA


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1/a.tgz", "http://[::1/a.tgz", "nonsense://"])
def test_a_redirect_to_what_cannot_be_fetched_asks_the_next_mirror(serve: Serve, tmp_path: Path, place: str) -> None:
    site = serve({}, refusals=[(302, {"Location": place})] * 2)
    assert get(tmp_path, site.url, serve({"a.tgz": DATA}).url) == DATA
    with pytest.raises(FetchError, match="it leads to an address that cannot be used"):
        get(tmp_path / "alone", site.url)


def test_a_server_that_sends_without_end(serve: Serve, tmp_path: Path) -> None:
    """It is given up long before the disk is full, and nothing of it is kept."""
    sites = serve({"a.tgz": DATA}, without=frozenset({"Content-Length"})), serve({"a.tgz": DATA[:1000]})
    digest = f"sha256:{hashlib.sha256(DATA[:1000]).hexdigest()}"
    archive = Archive("a.tgz", tuple(f"{site.url}/a.tgz" for site in sites), 1000, digest)
    assert fetch(archive, tmp_path, lambda *_: None).read_bytes() == DATA[:1000]
    alone = Archive("a.tgz", (f"{sites[0].url}/a.tgz",), 1000, digest)
    with pytest.raises(FetchError, match="it sends more than 4 times the published 1,000 bytes"):
        fetch(alone, tmp_path / "alone", lambda *_: None)
    assert (tmp_path / "alone" / "a.tgz.part").stat().st_size == 0


def test_the_proxy_of_the_environment(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = serve({"http://nowhere.invalid/a.tgz": DATA})
    monkeypatch.setenv("http_proxy", site.url)
    assert get(tmp_path, "http://nowhere.invalid") == DATA
    other = serve({"a.tgz": DATA})
    (tmp_path / "a.tgz").unlink()
    assert get(tmp_path, other.url) == DATA  # loopback is in no_proxy
    assert (len(site.asked), len(other.asked)) == (1, 1)


def test_a_length_that_is_not_a_number(serve: Serve, tmp_path: Path) -> None:
    """Python refuses to make a number of so many digits."""
    site = serve({"a.tgz": DATA}, without=frozenset({"Content-Length"}), headers={"Content-Length": "9" * 5000})
    assert get(tmp_path, site.url) == DATA


def test_what_is_not_an_address(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not an address"):
        get(tmp_path, "nonsense:")


def test_a_part_longer_than_the_file(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "a.tgz.part").write_bytes(DATA + b"more")
    assert get(tmp_path, serve({"a.tgz": DATA}).url) == DATA


def test_a_whole_part_needs_no_byte(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "a.tgz.part").write_bytes(DATA)
    site = serve({"a.tgz": DATA})
    assert get(tmp_path, site.url) == DATA
    assert site.answered == [416]


def test_checksum_lists(tmp_path: Path) -> None:
    file = tmp_path / "sums"
    file.write_text(f"{'a' * 32}  dir/one.tgz\n\n{'B' * 64} *two.tgz\n")
    assert read_checksums(file) == {"one.tgz": f"md5:{'a' * 32}", "two.tgz": f"sha256:{'b' * 64}"}
    file.write_text("rubbish\n")
    with pytest.raises(UsageError, match="sums:1"):
        read_checksums(file)


def test_too_little_space_is_said_before_fetching(
    parts_of: PartsOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sets, data, usage = (
        parts_of("download_librispeech", data_sets="mini"),
        tmp_path / "new/data",
        shutil.disk_usage(tmp_path),
    )
    sizes = [126_046_265, 332_954_390]  # one archive at a time, and both trees
    (data / "archives").mkdir(parents=True)
    (data / "archives/train-clean-5.tar.gz.part").write_bytes(bytes(32_954_390))
    given = tmp_path / "dev-clean-2.tar.gz", tmp_path / "train-clean-5.tar.gz"
    for needed, keep_archives, files in (
        (sum(sizes) + 300_000_000, False, (None, None)),
        (2 * sum(sizes) - 32_954_390, True, (None, None)),
        (sum(sizes) + sizes[0], False, (None, given[1])),
        (sum(sizes), False, given),
    ):
        waiting = [
            replace(one, archive=one.archive and replace(one.archive, given=file))
            for one, file in zip(sets, files, strict=True)
        ]
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=needed: usage._replace(free=free))
        note_scarce_space(waiting, data, keep_archives)
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=needed - 1: usage._replace(free=free))
        note_scarce_space(waiting, data, keep_archives)
        said = capsys.readouterr().err
        assert said.startswith(f"prepcli: fetching and unpacking this takes at least {needed / 1e6:.1f} MB, {data} has")
        assert said.endswith("free; make room, or choose another --data-root\n")
        assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("headers", "validator"),
    [
        ({"ETag": '"x"', "Last-Modified": "today"}, '"x"'),
        ({"ETag": 'W/"x"', "Last-Modified": "today"}, "today"),
        ({"ETag": 'W/"x"'}, None),
    ],
)
def test_what_tells_the_version_of_a_file(headers: dict[str, str], validator: str | None, tmp_path: Path) -> None:
    """A weak ETag may stand for other bytes; and it holds for one address, also in the next run."""
    with PartialFile(tmp_path / "part", "md5") as part:
        part.remember("http://a/x", headers)
    with PartialFile(tmp_path / "part", "md5") as part:
        assert (part.validator("http://a/x"), part.validator("http://b/x")) == (validator, None)
