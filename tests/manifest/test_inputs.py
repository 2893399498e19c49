from pathlib import Path

import pytest

from prepcli.errors import UsageError
from prepcli.manifest.durations import read_input
from prepcli.manifest.inputs import resolve_input
from tests.manifest.conftest import write


def seconds(spec: str, **options: float) -> list[float]:
    return sorted(read_input(resolve_input(spec), **options).seconds.tolist())  # type: ignore[arg-type]


def test_a_path_that_exists_is_a_path(files: Path) -> None:
    for name in ("manifest_filepath=x.json", "[a,b].json", "x=y.json", "[[z]]"):
        write(files / name, 7)
        assert seconds(name) == [7]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("nothing.json", "manifest not found: nothing.json"),
        ("audio=a.json", "known are manifest_filepath, shar_path, cuts_path, input_cfg"),
        ("[[a.json,x]]", "[path, weight above 0]"),
        ("[[a.json,-1],[b.json,1]]", "[path, weight above 0]"),
        ("[[a.json,1e999],[b.json,1]]", "[path, weight above 0]"),
        ("[[a.json,1,2]]", "[path, weight above 0]"),
        ("[[nothing.json,1],[b.json,1]]", "not found: nothing.json"),
        ("cuts_path=a.json", "must be a .jsonl"),
        ("cuts_path=nothing.jsonl", "cuts_path not found"),
        ("shar_path=a.json", "is not a directory with cuts"),
        ("shar_path=.", "holds neither Shar"),
        ("input_cfg=nothing.yaml", "input_cfg not found"),
        (".", "holds neither Shar"),
    ],
)
def test_wrong_inputs(files: Path, spec: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_input(spec)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_kind_of_file_is_refused(files: Path) -> None:
    (files / "x.json").write_text("text\n" * 5000)
    with pytest.raises(UsageError, match=r"x\.json is not a manifest of JSON lines \(lines such as 'text'\)"):
        read_input(resolve_input("x.json"))
