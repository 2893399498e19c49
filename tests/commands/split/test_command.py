"""split: no speaker in two parts, amounts as near as whole speakers allow, and every record accounted for."""

import collections
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prepcli.jobs import selection
from prepcli.manifest import scan
from tests.conftest import Lines, read_lines, write_lines
from tests.support.running import Outcome, prepcli


def corpus(speakers: int = 60, seed: int = 0, first: int = 0) -> Lines:
    """Speakers of different sizes, of which one has nearly as much as all others."""
    draw = np.random.default_rng(seed)
    counts = [int(one) for one in draw.integers(2, 12, speakers)]
    counts[0] = sum(counts)
    lines = [
        {
            "audio_filepath": f"s{first + speaker}/{n}.wav",
            "duration": float(draw.uniform(1, 9)),
            "speaker": f"s{first + speaker}",
        }
        | {"lang": ("en", "de", "fr")[speaker % 3], "text": f"Sentence {draw.integers(300)}!"}
        for speaker, count in enumerate(counts)
        for n in range(count)
    ]
    return [lines[at] for at in draw.permutation(len(lines)).tolist()]


def seconds(records: Lines) -> float:
    return float(sum(record["duration"] for record in records))


def names(records: Lines, field: str = "speaker") -> set[str]:
    return {record[field] for record in records}


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(scan, "RANGE_BYTES", 9000)
    monkeypatch.setattr(selection, "MIN_UNIT_BYTES", 2000)
    return write_lines(tmp_path / "m.json", corpus())


def parts(done: Outcome, out: Path, *expected: str) -> list[Lines]:
    assert done.code == 0, done.err
    assert sorted(path.name for path in out.iterdir()) == sorted(f"{name}.json" for name in expected)
    return [read_lines(out / f"{name}.json") for name in expected]


def test_amounts_are_met_and_speakers_stay_whole(manifest: Path, tmp_path: Path) -> None:
    records = read_lines(manifest)
    asked = ("--part", "train=rest", "--part", "dev=120s", "--part", "test=40")
    train, dev, test = parts(
        prepcli("split", manifest, tmp_path / "out", *asked), tmp_path / "out", "train", "dev", "test"
    )
    assert abs(seconds(dev) - 120) < 6
    assert abs(len(test) - 40) <= 1
    assert not names(train) & names(dev) | names(train) & names(test) | names(dev) & names(test)
    assert "s0" in names(train)
    back = [r | {"audio_filepath": r["audio_filepath"].removeprefix(f"{tmp_path}/")} for r in train + dev + test]
    by_path = {r["audio_filepath"]: r for r in back}
    assert [by_path[r["audio_filepath"]] for r in records] == records
    assert len(back) == len(records)
    order = {r["audio_filepath"]: n for n, r in enumerate(records)}
    places = [order[r["audio_filepath"]] for r in back[: len(train)]]
    assert places == sorted(places)


def test_shares_are_of_hours_and_add_up(manifest: Path, tmp_path: Path) -> None:
    records = read_lines(manifest)
    options = ("--part", "train=0.8", "--part", "test=0.2", "--json")
    done = prepcli("split", manifest, tmp_path / "out", *options)
    train, test = parts(done, tmp_path / "out", "train", "test")
    assert seconds(test) / seconds(records) == pytest.approx(0.2, abs=0.005)
    assert len(train) + len(test) == len(records)
    rows = done.json["details"]["parts"]
    assert [(row["part"], row["asked"], row["records"], row["groups"]) for row in rows] == [
        ("train", "0.8", len(train), len(names(train))),
        ("test", "0.2", len(test), len(names(test))),
    ]
    other = prepcli("split", manifest, tmp_path / "other", *options, "--seed", 1)
    assert names(parts(other, tmp_path / "other", "train", "test")[1]) != names(test)
    back = write_lines(tmp_path / "back.json", records[::-1])
    assert names(
        parts(prepcli("split", back, tmp_path / "o2", *options), tmp_path / "o2", "train", "test")[1]
    ) == names(test)


