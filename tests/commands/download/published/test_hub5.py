"""`prepcli download hub5` on a tree in the LDC's form, with tones where the speech would be."""

import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.commands.download.make_fisher import RATE, Said, tones
from tests.conftest import read_lines
from tests.support.running import Outcome, prepcli
from tests.support.sphere_files import Samples, ulaw_sphere

REFERENCE = "2000_hub5_eng_eval_tr/reference/hub5e00.english.000405.stm"
HEADER = """;; CATEGORY "0" "" ""
;; LABEL "O" "Overall" "Overall"
"""


def write_tree(root: Path, recordings: dict[str, list[Said]], lines: list[str], seconds: float) -> dict[str, Samples]:
    audio = root / "LDC2002S09/hub5e_00/english"
    reference = root / "LDC2002T43" / REFERENCE
    audio.mkdir(parents=True)
    reference.parent.mkdir(parents=True)
    reference.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    samples = {name: tones(said, seconds) for name, said in recordings.items()}
    for name, data in samples.items():
        (audio / f"{name}.sph").write_bytes(ulaw_sphere(data))
    return samples


def stm(name: str, said: Said, speaker: str | None = None) -> str:
    who = speaker or f"{name}_{said.channel}"
    return f"{name} {said.channel} {who} {said.start:.2f} {said.end:.2f} <O,EN,F,EN-F>  {said.text} "


def run(root: Path, dest: Path, *options: object) -> Outcome:
    return prepcli("download", "hub5", "--data-root", root, "--dest-root", dest, "--num-workers", 2, *options)


FIRST = [
    Said(0.50, 2.03, "A", 300, "HE IS A (%HESITATION) POLICE OFFICER"),
    Said(2.10, 4.06, "B", 900, "<B_ASIDE> UH-HUH <E_ASIDE> (TH-) (%AH) %UM"),
    Said(4.50, 6.11, "A", 500, "I'M { GOING TO / GONNA } {@ / UH} GO"),
    Said(6.20, 6.90, "A", 600, "THE REST"),
]
SECOND = [Said(120.79, 121.87, "B", 700, "WRONG"), Said(100.0, 102.0, "B", 400, "EARLIER IN TIME")]


def test_slices_and_texts(tmp_path: Path) -> None:
    lines = [stm("en_4156", said) for said in FIRST]
    lines += [stm("en_4622", said) for said in SECOND]
    lines.insert(1, "en_4156 A inter_segment_gap 2.03 4.50 <O,EN,F,EN-F> IGNORE_TIME_SEGMENT_IN_SCORING")
    samples = write_tree(tmp_path / "ldc", {"en_4156": FIRST, "en_4622": SECOND, "sw_4390": []}, lines, 125.0)
    done = run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 1.9, "--json")
    assert done.code == 0, done.err
    assert done.json["records_in"] == 6 + 1
    assert done.json["rejects_by_reason"] == {"below_min_duration": 2, "missing_transcript": 1}
    assert done.json["notes"] == []
    records = read_lines(tmp_path / "out/manifest_hub5.json")
    expected = {
        "audio/en_4156_a_001.wav": ("he is a uh police officer i'm going to go", "en_4156", [FIRST[0], FIRST[2]]),
        "audio/en_4156_b_001.wav": ("uh huh th uh um", "en_4156", [FIRST[1]]),
        "audio/en_4622_b_001.wav": ("earlier in time", "en_4622", [SECOND[1]]),
    }
    found = {record["audio_filepath"]: record["text"] for record in records}
    assert found == {name: text for name, (text, _, _) in expected.items()}
    for name, (_, recording, said) in expected.items():
        heard, rate = soundfile.read(tmp_path / "out" / name, dtype="int16")
        source = samples[recording]
        assert rate == RATE
        assert np.array_equal(heard, np.concatenate([source[one.span, "AB".index(one.channel)] for one in said]))
    assert records[0]["speaker"] == "| Language:en Dataset:HUB5 Speaker:en_4156_a |"
    characters = (tmp_path / "out/vocab.txt").read_text(encoding="utf-8").split("\n")
    assert characters == [*sorted({*"".join(found.values())}), ""]


def test_a_known_mistake_is_mended(tmp_path: Path) -> None:
    write_tree(tmp_path / "ldc", {"en_4622": SECOND}, [stm("en_4622", said) for said in SECOND], 125.0)
    assert run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 0).code == 0
    texts = [record["text"] for record in read_lines(tmp_path / "out/manifest_hub5.json")]
    assert texts == ["earlier in time", "kind of weird but"]


def test_two_speakers_of_one_channel_are_not_mixed(tmp_path: Path) -> None:
    said = [Said(number, number + 0.9, "A", 300 + 100 * number, "YES") for number in range(4)]
    lines = [stm("sw_4390", one, "AX"[number % 2]) for number, one in enumerate(said)]
    samples = write_tree(tmp_path / "ldc", {"sw_4390": said}, lines, 5.0)
    assert run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 1.8).code == 0
    for label, mine in (("a", said[::2]), ("x", said[1::2])):
        with wave.open(str(tmp_path / f"out/audio/sw_4390_{label}_001.wav")) as file:
            heard = np.frombuffer(file.readframes(-1), "<i2")
        assert np.array_equal(heard, np.concatenate([samples["sw_4390"][one.span, 0] for one in mine]))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("en_4156 A en_4156_A 1.0", "bad_field"),
        ("en_4156 C en_4156_C 1.0 2.0 <O> YES", "bad_field"),
        ("en_4156 A en_4156_A one 2.0 <O> YES", "bad_field"),
        ("en_4156 A en_4156_A 2.0 1.0 <O> YES", "bad_duration"),
        ("en_4156 A en_4156_A 1.0 20.0 <O> YES", "beyond_audio"),
        ("en_4156 A en_4156_A 1.0 2.0 <O>", "empty_text"),
        ("en_9999 A en_9999_A 1.0 2.0 <O> YES", "missing_audio"),
    ],
)
def test_lines_that_cannot_be_used(tmp_path: Path, line: str, reason: str) -> None:
    good = Said(1, 2, "B", 300, "YES")
    write_tree(tmp_path / "ldc", {"en_4156": [good]}, [stm("en_4156", good), line], 5.0)
    done = run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 0, "--max-rejects", 1, "--json")
    assert done.code == 0, done.err
    assert (done.json["records_out"], done.json["rejects_by_reason"]) == (1, {reason: 1})
    listed = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert [(entry["manifest_text"], entry["manifest_line"]) for entry in listed] == [(line, 4)]


def test_a_folder_without_hub5_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = run(tmp_path / "empty", tmp_path / "out")
    assert (done.code, "hub5e00.english.000405.stm" in done.error_line) == (2, True)
    write_tree(tmp_path / "ldc", {}, [stm("en_4156", FIRST[0])], 1.0)
    done = run(tmp_path / "ldc", tmp_path / "out")
    assert (done.code, "no recordings" in done.error_line) == (2, True)
    assert not (tmp_path / "out.prepcli").exists()
