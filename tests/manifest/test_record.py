import json

import msgspec
import pytest

from prepcli.errors import RecordRejected, RejectReason
from prepcli.manifest.record import Record

LINE = (
    b'{"audio_filepath": "a/\xc3\xa9 b.wav", "duration": 1.50, "text": "caf\\u00e9",'
    b' "n": 1e2, "deep": {"x" : [1,  2]}, "offset": 0.10}\n'
)


def rejected(line: bytes) -> RecordRejected:
    with pytest.raises(RecordRejected) as caught:
        Record.parse(line)
    return caught.value


def test_typed_fields_and_everything_else_as_text() -> None:
    record = Record.parse(LINE)
    assert (record.audio_filepath, record.duration, record.offset) == ("a/é b.wav", 1.5, 0.1)
    assert record.has_offset
    assert list(record.fields) == ["audio_filepath", "duration", "text", "n", "deep", "offset"]
    assert record.get("text") == "café"
    assert record.get("deep") == {"x": [1, 2]}
    assert record.get("absent") is None
    assert record.get("absent", 7) == 7


def test_an_unchanged_record_keeps_the_text_of_its_values() -> None:
    out = Record.parse(LINE).to_json({})
    assert out == (
        b'{"audio_filepath": "a/\xc3\xa9 b.wav", "duration": 1.50, "text": "caf\\u00e9",'
        b' "n": 1e2, "deep": {"x" : [1,  2]}, "offset": 0.10}'
    )


def test_changes_keep_their_place_new_ones_follow_and_removed_ones_go() -> None:
    record = Record.parse(b'{"duration": 2, "audio_filepath":"x.wav","offset":1 , "text":"t"}')
    out = record.to_json(
        {
            "audio_filepath": "ünï.flac",
            "duration": 0.25,
            "shard_id": 3,
            "none": None,
            "gone": 1,
            "raw": msgspec.Raw(b"1.50"),
        },
        remove=("offset", "gone"),
    )
    assert out.decode() == (
        '{"duration": 0.25, "audio_filepath": "ünï.flac", "text": "t", "shard_id": 3, "none": null, "raw": 1.50}'
    )
    assert Record.parse(out).audio_filepath == "ünï.flac"


def test_to_json_of_a_record_with_every_field_removed() -> None:
    record = Record.parse(b'{"audio_filepath": "x.wav", "duration": 2}')
    assert record.to_json({}, remove=("audio_filepath", "duration")) == b"{}"
    assert record.to_json({"k": 'a "quoted"\n\u2028'}, remove=("audio_filepath", "duration")) == (
        '{"k": "a \\"quoted\\"\\n\u2028"}'.encode()
    )


def test_to_json_refuses_what_json_has_no_number_for() -> None:
    with pytest.raises(ValueError, match="nan"):
        Record.parse(LINE).to_json({"duration": float("nan")})


def test_field_names_that_need_escapes_come_back() -> None:
    line = b'{"audio_filepath": "x", "duration": 1, "a\\"b\\n\\u00e9": 1, "\\ud83d\\ude00": "\\uD83D\\uDE00"}'
    assert json.loads(Record.parse(line).to_json({})) == json.loads(line)


@pytest.mark.parametrize(
    "field", [r'"\ud800": 1', r'"t": "\uDFFF"', r'"t": [{"\ude00\ud83d": 1}]', r'"t": [NaN, "\ud800"]']
)
def test_half_of_a_surrogate_pair_is_refused(field: str) -> None:
    with pytest.raises(RecordRejected, match="half of a surrogate pair") as caught:
        Record.parse(f'{{"audio_filepath": "x", "duration": 1, {field}}}'.encode())
    assert caught.value.reason is RejectReason.BAD_FIELD


@pytest.mark.parametrize("text", [r"\\ud800", r"\ud55c", r"\ud83d\ude00", r"\u00e9"])
def test_other_escapes_stay_as_they_are(text: str) -> None:
    line = f'{{"audio_filepath": "x", "duration": 1, "{text}": ["{text}", 1e5000]}}'
    assert json.loads(Record.parse(line.encode()).to_json({})) == json.loads(line)


@pytest.mark.parametrize("offset", [b"", b', "offset": null', b', "offset":  null '])
def test_no_offset_is_zero(offset: bytes) -> None:
    record = Record.parse(b'{"audio_filepath": "x.wav", "duration": 2%s}' % offset)
    assert record.offset == 0.0
    assert not record.has_offset


def test_an_offset_of_zero_is_an_offset() -> None:
    assert Record.parse(b'{"audio_filepath": "x.wav", "duration": 2, "offset": 0}').has_offset


def test_of_repeated_fields_the_last_counts() -> None:
    record = Record.parse(b'{"duration": "x", "audio_filepath": "x.wav", "duration": 2}')
    assert record.duration == 2.0
    assert record.to_json({}) == b'{"duration": 2, "audio_filepath": "x.wav"}'


