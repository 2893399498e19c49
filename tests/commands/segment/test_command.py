"""segment: from recordings and texts with times to manifests whose segments every command reads."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from tests.conftest import MINI_CORPUS, Lines, read_lines, write_lines
from tests.support.running import Outcome, prepcli

RATE = 8000
SRT = """1
00:00:00,500 --> 00:00:02,000
Hello there.

2
00:00:02,300 --> 00:00:04,000
Second line.

3
00:00:08,000 --> 00:00:09,500
Third one.
"""


def talk(path: Path, seconds: float = 12.0, rate: int = RATE, channels: int = 1) -> Path:
    """Write a recording of faint noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(1).integers(-900, 900, (round(seconds * rate), channels))
    soundfile.write(path, noise.astype(np.int16), rate)
    return path


def srt(path: Path, text: str = SRT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def talks(tmp_path: Path) -> Path:
    """A folder `talks` with a recording in it and one in a folder below, and a folder `subs` with their subtitles."""
    for name in ("a", "more/b"):
        talk(tmp_path / f"talks/{name}.wav")
        srt(tmp_path / f"subs/{name}.srt")
    return tmp_path / "talks"


def segmented(*arguments: object, code: int = 0) -> tuple[dict[str, Any], Lines]:
    """The report of `segment` and the lines that it made."""
    done = prepcli("segment", *arguments, "--json")
    assert done.code == code, done.err
    report = done.json
    out = Path(report["outputs"]["manifest"]) if report.get("outputs") else None
    assert report["records_in"] == report["records_out"] + report["rejects"]
    seconds = report["details"]["seconds"]
    assert seconds["in"] == pytest.approx(sum(value for name, value in seconds.items() if name != "in"), abs=1e-6)
    lines = read_lines(out) if out else []
    assert report["records_out"] == report["details"]["segments"] == len(lines)
    return report, lines


def places(lines: Lines) -> list[tuple[float, float]]:
    return [(line["offset"], line["duration"]) for line in lines]


def rejected(out: Path) -> Lines:
    return read_lines(Path(f"{out}.prepcli/rejects.jsonl"))


def error_of(*arguments: object) -> str:
    done: Outcome = prepcli("segment", *arguments)
    assert done.code == 2
    return done.error_line


def test_a_folder_with_subtitles(talks: Path, tmp_path: Path) -> None:
    """Lines are joined over short pauses; the margin is 0.2 s, or half of the pause; paths start from OUT's folder."""
    report, lines = segmented(talks, tmp_path / "out.json", "--by", "times", "--times", tmp_path / "subs")
    assert lines == [
        {"audio_filepath": f"talks/{name}.wav", "duration": duration, "offset": offset, "text": text}
        for name in ("a", "more/b")
        for offset, duration, text in ((0.3, 3.9, "Hello there. Second line."), (7.8, 1.9, "Third one."))
    ]
    assert report["details"]["seconds"] == {"in": 24.0, "segments": 11.6, "pauses": 12.4, "overlap": 0, "rejects": 0}
    assert report["details"]["recordings"] == 2
    lengths = report["details"]["lengths"]
    assert sum(lengths["segments"]) == 4
    assert lengths["edges"][-1] == 20
    assert prepcli("verify", tmp_path / "out.json").code == 0


def test_what_is_printed_adds_up(talks: Path, tmp_path: Path) -> None:
    done = prepcli("segment", talks, tmp_path / "out.json", "--by", "times", "--times", tmp_path / "subs")
    assert "24.00 s in = 11.60 s segments + 12.40 s pauses + 0.00 s overlap + 0.00 s rejects" in done.out
    assert "2 to 4      s         2" in done.out


def test_a_dry_run_gives_the_account_and_writes_nothing(talks: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    call = (talks, tmp_path / "out.json", "--by", "times", "--times", tmp_path / "subs")
    dry = prepcli("segment", *call, "--dry-run", "--json")
    assert dry.code == 0, dry.err
    assert "11.60 s segments" in prepcli("segment", *call, "--dry-run").out
    assert sorted(tmp_path.rglob("*")) == before
    report, _ = segmented(*call)
    assert dry.json["seconds"] == report["details"]["seconds"]
    assert dry.json["lengths"] == report["details"]["lengths"]


def test_every_command_reads_the_segments(talks: Path, tmp_path: Path) -> None:
    segmented(talks, tmp_path / "out.json", "--by", "times", "--times", tmp_path / "subs")
    assert prepcli("manifest-to-tarred", tmp_path / "out.json", tmp_path / "tars", "--num-shards", 1).code == 0
    assert prepcli("manifest-to-shar", tmp_path / "out.json", tmp_path / "shar").code == 0
    for made in ("tars", "shar"):
        assert prepcli("verify", tmp_path / made).code == 0
    done = prepcli("score", tmp_path / "out.json", tmp_path / "scored.json", "--fields", "text")
    assert done.code == 0, done.err


def test_cut_writes_the_files_of_convert_audio(talks: Path, tmp_path: Path) -> None:
    call = (talks, tmp_path / "out.json", "--by", "times", "--times", tmp_path / "subs", "--cut", tmp_path / "cut")
    report, _ = segmented(*call)
    assert report["outputs"]["files"] == str(tmp_path / "cut/manifest.json")
    prepcli("convert-audio", tmp_path / "out.json", tmp_path / "converted")
    made = sorted(path.relative_to(tmp_path / "cut") for path in (tmp_path / "cut").rglob("*.*"))
    assert made == sorted(path.relative_to(tmp_path / "converted") for path in (tmp_path / "converted").rglob("*.*"))
    assert all((tmp_path / "cut" / name).read_bytes() == (tmp_path / "converted" / name).read_bytes() for name in made)
    first = read_lines(tmp_path / "cut/manifest.json")[0]
    samples, _ = soundfile.read(tmp_path / "cut" / first["audio_filepath"], dtype="int16")
    whole, _ = soundfile.read(talks / "a.wav", dtype="int16")
    assert (samples == whole[round(0.3 * RATE) : round(4.2 * RATE)]).all()
    shutil.rmtree(tmp_path / "cut")
    shutil.rmtree(tmp_path / "cut.prepcli")
    assert prepcli("segment", *call).code == 0  # the segments are there, the files are made again
    assert (tmp_path / "cut/manifest.json").exists()


def test_ranks_make_the_same_bytes(tmp_path: Path) -> None:
    for number in range(12):
        talk(tmp_path / f"talks/t{number}.wav", 900 if number % 5 == 0 else 12, 1000)
        srt(tmp_path / f"subs/t{number}.srt")
    call = (tmp_path / "talks", "--by", "times", "--times", tmp_path / "subs")
    segmented(*call, tmp_path / "one.json")
    for rank in (1, 0):
        done = prepcli("segment", *call, tmp_path / "two.json", "--rank", rank, "--world-size", 2, "--json")
        assert done.code == 0, done.err
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_changed_times_are_not_mixed_with_old_ones(talks: Path, tmp_path: Path) -> None:
    call = (talks, tmp_path / "out.json", "--by", "times", "--times", tmp_path / "subs")
    segmented(*call)
    srt(tmp_path / "subs/a.srt", SRT.replace("Third", "Another"))
    assert "other inputs" in error_of(*call) or "overwrite" in error_of(*call)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("segments", [{"start": 0.5, "end": 2.0, "text": "Hi there."}]),
        ("words", [{"word": "Hi", "start": 0.5, "end": 1.0}, {"word": "there.", "start": 1.1, "end": 2.0}]),
        ("alignment", {"word": [["Hi", 0.5, 0.5, 1.0], ["there.", 1.1, 0.9, 1.0]]}),
    ],
)
def test_times_in_the_line_of_a_record(tmp_path: Path, field: str, value: object) -> None:
    """They start from the audio of the record, as the words that a segment has do."""
    talk(tmp_path / "a.wav")
    record = {"audio_filepath": "a.wav", "duration": 6.0, "offset": 3.0, "text": "no longer", "sampling_rate": 8000}
    write_lines(tmp_path / "m.json", [{**record, "lang": "en", "speaker": "x", "id": "r", field: value}])
    _, [line] = segmented(tmp_path / "m.json", tmp_path / "out.json", "--by", "times")
    words = line.pop("words", None)
    assert line == {
        "audio_filepath": "a.wav",
        "duration": 1.9,
        "offset": 3.3,
        "text": "Hi there.",
        "lang": "en",
        "speaker": "x",
        "id": "r-000003300-000005200",
    }
    if field != "segments":
        assert words == [
            {"word": "Hi", "start": 0.2, "end": 0.7},
            {"word": "there.", "start": 0.8, "end": 1.7},
        ]


