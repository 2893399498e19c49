"""Step 1 of the Magpie-TTS recipe: every check, the files it leaves, and that it is a job like any other."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MINI_CORPUS, read_lines, tree, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import Outcome, prepcli, run_here

SCRIPT = Path(__file__).parents[2] / "recipes/magpietts/prepare_manifest.py"
SPEAKER = "| Language:en Dataset:x Speaker:1 |"

pytestmark = pytest.mark.slow


def prepare(*arguments: object) -> Outcome:
    return run_here(lambda: runpy.run_path(str(SCRIPT), run_name="__main__"), [SCRIPT, *arguments])


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two seconds of audio, whole and in parts, and a torn file."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    write_audio(folder / "a.wav", 2.0, 16000)
    write_audio(folder / "long.wav", 2.0, 16000)
    whole = (folder / "a.wav").read_bytes()
    (folder / "torn.wav").write_bytes(whole[:-1000])
    return folder


GOOD: dict[str, Any] = {"audio_filepath": "a.wav", "duration": 2.0, "text": "a", "speaker": SPEAKER}

CASES: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"duration": 2.01}, None),
    ({"duration": 1.91}, None),
    ({"duration": 2.09}, "beyond_audio"),
    ({"duration": 2.2}, "duration_mismatch"),
    ({"duration": 1.5}, "duration_mismatch"),
    ({"offset": 0.0, "duration": 1.5}, "duration_mismatch"),
    ({"offset": 0.5, "duration": 1.5}, None),
    ({"offset": 0.5, "duration": 1.6}, "beyond_audio"),
    ({"duration": None}, "bad_duration"),
    ({"audio_filepath": None}, "missing_field"),
    ({"audio_filepath": "nowhere.wav"}, "missing_audio"),
    ({"audio_filepath": "torn.wav"}, "unreadable_audio"),
    ({"text": None}, "missing_field"),
    ({"text": 7}, "bad_field"),
    ({"text": " "}, "empty_text"),
    ({"normalized_text": ""}, "empty_text"),
    ({"text": "", "normalized_text": "a"}, None),
    ({"text": None, "normalized_text": "a"}, None),
    ({"speaker": None}, "missing_field"),
    ({"speaker": "1"}, "bad_speaker"),
    ({"speaker": ["1"]}, "bad_field"),
    ({"speaker": f"{SPEAKER} \ud800"}, "bad_field"),
    ({"speaker": 1}, "bad_speaker"),
    ({"speaker": "Language:en Dataset:x Speaker:1"}, "bad_speaker"),
]


def test_each_check(corpus: Path) -> None:
    records = []
    for number, (changes, _) in enumerate(CASES):
        (corpus / f"{number}.wav").symlink_to(corpus / "a.wav")  # several records of one file would be parts of it
        record = GOOD | {"audio_filepath": f"{number}.wav", "case": number} | changes
        records.append({key: value for key, value in record.items() if value is not None})
    out = corpus / "out"
    manifest = corpus / "m.json"
    # In ASCII, for one holds half a character.
    manifest.write_text("".join(json.dumps(record) + "\n" for record in records))
    done = prepare(manifest, out, "--max-rejects", len(records))
    assert done.code == 0, done.err
    clean = read_lines(out / "manifest.json")
    assert clean == [record for record in records if CASES[record["case"]][1] is None]
    found = {}
    for path in (out / "rejects").glob("*.jsonl"):
        for record in read_lines(path):
            line = json.loads(record["manifest_text"]) if "manifest_text" in record else record
            found[line["case"]] = path.stem
    assert found == {number: reason for number, (_, reason) in enumerate(CASES) if reason is not None}


def test_parts_of_one_file_may_begin_at_its_start(corpus: Path) -> None:
    parts = [GOOD | {"audio_filepath": "long.wav", "offset": offset, "duration": 1.0} for offset in (0, 1)]
    done = prepare(write_lines(corpus / "m.json", parts), corpus / "out")
    assert done.code == 0, done.err
    assert len(read_lines(corpus / "out/manifest.json")) == 2


def test_plain_speakers_get_the_form(corpus: Path) -> None:
    records = [GOOD | {"speaker": speaker} for speaker in (7, " Anna B ", SPEAKER, "a|b")]
    out = corpus / "out"
    options = ("--language", "de", "--dataset", "Mine", "--max-rejects", 1)
    assert prepare(write_lines(corpus / "m.json", records), out, *options).code == 0
    assert [record["speaker"] for record in read_lines(out / "manifest.json")] == [
        "| Language:de Dataset:Mine Speaker:7 |",
        "| Language:de Dataset:Mine Speaker:Anna B |",
        SPEAKER,
    ]
    assert [record["speaker"] for record in read_lines(out / "rejects/bad_speaker.jsonl")] == ["a|b"]
    stats = (out / "stats.txt").read_text()
    assert "records    3 of 4" in stats
    assert "speakers   3, 3 of them with one record" in stats
    assert "1 bad_speaker: rejects/bad_speaker.jsonl" in stats
    assert "languages  de: 0.00 h, en: 0.00 h" in stats


@pytest.mark.parametrize("options", [("--language", "en"), ("--language", "en", "--dataset", "a b")])
def test_wrong_use(corpus: Path, options: tuple[str, ...]) -> None:
    done = prepare(write_lines(corpus / "m.json", [GOOD]), corpus / "out", *options)
    assert done.code == 2
    assert "--dataset" in done.error_line
    assert not (corpus / "out").exists()


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_a_forgotten_base_folder_is_found_before_the_work(corpus: Path, options: list[str]) -> None:
    manifest = write_lines(corpus.parent / "m.json", [GOOD, {**GOOD, "audio_filepath": "long.wav"}])
    done = prepare(manifest, corpus.parent / "out", *options)
    assert (done.code, done.error_line.count("none of the 2 audio files looked for exists")) == (2, 1)
    assert f"such as {corpus.parent / 'a.wav'}" in done.error_line
    assert not (corpus.parent / "out").exists()
    assert prepare(manifest, corpus.parent / "out", "--audio-base-dir", corpus).code == 0


def test_help_names_the_script() -> None:
    assert "Usage: python prepare_manifest.py [OPTIONS] MANIFEST OUT" in prepare("--help").out


def test_ranks_resuming_and_status(corpus: Path) -> None:
    """Three units: the first of two ranks, then one rank does the rest; the bytes are those of one run."""
    records = read_lines(MINI_CORPUS / "manifest.json")
    many = [records[number % 48] | {"line": number} for number in range(9000)]
    many[5000]["speaker"] = "nobody"
    manifest = write_lines(corpus / "m.json", many)
    base = ("--audio-base-dir", MINI_CORPUS, "--num-workers", 2)
    assert prepare(manifest, corpus / "once", *base).code == 0
    out = corpus / "out"
    assert prepare(manifest, out, *base, "--rank", 1, "--world-size", 2).code == 0
    status = prepcli("status", out, "--json").json
    assert (status["command"], status["units"]) == ("prepare_manifest", 3)
    assert 0 < status["units_done"] < 3
    assert "prepare_manifest.py" in status["continue_with"]
    assert not (out / "manifest.json").exists()
    assert prepare(manifest, out, *base).code == 0
    assert tree(out) == tree(corpus / "once")
    assert [record["line"] for record in read_lines(out / "manifest.json")] == [n for n in range(9000) if n != 5000]
    assert "nothing to do" in prepare(manifest, out, *base).out
