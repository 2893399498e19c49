"""Prints: the same groups as with the audio, the same bytes for any ranks, and files that are refused."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

import prepcli as api
from prepcli.commands.find_duplicates import command
from prepcli.commands.find_duplicates import prints as prints_module
from prepcli.commands.find_duplicates.certificate import certificate_of
from prepcli.commands.find_duplicates.prints import read_all_prints, read_prints
from prepcli.errors import UsageError
from tests.conftest import MINI_CORPUS, Lines, read_lines, write_lines
from tests.support.running import prepcli

RATE = 8000
ALL = ("--by", "audio,near-audio,text,speaker")


def noise(seed: int, seconds: float = 2.0) -> NDArray[np.int16]:
    loud = np.random.default_rng(seed).integers(1, 90, int(seconds * 10) + 1).repeat(RATE // 10)
    samples = np.random.default_rng(seed).integers(-90, 90, int(seconds * RATE)) * loud[: int(seconds * RATE)]
    return samples.astype(np.int16)


def record(
    folder: Path, name: str, samples: NDArray[np.int16], text: str | None, speaker: str | None
) -> dict[str, object]:
    soundfile.write(folder / name, samples, RATE)
    line = {"audio_filepath": name, "duration": len(samples) / RATE, "text": text, "speaker": speaker}
    return {key: value for key, value in line.items() if value is not None}


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A test set, and a training set with copies of some of its records; both have a record without audio."""
    monkeypatch.setattr(command, "_UNIT_SIZE", 3)
    monkeypatch.setattr(prints_module, "_RECORDS_AT_ONCE", 2)
    test, train = tmp_path / "test", tmp_path / "train"
    for folder in (test, train):
        folder.mkdir()
    of_test: Lines = [record(test, f"{n}.wav", noise(n, 1.5 + n % 3 / 2), f"Text {n}!", f"s{n % 4}") for n in range(8)]
    of_test.insert(3, {"audio_filepath": "gone.wav", "duration": 2.0, "text": "gone", "speaker": "g"})
    of_test.append(record(test, "copy.wav", noise(1), None, "alone"))  # with 1.wav, a group of the test set only
    of_test.append(record(test, "short.wav", noise(9, 0.5), "short", None))
    of_train: Lines = [
        record(train, "other.wav", noise(20), "other", "t"),
        record(train, "exact.flac", noise(0, 1.5), "exact", "t"),
        record(train, "quiet.wav", noise(2, 2.5) // 3, "quiet", "t"),
        record(train, "longer.wav", np.concatenate([noise(30), noise(4), noise(31)]), "longer", "t"),
        {"audio_filepath": "gone.wav", "duration": 2.0, "text": "gone", "speaker": "g"},
        record(train, "said.wav", noise(21), "TEXT, 5", "t"),
        record(train, "named.wav", noise(22), "named", "s3"),
        record(train, "short.wav", noise(9, 0.5), "brief", None),
        record(train, "twice.wav", noise(21), "twice", None),
    ]
    return write_lines(test / "m.json", of_test), write_lines(train / "m.json", of_train)


def groups(out: Path, name_of: Callable[[dict[str, object]], str]) -> list[tuple[object, list[str]]]:
    found: dict[object, tuple[object, list[str]]] = {}
    for line in read_lines(out):
        names = found.setdefault(line["duplicate_group"], (line["duplicate_by"], []))[1]
        assert line["duplicate_place"] == len(names)
        names.append(name_of(line))
    return list(found.values())


def done_rows(out: Path) -> list[dict[str, object]]:
    """What the report of the run that wrote `out` says of each kind."""
    rows: list[dict[str, object]] = json.loads(Path(f"{out}.prepcli/report.json").read_text())["details"]["found"]
    return rows


def test_the_same_groups_as_with_the_audio(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    test, train = inputs
    rejects = ("--max-rejects", 2)
    whole = prepcli("find-duplicates", test, train, tmp_path / "whole.jsonl", *ALL, "--between", *rejects)
    assert whole.code == 1, whole.err
    expected = groups(tmp_path / "whole.jsonl", lambda line: str(line["audio_filepath"]))
    assert [(by, len(names)) for by, names in expected] == [
        *[("audio", 2), ("audio", 2)],
        *[("near-audio", 2), ("near-audio", 2), ("near-audio", 2)],
        *[("text", 2), ("speaker", 3)],
    ]
    written = prepcli("find-duplicates", test, "--write-prints", tmp_path / "test.prints", *rejects, "--json")
    assert written.code == 0, written.err
    assert written.json["outputs"] == {"prints": str(tmp_path / "test.prints")}
    assert b"Text" not in (tmp_path / "test.prints").read_bytes()
    lines = read_lines(test)
    out = tmp_path / "leaks.jsonl"
    done = prepcli("find-duplicates", train, out, *ALL, "--against", tmp_path / "test.prints", *rejects)
    assert done.code == 1, done.err

    def name(line: dict[str, object]) -> str:
        number = line.get("prints_record")
        if number is None:
            return str(line["audio_filepath"])
        assert isinstance(number, int)
        assert (line["prints_filepath"], line["duration"]) == (
            str(tmp_path / "test.prints"),
            lines[number - 1]["duration"],
        )
        return str(test.parent / lines[number - 1]["audio_filepath"])

    assert groups(out, name) == expected
    before = sorted(tmp_path.iterdir())
    counted = prepcli("find-duplicates", train, *ALL, "--against", tmp_path / "test.prints", *rejects, "--json")
    assert (counted.code, counted.json["details"]["found"]) == (1, done_rows(out))
    assert (counted.json["outputs"], sorted(tmp_path.iterdir())) == ({}, before)
    many = prepcli("find-duplicates", train, *ALL, "--against", tmp_path / "test.prints", "--max-rejects", 0)
    assert (many.code, "name OUT.jsonl to have them listed" in many.err) == (3, True)
    assert "prepcli-" not in many.out + many.err  # the files are gone
    wrong = prepcli("find-duplicates", train, "--by", "words", "--against", tmp_path / "test.prints")
    assert (wrong.code, len(wrong.err.splitlines())) == (2, 1)
    assert prepcli("find-duplicates", train, out, *ALL, "--against", tmp_path / "test.prints", *rejects).code == 1
    dropped = prepcli("filter", train, train.parent / "kept.json", "--drop-listed", out)
    assert dropped.code == 0, dropped.err
    kept = [line["audio_filepath"] for line in read_lines(train.parent / "kept.json")]
    assert kept == ["other.wav", "gone.wav", "twice.wav"]
    clean = prepcli(
        "find-duplicates",
        train.parent / "kept.json",
        tmp_path / "none.jsonl",
        *ALL,
        "--against",
        tmp_path / "test.prints",
        *rejects,
    )
    assert (clean.code, (tmp_path / "none.jsonl").read_bytes()) == (0, b""), clean.out


def test_ranks_give_the_same_bytes(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """Also of prints that are written together with groups, in a folder below."""
    test, train = inputs
    made = []
    for ranks in ([()], [("--rank", rank, "--world-size", 3) for rank in (1, 0, 2)]):
        folder = tmp_path / str(len(ranks))
        (folder / "more").mkdir(parents=True)
        prints, more = folder / "test.prints", folder / "more/train.prints"
        files = [prints, folder / "out.jsonl", more, folder / "c.json", folder / "c.html"]
        for rank in ranks:
            words = ("--write-prints", prints, "--max-rejects", 1, *rank)
            assert prepcli("find-duplicates", test, *words).code == 0
        for rank in ranks:
            words = ("--against", prints, "--write-prints", more, "--certificate", folder / "c.json")
            done = prepcli("find-duplicates", train, folder / "out.jsonl", *words, "--max-rejects", 1, *rank)
            assert done.code in (0, 1), done.err
        made.append([file.read_bytes().replace(bytes(folder), b"FOLDER") for file in files])
    assert made[0] == made[1]
    other = tmp_path / "1/other.prints"
    assert prepcli("find-duplicates", train, "--write-prints", other, "--max-rejects", 1).code == 0
    none = np.zeros((0, 2), np.uint64)
    of_test, of_train = (read_prints("--against", str(path)).keys("speaker", none) for path in (prints, other))
    assert not set(map(tuple, of_test[of_test.any(axis=1)].tolist())) & set(
        map(tuple, of_train.tolist())
    )  # both have s3
    (tmp_path / "1/test.prints").write_bytes(other.read_bytes())
    words = ("--against", prints.parent.parent / "1/test.prints", "--write-prints", tmp_path / "1/more/train.prints")
    words = (*words, "--certificate", tmp_path / "1/c.json", "--max-rejects", 1)
    changed = prepcli("find-duplicates", train, tmp_path / "1/out.jsonl", *words)
    assert changed.code == 2
    assert "test.prints has another content" in changed.error_line


def test_a_set_has_the_digests_of_its_manifest(tmp_path: Path) -> None:
    manifest = write_lines(
        tmp_path / "m.json",
        [
            dict(line, audio_filepath=str(MINI_CORPUS / str(line["audio_filepath"])))
            for line in read_lines(MINI_CORPUS / "manifest.json")[:9]
        ],
    )
    lines = read_lines(manifest)
    shutil.copy(str(lines[2]["audio_filepath"]), tmp_path / "copy.flac")  # it is decoded only in the set
    write_lines(manifest, [*lines, dict(lines[2], audio_filepath="copy.flac")])
    assert prepcli("manifest-to-tarred", manifest, tmp_path / "set", "--num-shards", 1).code == 0
    headers = []
    for number, source in enumerate((manifest, tmp_path / "set")):
        report = api.find_duplicates(source, write_prints=tmp_path / f"{number}.prints")
        headers.append(read_prints("--against", report.outputs["prints"]).header)
    assert headers[0].kinds == ["audio", "near-audio", "text", "speaker"]
    assert headers[0].digest == headers[1].digest
    data = (tmp_path / "0.prints").read_bytes()
    num_words = {name: count for name, _, count in headers[0].arrays}["words"]
    assert len(data) - data.index(b"\n") - 1 == 4 * num_words + 10 * (8 + 4 + 3 * 16)


def test_kinds_that_records_do_not_have(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """They are left out, named, and refused if they are asked for."""
    test, train = inputs
    bare = write_lines(
        test.parent / "bare.json",
        [{key: line[key] for key in ("audio_filepath", "duration")} for line in read_lines(test)],
    )
    prints = tmp_path / "bare.prints"
    done = prepcli("find-duplicates", bare, "--write-prints", prints, "--max-rejects", 1)
    assert done.code == 0, done.err
    assert f"{bare}: 11 of 11 records have no speaker" in done.out
    assert read_prints("--against", str(prints)).header.kinds == ["audio", "near-audio"]
    assert read_prints("--against", str(prints)).header.without == {"audio": 0, "near-audio": 1}
    words = ("--against", prints, "--max-rejects", 1)
    done = prepcli("find-duplicates", train, tmp_path / "out.jsonl", *words, "--json")
    assert [found["by"] for found in done.json["details"]["found"]] == ["audio", "near-audio"]
    assert f"{prints} has no text, and is not compared by it" in done.json["notes"]
    refused = prepcli("find-duplicates", train, tmp_path / "no.jsonl", *words, "--by", "audio,text")
    assert (refused.code, "the prints have no text, only audio, near-audio" in refused.error_line) == (2, True)
    texts = tmp_path / "texts.prints"
    assert prepcli("find-duplicates", test, "--write-prints", texts, "--by", "text").code == 0
    assert len({read_prints("--against", str(path)).header.salt for path in (prints, texts)}) == 2
    refused = prepcli("find-duplicates", bare, tmp_path / "no.jsonl", "--against", texts)
    assert (refused.code, "11 of 11 records have no text, so they cannot be" in refused.error_line) == (2, True)
    both = prepcli(
        "find-duplicates", train, tmp_path / "both.jsonl", "--against", f"{prints},{texts}", "--max-rejects", 1
    )
    assert both.code == 1
    assert {line["duplicate_by"] for line in read_lines(tmp_path / "both.jsonl")} == {"audio", "near-audio", "text"}


def test_damaged_prints_are_refused(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    whole = tmp_path / "whole.prints"
    assert prepcli("find-duplicates", inputs[0], "--write-prints", whole, "--max-rejects", 1).code == 0
    data = whole.read_bytes()
    line = data[: data.index(b"\n") + 1]
    assert len(line) % 64 == 0
    header = json.loads(line)

    def with_header(**changes: object) -> bytes:
        return (
            json.dumps(header | changes, separators=(",", ":")).encode().ljust(len(line) - 1)
            + b"\n"
            + data[len(line) :]
        )

    wrong = {
        "cut short": (data[:-1], "is damaged or not complete"),
        "in the header": (data[:100], "is damaged or not complete"),
        "longer": (data + b"\0", "is damaged or not complete"),
        "newer": (with_header(prepcli_prints=2), "update prepcli"),
        "other parameters": (with_header(fingerprint={"hop": 64}), "other parameters"),
        "records": (with_header(records=3), "contradicts itself"),
        "no arrays": (with_header(arrays=[]), "contradicts itself"),
        "a negative array": (with_header(arrays=[*header["arrays"], ["text", "<u8", -1]]), "contradicts itself"),
        "a digest": (with_header(digests=header["digests"] | {"audio": "0"}), "its digests contradict"),
        "a salt": (with_header(salt="0" * 32), "another salt"),
        "no salt": (with_header(salt="x"), "another salt"),
        "no counts": (with_header(without={}), "contradicts itself"),
        "a negative count": (with_header(skipped=-1), "contradicts itself"),
        "many rejects": (with_header(rejected=header["records"] + 1), "contradicts itself"),
        "a manifest": (inputs[0].read_bytes(), "it is not a file of prints"),
        "audio": ((inputs[0].parent / "0.wav").read_bytes(), "it is not a file of prints"),
        "empty": (b"", "it is not a file of prints"),
    }
    for at, name in zip(np.linspace(len(line), len(data) - 1, 6).astype(int).tolist(), "abcdef", strict=True):
        wrong[f"flipped {name}"] = (data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :], "has another digest")
    path = tmp_path / "wrong.prints"
    for name, (content, message) in wrong.items():
        path.write_bytes(content)
        with pytest.raises(UsageError) as refused:
            read_prints("--against", str(path))
        assert message in str(refused.value), name
        assert str(refused.value).startswith("--against " + str(path))
    refused_by = prepcli("find-duplicates", inputs[1], tmp_path / "out.jsonl", "--against", path)
    assert (refused_by.code, refused_by.out) == (2, "")
    assert "has another digest" in refused_by.error_line
    missing = prepcli("find-duplicates", inputs[1], tmp_path / "out.jsonl", "--against", tmp_path / "none.prints")
    assert "not found" in missing.error_line


def test_names_of_prints(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """A comma in a name does no harm, and a certificate names two files of one name differently."""
    test, train = inputs
    paths = [tmp_path / "a, b {1}.prints", tmp_path / "more" / "a, b {1}.prints"]
    for path in paths:
        assert prepcli("find-duplicates", test, "--write-prints", path, "--by", "text").code == 0
    assert [prints.path for prints in read_all_prints("--against", str(paths[0]))] == [str(paths[0])]
    several = [tmp_path / f"{number:0200}.prints" for number in range(30)]
    for path in several:
        shutil.copy(paths[0], path)
    num_open = len(os.listdir("/proc/self/fd"))
    found = read_all_prints("--against", ",".join(map(str, several)))
    assert [prints.path for prints in found] == list(map(str, several)), "a list is longer than a path may be"
    assert len(os.listdir("/proc/self/fd")) - num_open <= len(several), "one open file for each"
    del found
    headers = [read_prints("--against", str(path)) for path in paths]
    certificate = certificate_of(headers[0].header, headers, [], ["audio", "text"])
    names = ["a, b {1}.prints", "a, b {1}.prints (2)"]
    assert [side["file"] for side in certificate["prints"]] == names
    not_there = [row["side"] for row in certificate["not_compared"] if row["by"] == "audio"]
    assert not_there == ["inputs", *names]
    nothing = write_lines(tmp_path / "no.json", [{"audio_filepath": "no.wav", "duration": 1.0}])
    assert prepcli("find-duplicates", nothing, "--write-prints", tmp_path / "no", "--max-rejects", 1).code == 0
    refused = prepcli("find-duplicates", train, tmp_path / "out.jsonl", "--against", tmp_path / "no")
    assert (refused.code, "the prints have nothing to compare" in refused.error_line) == (2, True)


def test_an_input_in_the_place_of_the_output(inputs: tuple[Path, Path]) -> None:
    """With --write-prints two inputs look like one and OUT.jsonl."""
    before = {path: path.read_bytes() for path in inputs}
    refused = prepcli("find-duplicates", *inputs, "--write-prints", inputs[0].parent / "test.prints")
    assert refused.code == 2
    assert refused.error_line.startswith(
        f"prepcli: {inputs[1]} exists, and is not of find-duplicates: the last file is"
    )
    assert {path: path.read_bytes() for path in inputs} == before
    (other := inputs[0].parent / "set").mkdir()
    (inputs[0].parent / "set.prepcli").mkdir()  # of the command that has made the set
    refused = prepcli("find-duplicates", inputs[0], other)
    assert (refused.code, f"{other} exists, and is not of find-duplicates" in refused.error_line) == (2, True)
