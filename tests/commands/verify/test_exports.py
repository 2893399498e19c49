"""`verify` over shards and data lists for WeNet: what is wrong is named, what WeNet drops is counted."""

import io
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from prepcli.commands.verify import checking, exports
from prepcli.formats import sets
from tests.conftest import copy_set, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli
from tests.support.shar_sets import Members, members, rewrite_tar


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shards of three utterances, and a data list; one utterance is too short for WeNet."""
    folder = tmp_path_factory.mktemp("set")
    records = []
    for number in range(6):
        seconds = 0.05 if number == 4 else 0.5
        write_audio(folder / f"u{number}.wav", seconds, seed=number)
        records.append({"audio_filepath": f"u{number}.wav", "duration": seconds, "text": f"t{number}"})
    manifest = write_lines(folder / "m.json", records)
    options = ("--shard-size", 3, "--relative-to", folder / "out")
    assert prepcli("manifest-to-wenet", manifest, folder / "out", *options).code == 0
    assert prepcli("manifest-to-wenet", manifest, folder / "raw", "--raw").code == 0
    return folder


def problems(out: Path) -> list[str]:
    done = prepcli("verify", out, "--json")
    assert done.code == 1
    found: list[str] = done.json["problems"]
    return found


def test_a_good_set(made: Path) -> None:
    for name, num_members in (("out", 12), ("raw", 6)):
        report = prepcli("verify", made / name, "--json").json
        assert (report["kind"], report["records"], report["members"]) == ("wenet", 6, num_members)
        assert report["problems"] == []
        assert report["notes"][0].startswith("1 record would be dropped by WeNet's default filter_conf")
        assert report["hashes_known"]
    assert "note     1 record would be dropped" in prepcli("verify", made / "out").out


def test_each_kind_of_set_has_a_check() -> None:
    assert {kind.kind for kind in sets.KINDS} == set(checking.CHECKS) | set(exports.RULES)


def drop_text(content: Members) -> None:
    del content[2]


def drop_audio(content: Members) -> None:
    del content[3]


def damage(content: Members) -> None:
    content[1] = (content[1][0], content[1][1][:200])


def repeat(content: Members) -> None:
    content[:] = content[:2] * 2 + content[2:]


def rename(content: Members) -> None:
    content[1] = ("u0.aiff", content[1][1])


def latin(content: Members) -> None:
    content[0] = (content[0][0], b"na\xefve")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (drop_text, "member u1.wav does not follow its text, u1.txt"),
        (drop_audio, "u1 has no audio"),
        (damage, "ends early"),
        (repeat, "1 record has the id of another record"),
        (rename, "WeNet does not take .aiff for audio"),
        (latin, "member u0.txt is not UTF-8"),
    ],
)
def test_a_damaged_shard(made: Path, tmp_path: Path, change: Callable[[Members], None], expected: str) -> None:
    out = copy_set(made / "out", tmp_path)
    rewrite_tar(out / "shards_000000000.tar", change)
    assert any(expected in problem for problem in problems(out))


def test_changed_bytes_are_noticed_where_the_run_is_known(made: Path, tmp_path: Path) -> None:
    out = copy_set(made / "out", tmp_path, records=True)
    rewrite_tar(out / "shards_000000001.tar", lambda content: content.reverse())
    found = problems(out)
    assert any("shards_000000001.tar: not the bytes that were published" in problem for problem in found)


def test_a_list_that_does_not_fit_the_folder(made: Path, tmp_path: Path) -> None:
    out = copy_set(made / "out", tmp_path)
    shutil.copy(out / "shards_000000000.tar", out / "shards_000000007.tar")
    (out / "shards.list").write_text("shards_000000000.tar\n/nowhere/shards_000000003.tar\n")
    found = problems(out)
    assert "shards.list:2: there is no file /nowhere/shards_000000003.tar; has the directory been moved?" in found
    assert "shards_000000007.tar: is not in shards.list" in found
    assert "shards_000000003.tar: missing" in found
    (out / "shards.list").write_text("shards_000000000.tar\nshards_000000001.tar\nshards_000000000.tar\n")
    assert "shards.list: names a shard twice" in problems(out)


def test_a_folder_with_a_separator_of_unicode_in_its_name(made: Path, tmp_path: Path) -> None:
    """A line of the list ends with a line feed only."""
    out = tmp_path / "a\u2028b\x0bc"
    assert prepcli("manifest-to-wenet", made / "m.json", out, "--shard-size", 3).code == 0
    assert prepcli("verify", out).code == 0
    assert "2 shards for WeNet" in prepcli("inspect", out / "shards.list").out


def test_a_tar_without_its_end(made: Path, tmp_path: Path) -> None:
    out = copy_set(made / "out", tmp_path)
    path = out / "shards_000000000.tar"
    path.write_bytes(path.read_bytes()[:-1024])
    assert any("cut off" in problem for problem in problems(out))


def test_a_damaged_data_list(made: Path, tmp_path: Path) -> None:
    out = copy_set(made / "raw", tmp_path)
    lines = (out / "data.list").read_text().splitlines()
    lines[1] = lines[0]
    lines[2] = lines[2].replace("u2.wav", "u9.wav")
    lines[3] = lines[3][:20]
    lines[5] = lines[5][:-1] + ', "start": 0.2, "end": 0.9}'
    (out / "data.list").write_text("\n".join(lines) + "\n")
    found = "\n".join(problems(out))
    for expected in ("id of another record", "u9.wav does not exist", "is not a line with key", "0.2 to 0.9 s is not"):
        assert expected in found


@pytest.mark.parametrize("bounds", ['"start": NaN, "end": 2', '"end": 1e999', '"start": 2, "end": 1', '"start": -1'])
def test_bounds_that_are_none(bounds: str, tmp_path: Path) -> None:
    """Also where the path is relative, and its file is not looked at."""
    (tmp_path / "data.list").write_text('{"key": "a", "wav": "x.wav", "txt": "t", ' + bounds + "}\n")
    assert any("s is not a part of a file" in problem for problem in problems(tmp_path))


def test_members_are_counted_by_pythons_own_reader(made: Path) -> None:
    data = (made / "out/shards_000000000.tar").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert len(tar.getnames()) == len(members(made / "out/shards_000000000.tar")) == 6