def test_a_record_that_is_a_part_of_a_file_has_the_lines_in_it(tmp_path: Path) -> None:
    talk(tmp_path / "a.wav")
    srt(tmp_path / "a.srt")
    write_lines(tmp_path / "m.json", [{"audio_filepath": "a.wav", "offset": 2.1, "duration": 8.0}])
    call = (tmp_path / "m.json", tmp_path / "out.json", "--by", "times", "--times", tmp_path / "a.srt")
    report, lines = segmented(*call)
    assert [line["text"] for line in lines] == ["Second line.", "Third one."]
    assert places(lines) == [(2.1, 2.1), (7.8, 1.9)]
    assert report["details"]["seconds"]["in"] == 8.0


def test_lines_of_the_next_record_of_a_file_are_not_outside(tmp_path: Path) -> None:
    talk(tmp_path / "a.wav")
    srt(tmp_path / "a.srt")
    parts = [{"audio_filepath": "a.wav", "duration": 6.0}, {"audio_filepath": "a.wav", "offset": 6.0, "duration": 6.0}]
    write_lines(tmp_path / "m.json", parts)
    report, lines = segmented(
        tmp_path / "m.json", tmp_path / "out.json", "--by", "times", "--times", tmp_path / "a.srt"
    )
    assert [line["text"] for line in lines] == ["Hello there. Second line.", "Third one."]
    assert report["rejects"] == 0


