"""manifest-to-shar and bad input: every unusable record is listed with its reason, on the context's side too."""

import json
from pathlib import Path
from typing import Any

import pytest

from prepcli.commands.manifest_to_shar.entries import AudioPart
from tests.commands.manifest_to_tarred.test_bad_input import BAD_LINES, corpus, line
from tests.conftest import read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli
from tests.support.shar_sets import read_set

__all__ = ["corpus"]  # the fixture: a folder with one good file and every bad one

CONTEXT = {
    "context_audio_filepath": "whole.flac",
    "context_audio_offset": 0.5,
    "context_audio_duration": 1.0,
    "context_audio_text": "before",
}
WHOLE = {"context_audio_offset": 0, "context_audio_duration": 2.0}
"""The times of the target: whether the context is the target is then a question of the files."""

# Fields of a record that is good otherwise -> the reason, and words of the detail.
BAD_RECORDS: dict[str, tuple[dict[str, Any], str, str]] = {
    "missing context file": ({"context_audio_filepath": "nowhere.wav"}, "missing_audio", "context: "),
    "context is a folder": ({"context_audio_filepath": "folder"}, "unreadable_audio", "is a directory"),
    "context is a pipe": ({"context_audio_filepath": "pipe"}, "unreadable_audio", "not a regular file"),
    "context of zero bytes": ({"context_audio_filepath": "empty.wav"}, "unreadable_audio", "empty"),
    "context is text": ({"context_audio_filepath": "text.wav"}, "unreadable_audio", "text.wav"),
    "truncated FLAC as context": ({"context_audio_filepath": "cut.flac"}, "unreadable_audio", "ends early"),
    "truncated WAV as context": ({"context_audio_filepath": "cut.wav"}, "unreadable_audio", "ends early"),
    "damaged FLAC as context": ({"context_audio_filepath": "damaged.flac"}, "unreadable_audio", "context: "),
    "damaged FLAC as target": (
        {"audio_filepath": "damaged.flac", "offset": 0.25, "duration": 1.5},
        "unreadable_audio",
        "damaged.flac",
    ),
    "context path is a number": ({"context_audio_filepath": 3}, "bad_field", "context: audio_filepath is 3"),
    "context ends beyond its file": ({"context_audio_duration": 2.5}, "beyond_audio", "1.000 s after the end"),
    "context starts beyond its file": ({"context_audio_offset": 9.0}, "beyond_audio", "not before the end"),
    "negative context offset": ({"context_audio_offset": -1}, "bad_offset", "context: offset is -1"),
    "zero context duration": ({"context_audio_duration": 0}, "bad_duration", "context: duration is 0"),
    "string as context duration": ({"context_audio_duration": "1.0"}, "bad_duration", 'context: duration is "1.0"'),
    "context is the target": (
        {"context_audio_filepath": "./good.wav", "context_audio_offset": 0, "context_audio_duration": 2.0},
        "context_is_target",
        "the same segment",
    ),
    "target without a bucket": ({"audio_filepath": "s3://", **WHOLE}, "bad_field", "s3:// does not name a bucket"),
    "context without a bucket": (
        {"context_audio_filepath": "s3://", **WHOLE},
        "bad_field",
        "context: audio_filepath: s3:// does not name a bucket",
    ),
    "context with a password": (
        {"context_audio_filepath": "s3://a:b@c/d", **WHOLE},
        "bad_field",
        "context: audio_filepath: an address s3://... must hold only a bucket and a key",
    ),
    "context is the target to 10 ms": (
        {"offset": 0.5, "duration": 1.0, "context_audio_filepath": "good.wav", "context_audio_offset": 0.5001},
        "context_is_target",
        "the same segment",
    ),
    "no context": (
        dict.fromkeys(CONTEXT, "absent"),
        "missing_field",
        "no context_audio_filepath and no context_audio_duration: others have a context",
    ),
    "null for a context": (dict.fromkeys(CONTEXT), "missing_field", "others have a context"),
    "no context length": ({"context_audio_duration": "absent"}, "missing_field", "context_audio_duration: the context"),
    "no context path": ({"context_audio_filepath": "absent"}, "missing_field", "context_audio_filepath: the context"),
    "only a context offset": (
        {"context_audio_filepath": None, "context_audio_duration": None},
        "missing_field",
        "the context is incomplete",
    ),
    "no text": ({"text": "absent"}, "missing_field", "there is no text, and no normalized_text either"),
    "empty texts": ({"text": " ", "normalized_text": ""}, "missing_field", "there is no text"),
    "text is a list": ({"text": ["a"]}, "bad_field", 'text is ["a"]'),
    "half of a character": ({"text": "a\ud800"}, "bad_field", "half of a surrogate pair"),
    "speaker is a list": ({"speaker": ["a"]}, "bad_field", "speaker is"),
    "lang is a number": ({"lang": 5}, "bad_field", "lang is 5"),
    "no such channel": ({"audio_filepath": "stereo.wav", "channel": 2}, "bad_field", "channel is 2;"),
    "channel is an empty text": ({"audio_filepath": "stereo.wav", "channel": ""}, "bad_field", "channel is '';"),
    "channel is not a number": ({"audio_filepath": "stereo.wav", "channel": [0]}, "bad_field", "channel is [0];"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("offset", "duration", "is_near"),
    [(0.5, 1.0, True), (0.52, 0.98, True), (0.48, 1.0, True), (0.5, 1.1, False), (0.4, 1.1, False), (0.4, 1.0, False)],
)
def test_which_contexts_are_the_target(offset: float, duration: float, is_near: bool) -> None:
    """Those with the same beginning and the same end."""
    assert AudioPart("a.wav", 0.5, 1.0).is_near(AudioPart("a.wav", offset, duration)) == is_near


@pytest.fixture
def damaged(corpus: Path) -> Path:
    """The corpus, a stereo file, and a FLAC file whose header and last frame are whole, but not what lies between."""
    write_audio(corpus / "stereo.wav", 2.0, channels=2)
    whole = (corpus / "whole.flac").read_bytes()
    (corpus / "damaged.flac").write_bytes(whole[:6000] + bytes(9000) + whole[15000:])
    return corpus


def test_the_foundations_bad_lines(corpus: Path, tmp_path: Path) -> None:
    """As targets of a manifest without contexts."""
    rows = [line(), *(row for row, _, _ in BAD_LINES.values()), line(text="last")]
    (corpus / "m.json").write_bytes(b"\n".join(rows) + b"\n")
    done = prepcli("manifest-to-shar", corpus / "m.json", tmp_path / "out", "--shard-size", 8, "--json")
    assert done.code == 3, done.err
    assert "more than --max-rejects allows" in done.error_line
    rejects = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert [reject["manifest_line"] for reject in rejects] == [*range(2, len(BAD_LINES) + 2)]
    for name, reject, (_, reason, words) in zip(BAD_LINES, rejects, BAD_LINES.values(), strict=True):
        assert (name, reject["reject_reason"]) == (name, reason)
        assert words in reject["reject_detail"], name
    assert [item.supervision["text"] for item in read_set(tmp_path / "out")] == ["fine", "last"]
    assert prepcli("verify", tmp_path / "out").code == 0


@pytest.mark.parametrize("audio_format", ["flac", "original"])
def test_every_bad_record_is_a_reject_with_its_line(damaged: Path, tmp_path: Path, audio_format: str) -> None:
    rows = [line(**CONTEXT)]
    rows += [line(**{**CONTEXT, **fields}) for fields, _, _ in BAD_RECORDS.values()]
    rows.append(line(**CONTEXT, offset=0.25, duration=1.5, text="last"))
    (damaged / "m.json").write_bytes(b"\n".join(rows) + b"\n")
    out = tmp_path / "out"
    arguments = ["manifest-to-shar", damaged / "m.json", out, "--shard-size", 6, "--audio-format", audio_format]
    done = prepcli(*arguments, "--json", "--max-rejects", len(BAD_RECORDS))
    assert done.code == 0, done.err
    assert done.json["records_in"] == len(rows) == done.json["records_out"] + done.json["rejects"]
    rejects = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert [reject["manifest_line"] for reject in rejects] == [*range(2, len(BAD_RECORDS) + 2)]
    for name, reject, row, (_, reason, words) in zip(
        BAD_RECORDS, rejects, rows[1:], BAD_RECORDS.values(), strict=False
    ):
        assert (name, reject["reject_reason"]) == (name, reason)
        assert words in reject["reject_detail"], (name, reject["reject_detail"])
        if "half" not in name:  # no strict JSON: kept as text
            assert reject.items() >= json.loads(row).items()
    texts = [item.supervision["text"] for item in read_set(out)]
    assert (texts[0], texts[-1]) == ("fine", "last")
    assert all(item.context is not None for item in read_set(out))


def test_one_record_with_a_context_makes_it_a_set_with_contexts(corpus: Path, tmp_path: Path) -> None:
    """Wherever it stands; lines that are skipped, or that only mention the words, do not count."""
    mention = line(text='say "context_audio_filepath": and "context_audio_duration"', context_audio_text="x")
    skipped = line(**CONTEXT, _skipme=True)
    for rows, context in (([line(), mention, skipped], False), ([mention, line(), line(**CONTEXT)], True)):
        name = f"out{context}"
        (corpus / "m.json").write_bytes(b"\n".join(rows))
        done = prepcli("manifest-to-shar", corpus / "m.json", tmp_path / name, "--max-rejects", 2, "--json")
        assert done.code == 0, done.err
        assert (tmp_path / name / "context_audio").exists() == context
        assert done.json["rejects_by_reason"] == ({"missing_field": 2} if context else {})


def test_nothing_but_rejects(corpus: Path, tmp_path: Path) -> None:
    (corpus / "m.json").write_text("{oops\n" * 3)
    done = prepcli("manifest-to-shar", corpus / "m.json", tmp_path / "out")
    assert done.code == 3
    assert len(read_lines(tmp_path / "out.prepcli/rejects.jsonl")) == 3
    assert not list((tmp_path / "out").rglob("*.tar"))


def test_a_damaged_file_is_decoded_once_and_rejects_all_who_use_it(damaged: Path, tmp_path: Path) -> None:
    users = [json.loads(line(**{**CONTEXT, "context_audio_filepath": "damaged.flac"}, text=str(n))) for n in range(4)]
    write_lines(damaged / "m.json", [*users, json.loads(line(**CONTEXT))])
    done = prepcli("manifest-to-shar", damaged / "m.json", tmp_path / "out", "--max-rejects", 4, "--json")
    assert done.json["rejects_by_reason"] == {"unreadable_audio": 4}
    assert [item.supervision["text"] for item in read_set(tmp_path / "out")] == ["fine"]
    details = {reject["reject_detail"] for reject in read_lines(tmp_path / "out.prepcli/rejects.jsonl")}
    assert len(details) == 1


def test_names_cannot_leave_the_output(corpus: Path, tmp_path: Path) -> None:
    """An untrusted manifest: paths that climb, absolute paths, control characters."""
    write_audio(tmp_path / "evil.wav", 2.0)
    (corpus / "a\nb.wav").write_bytes((corpus / "good.wav").read_bytes())
    names = ["../evil.wav", str(tmp_path / "evil.wav"), "../corpus/../evil.wav", "a\nb.wav"]
    write_lines(corpus / "m.json", [json.loads(line(audio_filepath=name)) for name in names])
    before = set(tmp_path.rglob("*"))
    out = tmp_path / "out"
    assert prepcli("manifest-to-shar", corpus / "m.json", out).code == 0
    ours = {path for root in (out, tmp_path / "out.prepcli") for path in (root, *root.rglob("*"))}
    assert set(tmp_path.rglob("*")) - before == ours
    assert all("/" not in item.target.name for item in read_set(out))
    assert prepcli("verify", out).code == 0
