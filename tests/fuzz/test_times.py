"""Texts with times that are almost right: each second is accounted for, and each segment lies in its recording."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.conftest import read_lines, write_lines
from tests.fuzz.calls import check_call, check_report, scratch
from tests.fuzz.examples import examples
from tests.fuzz.mutations import json_values, mutated
from tests.support.audio_files import write_audio
from tests.support.timed_texts import SEEDS, TABLES

SECONDS = 3.0
MUTATED = st.sampled_from(sorted(SEEDS)).flatmap(lambda name: st.tuples(st.just(name), mutated(SEEDS[name].encode())))
WAYS: list[tuple[object, ...]] = [
    ("--by", "times", "--min", 0),
    ("--by", "times", "--max", 0.7, "--pad", 0.1, "--min", 0.2, "--same-speaker", "--end-at", "punctuation"),
    ("--by", "times", "--overlap", "keep", "--end-at", "pause", "--channel", "1"),
    ("--by", "windows", "--window", 0.7, "--min", 0),
    ("--by", "windows", "--whisper-times", "--min", 0),
]
RECORDS: list[dict[str, Any]] = [
    {"audio_filepath": "a.wav", "duration": SECONDS},
    {"audio_filepath": "a.wav", "duration": 1.5, "offset": 0.5, "channel": 1},
    {"audio_filepath": "a.wav", "duration": SECONDS, "channel": 0, "id": "b"},
]


@pytest.fixture(scope="module")
def audio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audio")
    write_audio(folder / "a.wav", SECONDS, 8000, channels=2)
    return folder


def _write(folder: Path, seed: str, data: bytes) -> Path:
    """Write a file with times, and the other one of a data directory; returns the path for `--times`."""
    name = Path(seed).name
    folder.mkdir()
    if name in TABLES:
        (folder / TABLES[name]).write_text(SEEDS[TABLES[name]])
    (folder / name).write_bytes(data)
    return folder / ("segments" if name in TABLES else name)


def _check_segments(folder: Path, done_report: dict[str, Any], most: float) -> None:
    """Segments lie in their recording, and their words in them; seconds add up."""
    seconds = done_report["details"]["seconds"]
    total = sum(value for name, value in seconds.items() if name != "in")
    assert abs(seconds["in"] - total) < 1e-6, seconds
    for line in read_lines(folder / "out.json"):
        assert line["offset"] >= 0 and 0 < line["duration"] <= most + 1e-6, line
        assert line["offset"] + line["duration"] <= SECONDS + 1e-6, line
        for word in line.get("words", ()):
            assert 0 <= word["start"] <= word["end"] <= line["duration"] + 1e-6, line


@examples(40)
@given(MUTATED, st.sampled_from(WAYS), st.booleans())
@example(("a.ctm", b"a 1 0 400 x\na 1 400 9000 y\n"), WAYS[0], False)
def test_times_of_recordings(audio: Path, case: tuple[str, bytes], way: tuple[object, ...], is_folder: bool) -> None:
    with scratch() as folder:
        times = _write(folder / "times", *case)
        write_lines(folder / "m.json", RECORDS)
        call = ("segment", folder / "m.json", folder / "out.json", *way, "--audio-base-dir", audio, "--max-rejects", 99)
        options = ("--times", times.parent if is_folder else times, "--num-workers", 1)
        if check_call(folder, folder / "out.json", *call, *options).code != 2:
            report = check_report(folder / "out.json.prepcli")
            most = dict(zip(way[::2], way[1::2], strict=False)).get("--max", 30.0)
            _check_segments(folder, report, float(str(most)))
        made = ("make-manifest", audio, folder / "made.json", *options)
        if check_call(folder, folder / "made.json", *made).code != 2:
            check_report(folder / "made.json.prepcli")
            for line in read_lines(folder / "made.json"):
                assert line.get("offset", 0.0) >= 0 and line["duration"] > 0, line
                assert line.get("offset", 0.0) + line["duration"] <= SECONDS + 1e-6, line


FIELDS: dict[str, Any] = {
    "segments": [
        {"start": 0.0, "end": 1.0, "text": "one two", "words": [{"word": "one", "start": 0.1, "end": 0.4}]},
        {"start": 1.5, "end": 2.5, "text": "three", "speaker": "ann"},
    ],
    "words": [{"word": "one", "start": 0.1, "end": 0.4}, {"word": "two", "start": None}],
    "alignment": {"word": [["one", 0.5, 0.5], ["two", 1.0, 0.5]]},
}


@examples(40)
@given(st.sampled_from(sorted(FIELDS)), st.integers(0, 30), json_values(), st.sampled_from(WAYS))
def test_times_in_fields(audio: Path, field: str, place: int, value: str, way: tuple[object, ...]) -> None:
    """One number, text or list of the field is odd."""
    text = json.dumps(FIELDS[field])
    parts = _parts(text)
    odd = text.replace(parts[place % len(parts)], value, 1)
    with scratch() as folder:
        lines = [json.dumps(RECORDS[0])[:-1] + f', "{field}": {some}}}' for some in (text, odd)]
        (folder / "m.json").write_bytes("\n".join([*lines, ""]).encode("utf-8", "surrogatepass"))
        call = ("segment", folder / "m.json", folder / "out.json", *way, "--audio-base-dir", audio, "--max-rejects", 99)
        if check_call(folder, folder / "out.json", *call, "--num-workers", 1).code != 2:
            report = check_report(folder / "out.json.prepcli")
            most = dict(zip(way[::2], way[1::2], strict=False)).get("--max", 30.0)
            _check_segments(folder, report, float(str(most)))


def _parts(text: str) -> list[str]:
    """The values in a JSON text, as JSON texts."""

    def within(value: Any) -> list[Any]:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return [value, *(one for item in inner for one in within(item))]

    return [json.dumps(value) for value in within(json.loads(text))]
