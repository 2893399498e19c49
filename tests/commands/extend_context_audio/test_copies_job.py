"""A copy of a segment is never its context, however its file is named and its times are rounded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.running import prepcli
from tests.support.tools import need_package, slow

Line = dict[str, Any]


def by_link(line: Line, folder: Path) -> Line:
    (folder / "link.flac").symlink_to(folder / line["audio_filepath"])
    return line | {"audio_filepath": "link.flac"}


COPIES: dict[str, Callable[[Line, Path], Line]] = {
    "absolute": lambda line, folder: line | {"audio_filepath": str(folder / line["audio_filepath"])},
    "link": by_link,
    "climbing": lambda line, folder: line | {"audio_filepath": f"s01/../{line['audio_filepath']}"},
    "shorter": lambda line, folder: line | {"duration": line["duration"] - 0.0001},
    "later": lambda line, folder: line | {"offset": 0.015, "duration": line["duration"] - 0.015},
    "absolute and shorter": lambda line, folder: (
        line | {"audio_filepath": str(folder / line["audio_filepath"]), "duration": line["duration"] - 0.02}
    ),
}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for speaker in MINI_CORPUS.glob("s*"):
        (folder / speaker.name).symlink_to(speaker)
    return folder


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", [next(iter(COPIES)), *map(slow, list(COPIES)[1:])])
def test_extend_context_audio(corpus: Path, tmp_path: Path, name: str) -> None:
    need_package("resemblyzer")
    records = [line for line in read_lines(MINI_CORPUS / "manifest.json") if line["duration"] > 3]
    records = [line for line in records if line["speaker"] == records[0]["speaker"]]
    assert len(records) > 2
    copy = COPIES[name](records[0], corpus) | {"text": "the copy"}
    manifest = write_lines(corpus / "m.json", [*records, copy])
    options = ["--speaker-model", "resemblyzer", "--context-min-ssim", -1, "--context-min-duration", 1]
    done = prepcli("extend-context-audio", manifest, tmp_path / "out", *options)
    assert done.code == 0, done.err
    (extended,) = (tmp_path / "out").glob("*.json")
    lines = read_lines(extended)
    assert len(lines) == len(records) + 1
    assert lines[0]["context_audio_text"] != "the copy"
    assert lines[-1]["context_audio_text"] != records[0]["text"]
    assert lines[0]["context_audio_text"] == lines[-1]["context_audio_text"]  # the next best is the same for both


@pytest.mark.parametrize("name", COPIES)
def test_manifest_to_shar(corpus: Path, tmp_path: Path, name: str) -> None:
    first, second = read_lines(MINI_CORPUS / "manifest.json")[:2]
    records = []
    for context in (second, COPIES[name](first, corpus)):
        fields = {f"context_audio_{key}": context[key] for key in ("offset", "duration") if key in context}
        records.append(first | fields | {"context_audio_filepath": context["audio_filepath"]})
    manifest = write_lines(corpus / "m.json", records)
    done = prepcli("manifest-to-shar", manifest, tmp_path / "out", "--max-rejects", 1, "--json")
    assert done.code == 0, done.err
    assert done.json["rejects_by_reason"] == {"context_is_target": 1}
    (reject,) = read_lines(tmp_path / "out.prepcli/rejects.jsonl")
    assert reject["manifest_line"] == 2