def test_speakers(tmp_path: Path) -> None:
    """A segment of one speaker names it; of several, it has their number; overlap is left out, or kept together."""
    turns = [("a", 0.5, 1.5), ("b", 2.2, 2.0), ("a", 5.0, 2.0), ("b", 6.0, 2.0), ("b", 9.0, 2.0)]
    rttm = "".join(f"SPEAKER x 1 {start} {length} <NA> <NA> {who} <NA> <NA>\n" for who, start, length in turns)
    (tmp_path / "x.rttm").write_text(rttm)
    talk(tmp_path / "talks/x.wav")
    call = (tmp_path / "talks", "--by", "times", "--times", tmp_path / "x.rttm")
    report, lines = segmented(*call, tmp_path / "out.json")
    assert [(line.get("speaker"), line["num_speakers"]) for line in lines] == [(None, 2), ("b", 1)]
    assert report["details"]["seconds"]["overlap"] == 3.0
    assert report["rejects_by_reason"] == {"overlap": 1}
    reject = rejected(tmp_path / "out.json")[0]
    assert (reject["offset"], reject["duration"]) == (5.0, 3.0)
    assert "of a, b overlap" in reject["reject_detail"]
    _, lines = segmented(*call, tmp_path / "same.json", "--same-speaker", "--overlap", "keep")
    assert [line.get("speaker") for line in lines] == ["a", "b", None, "b"]
    assert [line["num_speakers"] for line in lines] == [1, 1, 2, 1]


def test_what_is_left_out_is_listed(tmp_path: Path) -> None:
    """Too long, too short, beyond the end; and recordings without times, or with damaged ones."""
    cues = [(0, 25, "Long."), (27, 27.3, "Hm."), (29, 31, "Fits."), (39.9, 42, "Beyond."), (50, 51, "Later.")]
    text = "".join(f"{n}\n00:00:{a:06.3f} --> 00:00:{b:06.3f}\n{t}\n\n" for n, (a, b, t) in enumerate(cues, 1))
    srt(tmp_path / "subs/a.srt", text.replace(".", ",").replace(",\n", ".\n"))
    srt(tmp_path / "subs/c.srt", SRT.replace("00:00:02,000", "00:00:00,100"))
    for name in "abc":
        talk(tmp_path / f"talks/{name}.wav", 40)
    call = (tmp_path / "talks", tmp_path / "out.json", "--by", "times", "--times", tmp_path / "subs")
    report, lines = segmented(*call, "--max-rejects", 9)
    assert [line["text"] for line in lines] == ["Fits."]
    assert report["rejects_by_reason"] == {
        "bad_field": 1,
        "bad_offset": 2,
        "below_min_duration": 1,
        "missing_field": 1,
        "too_long": 1,
    }
    found = {line["reject_reason"]: line for line in rejected(tmp_path / "out.json")}
    assert (found["too_long"]["offset"], found["too_long"]["duration"]) == (0.0, 25.0)
    assert "--max 20" in found["too_long"]["reject_detail"]
    assert "--min 1" in found["below_min_duration"]["reject_detail"]
    assert found["missing_field"]["audio_filepath"].endswith("b.wav")
    seconds = report["details"]["seconds"]
    assert seconds["in"] == 120
    assert seconds["rejects"] == pytest.approx(25 + 0.7 + 0.1 + 40 + 40)
    again, _ = segmented(
        tmp_path / "out.json.prepcli/rejects.jsonl", tmp_path / "more.json", "--by", "windows", "--window", 100
    )
    assert again["records_out"] >= 3