def test_records_in_no_part_are_listed(manifest: Path, tmp_path: Path) -> None:
    done = prepcli("split", manifest, tmp_path / "out", "--part", "a=0.3", "--part", "b=0.1", "--json")
    a, b = parts(done, tmp_path / "out", "a", "b")
    listed = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert len(a) + len(b) + len(listed) == len(read_lines(manifest))
    assert {(r["reject_reason"], r["reject_detail"]) for r in listed} == {("filtered", "in no part")}
    assert not names(listed) & (names(a) | names(b))
    assert any("NAME=rest" in note for note in done.json["notes"])


def test_balanced_parts_have_the_shares_of_the_whole(manifest: Path, tmp_path: Path) -> None:
    whole = [record for record in read_lines(manifest) if record["speaker"] != "s0"]
    write_lines(manifest, whole)
    done = prepcli("split", manifest, tmp_path / "out", "--part", "a=rest", "--part", "b=0.3", "--balance", "lang")
    _, b = parts(done, tmp_path / "out", "a", "b")
    for lang in ("de", "fr"):
        share = [seconds([r for r in some if r["lang"] == lang]) / seconds(some) for some in (b, whole)]
        assert share[0] == pytest.approx(share[1], abs=0.03)


@pytest.mark.parametrize("by", ["speaker", "none"])
def test_an_earlier_split_is_kept_when_records_are_added(by: str, manifest: Path, tmp_path: Path) -> None:
    options = ("--part", "train=0.8", "--part", "test=0.2", "--by", by)
    before = parts(prepcli("split", manifest, tmp_path / "one", *options), tmp_path / "one", "train", "test")
    (tmp_path / "more").mkdir()
    more = write_lines(tmp_path / "more/m.json", corpus(40, seed=5, first=100))
    inputs = f"{more},{manifest}"
    done = prepcli("split", inputs, tmp_path / "two", *options, "--keep-parts", tmp_path / "one", "--seed", 9)
    after = parts(done, tmp_path / "two", "train", "test")
    for old, new in zip(before, after, strict=True):
        assert names(old, "audio_filepath") < names(new, "audio_filepath")
    assert seconds(after[1]) / seconds(after[0] + after[1]) == pytest.approx(0.2, abs=0.02)


def test_sentences_of_small_parts_are_removed_from_larger_ones(tmp_path: Path) -> None:
    texts = ["Well, DONE.", "well done", "other", None, ""]
    lines = [{"audio_filepath": f"{n}.wav", "duration": 1.0, "text": texts[n % 5]} for n in range(50)]
    manifest = write_lines(tmp_path / "m.json", lines)
    options = ("--part", "train=rest", "--part", "test=10", "--disjoint", "text")
    done = prepcli("split", manifest, tmp_path / "out", *options)
    assert "no record has a speaker" in done.out
    train, test = parts(done, tmp_path / "out", "train", "test")

    def texts_of(records: Lines) -> set[str]:
        return {str(r["text"]).lower().replace(",", "").replace(".", "") for r in records if r["text"]}

    assert texts_of(test)
    assert not texts_of(test) & texts_of(train)
    assert sum(not r["text"] for r in train + test) == 20
    listed = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert collections.Counter(r["reject_detail"] for r in listed) == {"its text is in a smaller part": 40 - len(train)}


@pytest.mark.parametrize(("num_texts", "code"), [(10, 0), (9, 2), (0, 2)])
def test_texts_that_are_not_there_are_not_compared(tmp_path: Path, num_texts: int, code: int) -> None:
    lines = [{"audio_filepath": f"{n}.wav", "duration": 1.0, "text": f"{n}" * (n < num_texts)} for n in range(20)]
    manifest = write_lines(tmp_path / "m.json", lines)
    options = ("--part", "train=rest", "--part", "test=5", "--disjoint", "text")
    done = prepcli("split", manifest, tmp_path / "out", *options)
    assert done.code == code
    counted = f"{manifest}: {20 - num_texts} of 20 records have no text, "
    assert counted + ("so they cannot be compared" if code else "and are not compared") in done.out + done.err
    assert (tmp_path / "out").exists() == (code == 0)


