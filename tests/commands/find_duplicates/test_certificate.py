"""The certificate of a comparison with prints: both sets, what was compared and not, and nothing private."""

import json
from pathlib import Path

import pytest

import prepcli as api
from prepcli.errors import UsageError
from tests.conftest import MINI_CORPUS, Lines, read_lines, write_lines


def corpus(folder: Path, name: str, first: int, count: int, fields: tuple[str, ...]) -> Path:
    lines: Lines = []
    for line in read_lines(MINI_CORPUS / "manifest.json")[first : first + count]:
        line["audio_filepath"] = str(MINI_CORPUS / line["audio_filepath"])
        lines.append({key: line[key] for key in ("audio_filepath", "duration", *fields)})
    return write_lines(folder / name, lines)


def test_what_it_says(tmp_path: Path) -> None:
    test = corpus(tmp_path, "test.json", 0, 5, ("text", "speaker"))
    plain = corpus(tmp_path, "<plain>.json", 10, 3, ())
    train = corpus(tmp_path, "private.json", 4, 6, ("text",))
    lines = read_lines(train)
    lines[1]["duration"] = 0.5  # shorter than what has a fingerprint
    lines[2]["_skipme"] = True
    write_lines(train, [*lines, {"audio_filepath": "x.wav", "duration": "y"}])
    prints = []
    for number, source in enumerate((test, plain)):
        report = api.find_duplicates(source, write_prints=tmp_path / ("a.prints", "<b>.prints")[number])
        prints.append(report.outputs["prints"])
    report = api.find_duplicates(train, against=prints, certificate=tmp_path / "c.json", max_rejects=1)
    assert report.exit_code == 1
    assert set(report.outputs) == {"certificate", "page"}
    assert report.out == str(tmp_path / "c.json")
    certificate = json.loads((tmp_path / "c.json").read_text())
    assert certificate["groups"] == 3
    assert [(row["by"], row["groups"], row["records_in_groups"]) for row in certificate["compared"]] == [
        ("audio", 1, 2),
        ("near-audio", 1, 2),
        ("text", 1, 2),
    ]
    assert certificate["compared"][1]["left_out"] == [
        {"side": "inputs", "records": 1, "why": "less than 0.6 s of sound"}
    ]
    inputs, (first, second) = certificate["inputs"], certificate["prints"]
    assert [inputs[name] for name in ("records", "rejected", "unusable", "skipped")] == [5, 0, 1, 1]
    assert inputs["hours"] == pytest.approx(
        sum(line["duration"] for line in (lines[0], *lines[1:2], *lines[3:])) / 3600, abs=1e-4
    )
    assert (first["file"], first["records"], second["file"]) == ("a.prints", 5, "<b>.prints")
    assert len({first["digest"], second["digest"], inputs["digest"]}) == 3
    assert {(row["by"], row["side"]) for row in certificate["not_compared"]} == {
        ("text", "<b>.prints"),
        ("speaker", "all"),
    }
    page = (tmp_path / "c.html").read_text()
    assert "<b>" not in page
    assert all(text in page for text in (inputs["digest"], first["digests"]["text"], "&lt;b&gt;.prints", "a.prints"))
    assert "private" not in page + (tmp_path / "c.json").read_text()
    assert api.find_duplicates(train, against=prints, certificate=tmp_path / "c.json", max_rejects=1).exit_code == 1
    nothing = corpus(tmp_path, "nothing.json", 20, 2, ())
    lines = [dict(line, duration=0.4) for line in read_lines(nothing)]
    report = api.find_duplicates(
        write_lines(nothing, lines), against=prints[1], by="near-audio", certificate=tmp_path / "none.json"
    )
    certificate = json.loads((tmp_path / "none.json").read_text())
    assert (report.exit_code, certificate["compared"], certificate["result"]) == (0, [], "Nothing was compared")
    assert ("near-audio", "inputs") in {(row["by"], row["side"]) for row in certificate["not_compared"]}
    with pytest.raises(UsageError, match="has no effect without against"):
        api.find_duplicates(train, certificate=tmp_path / "c.json")
