"""find-duplicates: equal samples in any lossless file, equal texts, speakers of two inputs."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from prepcli.commands.find_duplicates import command
from prepcli.commands.find_duplicates import groups as groups_module
from prepcli.manifest import shared_index
from tests.conftest import Lines, read_lines, write_lines
from tests.support.running import prepcli

RATE = 16000


def noise(seed: int, seconds: float = 0.5) -> NDArray[np.int16]:
    return np.random.default_rng(seed).integers(-9000, 9000, int(seconds * RATE)).astype(np.int16)


@pytest.fixture
def audio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(command, "_UNIT_SIZE", 3)
    soundfile.write(tmp_path / "a.wav", noise(0), RATE)
    soundfile.write(tmp_path / "a.flac", noise(0), RATE)
    soundfile.write(tmp_path / "float.wav", (noise(0) / 32768).astype(np.float32), RATE, subtype="FLOAT")
    soundfile.write(tmp_path / "long.wav", np.concatenate([noise(1), noise(0), noise(2)]), RATE)
    soundfile.write(tmp_path / "b.wav", noise(3), RATE)
    soundfile.write(tmp_path / "rate.wav", noise(0), 2 * RATE)
    changed = noise(0)
    changed[99] += 1
    soundfile.write(tmp_path / "near.wav", changed, RATE)
    (tmp_path / "bad.wav").write_bytes(b"RIFF")
    return tmp_path


def groups(out: Path) -> dict[tuple[str, int], list[str]]:
    found: dict[tuple[str, int], list[str]] = {}
    for line in read_lines(out):
        place = found.setdefault((line["duplicate_by"], line["duplicate_group"]), [])
        assert line["duplicate_place"] == len(place)
        place.append(Path(line["audio_filepath"]).name)
    return found


def test_equal_samples_are_found_in_any_file(audio: Path) -> None:
    names = ["b.wav", "a.flac", "near.wav", "bad.wav", "a.wav", "float.wav", "rate.wav"]
    lines: Lines = [{"audio_filepath": name, "duration": 0.25 if name == "rate.wav" else 0.5} for name in names]
    lines += [{"audio_filepath": "long.wav", "duration": 0.5, "offset": offset} for offset in (0.0, 0.5, 0.25)]
    manifest = write_lines(audio / "m.json", lines)
    done = prepcli("find-duplicates", manifest, audio / "out.jsonl", "--by", "audio", "--max-rejects", 1, "--json")
    assert done.code == 0, done.err
    assert groups(audio / "out.jsonl") == {("audio", 0): ["a.flac", "a.wav", "float.wav", "long.wav"]}
    listed = read_lines(audio / "out.jsonl")
    assert [(line["manifest_line"], line.get("offset")) for line in listed] == [
        (2, None),
        (5, None),
        (6, None),
        (9, 0.5),
    ]
    assert listed[0]["audio_filepath"] == str(audio / "a.flac")
    assert (done.json["records_in"], done.json["records_out"], done.json["rejects"]) == (10, 9, 1)
    dropped = prepcli("filter", manifest, audio / "kept.json", "--drop-listed", audio / "out.jsonl")
    assert dropped.code == 0, dropped.err
    kept = [(r["audio_filepath"], r.get("offset")) for r in read_lines(audio / "kept.json")]
    assert kept == [*((name, None) for name in (*names[:4], "rate.wav")), ("long.wav", 0.0), ("long.wav", 0.25)]


def test_the_first_of_several_equal_lines_stays(audio: Path) -> None:
    """Its audio is that of the lines to drop; in another manifest, or with other audio in its line, all of them go."""
    lines: Lines = [
        {"audio_filepath": name, "duration": 0.5} for name in ("b.wav", "a.wav", "b.wav", "a.wav", "near.wav")
    ]
    manifest, listed = write_lines(audio / "m.json", lines), audio / "out.jsonl"
    assert prepcli("find-duplicates", manifest, listed, "--by", "audio").code == 0

    def kept(lines: Lines, name: str) -> list[str]:
        source = write_lines(audio / name, lines)
        done = prepcli("filter", source, audio / "kept.json", "--drop-listed", listed, "--overwrite")
        assert done.code == 0, done.err
        return [line["audio_filepath"] for line in read_lines(audio / "kept.json")]

    assert kept(lines, "other.json") == ["near.wav"]
    assert kept(lines, "m.json") == ["b.wav", "a.wav", "near.wav"]
    assert kept([*lines[1:4], *lines], "m.json") == ["near.wav"]


def test_leaks_between_inputs(audio: Path) -> None:
    (audio / "train").mkdir()
    test = [
        {"audio_filepath": "a.wav", "duration": 0.5, "text": "Hello, world!", "speaker": "x"},
        {"audio_filepath": "b.wav", "duration": 0.5, "text": "same", "speaker": 7},
        {"audio_filepath": "b.wav", "duration": 0.5, "text": "SAME", "speaker": "y"},
    ]
    train = [
        {"audio_filepath": "../a.flac", "duration": 0.5, "text": "other", "speaker": "7"},
        {"audio_filepath": "../near.wav", "duration": 0.5, "text": "hello world", "speaker": "z"},
        {"audio_filepath": "../rate.wav", "duration": 0.25, "text": None, "speaker": "w"},
        {"audio_filepath": "../long.wav", "duration": 1.0, "text": "?!"},  # nothing is left, as of a missing text
    ]
    inputs = [write_lines(audio / "test.json", test), write_lines(audio / "train/m.json", train)]
    by = ("--by", "audio,text,speaker")
    done = prepcli("find-duplicates", *inputs, audio / "out.jsonl", *by, "--between")
    assert done.code == 1
    assert "same audio: 1 group of 2 records" in done.out
    assert groups(audio / "out.jsonl") == {
        ("audio", 0): ["a.wav", "a.flac"],
        ("text", 1): ["a.wav", "near.wav"],
        ("speaker", 2): ["b.wav", "a.flac"],
    }
    again = prepcli("find-duplicates", *inputs, audio / "out.jsonl", *by, "--between")
    assert (again.code, again.out.splitlines()[0]) == (
        1,
        f"find-duplicates: nothing to do, {audio / 'out.jsonl'} is complete",
    )
    whole = prepcli("find-duplicates", *inputs, audio / "all.jsonl", *by)
    assert whole.code == 0
    texts = [names for (by, _), names in groups(audio / "all.jsonl").items() if by == "text"]
    assert texts == [["a.wav", "near.wav"], ["b.wav", "b.wav"]]
    cleaned = prepcli("filter", inputs[1], audio / "train/kept.json", "--drop-listed", audio / "out.jsonl")
    assert cleaned.code == 0, cleaned.err
    assert [r["audio_filepath"] for r in read_lines(audio / "train/kept.json")] == ["../rate.wav", "../long.wav"]
    kept = audio / "train/kept.json"
    clean = prepcli("find-duplicates", inputs[0], kept, audio / "none.jsonl", *by, "--between")
    assert clean.code == 0, clean.out
    assert (audio / "none.jsonl").read_bytes() == b""


@pytest.mark.parametrize("field", ["text", "speaker"])
@pytest.mark.parametrize("of_input", [0, 1])
def test_an_input_without_the_field_is_refused(audio: Path, field: str, of_input: int) -> None:
    """Each input counts for itself: a test set without texts is small."""
    inputs = []
    for number, count in enumerate((3, 9)):
        lines = [{"audio_filepath": "a.wav", "duration": 0.5, field: f"same {place}"} for place in range(count)]
        for line in lines[: 2 if number == of_input else 1]:  # "transcript" in place of "text"
            line["other"] = line.pop(field)
        if number == of_input == 1:
            lines = [{"audio_filepath": "a.wav", "duration": 0.5, field: " " * (field == "text")}] * count
        inputs.append(write_lines(audio / f"{number}.json", lines))
    refused = prepcli("find-duplicates", *inputs, audio / "out.jsonl", "--by", field, "--between")
    assert (refused.code, refused.out) == (2, "")
    counted = ("2 of 3", "9 of 9")[of_input]
    assert f"{inputs[of_input]}: {counted} records have no {field}, so they cannot be compared" in refused.error_line
    assert not (audio / "out.jsonl").exists()


def test_a_few_records_without_text_are_counted(audio: Path) -> None:
    lines: Lines = [{"audio_filepath": "a.wav", "duration": 0.5, "text": text} for text in ("a", "b", None)]
    manifest = write_lines(audio / "m.json", lines)
    done = prepcli("find-duplicates", manifest, audio / "out.jsonl", "--by", "text", "--json")
    assert (done.code, done.json["notes"]) == (
        0,
        [f"{manifest}: 1 of 3 records have no text, and are not compared by it"],
    )


def test_ranks_give_the_same_bytes(audio: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is lost between the blocks that are written at once."""
    monkeypatch.setattr(groups_module, "_LINES_AT_ONCE", 7)
    lines = [
        {
            "audio_filepath": ("a.wav", "b.wav", "a.flac")[n % 3],
            "duration": 0.1,
            "offset": n % 4 / 10,
            "text": str(n % 5),
        }
        for n in range(40)
    ]
    manifest = write_lines(audio / "m.json", lines)
    assert prepcli("find-duplicates", manifest, audio / "one.jsonl").code == 0
    for rank in (1, 0, 2):
        done = prepcli("find-duplicates", manifest, audio / "three.jsonl", "--rank", rank, "--world-size", 3)
        assert done.code == 0, done.err
    assert (audio / "one.jsonl").read_bytes() == (audio / "three.jsonl").read_bytes()
    assert len(read_lines(audio / "one.jsonl")) == 80