def test_a_part_of_which_all_records_are_left_out_is_refused(tmp_path: Path) -> None:
    lines = [{"audio_filepath": f"{n}.wav", "duration": 1.0, "text": "the same"} for n in range(20)]
    manifest = write_lines(tmp_path / "m.json", lines)
    options = ("--part", "train=rest", "--part", "test=5", "--disjoint", "text")
    refused = prepcli("split", manifest, tmp_path / "out", *options)
    assert (refused.code, "nothing is left for train: --disjoint would leave out" in refused.error_line) == (2, True)
    assert not (tmp_path / "out").exists()


def test_records_without_a_speaker_are_drawn_one_by_one(tmp_path: Path) -> None:
    lines: Lines = [{"audio_filepath": f"{n}.wav", "duration": 1.0} for n in range(30)]
    named: list[dict[str, Any]] = [line | {"speaker": 7} for line in lines[:10]]
    manifest = write_lines(tmp_path / "m.json", named + lines[10:])
    done = prepcli("split", manifest, tmp_path / "out", "--part", "a=0.5", "--part", "b=0.5")
    assert "20 records without speaker are drawn one by one" in done.out
    found = parts(done, tmp_path / "out", "a", "b")
    assert [len(part) for part in found] == [15, 15]
    assert sum(any("speaker" in r for r in part) for part in found) == 1


