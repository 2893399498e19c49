"""Rejects in the order of the input, and those that a report names."""

import json
from pathlib import Path

import pytest

from prepcli.engine.publishing import rejects
from prepcli.engine.publishing.rejects import (
    Origin,
    can_append,
    first_if_all_alike,
    holds,
    merge_rejects,
    num_lines,
    reject_line,
    to_append,
)
from prepcli.errors import RecordRejected, RejectReason
from tests.conftest import write_lines


def test_rejects_are_in_the_order_of_the_manifests_and_lines(tmp_path: Path) -> None:
    def line(manifest: str, number: int) -> bytes:
        return b'{"manifest_line":%d,"manifest_filepath":"%s"}\n' % (number, manifest.encode())

    planned = [line("b.json", 2), line("b.json", 4), line("a.json", 1)]
    for name, lines in (("u1", [line("a.json", 3), line("b.json", 3)]), ("u2", [line("a.json", 2), line("b.json", 1)])):
        (tmp_path / name).write_bytes(b"".join(lines))
    merged = list(merge_rejects(planned, [tmp_path / "u1", tmp_path / "u2"], ["b.json", "a.json", "b.json"]))
    assert merged == [line("b.json", n) for n in (1, 2, 3, 4)] + [line("a.json", n) for n in (1, 2, 3)]


def test_the_first_reject_is_not_one_that_was_asked_for(tmp_path: Path) -> None:
    def reject(reason: str, number: int) -> dict[str, object]:
        return {"reject_reason": reason, "reject_detail": f"detail {number}", "manifest_line": number}

    listed = write_lines(
        tmp_path / "rejects.jsonl", [reject("below_min_duration", 1), reject("bad_field", 2), reject("bad_field", 3)]
    )
    assert first_if_all_alike({"below_min_duration": 1, "bad_field": 2}, str(listed), "split") == "line 2: detail 2"
    assert first_if_all_alike({"below_min_duration": 1}, str(listed), "split") == ""


@pytest.mark.parametrize(
    "line", [b'{"audio_filepath": "a.wav", "duration": 1.50}', b'{"text":"\\u00e9 }","duration":1}']
)
def test_appended_fields_make_the_same_reject(line: bytes) -> None:
    rejected = RecordRejected(RejectReason.FILTERED, 'keep lang == "e%n" \\ é')
    assert can_append(line)
    before, after = to_append(rejected, "/data/m.json")
    appended = b"%b%b%d%b" % (line[:-1], before, 7, after)
    assert json.loads(appended) == json.loads(reject_line(line, rejected, Origin("/data/m.json", 7)))
    assert appended.startswith(line[:-1])
    assert appended.endswith(b"}\n")


@pytest.mark.parametrize(
    "line",
    [b'{"manifest_line": 3}', b'{"reject_reason": "x"}', b'{"audio_filepath": "a.zip::b.wav"}', b'{"snr": NaN}'],
)
def test_fields_are_not_appended_to_lines_that_must_be_parsed(line: bytes) -> None:
    assert not can_append(line)


@pytest.mark.parametrize("length", range(1, 40))
def test_a_text_is_found_at_each_place(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejects, "_SEARCHED_BYTES", 8)
    for at in range(length):
        data = b"a" * at + b"aN" + b"a" * (length - at)
        assert holds(data, b"aN", [b"b", b"aNa"])
        assert not holds(data, b"aN", [b"NN"])
        assert not holds(data.replace(b"N", b"_"), b"aN", [b"aNa"])
    assert not can_append(b'{"text": "NaN"}')
    assert not can_append(b'{"manifest_line": 1}')
    assert can_append(b'{"text": "Na Inf ::"}'.replace(b"::", b": :"))
    assert num_lines(b"\na\n" * length) == 2 * length
