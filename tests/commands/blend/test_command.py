"""blend for WeNet: one list of several sets, in which each set has its share."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.commands.exports.wenet.reader import read_raw, read_shards
from tests.conftest import SHORT_CORPUS, copy_set, make_set, read_lines, tree, write_lines
from tests.support.running import Outcome, prepcli


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`a` with 30 records in 3 shards, `b` with 8 in 2, and `raw_a` and `raw_b` with the same."""
    folder = tmp_path_factory.mktemp("sets")
    records = [
        record | {"audio_filepath": str(SHORT_CORPUS / record["audio_filepath"])}
        for record in read_lines(SHORT_CORPUS / "manifest.json")
    ]
    for name, some, size in (("a", records[:30], 10), ("b", records[40:], 4)):
        manifest = write_lines(folder / f"{name}.json", some)
        make_set("manifest-to-wenet", manifest, folder / name, "--shard-size", size)
        make_set("manifest-to-wenet", manifest, folder / f"raw_{name}", "--raw")
    return folder


def blend(*arguments: object, cwd: Path, code: int = 0) -> Outcome:
    done = prepcli("blend", *arguments, cwd=cwd)
    assert done.code == code, done.err
    return done


def hours_of(keys: Sequence[str], sets: Path) -> Counter[str]:
    """The hours that utterances add up to, for each set."""
    found: Counter[str] = Counter()
    for name in "ab":
        durations = {Path(one["audio_filepath"]).stem: one["duration"] for one in read_lines(sets / f"{name}.json")}
        found[name] = sum(durations.get(key, 0) for key in keys) / 3600
    return found


def test_without_weights_each_utterance_is_there_once(sets: Path, tmp_path: Path) -> None:
    done = blend(f"a={sets}/a", f"b={sets}/b", "mix.list", "--json", cwd=tmp_path)
    keys = [one.key for one in read_shards(tmp_path / "mix.list")]
    assert (len(keys), len(set(keys))) == (38, 38)
    assert [(one["type"], one["records"]) for one in done.json["sets"]] == [("shard", 30), ("shard", 8)]
    assert done.json["sets"][0]["share"] == pytest.approx(30 / 38, abs=1e-6)
    folders = [Path(line).parent.name for line in (tmp_path / "mix.list").read_text().splitlines()]
    assert folders == ["a", "b", "a", "b", "a"]  # evenly mixed
    blend(f"a={sets}/raw_a", f"b={sets}/raw_b/data.list", "raw.list", cwd=tmp_path)
    assert sorted(one.key for one in read_raw(tmp_path / "raw.list")) == sorted(keys)


@pytest.mark.parametrize("raw", ["", "raw_"])
def test_weights_are_shares_of_the_hours(raw: str, sets: Path, tmp_path: Path) -> None:
    data = (f"x/a={sets}/{raw}a", f"y={sets}/{raw}b:0.75", "x=:0.25")
    done = blend(*data, "mix.list", "--json", cwd=tmp_path)
    read = read_raw if raw else read_shards
    counts = Counter(one.key for one in read(tmp_path / "mix.list"))
    hours = hours_of(list(counts.elements()), sets)
    assert hours["b"] / hours.total() == pytest.approx(0.75, abs=0.02)
    of_b = [counts[Path(one["audio_filepath"]).stem] for one in read_lines(sets / "b.json")]
    assert max(of_b) - min(of_b) <= 1  # whole rounds, and a part of one more
    assert len(counts) == 38  # nothing is left out
    assert counts.total() == 30 + sum(of_b)
    y = done.json["sets"][1]
    assert y["share_of_hours"] == pytest.approx(hours["b"] / hours.total(), abs=1e-3)
    assert any(note.startswith("an epoch of the list has ") and ", with y " in note for note in done.json["notes"])
    again = blend(*data, "mix.list", cwd=tmp_path)
    assert again.out == "blend: nothing to do, mix.list is complete\n"


def test_sets_of_other_programs_are_measured(sets: Path, tmp_path: Path) -> None:
    """Lists without the report of a run, and with paths that start in the folder of the training."""
    (tmp_path / "shards").mkdir()
    for shard in (sets / "a").glob("*.tar"):
        (tmp_path / "shards" / shard.name).symlink_to(shard)
    (tmp_path / "a.list").write_text("".join(f"shards/shards_{number:09d}.tar\n" for number in range(3)))
    (tmp_path / "audio").symlink_to(SHORT_CORPUS)
    lines = [json.loads(line) for line in (sets / "raw_b/data.list").read_text().splitlines()]
    for line in lines:
        line["wav"] = f"audio/{Path(line['wav']).relative_to(SHORT_CORPUS)}"
    write_lines(tmp_path / "b.list", lines)
    for listed, known in (("a.list", f"{sets}/a"), ("b.list", f"{sets}/raw_b")):
        mine, ours = (
            blend(f"x={one}", f"{listed}.list", "--overwrite", "--json", cwd=tmp_path) for one in (listed, known)
        )
        assert mine.json["records"] == ours.json["records"]
        assert mine.json["hours"] == pytest.approx(ours.json["hours"], abs=1e-4)
    blend("x=b.list", "y=b.list", "both.list", cwd=tmp_path)
    assert len(list(read_raw(tmp_path / "both.list"))) == 16


def test_a_set_that_was_moved(sets: Path, tmp_path: Path) -> None:
    moved = copy_set(sets / "b", tmp_path)
    (tmp_path / "b.list").write_text("/moved/away/shards_000000000.tar\n")
    (moved / "shards.list").write_text("".join(f"/moved/away/shards_{number:09d}.tar\n" for number in range(2)))
    blend(f"b={moved}", "mix.list", cwd=tmp_path)
    assert [Path(line).parent for line in (tmp_path / "mix.list").read_text().splitlines()] == [moved, moved]
    message = blend("b=b.list", "x.list", cwd=tmp_path, code=2).error_line
    assert "names /moved/away/shards_000000000.tar, which is not there" in message


def test_a_set_that_is_not_finished(sets: Path, tmp_path: Path) -> None:
    half = ("manifest-to-wenet", sets / "b.json", tmp_path / "half", "--shard-size", 4, "--rank", 0, "--world-size", 2)
    assert prepcli(*half).code == 0
    assert "half is not finished" in blend("a=half", "x.list", cwd=tmp_path, code=2).error_line


def test_refused(sets: Path, tmp_path: Path) -> None:
    before = tree(sets / "a")
    for arguments, message in (
        (
            (f"a={sets}/a", f"b={sets}/raw_b", "x.list"),
            "a has shards and b a data list: WeNet reads one data_type at a time",
        ),
        ((f"a={sets}/a.json", "x.list"), "a.json:1 is not a line of a data list"),
        ((f"a={sets}/a", "x.yaml"), "to mix sets for WeNet, write OUT.list"),
        ((f"a={sets}", "x.list"), "an OUT.list mixes sets for WeNet; for NeMo, write OUT.yaml"),
        ((f"a={sets}/a", "x.list", "--lang", "en"), "a list for WeNet has no tags"),
        ((f"a={sets}/a", f"b={sets}/b", f"{sets}/a/shards.list", "--overwrite"), "would replace the input"),
        ((f"a={sets}/a:1e9", f"b={sets}/b:1", "x.list"), "give it a smaller weight"),
    ):
        assert message in blend(*arguments, cwd=tmp_path, code=2).error_line
    assert tree(sets / "a") == before
    assert not list(tmp_path.iterdir())