@pytest.mark.parametrize("more", [b"", b', "manifest_filepath": "m.json"'])
def test_a_retried_reject_is_the_original_record(more: bytes) -> None:
    line = (
        b'{"audio_filepath": "x.wav", "duration": 2, "k": 1, "reject_reason": "missing_audio", '
        b'"reject_detail": "gone", "manifest_line": 4%s}' % more
    )
    assert Record.parse(line).to_json({}) == b'{"audio_filepath": "x.wav", "duration": 2, "k": 1}'


def test_a_field_that_only_sounds_like_a_rejects_stays() -> None:
    line = b'{"audio_filepath": "x.wav", "duration": 2, "manifest_line": 4}'
    assert Record.parse(line).to_json({}) == line


def test_a_field_that_is_nan_is_missing() -> None:
    # pandas makes NaN of an empty cell, and Python's json.dump writes it.
    line = b'{ "audio_filepath" : "x.wav" , "wer": NaN, "duration": 2, "l": [-Infinity, {"}": 1}] }'
    record = Record.parse(line)
    assert record.get("wer", 1) is None
    assert record.to_json({"duration": 3}) == (
        b'{"audio_filepath": "x.wav", "wer": null, "duration": 3, "l": [-Infinity, {"}": 1}]}'
    )


@pytest.mark.parametrize("line_end", [b"", b"\n", b"\r\n"])
def test_line_ends_and_a_byte_order_mark_do_no_harm(line_end: bytes) -> None:
    record = Record.parse(b'\xef\xbb\xbf{"audio_filepath": "x.wav", "duration": 2}' + line_end)
    assert record.to_json({}) == b'{"audio_filepath": "x.wav", "duration": 2}'


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", "there is no duration"),
        (', "duration": "3.0"', 'duration is "3.0", a string; it must be a number of seconds above 0'),
        (', "duration": null', "duration is null or NaN;"),
        (', "duration": true', "duration is true;"),
        (', "duration": 0', "duration is 0;"),
        (', "duration": -1.5', "duration is -1.5;"),
        (', "duration": 1e-400', "duration is 1e-400;"),
        (', "duration": NaN', "duration is null or NaN;"),
        (', "duration": Infinity', "duration is Infinity;"),
        (', "duration": 1e999', "duration is 1e999;"),
        (', "duration": 1e10', "duration is 1e10; it must be at most 1000000000 seconds"),
        (', "duration": [3]', "duration is [3], a list;"),
        (', "duration": {"s": 3}', "an object"),
    ],
)
def test_bad_durations(value: str, words: str) -> None:
    error = rejected(f'{{"audio_filepath": "x.wav"{value}}}'.encode())
    assert error.reason is RejectReason.BAD_DURATION
    assert words in error.detail


@pytest.mark.parametrize("value", ['"1"', "-0.5", "Infinity", "false", "[]", "1e999", "1e10"])
def test_bad_offsets(value: str) -> None:
    error = rejected(f'{{"audio_filepath": "x.wav", "duration": 1, "offset": {value}}}'.encode())
    assert error.reason is RejectReason.BAD_OFFSET
    assert f"offset is {value}" in error.detail


@pytest.mark.parametrize("value", ['""', "null", "3", '["x.wav"]', '"a\\u0000b.wav"', '"a\\ud800.wav"'])
def test_bad_audio_paths(value: str) -> None:
    error = rejected(f'{{"audio_filepath": {value}, "duration": 1}}'.encode())
    assert error.reason is RejectReason.BAD_FIELD
    assert "audio_filepath" in error.detail


def test_a_missing_audio_path() -> None:
    assert rejected(b'{"duration": 1}').reason is RejectReason.MISSING_FIELD


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"audio_filepath": "x.wav", "duration": 1,}', "(byte 42)"),
        (b'{"audio_filepath": "x.wav", "dura', "ends too early"),
        (b'{"audio_filepath": "x.wav"} {}', "trailing characters"),
        (b'{"duration": NaN', "(byte 13)"),
        (b'["x.wav", 1]', "is not a JSON object"),
        (b"[NaN]", "is not a JSON object"),
        (b"null", "is not a JSON object"),
        (b"", "ends too early"),
        (b"RIFF\x00\x00", "broken JSON"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "recursion"),
    ],
)
def test_broken_json(line: bytes, words: str) -> None:
    error = rejected(line)
    assert error.reason is RejectReason.BROKEN_JSON
    assert words in error.detail


def test_not_utf8_says_where() -> None:
    error = rejected(b'{"audio_filepath": "x.wav", "text": "caf\xe9"}')
    assert error.reason is RejectReason.NOT_UTF8
    assert (
        error.detail == "byte 0xe9 at position 40 is not UTF-8; if that is another encoding: iconv -f ENCODING -t UTF-8"
    )


def test_long_values_are_cut_in_the_message() -> None:
    assert len(rejected(b'{"audio_filepath": "x", "duration": "%s"}' % (b"9" * 1000)).detail) < 150
