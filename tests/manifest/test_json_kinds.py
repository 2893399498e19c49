"""JSON of other kinds: of lhotse, also in YAML, and lines of which nothing can be said."""

import json
from pathlib import Path

import pytest
import yaml

from prepcli.manifest.kinds import HEAD_BYTES, kind_of
from tests.manifest.test_kinds import COMMANDS, PAIRS, RECORDS, check_manifest, diagnoses, follow, lhotse, lines, write
from tests.support.running import prepcli
from tests.support.tools import slow


@pytest.mark.parametrize("form", ["json", "jsonl", slow("yaml")])
@pytest.mark.parametrize("name", ["recordings", "supervisions", "cuts"])
def test_files_of_lhotse(folder: Path, name: str, form: str) -> None:
    objects = lhotse(folder)[name]
    text = {"json": json.dumps(objects), "jsonl": lines(objects), "yaml": yaml.safe_dump(objects, sort_keys=False)}[
        form
    ]
    path = write(folder / f"{name}.{form}", text)
    found = kind_of(str(path))
    assert found is not None
    assert f"lhotse {name}" in found.name
    takes_cuts = name == "cuts" and form == "jsonl"
    if (name, form) == ("supervisions", "jsonl"):
        [line] = diagnoses(path, COMMANDS[-1:])
        assert line.endswith(f"has no recordings with it (lhotse supervisions); {found.advice}")
    for line in diagnoses(path, COMMANDS[: 3 if form == "jsonl" else 8 : 1 if takes_cuts else 2]):
        assert f"({found.name}); {found.advice}" in line
    if form != "yaml" or name == "recordings":  # lhotse takes seconds to start
        check_manifest(follow(found.advice, folder), folder)


def test_a_config_is_none_of_lhotse(folder: Path) -> None:
    write(folder / "m.json", lines(RECORDS))
    config = write(folder / "input.yaml", "- type: nemo\n  manifest_filepath: m.json\n")
    assert prepcli("inspect", config, cwd=folder).code == 0
    cuts = write(folder / "cuts.yaml", yaml.safe_dump(lhotse(folder)["cuts"]))
    for command in (("inspect", cuts), ("blend", f"a={cuts}", "out.yaml"), ("index", cuts)):
        done = prepcli(*command, cwd=folder)
        assert (done.code, "(lhotse cuts in YAML); write them as JSON lines: " in done.error_line) == (2, True)


@pytest.mark.parametrize(
    "content",
    [
        lines(RECORDS),
        "{}\n",
        lines([{"text": "a"}] * 3),
        lines([*PAIRS, *RECORDS]),
        '{"audio_filepath": "a.wav", "messages": []}\n',
        '{"a": {"wav": "x"}, "audio_filepath": "a.wav"}\n',
        f'{{"audio_filepath": "a.wav", "codes": "{"x" * HEAD_BYTES}"}}\n',
        "NUL \0 in text\n" * 2 + '{"audio_filepath": "a"}\n',
    ],
)
def test_manifests_and_lines_of_no_kind(tmp_path: Path, content: str) -> None:
    found = kind_of(str(write(tmp_path / "m.json", content)))
    assert found is None or content.startswith("NUL")
