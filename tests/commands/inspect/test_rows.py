"""Lines as rows: records, cuts and rejects under the same names."""

import json
from pathlib import Path

import pytest

from prepcli.commands.inspect.rows import read_rows
from prepcli.errors import RecordRejected
from tests.commands.inspect.conftest import look
from tests.conftest import MINI_CORPUS, Lines, read_lines, write_lines
from tests.manifest.test_columns import judge
from tests.manifest.test_index import ALL, GOOD, SKIPPED


@pytest.mark.parametrize(
    "line",
    [*ALL, b'{"audio_filepath": "a.wav",\r"duration": 1}', b'{"audio_filepath": "a.wav", "duration": 1, "n": %d}'],
)
def test_a_line_is_usable_where_the_index_says_so(line: bytes) -> None:
    line = line.replace(b"%d", b"9" * 5000)
    verdict = judge(line)
    alone, beside = read_rows(line + b"\n", "manifest"), read_rows(b"\n".join([GOOD[0], line, GOOD[1]]), "manifest")
    usable = not isinstance(verdict, (str, RecordRejected))
    assert (len(alone.rows), len(beside.rows)) == (usable, 2 + usable)
    assert alone.num_skipped == beside.num_skipped == (line in SKIPPED)
    details = [[rejected.detail for _, rejected in found.problems] for found in (alone, beside)]
    assert details == [[verdict.detail] if isinstance(verdict, RecordRejected) else []] * 2


def test_odd_types_do_no_harm(tmp_path: Path) -> None:
    odd = [
        {"audio_filepath": "a", "duration": 1, "text": "5", "speaker": 17, "lang": None, "offset": None},
        {
            "audio_filepath": "b.c/d",
            "duration": 2,
            "text": ["x"],
            "speaker": "s",
            "context_speaker_similarity": "1",
        },
        {"audio_filepath": "é.WAV", "duration": 2.5, "text": "\x07 bell", "speaker": "\x07"},
    ]
    path = tmp_path / "m.json"
    path.write_text("".join(json.dumps(one) + "\n" for one in odd))
    found = look(path)
    assert (found.records, found.without_text, found.unusable) == (2, 0, {"bad_field": 1})
    assert found.extensions == {"none": 1, "wav": 1}
    assert found.speakers == 2
    assert json.loads(json.dumps(found.document(), default=str))["top_speakers"][0]["name"] == "\x07"


def test_cuts_under_the_names_of_manifests(tmp_path: Path) -> None:
    source = {"type": "file", "channels": [0], "source": str(MINI_CORPUS / "s01/s01_u1.flac")}
    recording = {"id": "r", "sources": [source], "sampling_rate": 22050, "num_samples": 23373, "duration": 1.06}
    supervision = {"id": "s", "text": "abc", "speaker": "s1", "language": "fr", "custom": {"cer": 0.1}}
    cut = {"id": "c", "type": "MonoCut", "start": 0.0, "duration": 1.06, "channel": 0, "recording": recording}
    mixed = {"id": "m", "type": "MixedCut", "tracks": [{"cut": cut, "offset": 1.0}]}
    lines: Lines = [
        cut | {"supervisions": [supervision]},
        mixed,
        {"type": "MonoCut"},
        {"type": "MonoCut", "duration": 1},
    ]
    path = write_lines(tmp_path / "cuts.jsonl", lines)
    found = look(path)
    assert (found.kind, found.records, found.unusable) == ("cuts", 2, {"bad_duration": 1, "bad_field": 1})
    assert found.duration == {**found.duration, "p0": 1.06, "p100": 2.06}
    assert [(one.name, one.records) for one in found.languages] == [("fr", 1)]
    assert (found.fields["cer"], found.fields["text"], found.without_text) == (1, 1, 1)
    assert found.audio[0].sampling_rates == {22050: 1}


@pytest.mark.parametrize("source", ["", 5, ["a.wav"], None])
def test_cuts_without_the_path_of_a_file(tmp_path: Path, source: object) -> None:
    """Of `custom` nothing is taken for it."""
    sources = [{"type": "file", "channels": [0], "source": source}]
    recording = {"id": "r", "sources": sources, "sampling_rate": 8000, "num_samples": 8000, "duration": 1.0}
    cut = {"id": "c", "type": "MonoCut", "start": 0.0, "duration": 1.0, "supervisions": [{"id": "s", "text": "abc"}]}
    custom = {"custom": {"audio_filepath": source, "offset": "late"}}
    path = write_lines(tmp_path / "cuts.jsonl", [cut | {"recording": recording}, cut | custom])
    found = look(path)
    assert (found.records, found.unusable, found.audio) == (1, {"bad_field": 1}, [])


def test_rejects_by_reason(tarred: Path) -> None:
    found = look(f"{tarred}.prepcli/rejects.jsonl")
    assert (found.kind, found.reject_reasons) == ("rejects", {"missing_audio": 1})
    assert found.runs[0].command == "manifest-to-tarred"
    (line,) = read_lines(Path(f"{tarred}.prepcli/rejects.jsonl"))
    broken = dict(line) | {"reject_reason": "bad_duration", "duration": None}
    both = write_lines(
        tarred.parent / "rejects.jsonl", [line, broken, {"manifest_text": "{", "reject_reason": "broken_json"}]
    )
    assert look(both).reject_reasons == {"missing_audio": 1, "bad_duration": 1, "broken_json": 1}
    found = look(both)
    assert (found.lines, found.records) == (3, 1)
    assert [one["reject_reason"] for one in found.first_records] == ["missing_audio", "bad_duration", "broken_json"]