def test_a_recording_without_words_or_speech_is_listed(tmp_path: Path) -> None:
    talk(tmp_path / "a.wav")
    write_lines(tmp_path / "m.json", [{"audio_filepath": "a.wav", "duration": 12.0, "segments": []}])
    report, _ = segmented(tmp_path / "m.json", tmp_path / "out.json", "--by", "times")
    assert report["rejects_by_reason"] == {"no_speech": 1}
    assert report["details"]["seconds"]["rejects"] == 12.0
    report, _ = segmented(tmp_path / "m.json", tmp_path / "speech.json")
    assert report["rejects_by_reason"] == {"no_speech": 1}


def test_words_of_whisper(tmp_path: Path) -> None:
    """Segments end after sentences; a word without duration keeps its text."""
    words = [(" One", 0.5, 0.9), (" two.", 0.9, 1.4), (" Three", 1.4, 1.4), (" four.", 1.4, 2.6), (" Five", 2.6, 3.5)]
    whisper = {
        "text": "One two. Three four. Five",
        "segments": [
            {
                "start": 0.5,
                "end": 3.5,
                "text": " One two. Three four. Five",
                "words": [{"word": word, "start": start, "end": end} for word, start, end in words],
            }
        ],
    }
    (tmp_path / "a.json").write_text(json.dumps(whisper))
    talk(tmp_path / "talks/a.wav", 5)
    call = (tmp_path / "talks", tmp_path / "out.json", "--by", "times", "--times", tmp_path / "a.json")
    _, lines = segmented(*call, "--max", 2, "--min", 0.5, "--end-at", "punctuation")
    assert [line["text"] for line in lines] == ["One two.", "Three four.", "Five"]
    assert lines[1]["words"][0] == {"word": "Three", "start": 0.0, "end": pytest.approx(0, abs=0.001)}


def test_windows(talks: Path, tmp_path: Path) -> None:
    _, lines = segmented(talks, tmp_path / "plain.json", "--by", "windows", "--window", 5)
    assert places(lines)[:3] == [(0, 5), (5, 5), (10, 2)]
    assert "text" not in lines[0]
    _, lines = segmented(talks, tmp_path / "texts.json", "--by", "windows", "--window", 3, "--times", tmp_path / "subs")
    assert [(line["offset"], line["duration"], line["text"]) for line in lines[:4]] == [
        (0, 2.15, "Hello there."),
        (2.15, 3, "Second line."),
        (5.15, 2.65, ""),
        (7.8, 3, "Third one."),
    ]
    _, lines = segmented(
        talks, tmp_path / "w.json", "--by", "windows", "--window", 3, "--times", tmp_path / "subs", "--whisper-times"
    )
    assert [line["text"] for line in lines[:2]] == [
        "<|0.50|> Hello there.<|2.00|><|2.30|>",
        "<|0.00|> Second line.<|1.70|>",
    ]
    assert places(lines)[1] == (2.3, 3)