def test_audio_is_compared_although_there_are_no_texts(tmp_path: Path) -> None:
    """Unless the question is whether two inputs have something in common."""
    soundfile.write(tmp_path / "a.wav", np.arange(16000, dtype=np.int16), 16000)
    lines = [{"audio_filepath": "a.wav", "duration": 1.0} for _ in range(2)]
    one, two = (write_lines(tmp_path / f"{name}.json", lines) for name in ("one", "two"))
    done = prepcli("find-duplicates", one, tmp_path / "out.jsonl", "--json")
    assert done.code == 0
    assert [(found["by"], found["groups"]) for found in done.json["details"]["found"]] == [("audio", 1), ("text", 0)]
    assert "2 of 2 records have no text, and are not compared by it" in done.json["notes"][0]
    refused = prepcli("find-duplicates", one, two, tmp_path / "both.jsonl", "--between")
    assert (refused.code, "records have no text, so they cannot be compared by it" in refused.error_line) == (2, True)


def test_a_large_input_whose_index_all_ranks_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_index, "MIN_SHARED_BYTES", 0)
    lines = [{"audio_filepath": "a.wav", "duration": 1.0, "text": text, "speaker": "s"} for text in ("x", "y", "x")]
    manifests = [write_lines(tmp_path / f"{name}.json", lines) for name in ("one", "two")]
    report = command.find_duplicates(manifests, tmp_path / "out.jsonl", by="text,speaker")
    assert [(found["by"], found["groups"]) for found in report.details["found"]] == [("text", 2), ("speaker", 1)]
