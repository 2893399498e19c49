"""`filter SET --skipme`: marks in the manifests of a tarred set, which verify and later runs accept."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from prepcli.commands.filter.marking import only_one
from prepcli.formats.indexes import index_problem
from prepcli.formats.tarred import MARKS_FILE
from tests.conftest import SHORT_CORPUS, make_set, read_lines, tree, write_lines
from tests.support.old_records import record_as_0_3
from tests.support.running import prepcli

LONG = ("--drop", "duration > quantile(duration, 0.5)")


def set_of(folder: Path, *options: object) -> Path:
    make_set("manifest-to-tarred", SHORT_CORPUS / "manifest.json", folder / "set", "--num-shards", 2, *options)
    return folder / "set"


def mark(one: Path, *options: object, code: int = 0) -> dict[str, object]:
    done = prepcli("filter", one, "--skipme", *options, "--json")
    assert done.code == code, done.err
    return done.json if code == 0 else {"error": done.err}


def marks(path: Path) -> dict[str, object]:
    return {str(one["audio_filepath"]): one["_skipme"] for one in read_lines(path) if one.get("_skipme")}


def manifests(one: Path) -> list[Path]:
    return sorted(one.rglob("*manifest*.json"))


def assert_as_published(one: Path) -> None:
    for quick in ((), ("--quick",)):
        done = prepcli("verify", one, *quick)
        assert done.code == 0, done.out


@pytest.mark.parametrize("options", [(), ("--no-shard-manifests",), ("--buckets-num", 2, "--max-duration", 1)])
def test_every_manifest_of_a_set_has_the_marks(tmp_path: Path, options: tuple[object, ...]) -> None:
    one = set_of(tmp_path, *options)
    before = tree(one)
    report = mark(one, *LONG)
    details = report["details"]
    assert isinstance(details, dict)
    found = [found for path in manifests(one) for found in marks(path).values()]
    assert set(found) == {f"filter: {details['rules'][0]['rule']}"}
    times = 1 if options == ("--no-shard-manifests",) else 2
    assert len(found) == times * details["together"]["records"] > 0
    assert_as_published(one)
    assert mark(one, *LONG)["status"] == "nothing_to_do"
    assert mark(one)["status"] == "done"
    assert tree(one) == before
    assert_as_published(one)


def test_later_runs_find_the_set_as_they_made_it(tmp_path: Path) -> None:
    one = set_of(tmp_path)
    mark(one, *LONG)
    again = prepcli("manifest-to-tarred", SHORT_CORPUS / "manifest.json", one, "--num-shards", 2, "--json")
    assert again.json["status"] == "nothing_to_do"
    more = prepcli("manifest-to-tarred", SHORT_CORPUS / "manifest.json", "--concat-to", one, "--allow-duplicates")
    assert more.code == 0, more.err
    assert marks(one / "tarred_audio_manifest_version_1.json") == marks(one / "tarred_audio_manifest.json") != {}
    mark(one, "--drop", "len(text) > 22")
    whole = marks(one / "tarred_audio_manifest_version_1.json")
    assert len(whole) > len(marks(one / "tarred_audio_manifest.json")) > 0
    assert set(whole.values()) == {"filter: drop len(text) > 22"}
    assert_as_published(one)
    assert prepcli("manifest-to-tarred", "--undo-concat", one).code == 0
    assert_as_published(one)


def test_a_set_of_version_0_3_is_marked(tmp_path: Path) -> None:
    """Its records have SHA-256; those of the marked files get the new hash."""
    one = set_of(tmp_path)
    record_as_0_3(one)
    assert mark(one, *LONG)["status"] == "done"
    assert_as_published(one)
    marked = tree(one)
    record_as_0_3(one)
    before = tree(tmp_path)
    assert mark(one, *LONG)["status"] == "nothing_to_do"
    assert tree(tmp_path) == before
    assert prepcli("manifest-to-tarred", SHORT_CORPUS / "manifest.json", one, "--num-shards", 2).code == 0
    assert tree(one) == marked


def test_marks_of_others_stay_and_unusual_lines_are_marked(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    (folder / "sharded_manifests").mkdir(parents=True)
    (folder / "audio_0.tar").touch()
    lines = [
        '{"audio_filepath": "a.wav", "duration": 5, "shard_id": 0, "_skipme": "other: x"}',
        '{"audio_filepath": "b.wav", "duration": 5, "shard_id": 0, "_skipme": 0} ',
        '{"audio_filepath": "c.wav", "duration": 5.0, "shard_id": 0, "text": "\\u00e9 }"}\r',
        '{"audio_filepath": "d.wav", "duration": 1, "shard_id": 0}',
    ]
    manifest = folder / "sharded_manifests" / "manifest_0.json"
    manifest.write_bytes("\n".join(lines).encode())
    report = mark(folder, "--keep", 'duration < 2 or text == "\\"" ')
    assert (report["records_in"], report["skipped"]) == (3, 1)
    marked = manifest.read_bytes().decode().split("\n")
    assert marked[0] == lines[0]
    assert marked[3] == lines[3]
    assert marked[1].endswith("} ")
    assert marked[2].endswith("}\r")
    why = 'filter: keep duration < 2 or text == "\\"" '
    assert [json.loads(line)["_skipme"] for line in marked[1:3]] == [why, why]
    assert mark(folder)["status"] == "done"
    assert manifest.read_bytes().decode() == "\n".join(lines)


def test_an_index_follows_even_if_nothing_is_recorded(tmp_path: Path) -> None:
    one = set_of(tmp_path)
    shutil.rmtree(tmp_path / "set.prepcli")
    assert prepcli("index", one).code == 0
    before = tree(one)
    mark(one, *LONG)
    assert prepcli("index", one, "--check").code == 0
    assert tree(one).keys() == before.keys()
    mark(one)
    assert tree(one) == before


def test_blend_counts_what_is_read(tmp_path: Path) -> None:
    one = set_of(tmp_path)
    report = mark(one, *LONG)
    details = report["details"]
    assert isinstance(details, dict)
    done = prepcli("blend", f"a={one}", tmp_path / "mix.yaml", "--no-check", "--json")
    assert done.json["sets"][0]["records"] == details["of"]["records"] - details["together"]["records"]


def test_a_file_that_others_have_changed_is_not_recorded_as_ours(tmp_path: Path) -> None:
    one = set_of(tmp_path)
    path = one / "sharded_manifests" / "manifest_0.json"
    first, *others = read_lines(path)
    write_lines(path, [first | {"text": "changed by hand"}, *others])
    mark(one, *LONG)
    done = prepcli("verify", one)
    assert done.code == 1
    assert "manifest_0.json" in done.out


def test_a_set_that_is_not_finished_is_refused(tmp_path: Path) -> None:
    """The shards that come later would have no marks."""
    one = tmp_path / "set"
    half = ("--num-shards", 2, "--rank", 0, "--world-size", 2, "--no-steal")
    assert prepcli("manifest-to-tarred", SHORT_CORPUS / "manifest.json", one, *half).code == 0
    before = tree(tmp_path)
    assert f"{one} is not finished: 1 of 2 units are done; continue with: " in str(mark(one, *LONG, code=2)["error"])
    assert tree(tmp_path) == before


def test_what_cannot_be_marked_is_refused(tmp_path: Path) -> None:
    one = set_of(tmp_path)
    assert "not a folder with a tarred set" in str(mark(SHORT_CORPUS / "manifest.json", *LONG, code=2)["error"])
    assert "no record is left" in str(mark(one, "--keep", "duration > 900", code=2)["error"])
    assert "--drop-listed" in str(mark(one, "--drop-listed", SHORT_CORPUS / "manifest.json", code=2)["error"])
    assert "one rank" in str(mark(one, *LONG, "--rank", 0, "--world-size", 2, code=2)["error"])
    without = prepcli("filter", one, *LONG)
    assert without.code == 2
    assert "OUT.json is missing" in without.err
    path = one / "sharded_manifests" / "manifest_0.json"
    os.chmod(path, 0o444)
    assert "write-protected" in str(mark(one, *LONG, code=2)["error"])
    os.chmod(path, 0o644)
    assert marks(path) == {}
    assert prepcli("filter", one, "--skipme", *LONG, "--dry-run").code == 0
    assert marks(path) == {}


def killed_before(nth: int, one: Path, *options: object) -> bool:
    """Mark a set in a process that is killed before it renames a file for the nth time; whether it was."""
    pid = os.fork()
    if pid == 0:
        count, rename = 0, os.replace

        def replace(*places: Any) -> None:
            nonlocal count
            count += 1
            if count == nth:
                os.kill(os.getpid(), signal.SIGKILL)
            rename(*places)

        os.replace = replace  # type: ignore[assignment]
        try:
            prepcli("filter", one, "--skipme", *options)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@pytest.mark.slow
def test_a_killed_call_is_continued_or_replaced_by_another(tmp_path: Path) -> None:
    short = ("--drop", "duration < 0.2")
    (tmp_path / "first").mkdir()
    first = set_of(tmp_path / "first")
    expected = {}
    for options in (LONG, short):
        mark(first, *options)
        expected[options] = tree(first)
    mark(first, *short)
    nth = 1
    while True:
        folder = tmp_path / str(nth)
        shutil.copytree(tmp_path / "first", folder)
        one = folder / "set"
        if not killed_before(nth, one, *LONG):
            break
        for index in one.rglob("*.json.idx"):  # readers do not notice a stale index
            assert index_problem(index.with_suffix(""), "jsonl", index.read_bytes()) is None
        options = LONG if nth % 2 else short
        mark(one, *options)
        assert tree(one) == expected[options]
        assert prepcli("verify", one, "--quick").code == 0
        assert not [*one.rglob("*~*")]
        nth += 1
    assert nth > 12
    assert_as_published(one)


@pytest.mark.slow
def test_a_killed_call_that_removes_marks_is_continued_or_replaced_by_another(tmp_path: Path) -> None:
    """As long as a record has a mark, OUT.prepcli says that there are marks."""
    (tmp_path / "first").mkdir()
    first = set_of(tmp_path / "first")
    expected: dict[tuple[str, ...], dict[str, str]] = {(): tree(first)}
    mark(first, *LONG)
    expected[LONG] = tree(first)
    nth = 1
    while True:
        folder = tmp_path / str(nth)
        shutil.copytree(tmp_path / "first", folder)
        one = folder / "set"
        if not killed_before(nth, one):
            break
        is_noted = (folder / "set.prepcli" / MARKS_FILE).is_file()
        assert is_noted or not any(map(marks, manifests(one)))
        for options in (LONG, ()) if nth % 2 else ((), LONG):
            mark(one, *options)
            assert tree(one) == expected[options]
            assert (folder / "set.prepcli" / MARKS_FILE).is_file() == bool(options)
            assert prepcli("verify", one, "--quick").code == 0
            assert not [*one.rglob("*~*")]
        nth += 1
    assert nth > 12


def test_two_calls_do_not_mark_a_set_at_once(tmp_path: Path) -> None:
    one = set_of(tmp_path)
    before = tree(one)
    with only_one(one):
        assert f"another prepcli filter is marking {one}; let it finish" in str(mark(one, *LONG, code=2)["error"])
    assert tree(one) == before
    assert mark(one, *LONG)["status"] == "done"


@pytest.mark.nemo
@pytest.mark.slow
def test_nemo_skips_exactly_the_marked_records(tmp_path: Path) -> None:
    pytest.importorskip("nemo.collections.common")
    from nemo.collections.common.data.lhotse.nemo_adapters import LazyNeMoTarredIterator

    one = set_of(tmp_path)
    mark(one, *LONG)
    places = (f"{one}/sharded_manifests/manifest__OP_0..1_CL_.json", f"{one}/tarred_audio_manifest.json")
    for manifest in places:
        cuts = LazyNeMoTarredIterator(manifest, f"{one}/audio__OP_0..1_CL_.tar", shard_seed=0)
        found = {cut.supervisions[0].text for cut in cuts}
        lines = read_lines(one / "tarred_audio_manifest.json")
        assert found == {line["text"] for line in lines if "_skipme" not in line}
        assert 0 < len(found) < len(lines)


def copy_of_others(one: Path, folder: Path) -> tuple[Path, Path, Path]:
    """The set without state, as other programs leave it; the manifest of its first shard, and that of the whole."""
    shutil.copytree(one, folder, ignore=shutil.ignore_patterns("*.idx"))
    return folder, sorted(folder.glob("sharded_manifests/*.json"))[0], folder / "tarred_audio_manifest.json"


def test_of_equal_lines_one_stays_without_a_mark(tmp_path: Path) -> None:
    other, shard, whole = copy_of_others(set_of(tmp_path), tmp_path / "other")
    first = shard.read_bytes().split(b"\n")[0] + b"\n"
    for path in (shard, whole):
        path.write_bytes(first + path.read_bytes())
    before = tree(other)
    report = mark(other, "--unique", "audio_filepath")
    assert report["status"] == "done"
    for path in (shard, whole):
        assert [bool(line.get("_skipme")) for line in read_lines(path)][:3] == [False, True, False]
        assert len(marks(path)) == 1
    assert mark(other, "--unique", "audio_filepath")["status"] == "nothing_to_do"
    assert mark(other)["status"] == "done"
    assert tree(other) == before


def test_a_whole_manifest_with_other_lines_is_refused(tmp_path: Path) -> None:
    """Written again by another program: its lines are the same records, but not the same bytes."""
    other, _, whole = copy_of_others(set_of(tmp_path), tmp_path / "other")
    whole.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in read_lines(whole)))
    before = tree(other)
    found = mark(other, *LONG, code=2)
    assert "tarred_audio_manifest.json has other lines than the manifests of its shards" in str(found["error"])
    assert tree(other) == before


@pytest.mark.parametrize("options", [(), ("--no-shard-manifests",)])
def test_a_manifest_of_an_earlier_version_with_other_lines_is_refused(tmp_path: Path, options: tuple[str, ...]) -> None:
    one = set_of(tmp_path, *options)
    more = prepcli("manifest-to-tarred", SHORT_CORPUS / "manifest.json", "--concat-to", one, "--allow-duplicates")
    assert more.code == 0, more.err
    assert mark(one, *LONG)["status"] == "done"
    assert mark(one)["status"] == "done"
    earlier = one / "tarred_audio_manifest.json"
    earlier.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in read_lines(earlier)))
    before = tree(one)
    error = str(mark(one, *LONG, code=2)["error"])
    assert f"{earlier} has other lines than the manifests of its shards" in error
    assert tree(one) == before


def test_a_set_that_is_made_anew_says_that_its_marks_are_gone(tmp_path: Path) -> None:
    one = set_of(tmp_path)
    mark(one, *LONG)
    again = prepcli("manifest-to-tarred", SHORT_CORPUS / "manifest.json", one, "--num-shards", 2, "--overwrite")
    assert again.code == 0
    assert "have no marks of filter --skipme: run that again" in again.out + again.err


def test_an_addition_to_a_set_that_is_marked_in_part_says_so_and_the_next_call_marks_all(tmp_path: Path) -> None:
    one = set_of(tmp_path)
    whole = one / "tarred_audio_manifest.json"
    whole.chmod(0o444)
    assert "is write-protected" in str(mark(one, *LONG, code=2)["error"])  # in the middle
    whole.chmod(0o644)
    assert [bool(marks(path)) for path in (*sorted(one.glob("sharded_manifests/*.json")), whole)] == [True, True, False]
    more = prepcli("manifest-to-tarred", SHORT_CORPUS / "manifest.json", "--concat-to", one, "--allow-duplicates")
    assert more.code == 0, more.err
    assert "have no marks of filter --skipme: run that again" in more.out
    mark(one, *LONG)
    shards = [marks(path) for path in one.glob("sharded_manifests/*.json")]
    for path in (whole, one / "tarred_audio_manifest_version_1.json"):
        assert (
            marks(path) == {name: why for found in shards for name, why in found.items() if name in marks(path)} != {}
        )
    assert len(marks(one / "tarred_audio_manifest_version_1.json")) == sum(map(len, shards))
    assert_as_published(one)