def test_ranks_give_the_same_bytes(manifest: Path, tmp_path: Path) -> None:
    options = ("--part", "train=0.8", "--part", "test=0.1")
    assert prepcli("split", manifest, tmp_path / "one", *options).code == 0
    for rank in (1, 0):
        done = prepcli("split", manifest, tmp_path / "two", *options, "--rank", rank, "--world-size", 2)
        assert done.code == 0, done.err
    for name in ("train.json", "test.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    again = prepcli("split", manifest, tmp_path / "one", *options)
    assert again.out.strip() == f"split: nothing to do, {tmp_path / 'one'} is complete"
    dry = prepcli("split", manifest, tmp_path / "dry", *options, "--dry-run", "--json")
    assert [row["part"] for row in dry.json["parts"]] == ["train", "test", "in no part"]
    assert not (tmp_path / "dry").exists()


def test_duplicates_of_small_parts_are_removed_from_larger_ones(tmp_path: Path) -> None:
    lines: Lines = [{"audio_filepath": f"{n}.wav", "duration": 1.0} for n in range(60)]
    manifest = write_lines(tmp_path / "m.json", lines)
    listed = [
        {"audio_filepath": str(tmp_path / f"{n}.wav"), "duration": 1.0, "duplicate_by": by, "duplicate_group": n % 20}
        | {"duplicate_place": n // 20}
        for by, count in (("text", 40), ("audio", 60))
        for n in range(count)
    ]
    found = write_lines(tmp_path / "found.jsonl", listed)
    options = ("--part", "train=rest", "--part", "test=10", "--disjoint-listed", found)
    train, test = parts(prepcli("split", manifest, tmp_path / "out", *options), tmp_path / "out", "train", "test")

    def groups(records: Lines) -> set[int]:
        return {int(Path(record["audio_filepath"]).stem) % 20 for record in records}

    assert len(test) == 10
    assert not groups(train) & groups(test)
    why = {record["reject_detail"] for record in read_lines(tmp_path / "out.prepcli/rejects.jsonl")}
    assert why == {"a duplicate of it is in a smaller part"}


def test_what_cannot_be_kept_is_refused(manifest: Path, tmp_path: Path) -> None:
    options = ("--part", "train=0.7", "--part", "test=0.3")
    assert prepcli("split", manifest, tmp_path / "one", *options, "--by", "none").code == 0
    done = prepcli("split", manifest, tmp_path / "two", *options, "--keep-parts", tmp_path / "one")
    assert done.code == 2
    assert (
        "a speaker is in train.json and in test.json, so both cannot be kept; give the --by of that split" in done.err
    )
    again = prepcli("split", manifest, tmp_path / "two", *options, "--keep-parts", tmp_path / "one", "--by", "none")
    assert again.code == 0, again.err
    for name in ("train.json", "test.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize(
    ("by", "advice"),
    [
        ("none", ""),
        ("speaker", ", or divide by another field (--by FIELD), or draw each record for itself (--by none)"),
    ],
)
def test_a_part_of_which_too_much_is_kept_names_the_cause(by: str, advice: str, manifest: Path, tmp_path: Path) -> None:
    one = ("split", manifest, tmp_path / "one", "--by", by, "--part", "train=rest")
    assert prepcli(*one, "--part", "test=0.5").code == 0
    kept = [len(read_lines(tmp_path / "one" / name)) for name in ("test.json", "train.json")]
    two = (*one[:2], tmp_path / "two", *one[3:])
    done = prepcli(*two, "--part", "test=1", "--keep-parts", tmp_path / "one")
    assert done.code == 2
    assert done.error_line.endswith(
        f"part test asks for 1 record, and it gets {kept[0]} records: --keep-parts keeps {kept[0]} records in it, and "
        f"{kept[1]} records in other parts; ask for another amount, or leave --keep-parts out{advice}"
    )


def test_what_is_done_already_is_not_advised(manifest: Path, tmp_path: Path) -> None:
    done = prepcli("split", manifest, tmp_path / "out", "--part", "a=rest", "--part", "b=0.001s", "--by", "none")
    assert (done.code, done.error_line.endswith(" s; ask for another amount")) == (2, True)


@pytest.mark.parametrize("renamed", ["", "new "])
def test_records_without_a_kept_speaker_stay_in_the_part_of_their_segment(renamed: str, tmp_path: Path) -> None:
    lines: Lines = [{"audio_filepath": f"{n}.wav", "duration": 1.0} for n in range(120)]
    for number in range(60):
        lines[number]["speaker"] = f"s{number % 20}"
    options = ("--part", "train=rest", "--part", "test=0.3")
    one = prepcli("split", write_lines(tmp_path / "m.json", lines), tmp_path / "one", *options)
    before = parts(one, tmp_path / "one", "train", "test")
    for line in lines[:60]:
        line["speaker"] = renamed + line["speaker"]
    more: Lines = [{"audio_filepath": f"{n}.wav", "duration": 1.0} for n in range(120, 160)]
    manifest = write_lines(tmp_path / "m2.json", lines + more)
    done = prepcli("split", manifest, tmp_path / "two", *options, "--keep-parts", tmp_path / "one", "--seed", 7)
    for old, new in zip(before, parts(done, tmp_path / "two", "train", "test"), strict=True):
        assert names(old, "audio_filepath") < names(new, "audio_filepath")


def test_a_new_speaker_over_two_kept_parts_is_refused(tmp_path: Path) -> None:
    lines: Lines = [{"audio_filepath": f"{n}.wav", "duration": 1.0} for n in range(40)]
    options = ("--part", "train=0.5", "--part", "test=0.5")
    assert prepcli("split", write_lines(tmp_path / "m.json", lines), tmp_path / "one", *options).code == 0
    named = write_lines(tmp_path / "named.json", [line | {"speaker": "s"} for line in lines])
    done = prepcli("split", named, tmp_path / "two", *options, "--keep-parts", tmp_path / "one")
    assert done.code == 2
    assert "so both cannot be kept" in done.err


def test_broken_lines_of_an_earlier_split_are_named(manifest: Path, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one/a.json").write_text('{"audio_filepath": "x.wav", "duration": 1}\n{"audio_filepath":\n')
    options = ("--part", "a=0.5", "--part", "b=0.5", "--keep-parts", tmp_path / "one")
    done = prepcli("split", manifest, tmp_path / "out", *options)
    assert done.code == 2
    assert f"{tmp_path}/one/a.json:2 cannot be used: broken JSON" in done.err


def test_a_manifest_without_a_usable_record_is_refused(tmp_path: Path) -> None:
    manifest = write_lines(tmp_path / "m.json", [{"audio_filepath": "a.wav", "duration": 0}])
    done = prepcli("split", manifest, tmp_path / "out", "--part", "a=0.5", "--part", "b=0.5")
    assert done.code == 2
    assert f"no record can be used: {manifest}:1: " in done.err


def test_fields_that_no_record_has_are_refused(manifest: Path, tmp_path: Path) -> None:
    part = ("--part", "a=0.5", "--part", "b=0.5")
    for option, name, near in (
        ("--by", "speeker", "speaker"),
        ("--balance", "lang,sex", ""),
        ("--balance", "lnag", "lang"),
    ):
        done = prepcli("split", manifest, tmp_path / "out", *part, option, name)
        assert done.code == 2
        assert (f"(did you mean {near}?)" in done.err) == bool(near)
        assert "no record has" in done.err


def two_corpora(folder: Path) -> list[Path]:
    """Manifests of two corpora whose files have the same relative names, in their folders; the audio is there."""
    lines: Lines = [{"audio_filepath": f"{n}.wav", "duration": 1.0 + n / 8} for n in range(20)]
    manifests = []
    for name in ("a", "b"):
        (folder / name).mkdir()
        for line in lines:
            (folder / name / line["audio_filepath"]).touch()
        manifests.append(write_lines(folder / name / "m.json", [line | {"corpus": name} for line in lines]))
    return manifests


def files(records: Lines, name: str) -> set[str]:
    return {Path(one["audio_filepath"]).name for one in records if one["corpus"] == name}


def test_equal_names_of_two_corpora_are_two_files(tmp_path: Path) -> None:
    """A record of one corpus in test, and that of the same name of the other in train: both stay where they are."""
    both = ",".join(map(str, two_corpora(tmp_path)))
    options = ("--part", "test=0.5", "--part", "train=0.5")
    test, train = parts(prepcli("split", both, tmp_path / "one", *options), tmp_path / "one", "test", "train")
    assert files(test, "a") != files(test, "b")
    moved = [one for one in test if one["corpus"] == "a"], [one for one in test if one["corpus"] == "b"]
    write_lines(tmp_path / "one/test.json", [*moved[0], *(one for one in train if one["corpus"] == "b")])
    write_lines(tmp_path / "one/train.json", [*moved[1], *(one for one in train if one["corpus"] == "a")])
    again = prepcli("split", both, tmp_path / "two", *options, "--keep-parts", tmp_path / "one")
    for name, records in zip(("test", "train"), parts(again, tmp_path / "two", "test", "train"), strict=True):
        kept = read_lines(tmp_path / "one" / f"{name}.json")
        assert names(records, "audio_filepath") == names(kept, "audio_filepath")


def test_a_split_that_came_with_a_corpus_says_nothing_about_files_of_the_same_names(tmp_path: Path) -> None:
    first, second = two_corpora(tmp_path)
    lines = read_lines(first)
    write_lines(first.with_name("test.json"), lines[:6])
    write_lines(first.with_name("train.json"), lines[6:])
    options = ("--part", "test=rest", "--part", "train=0.4", "--keep-parts", first.parent)
    done = prepcli("split", f"{first},{second}", tmp_path / "out", *options)
    test, _ = parts(done, tmp_path / "out", "test", "train")
    assert files(test, "a") == {f"{n}.wav" for n in range(6)}
    assert len(files(test, "b")) > 6


def test_the_same_file_by_a_link_stays_in_one_part(tmp_path: Path) -> None:
    first, _ = two_corpora(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    lines = read_lines(first)
    twice = [one | {"audio_filepath": f"{name}/{one['audio_filepath']}"} for one in lines for name in ("a", "link")]
    options = ("--part", "test=0.5", "--part", "train=0.5")
    done = prepcli("split", write_lines(tmp_path / "m.json", twice), tmp_path / "out", *options)
    test, train = parts(done, tmp_path / "out", "test", "train")
    assert not files(test, "a") & files(train, "a")


def test_two_channels_in_two_kept_parts_are_refused(tmp_path: Path) -> None:
    """The split that is kept was made by speaker; this one would move a test record to train."""
    calls: Lines = [{"audio_filepath": f"{n}.wav", "duration": 9.0, "channel": c} for n in range(20) for c in (0, 1)]
    manifest = write_lines(tmp_path / "m.json", calls)
    (tmp_path / "one").mkdir()
    write_lines(tmp_path / "one/test.json", calls[:6:2])
    write_lines(tmp_path / "one/train.json", calls[1:6:2])
    options = ("--part", "test=0.5", "--part", "train=0.5", "--keep-parts", tmp_path / "one")
    done = prepcli("split", manifest, tmp_path / "two", *options)
    assert (done.code, "a record is in test.json and in train.json" in done.error_line) == (2, True), done.err
