"""Lines as columns: the index and a record read each line alike, whatever it holds."""

import random
from pathlib import Path

import pytest

from prepcli.errors import RecordRejected, RejectReason
from prepcli.manifest import scan
from prepcli.manifest.fields import is_skipped, parse_fields
from prepcli.manifest.index import ManifestIndex, index_manifests
from prepcli.manifest.reader import LineReader
from prepcli.manifest.record import Record
from tests.manifest.test_index import BAD, GOOD, SKIPPED, hash64, parent, stem

BLANK = [b"", b" ", b"\t\r"]


ALL = GOOD + SKIPPED + BLANK + BAD


def judge(line: bytes) -> object:
    """What `Record` says of one line: the record, why not, or that it is skipped."""
    if not line.strip():
        return "blank"
    try:
        if is_skipped(parse_fields(line)):
            return "skipped"
        return Record.parse(line)
    except RecordRejected as rejected:
        return rejected


def check_against_records(index: ManifestIndex, sources: list[list[bytes]]) -> None:
    """Every line of every source stands in the index exactly as `Record` judges it."""
    record_number = problem_number = skipped = 0
    with LineReader(index) as reader:
        for source, lines in enumerate(sources):
            assert index.first[source] == record_number
            assert index.sources[source].num_lines == len(lines)
            for number, line in enumerate(lines, start=1):
                judged = judge(line)
                if isinstance(judged, Record):
                    i, record_number = record_number, record_number + 1
                    assert index.duration[i] == judged.duration
                    assert index.offset[i] == judged.offset
                    assert (index.source_of(i), index.line_number(i)) == (source, number)
                    assert Record.parse(reader.line(i)).to_json({}) == judged.to_json({})
                    if index.keys:
                        assert index.keys["stem"][i] == hash64(stem(judged.audio_filepath))
                        assert index.keys["parent"][i] == hash64(parent(judged.audio_filepath))
                elif isinstance(judged, RecordRejected):
                    problem = index.problems[problem_number]
                    problem_number += 1
                    assert (problem.source, problem.line) == (source, number)
                    assert (problem.reason, problem.detail) == (judged.reason, judged.detail)
                    assert reader.problem_line(problem) == line.rstrip(b"\r")
                else:
                    skipped += judged == "skipped"
    assert len(index) == record_number == len(index.duration)
    assert (len(index.problems), index.num_skipped) == (problem_number, skipped)


@pytest.mark.parametrize("line", ALL)
def test_the_table_above_is_sorted_right(line: bytes) -> None:
    judged = judge(line)
    expected = next(name for name in ("GOOD", "SKIPPED", "BLANK", "BAD") if line in globals()[name])
    kind = {Record: "GOOD", RecordRejected: "BAD"}.get(type(judged)) or str(judged).upper()
    assert kind == expected


@pytest.mark.parametrize("seed", range(12))
def test_the_index_and_the_record_never_disagree(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    # Ranges and blocks from a few bytes to larger than the file, so that boundaries fall everywhere.
    monkeypatch.setattr(scan, "RANGE_BYTES", rng.choice([7, 64, 1000, 5000, 1 << 20]))
    monkeypatch.setattr(scan, "_BLOCK_BYTES", rng.choice([1, 5, 50, 700, 1 << 18]))
    odd = rng.choice([0.02, 0.3, 1.0])
    sources: list[list[bytes]] = []
    paths = []
    for source in range(3):
        lines = [rng.choice(ALL) if rng.random() < odd else GOOD[0] for _ in range(rng.randrange(120))]
        path = tmp_path / f"{source}.json"
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        if lines and rng.random() < 0.5 and lines[-1]:
            path.write_bytes(path.read_bytes()[:-1])  # no newline at the end
        sources.append(lines)
        paths.append(str(path))
    index = index_manifests(paths, keys={"stem": stem, "parent": parent})
    check_against_records(index, sources)


def test_as_many_objects_as_lines_but_not_one_in_each(tmp_path: Path) -> None:
    lines = [
        GOOD[0] + GOOD[0],
        b'{"audio_filepath": "a.wav",',
        b'"duration": 1}',
        GOOD[0],
        GOOD[0] + b" " + GOOD[0],
        b"{",
        GOOD[0][1:],
    ]
    path = tmp_path / "m.json"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    index = index_manifests([str(path)])
    check_against_records(index, [lines])
    assert [problem.line for problem in index.problems] == [1, 2, 3, 5, 6, 7]


def test_broken_bytes_in_random_places(tmp_path: Path) -> None:
    rng = random.Random(5)
    lines = []
    for _ in range(3000):
        line = bytearray(rng.choice(GOOD))
        for _ in range(rng.randrange(3)):
            line[rng.randrange(len(line))] = rng.choice(b'"{}[],:0019.eE-+\\ \x00\xff\xc3tnu')
        lines.append(bytes(line))
    path = tmp_path / "m.json"
    path.write_bytes(b"\n".join(lines) + b"\n")
    index = index_manifests([str(path)])
    check_against_records(index, [lines])
    assert {p.reason for p in index.problems} >= {
        RejectReason.NOT_UTF8,
        RejectReason.BROKEN_JSON,
        RejectReason.MISSING_FIELD,
        RejectReason.BAD_DURATION,
    }
