"""One rank reads manifests for all: the same index as without ranks, whoever read what, and nothing is read twice."""

import errno
import gzip
import json
import os
import random
import resource
import shutil
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prepcli.engine.state.workspace import Workspace
from prepcli.errors import InputChangedError, RecordRejected, RejectReason, UsageError
from prepcli.manifest import index as index_module
from prepcli.manifest import index_files, reader, scan, shared_index
from prepcli.manifest.index import ManifestIndex, content_digest, index_manifests
from prepcli.manifest.index_files import StoredIndex, read_stored
from prepcli.manifest.parts import FieldKey, KeyFunction
from prepcli.manifest.reader import LineReader
from prepcli.processes.ranks import Rank
from tests.conftest import folder_on_another_file_system
from tests.support.tools import slow

RANGE = 3000
ODD = [b"", b"{oops", b'{"audio_filepath": "a.wav", "duration": -1, "speaker": "a"}', b'{"_skipme": true}']


def upper(text: str) -> str:
    if text == "nobody":
        raise RecordRejected(RejectReason.BAD_FIELD, f"{text} speaks")
    return text.upper()


KEYS: dict[str, KeyFunction] = {"name": upper, "speaker": FieldKey("speaker", upper)}
Manifests = Callable[[Path], list[str]]


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is shared, and a range is short."""
    monkeypatch.setattr(shared_index, "MIN_SHARED_BYTES", 0)
    for module in (scan, shared_index, index_module):
        monkeypatch.setattr(module, "RANGE_BYTES", RANGE)


def content(count: int, seed: int = 0) -> bytes:
    """Lines of all kinds."""
    draw = random.Random(seed)
    lines = []
    for number in range(count):
        record = {"audio_filepath": f"{seed}/{number}.wav", "duration": number % 7 + 0.5, "speaker": f"s{number % 5}"}
        if number % 11 == 3:
            record["speaker"] = "nobody"
        lines.append(draw.choice(ODD) if number % 9 == 5 else json.dumps(record | {"offset": 0.25}).encode())
    return b"\n".join(lines) + b"\n"


def one_large(folder: Path) -> list[str]:
    (folder / "m.json").write_bytes(content(400))
    return [str(folder / "m.json")]


def compressed(folder: Path) -> list[str]:
    for number in range(3):
        (folder / f"{number}.json.gz").write_bytes(gzip.compress(content(150, number)))
    return [str(folder / f"{number}.json.gz") for number in range(3)]


def many_small(folder: Path) -> list[str]:
    for number in range(300):
        (folder / f"{number}.json").write_bytes(content(number % 12, number))
    return [str(folder / f"{number}.json") for number in range(300)]


def tidy(number: int) -> bytes:
    """Usable lines, of most files."""
    line = b'{"audio_filepath": "%d/%d.wav", "duration": 1.5, "speaker": "s%d"}'
    lines = [line % (number, k, k % 3) for k in range(number % 7 + 1)]
    endings = {3: b"\r\n", 5: b""}
    beginnings = {9: b"\xef\xbb\xbf", 11: b"{oops\n", 12: b"\n", 25: b"{oops\n"}
    return beginnings.get(number % 40, b"") + b"\n".join(lines) + endings.get(number % 20, b"\n")


def many_tidy(folder: Path) -> list[str]:
    """Small files as people have them; some are odd, and one is empty."""
    paths = [folder / f"{number}.json" for number in range(200)]
    for number, path in enumerate(paths):
        path.write_bytes(b"" if number == 101 else b'{"_skipme": 1}\n' if number == 70 else tidy(number))
    return list(map(str, paths))


def many_compressed(folder: Path) -> list[str]:
    """The same, compressed; one of two members, and one longer than a range."""
    paths = many_tidy(folder)
    for number, path in enumerate(map(Path, paths)):
        data = path.read_bytes() if number != 33 else content(100)
        half = len(data) // 2 if number == 44 else len(data)
        packed = b"".join(gzip.compress(one) for one in (data[:half], data[half:]) if one or not data)
        path.with_suffix(".json.gz").write_bytes(packed)
        path.unlink()
    return [f"{path}.gz" for path in paths]


def mixed(folder: Path) -> list[str]:
    return [*compressed(folder), *one_large(folder), *compressed(folder)[:1]]


def few(folder: Path) -> list[str]:
    (folder / "a.json.gz").write_bytes(gzip.compress(content(70, 1)))
    (folder / "b.json").write_bytes(content(90, 2))
    return [str(folder / "a.json.gz"), str(folder / "b.json")]


ALL = [one_large, compressed, many_small, many_tidy, many_compressed, mixed]


def workspace(folder: Path, rank: int = 0, world_size: int = 1) -> Workspace:
    found = Workspace(folder / "out")
    found.rank = Rank(rank, world_size)
    return found


def make(folder: Path, paths: Sequence[str], rank: int = 0, world_size: int = 1, workers: int = 1) -> ManifestIndex:
    return shared_index.shared_index(paths, workspace(folder, rank, world_size), num_workers=workers, keys=KEYS)


def assert_same(found: ManifestIndex, expected: ManifestIndex, records: int = 20) -> None:
    for name in ("start", "length", "duration", "offset"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
        assert getattr(found, name).dtype == getattr(expected, name).dtype
    assert found.keys.keys() == expected.keys.keys()
    for name, key in expected.keys.items():
        assert np.array_equal(found.keys[name], key), name
    assert found.first == expected.first
    assert found.problems == expected.problems
    assert found.num_skipped == expected.num_skipped
    assert [one.tolist() for one in found.records_before_gaps] == [one.tolist() for one in expected.records_before_gaps]
    for one, other in zip(found.sources, expected.sources, strict=True):
        assert (one.path, one.sha256, one.num_bytes, one.num_lines) == (
            other.path,
            other.sha256,
            other.num_bytes,
            other.num_lines,
        )
    with LineReader(found) as lines, LineReader(expected) as other_lines:
        for number in random.Random(0).sample(range(len(expected)), min(records, len(expected))):
            assert lines.line(number) == other_lines.line(number)
            assert found.line_number(number) == expected.line_number(number)


def forked(functions: Sequence[Callable[[], object]]) -> list[int | None]:
    """Call functions in processes of their own at once; returns their exit codes."""
    processes = [get_context("fork").Process(target=function) for function in functions]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


@pytest.mark.slow
@pytest.mark.parametrize("manifests", ALL)
@pytest.mark.parametrize("ranks", [1, 2, slow(5)])
def test_the_same_index_for_any_number_of_ranks(manifests: Manifests, ranks: int, tmp_path: Path) -> None:
    paths = manifests(tmp_path)
    expected = index_manifests(paths, keys=KEYS, spool_dir=tmp_path / "elsewhere")
    assert expected.problems and expected.num_skipped

    def check(rank: int) -> None:
        assert_same(make(tmp_path, paths, rank, ranks), expected)

    assert forked([partial(check, rank) for rank in range(ranks)]) == [0] * ranks
    folders = list((tmp_path / "out.prepcli" / "index").iterdir())
    assert len(folders) == 1
    assert not (folders[0] / "parts").exists()
    assert [path for path in folders[0].iterdir() if path.name.startswith((".", "lock"))] == []


def test_an_index_that_another_rank_completes_while_we_look_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second index beside it would be removed while it is made."""
    paths = one_large(tmp_path)
    expected = make(tmp_path, paths)
    [folder] = (tmp_path / "out.prepcli" / "index").iterdir()
    shutil.rmtree(folder)
    folder.mkdir()  # the other rank has begun

    def late(place: Path) -> StoredIndex | None:
        monkeypatch.setattr(shared_index, "read_stored", read_stored)
        found = read_stored(place)
        make(tmp_path, paths, 1, 2)
        return found

    monkeypatch.setattr(shared_index, "read_stored", late)
    monkeypatch.setattr(shared_index, "_remove_others", lambda folder: None)
    assert_same(make(tmp_path, paths, 0, 2), expected)
    assert list(folder.parent.iterdir()) == [folder]


