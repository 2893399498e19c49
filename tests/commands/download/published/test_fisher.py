"""`prepcli download fisher` on trees in the LDC's form, with tones where the speech would be."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.commands.download.make_fisher import RATE, Said, chat, folders, make_fisher, write_conversation, write_table
from tests.conftest import read_lines, tree
from tests.support.running import Outcome, prepcli
from tests.support.sphere_files import Samples


def run(root: Path, dest: Path, *options: object, **more: Any) -> Outcome:
    return prepcli("download", "fisher", "--ldc-root", root, "--dest-root", dest, "--num-workers", 1, *options, **more)


def all_records(dest: Path) -> list[dict[str, Any]]:
    return [record for part in ("train", "val", "test") for record in read_lines(dest / f"manifest_{part}.json")]


def rejects(dest: Path) -> list[tuple[str, str]]:
    """Reason, and what stood in the transcript after the times."""
    lines = read_lines(dest.with_name(dest.name + ".prepcli") / "rejects.jsonl")
    return [(line["reject_reason"], line["manifest_text"].split(maxsplit=2)[-1]) for line in lines]


def audio_file(root: Path, number: int) -> Path:
    return folders(root, number)[0] / f"fe_03_{number:05d}.sph"


def hertz(samples: Samples) -> float:
    """The frequency at which most of the energy lies."""
    spectrum = np.abs(np.fft.rfft(samples.astype(np.float64) * np.hanning(len(samples))))
    return float(np.argmax(spectrum)) * RATE / len(samples)


def check_slices(dest: Path, expected: dict[str, tuple[Samples, list[Said]]]) -> None:
    """Each slice is its utterances, sample by sample, and their tones follow each other in it."""
    records = {record["audio_filepath"]: record for record in all_records(dest)}
    assert sorted(records) == sorted(expected)
    for name, (source, said) in expected.items():
        samples, rate = soundfile.read(dest / name, dtype="int16")
        assert (rate, soundfile.info(dest / name).subtype) == (RATE, "PCM_16")
        assert np.array_equal(samples, np.concatenate([source[one.span, "AB".index(one.channel)] for one in said]))
        assert records[name]["duration"] == len(samples) / RATE
        at = 0
        for one in said:
            length = one.span.stop - one.span.start
            assert hertz(samples[at : at + length]) == pytest.approx(one.hertz, abs=RATE / length)
            at += length


TALK = [
    Said(0.51, 2.03, "A", 300, "hello there"),
    Said(1.90, 3.33, "B", 1100, "hi"),
    Said(3.40, 5.11, "A", 500, "how are you"),
    Said(5.20, 6.07, "B", 1300, "fine"),
    Said(6.10, 7.99, "A", 700, "good"),
    Said(8.00, 9.99, "B", 1500, "(( sorry ))"),
    Said(10.0, 11.5, "B", 1700, "and you"),
    Said(11.6, 13.0, "A", 900, "me too"),
    Said(13.1, 13.6, "A", 1000, "the rest"),
]
A, B = ([said for said in TALK if said.channel == channel] for channel in "AB")


def test_tones_are_found_where_they_were_planted(awkward: Path) -> None:
    """The awkward name also goes through finding, planning and the report."""
    source = write_conversation(awkward / "ldc", 7, TALK, 15.0)
    done = run(awkward / "ldc", awkward / "out", "--min-slice-duration", 3, "--max-rejects", 3)
    assert done.code == 0, done.err
    check_slices(
        awkward / "out",
        {
            "test/fe_03_00007_A_001.wav": (source, A[:2]),
            "test/fe_03_00007_A_002.wav": (source, A[2:4]),
            "test/fe_03_00007_B_001.wav": (source, [B[0], B[1], B[3]]),  # without what was not sure
        },
    )
    records = all_records(awkward / "out")
    assert [record["text"] for record in records] == ["hello there how are you", "good me too", "hi fine and you"]
    assert records[0]["speaker"] == "| Language:en Dataset:Fisher Speaker:fe_03_00007_A |"
    assert rejects(awkward / "out") == [("low_confidence", "B: (( sorry ))"), ("below_min_duration", "A: the rest")]


def test_a_sum_of_centiseconds_reaches_its_minimum(tmp_path: Path) -> None:
    """In floating point, 0.7 + 0.1 is less than 0.8."""
    write_conversation(tmp_path / "ldc", 7, ["1.00 1.70 A: one", "2.00 2.10 A: two", "3.00 3.70 A: three"], 4.0)
    assert run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 0.8).code == 0
    assert [record["text"] for record in all_records(tmp_path / "out")] == ["one two"]


def test_zero_makes_each_utterance_a_slice(tmp_path: Path) -> None:
    source = write_conversation(tmp_path / "ldc", 7, TALK, 15.0)
    assert run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 0, "--keep-low-conf").code == 0
    for channel, said in (("A", A), ("B", B)):
        for number, one in enumerate(said, 1):
            samples, _ = soundfile.read(tmp_path / f"out/test/fe_03_00007_{channel}_{number:03d}.wav", dtype="int16")
            assert np.array_equal(samples, source[one.span, "AB".index(channel)])
    assert "sorry" in [record["text"] for record in all_records(tmp_path / "out")]


ODD: list[Said | str] = [
    "1.00 2.00 A: Okay, [LAUGH] I've my 401k -- th- A._B._C.",
    "2.00 3.00 B: [[skip]] book 2, 'quoted' [mn] <noise> uh-huh",
    "# a comment in between",
    "",
    "3.00 4.00 A: [laughter]",
    "4.00 5.00 A: (( what was that ))",
    "5.00 6.00 B: ((  ))",
    "no times here",
    "6.00 five A: words",
    "7.00 6.50 A: backwards",
    "-1.00 6.50 A: too early",
    "7.00 7.00 A: nothing",
    "7.00 8.00 C: nobody",
    "8.00 8.50 A: 50% of it",
    "9.00 99.00 A: too long",
    "1e307 1.1e307 A: for ever",
    "99.00 99.50 B: too late",
    "9.50 10.01 B : a rounding over the end",
]


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (
            (),
            [
                "okay [laugh] i've my four o one k th a b c",
                "[laughter]",
                "[[skip]] book two quoted [mn] [noise] uh huh",
                "a rounding over the end",
            ],
        ),
        (
            ("--remove-noises",),
            ["okay i've my four o one k th a b c", "book two quoted uh huh", "a rounding over the end"],
        ),
        (
            ("--noises-to-emoji", "--keep-low-conf"),
            [
                "okay 🤣 i've my four o one k th a b c",
                "🤣",
                "what was that",
                "book two quoted 😕 😕 uh huh",
                "a rounding over the end",
            ],
        ),
    ],
)
def test_oddities(tmp_path: Path, options: tuple[str, ...], texts: list[str]) -> None:
    write_conversation(tmp_path / "ldc", 1, ODD, 10.0)
    done = run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 0, "--max-rejects", 20, "--json", *options)
    assert done.code == 0, done.err
    assert [record["text"] for record in all_records(tmp_path / "out")] == texts
    assert done.json["records_in"] == 16 == done.json["records_out"] + done.json["rejects"]
    reasons = {text: reason for reason, text in rejects(tmp_path / "out")}
    sure = {"A: (( what was that ))": "low_confidence", "B: ((  ))": "low_confidence"}
    if "--keep-low-conf" in options:
        sure = {"B: ((  ))": "empty_text"}
    noise = {"A: [laughter]": "empty_text"} if "--remove-noises" in options else {}
    assert reasons == sure | noise | {
        "here": "bad_field",
        "A: words": "bad_field",
        "A: backwards": "bad_duration",
        "A: too early": "bad_offset",
        "A: nothing": "bad_duration",
        "C: nobody": "bad_field",
        "A: 50% of it": "bad_field",
        "A: too long": "beyond_audio",
        "A: for ever": "bad_offset",
        "B: too late": "beyond_audio",
    }


def test_rejects_tell_where_they_stand_and_what_is_wrong(tmp_path: Path) -> None:
    write_conversation(tmp_path / "ldc", 1, ODD, 10.0)
    assert run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 0).code == 3
    for line in read_lines(tmp_path / "out.prepcli/rejects.jsonl"):
        transcript = Path(line["manifest_filepath"]).read_text(encoding="utf-8").splitlines()
        assert transcript[line["manifest_line"] - 1].strip() == line["manifest_text"]
        assert line["reject_detail"]


def test_a_line_that_is_not_utf8(tmp_path: Path) -> None:
    write_conversation(tmp_path / "ldc", 1, ["1.0 2.0 A: fine", "XX"], 3.0)
    transcript = folders(tmp_path / "ldc", 1)[1] / "fe_03_00001.txt"
    transcript.write_bytes(transcript.read_bytes().replace(b"XX", b"2.0 3.0 B: caf\xe9"))
    assert run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 0, "--max-rejects", 1).code == 0
    assert rejects(tmp_path / "out") == [("not_utf8", "B: caf\\xe9")]


def test_known_mistakes_of_the_transcripts(tmp_path: Path) -> None:
    """By conversation, channel and centiseconds; the same words elsewhere stay."""
    for number, lines in {
        27: ["1.00 2.00 B: kept", "393.80 394.05 B: dropped"],
        265: ["33.53 33.81 B: 1?%", "33.53 33.81 A: left alone"],
        991: ["527.39 528.29 B: that's one of thse"],
        1326: ["307.42 307.93 A: dropped"],
        10282: ["344.42 344.84 A: they don"],
        10677: ["101.04 106.41 B: (( uh my mine ))"],
        11487: ["31.09 234.06 B: dropped"],
    }.items():
        write_conversation(tmp_path / "ldc", number, lines, float(lines[0].split()[1]) + 1)
    done = run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 0, "--max-rejects", 3)
    assert done.code == 0, done.err
    assert {Path(record["audio_filepath"]).stem: record["text"] for record in all_records(tmp_path / "out")} == {
        "fe_03_00027_B_001": "kept",
        "fe_03_00265_A_001": "left alone",
        "fe_03_00265_B_001": "correct",
        "fe_03_00991_B_001": "that's one of those",
        "fe_03_10282_A_001": "they don't want",
        "fe_03_10677_B_001": "uh my mine yeah the german shepherd pitbull mix he snores almost as loud as i do",
    }
    assert [reason for reason, _ in rejects(tmp_path / "out")] == ["bad_field"] * 3


def test_the_split_follows_the_sorted_numbers(tmp_path: Path) -> None:
    make_fisher(tmp_path / "ldc", 21, 12.0)
    assert run(tmp_path / "ldc", tmp_path / "both", "--min-slice-duration", 0).code == 0
    ids = [*range(1, 12), *range(5851, 5861)]
    for part, numbers in {"train": ids[:16], "val": ids[16:18], "test": ids[18:]}.items():
        found = [record["audio_filepath"] for record in read_lines(tmp_path / f"both/manifest_{part}.json")]
        assert found == sorted(found)
        assert {int(Path(name).stem.split("_")[2]) for name in found} == set(numbers)
        assert {str(path.relative_to(tmp_path / "both")) for path in (tmp_path / f"both/{part}").iterdir()} == set(
            found
        )
    assert run(tmp_path / "ldc/LDC2005S13-Part2", tmp_path / "one", "--min-slice-duration", 0).code == 0
    of_one = read_lines(tmp_path / "one/manifest_train.json")
    assert {int(record["audio_filepath"].split("_")[2]) for record in of_one} == set(range(5851, 5859))


def test_the_tree_may_lie_anyhow(tmp_path: Path) -> None:
    """Other folders, capitals, a link, two roots: the same bytes."""
    make_fisher(tmp_path / "ldc", 6, 12.0)
    assert run(tmp_path / "ldc", tmp_path / "out").code == 0
    for number, path in enumerate(sorted((tmp_path / "ldc").rglob("fe_03_*"), reverse=True)):
        if path.is_file():
            name = path.name.upper() if number % 2 else path.name
            target = tmp_path / (f"text/{number}" if path.suffix == ".txt" else f"disk{number % 3}") / name
            target.parent.mkdir(exist_ok=True, parents=True)
            shutil.copy(path, target)
    (tmp_path / "all").mkdir()
    for number in range(3):
        (tmp_path / f"all/{number}").symlink_to(tmp_path / f"disk{number}")
    (tmp_path / "all/loop").symlink_to(tmp_path / "all")
    assert run(tmp_path / "text", tmp_path / "out2", "--ldc-root", tmp_path / "all").code == 0
    assert tree(tmp_path / "out2") == tree(tmp_path / "out")


def test_speakers_are_those_of_the_call_data(tmp_path: Path) -> None:
    for number in (3, 5):
        write_conversation(tmp_path / "ldc", number, chat(number, 40.0), 40.0)
    write_table(tmp_path / "ldc", [3])
    assert run(tmp_path / "ldc", tmp_path / "out").code == 0
    names = {
        tuple(record["audio_filepath"][-15:-8].split("_")): record["speaker"]
        for record in all_records(tmp_path / "out")
    }
    form = "| Language:en Dataset:Fisher Speaker:{} |"
    assert names == {
        ("00003", "A"): form.format("6"),
        ("00003", "B"): form.format("7"),
        ("00005", "A"): form.format("fe_03_00005_A"),
        ("00005", "B"): form.format("fe_03_00005_B"),
    }


def test_a_folder_without_fisher_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = run(tmp_path / "empty", tmp_path / "out")
    assert (done.code, "no Fisher transcripts" in done.error_line) == (2, True)
    write_conversation(tmp_path / "ldc", 1, TALK, 15.0)
    audio_file(tmp_path / "ldc", 1).unlink()
    done = run(tmp_path / "ldc", tmp_path / "out")
    assert (done.code, "no Fisher recordings" in done.error_line) == (2, True)
    done = run(tmp_path / "ldc", tmp_path / "out", "--remove-noises", "--noises-to-emoji")
    assert (done.code, "exclude each other" in done.error_line) == (2, True)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.prepcli").exists()


def test_a_finished_run_is_a_no_op_and_other_settings_are_refused(tmp_path: Path) -> None:
    make_fisher(tmp_path / "ldc", 5, 20.0)
    assert run(tmp_path / "ldc", tmp_path / "out").code == 0
    before = tree(tmp_path / "out")
    assert run(tmp_path / "ldc", tmp_path / "out").out.startswith("download fisher: nothing to do")
    refused = run(tmp_path / "ldc", tmp_path / "out", "--remove-noises")
    assert refused.code == 2
    assert "remove-noises was False, now True" in refused.error_line
    again = run(tmp_path / "ldc", tmp_path / "out", "--remove-noises", "--min-slice-duration", 5, "--overwrite")
    assert again.code == 0, again.err
    assert len(all_records(tmp_path / "out")) == sum(name.endswith(".wav") for name in tree(tmp_path / "out"))
    assert tree(tmp_path / "out") != before


def test_manifest_to_tarred_takes_the_manifest_as_it_is(tmp_path: Path) -> None:
    make_fisher(tmp_path / "ldc", 5, 30.0)
    assert run(tmp_path / "ldc", tmp_path / "out").code == 0
    done = prepcli("manifest-to-tarred", tmp_path / "out/manifest_train.json", tmp_path / "tarred", "--num-shards", 2)
    assert done.code == 0, done.err
    assert prepcli("verify", tmp_path / "tarred").code == 0


def test_json_and_dry_run(tmp_path: Path) -> None:
    make_fisher(tmp_path / "ldc", 5, 20.0)
    plan = run(tmp_path / "ldc", tmp_path / "out", "--dry-run", "--json").json
    assert not (tmp_path / "out.prepcli").exists()
    report = run(tmp_path / "ldc", tmp_path / "out", "--json").json
    assert plan["records_in"] == report["records_in"] == report["records_out"] + report["rejects"]
    assert report["details"]["slices"] == len(all_records(tmp_path / "out"))
    assert json.loads((tmp_path / "out.prepcli/report.json").read_text())["rejects"] == report["rejects"]
    assert report["seconds"] == pytest.approx(sum(record["duration"] for record in all_records(tmp_path / "out")))


@pytest.mark.parametrize(
    "table",
    ["APIN,BPIN,CALL_ID\n1\n2,3,00001\n", 'CALL_ID,APIN,BPIN\n00001,"' + "1" * 200_000 + '",3\n'],
    ids=["short row", "long field"],
)
def test_damaged_call_data(tmp_path: Path, table: str) -> None:
    """A row that ends early names nobody; a file that is not a table gives one clear line."""
    write_conversation(tmp_path / "ldc", 1, ODD[:1], 10.0)
    (tmp_path / "ldc/fe_03_p1_calldata.tbl").write_text(table)
    done = run(tmp_path / "ldc", tmp_path / "out", "--min-slice-duration", 0)
    if done.code != 0:
        assert done.code == 2
        assert "fe_03_p1_calldata.tbl" in done.error_line
