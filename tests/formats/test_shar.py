"""Lhotse Shar on disk: ids, names, and bytes that depend on nothing but the content."""

import gzip
import io
import json

import pytest

from prepcli.formats.lenient_json import decode_json
from prepcli.formats.names import brace_text
from prepcli.formats.shar import (
    Cut,
    CutWriter,
    Recording,
    Supervision,
    encode_json,
    recording_id,
    segment_id,
    shard_text,
)
from prepcli.jobs.inputs.supervisions import SourceCut


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("spk1/utt.3.wav", "rec-spk1-utt.3"),
        ("a.flac", "rec-a"),
        ("v1.0/take", "rec-v1.0-take"),
        ("/data/a.wav", "rec--data-a"),
        ("a\udcff.wav", "rec-a?"),
    ],
)
def test_recording_id(path: str, expected: str) -> None:
    assert recording_id(path) == expected


def test_segment_id() -> None:
    assert segment_id("cut", "rec-a", 1.005, 2) == f"cut-rec-a-{1.005:.2f}-2.00"


def test_brace_text() -> None:
    assert [brace_text(shard_text(0), shard_text(last)) for last in (0, 1, 1_000_000)] == [
        "000000", "_OP_000000..000001_CL_", "_OP_000000..1000000_CL_",
    ]  # fmt: skip


def test_cuts_are_gzip_without_a_time_stamp() -> None:
    def write(count: int) -> bytes:
        sink = io.BytesIO()
        writer = CutWriter(sink)
        for number in range(count):
            recording = Recording.of(f"r{number}", 8000, 12000)
            supervision = Supervision(
                id="s", recording_id=recording.id, start=0.0, duration=1.5, channel=0, text="ü" * 50, custom={}
            )
            writer.add_cut(encode_json(Cut(f"c{number}", 0.0, 1.5, 0, (supervision,), recording, {})))
        writer.close()
        return sink.getvalue()

    for count in (0, 1, 2000):  # none, less than a block, several blocks
        packed = write(count)
        assert packed[:8] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00"  # no flags (no name), no time
        assert packed == write(count)
        lines = gzip.decompress(packed).decode().splitlines()
        assert [json.loads(line)["id"] for line in lines] == [f"c{number}" for number in range(count)]
    assert json.loads(lines[0])["supervisions"][0]["custom"] == {}


@pytest.mark.parametrize("before", ["", '"start": NaN, '])
def test_a_line_that_is_nested_too_deeply_is_not_json(before: str) -> None:
    """Found by fuzzing; NaN takes it to Python's own parser."""
    assert decode_json(f'{{{before}"id": "c", "duration": 1.0, "x": []}}'.encode(), SourceCut).id == "c"
    line = f'{{{before}"id": "c", "duration": 1.0, "x": {"[" * 100_000}{"]" * 100_000}}}'
    with pytest.raises(ValueError, match="nested too deeply"):
        decode_json(line.encode(), SourceCut)