def test_few_copies_are_made_of_many_small_compressed_files(tmp_path: Path) -> None:
    """A copy of each would have to be flushed to the disk: seven times as long for 5,000 manifests of 20 lines."""
    paths = many_compressed(tmp_path)
    assert_same(make(tmp_path, paths), index_manifests(paths, keys=KEYS, spool_dir=tmp_path / "elsewhere"), 200)
    assert len(list((tmp_path / "out.prepcli" / "spool").iterdir())) < 80


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_more_files_than_a_process_may_open(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_OPEN_FILES", 20)
    paths = many_compressed(tmp_path) if suffix else many_tidy(tmp_path)
    found = make(tmp_path, paths)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + reader.MAX_OPEN_FILES + 9, hard))
    try:
        with LineReader(found) as lines:
            for number in random.Random(0).sample(range(len(found)), len(found)):
                assert (
                    json.loads(lines.line(number).removeprefix(b"\xef\xbb\xbf"))["duration"] == found.duration[number]
                )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_small_file_that_is_written_to_meanwhile(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = many_compressed(tmp_path) if suffix else many_tidy(tmp_path)
    begun = shared_index.make_index

    def write_first(*arguments: Any, **named: Any) -> None:
        with Path(paths[20]).open("ab") as file:
            file.write(b"{}\n")
        begun(*arguments, **named)

    monkeypatch.setattr(shared_index, "make_index", write_first)
    with pytest.raises(InputChangedError, match=rf"20\.json{suffix} was changed"):
        make(tmp_path, paths)


def test_workers_of_one_rank(tmp_path: Path) -> None:
    paths = one_large(tmp_path)
    assert_same(make(tmp_path, paths, workers=2), index_manifests(paths, keys=KEYS))


def refuse_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the manifests are read again")

    for module, name in ((shared_index, "scan"), (index_module, "scan"), (shared_index, "content_digest")):
        monkeypatch.setattr(module, name, refuse)


@pytest.mark.slow
@pytest.mark.parametrize("manifests", [one_large, mixed, many_compressed])
def test_the_next_start_reads_nothing(manifests: Manifests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = manifests(tmp_path)
    expected = index_manifests(paths, keys=KEYS, spool_dir=tmp_path / "elsewhere")
    make(tmp_path, paths)
    refuse_to_read(monkeypatch)
    assert_same(make(tmp_path, paths), expected)


def test_a_touched_manifest_is_compared_by_its_content_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = mixed(tmp_path)
    make(tmp_path, paths)
    for path in paths:
        os.utime(path, (1, 1))
    expected = index_manifests(paths, keys=KEYS, spool_dir=tmp_path / "elsewhere")
    monkeypatch.setattr(shared_index, "scan", None)  # nothing is read as a manifest
    assert_same(make(tmp_path, paths), expected)
    refuse_to_read(monkeypatch)
    assert_same(make(tmp_path, paths), expected)


@pytest.mark.parametrize("same_time", [False, True])
def test_other_content_of_the_same_size(tmp_path: Path, same_time: bool) -> None:
    paths = one_large(tmp_path)
    path = Path(paths[0])
    make(tmp_path, paths)
    before = path.stat()
    path.write_bytes(path.read_bytes().replace(b"0.5,", b"0.7,"))
    if same_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    expected = index_manifests(paths, keys=KEYS)
    assert (expected.duration == 0.7).any()
    assert_same(make(tmp_path, paths), expected)
    assert_same(make(tmp_path, paths), expected)
    assert len(list((tmp_path / "out.prepcli" / "index").iterdir())) == 1


def test_verify_inputs_reads_what_looks_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = one_large(tmp_path)
    make(tmp_path, paths)
    read: list[str] = []

    def note(path: str) -> str:
        read.append(path)
        return content_digest(path)

    monkeypatch.setattr(shared_index, "content_digest", note)
    make(tmp_path, paths)
    assert read == []
    checked = workspace(tmp_path)
    checked.verify_inputs = True
    shared_index.shared_index(paths, checked, keys=KEYS)
    assert read == paths


def test_a_dry_run_uses_the_index_and_writes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prepcli.engine.run.run import temporary_workspace

    paths = mixed(tmp_path)
    expected = index_manifests(paths, keys=KEYS, spool_dir=tmp_path / "elsewhere")
    with temporary_workspace(tmp_path / "out") as scratch:
        assert_same(shared_index.shared_index(paths, scratch, keys=KEYS), expected)
    assert not (tmp_path / "out.prepcli").exists()
    make(tmp_path, paths)
    refuse_to_read(monkeypatch)
    with temporary_workspace(tmp_path / "out") as scratch:
        assert_same(shared_index.shared_index(paths, scratch, keys=KEYS), expected)


@pytest.mark.parametrize("size", [None, 0, 1000])
def test_an_unpacked_copy_that_is_missing_or_cut_short_is_made_again(tmp_path: Path, size: int | None) -> None:
    paths = compressed(tmp_path)
    expected = index_manifests(paths, keys=KEYS, spool_dir=tmp_path / "elsewhere")
    make(tmp_path, paths)
    for copy in (tmp_path / "out.prepcli" / "spool").iterdir():
        copy.unlink() if size is None else os.truncate(copy, size)
    assert_same(make(tmp_path, paths), expected)


def test_a_copy_that_is_cut_short_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = compressed(tmp_path)
    with monkeypatch.context() as stopped:
        stopped.setattr(shared_index, "_read", lambda *_, **__: pytest.exit("stopped"))
        with pytest.raises(pytest.exit.Exception):
            make(tmp_path, paths)
    for copy in (tmp_path / "out.prepcli" / "spool").iterdir():
        os.truncate(copy, 100)
    assert_same(make(tmp_path, paths), index_manifests(paths, keys=KEYS, spool_dir=tmp_path / "elsewhere"))


def test_a_workspace_on_another_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no hard links")

    monkeypatch.setattr(os, "link", refuse)
    paths = mixed(tmp_path)
    folder = folder_on_another_file_system(tmp_path)
    try:
        assert_same(make(folder, paths), index_manifests(paths, keys=KEYS, spool_dir=tmp_path / "elsewhere"))
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("damage", ["cut short", "not JSON"])
def test_a_damaged_manifest_is_named_by_all_ranks(damage: str, tmp_path: Path) -> None:
    paths = compressed(tmp_path)
    Path(paths[1]).write_bytes(Path(paths[1]).read_bytes()[:-9] if damage == "cut short" else gzip.compress(b"a\tb\n"))

    def fail(rank: int) -> None:
        with pytest.raises(UsageError, match=r"1\.json\.gz"):
            make(tmp_path, paths, rank, 2)

    assert forked([partial(fail, rank) for rank in range(2)]) == [0, 0]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_large_file_of_another_kind_is_not_read(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"m.json{suffix}"
    path.write_bytes(gzip.compress(b"a\tb\n" * 2000) if suffix else b"a\tb\n" * 2000)
    monkeypatch.setattr(shared_index, "_SMALL_BYTES", 10)
    for name in ("open_bytes", "scan"):
        monkeypatch.setattr(shared_index, name, lambda *_: pytest.fail("it was read"))
    with pytest.raises(UsageError, match=r"m\.json.* is not a manifest of JSON lines"):
        make(tmp_path, [str(path)])


def test_lines_of_json_without_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_MIN_PROBLEM_LINES", 100)
    (tmp_path / "m.json").write_bytes(b'{"text": "a"}\n' * 1000)
    monkeypatch.setattr(shared_index, "_join", lambda *_, **__: pytest.fail("all ranges were read"))
    with pytest.raises(UsageError, match=r"m\.json does not look like a NeMo manifest: none of its first \d+ lines"):
        make(tmp_path, [str(tmp_path / "m.json")])


def test_a_manifest_that_is_written_to_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = one_large(tmp_path)
    real = scan.scan

    def append_first(*arguments: object) -> object:
        with Path(paths[0]).open("ab") as file:
            file.write(b"{}\n")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(shared_index, "scan", append_first)
    with pytest.raises(InputChangedError, match=r"m\.json was changed"):
        make(tmp_path, paths)


@pytest.mark.parametrize("name", ["m.json", "m.json.gz"])
def test_a_manifest_that_is_replaced_before_the_index_is_complete(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another one of the same size and time: what was read or unpacked of the earlier one is not used."""
    path = tmp_path / name

    def write(data: bytes) -> None:
        path.write_bytes(gzip.compress(data, 0, mtime=0) if name.endswith("gz") else data)
        os.utime(path, ns=(10**18, 10**18))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    write(content(200))
    size = path.stat().st_size
    with monkeypatch.context() as interrupted, pytest.raises(KeyboardInterrupt):
        interrupted.setattr(shared_index, "save_index", stop)
        make(tmp_path, [str(path)])
    assert list(tmp_path.glob("out.prepcli/index/*/parts/read-*"))
    write(content(200).replace(b"0.5,", b"0.7,"))
    assert path.stat().st_size == size
    expected = index_manifests([str(path)], keys=KEYS, spool_dir=tmp_path / "elsewhere")
    assert (expected.duration == 0.7).any()
    assert_same(make(tmp_path, [str(path)]), expected)


def kill_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process ends without a word at the `count`-th change of a file's name."""
    real, left = os.replace, [count]

    def replace(*arguments: object) -> None:
        left[0] -= 1
        if not left[0]:
            os._exit(9)
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(Path, "replace", lambda self, target: os.replace(self, target))


@pytest.mark.parametrize("manifests", [few, many_compressed])
def test_copies_that_a_killed_process_was_making_are_removed(
    manifests: Manifests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = tmp_path / "out.prepcli/spool"
    paths = manifests(tmp_path)
    real = Path.replace

    def die(draft: Path, target: Path) -> Path:
        return os._exit(9) if draft.parent == spool else real(draft, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", die)
        assert forked([partial(make, tmp_path, paths)]) == [9]
    assert list(spool.glob("*.tmp"))
    make(tmp_path, paths)
    assert not list(spool.glob("*.tmp"))


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_killed_at_any_step(ranks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that is killed at any change of a name holds the lock; others, and the next start, make the same index."""
    paths = few(tmp_path)
    expected = index_manifests(paths, keys=KEYS, spool_dir=tmp_path / "elsewhere")

    def die(folder: Path, count: int) -> None:
        kill_after(count, monkeypatch)
        make(folder, paths, 0, ranks)

    def live(folder: Path) -> None:
        assert_same(make(folder, paths, 1, ranks), expected)

    for count in range(1, 200, 2 * ranks - 1):
        folder = tmp_path / f"killed-{count}"
        folder.mkdir()
        codes = forked([partial(die, folder, count), partial(live, folder)][:ranks])
        assert codes[0] in (0, 9)
        assert codes[1:] == [0] * (ranks - 1)
        assert_same(make(folder, paths), expected)
        assert len(list((folder / "out.prepcli/spool").iterdir())) == 1, "drafts stay"
        shutil.rmtree(folder)
        if codes[0] == 0 and (ranks == 1 or count > 20):
            assert count > 5
            return
    pytest.fail("it is killed each time")


@pytest.mark.parametrize("manifests", [one_large, compressed])
def test_ranks_that_lose_the_lock_while_they_read(
    manifests: Manifests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw: random.Random
) -> None:
    """They seemed to have ended: several ranks make the index at once, and none removes what another one needs."""
    paths = manifests(tmp_path)
    expected = index_manifests(paths, keys=KEYS, spool_dir=tmp_path / "elsewhere")

    def slow(rank: int) -> None:
        real = index_files.write_parts

        def delayed(*arguments: object) -> None:
            for lock in tmp_path.glob("out.prepcli/index/*/lock"):
                lock.unlink(missing_ok=True)
            time.sleep(draw.random() / 50)
            real(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(shared_index, "write_parts", delayed)
        assert_same(make(tmp_path, paths, rank, 3), expected)

    assert forked([partial(slow, rank) for rank in range(3)]) == [0, 0, 0]
    assert_same(make(tmp_path, paths), expected)


def test_little_input_is_read_without_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_index, "MIN_SHARED_BYTES", 1 << 20)
    paths = one_large(tmp_path)
    assert_same(make(tmp_path, paths), index_manifests(paths, keys=KEYS))
    assert not (tmp_path / "out.prepcli").exists()


def test_another_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ranks share is neither linked to the manifests nor moved from their file system."""
    paths = mixed(tmp_path)
    expected = index_manifests(paths, keys=KEYS, spool_dir=tmp_path / "elsewhere")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    folder = folder_on_another_file_system(tmp_path)
    try:
        assert_same(make(folder, paths), expected)
        refuse_to_read(monkeypatch)
        assert_same(make(folder, paths), expected)
    finally:
        shutil.rmtree(folder)