def test_rttm_files_of_windows(tmp_path: Path) -> None:
    """One for each window, in the time of the recording, and named relative to the manifest, as NeMo reads them."""
    turns = [("a", 0.5, 4.0), ("b b", 4.2, 4.0), ("a", 8.3, 1.0)]
    lines = [f"SPEAKER x 1 {start} {length} <NA> <NA> {who.split()[0]} <NA> <NA>\n" for who, start, length in turns]
    (tmp_path / "x.rttm").write_text("".join(lines))
    talk(tmp_path / "talks/x.wav")
    call = (tmp_path / "talks", tmp_path / "out.json", "--by", "windows", "--window", 5, "--times", tmp_path / "x.rttm")
    _, made = segmented(*call, "--rttm-out", tmp_path / "rttms")
    assert [line["num_speakers"] for line in made] == [2, 2, 0]
    first, second, third = ((tmp_path / line["rttm_filepath"]).read_text().splitlines() for line in made)
    assert first == [
        "SPEAKER x 1 0.500 4.000 <NA> <NA> a <NA> <NA>",
        "SPEAKER x 1 4.200 0.800 <NA> <NA> b <NA> <NA>",
    ]
    assert second[0] == "SPEAKER x 1 5.000 3.200 <NA> <NA> b <NA> <NA>"
    assert third == []
    assert "is not a folder in" in error_of(*call[:-1], tmp_path / "x.rttm", "--rttm-out", tmp_path.parent / "rttms")


def test_members_of_containers(tmp_path: Path) -> None:
    shutil.make_archive(str(tmp_path / "talks"), "zip", talk(tmp_path / "folder/a.wav").parent)
    _, lines = segmented(tmp_path / "talks.zip", tmp_path / "out.json", "--by", "windows", "--window", 5)
    assert lines[0]["audio_filepath"].endswith("talks.zip::a.wav")
    assert prepcli("convert-audio", tmp_path / "out.json", tmp_path / "cut").code == 0


def test_a_channel_that_is_asked_for_is_named(tmp_path: Path) -> None:
    talk(tmp_path / "talks/a.wav", channels=2)
    call = (tmp_path / "talks", "--by", "windows", "--window", 6)
    _, lines = segmented(*call, tmp_path / "out.json", "--channel", 1)
    assert [line["channel"] for line in lines] == [1, 1]
    _, lines = segmented(*call, tmp_path / "all.json")
    assert "channel" not in lines[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--times", "x"], "--times has no effect with --by speech"),
        (["--end-at", "any"], "--end-at has no effect with --by speech"),
        (["--by", "windows", "--max", "5"], "--max has no effect with --by windows"),
        (["--by", "times", "--window", "5"], "--window has no effect with --by times"),
        (["--by", "times", "--min", "30"], "--min is more than --max"),
        (["--by", "times", "--max", "1", "--pad", "0.5", "--min", "0"], "leaves no room"),
        (["--by", "windows", "--whisper-times", "--window", "40"], "at most 30"),
        (["--by", "times", "--times", "none"], "--times none does not exist"),
    ],
)
def test_options_that_do_not_go_together(tmp_path: Path, options: list[str], words: str) -> None:
    assert words in error_of(MINI_CORPUS / "manifest.json", tmp_path / "out.json", *options)
    assert not (tmp_path / "out.json").exists()


def test_a_manifest_within_its_folder_of_audio(tmp_path: Path) -> None:
    """What prepcli writes there does not change the input."""
    talk(tmp_path / "talks/a.wav")
    call = (tmp_path / "talks", tmp_path / "talks/out.json", "--by", "windows")
    _, [line] = segmented(*call)
    assert line["audio_filepath"] == "a.wav"
    assert prepcli("segment", *call, "--json").json["status"] == "nothing_to_do"
    talk(tmp_path / "talks/b.wav")
    assert "has another content" in error_of(*call)


def test_a_single_audio_file(tmp_path: Path) -> None:
    srt(tmp_path / "other_name.srt")
    audio = talk(tmp_path / "a.wav")
    _, lines = segmented(audio, tmp_path / "out.json", "--by", "times", "--times", tmp_path / "other_name.srt")
    assert [line["audio_filepath"] for line in lines] == ["a.wav", "a.wav"]


def test_a_folder_without_audio(tmp_path: Path) -> None:
    (tmp_path / "talks").mkdir()
    (tmp_path / "talks/a.txt").write_text("x")
    assert "holds no data set and no audio" in error_of(tmp_path / "talks", tmp_path / "out.json")


@pytest.mark.parametrize("how", [("--by", "times"), ("--by", "windows", "--whisper-times")])
def test_a_folder_needs_times(tmp_path: Path, how: tuple[str, ...]) -> None:
    talk(tmp_path / "talks/a.wav", 1)
    refused = prepcli("segment", tmp_path / "talks", tmp_path / "out.json", *how)
    assert refused.code == 2
    assert "--times is missing: a folder of audio has no texts" in refused.err
    assert [path.name for path in tmp_path.iterdir()] == ["talks"]
