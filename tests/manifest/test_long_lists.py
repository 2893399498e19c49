"""Lists of more characters than a file name (255) or a path (4095) may have, wherever an input is named."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import SHORT_CORPUS, write_lines
from tests.support.running import prepcli

LENGTHS = (557, 5000)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Many small manifests in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad").mkdir()
    for number in range(400):
        write_lines(tmp_path / f"manifest_{number:04d}.json", [{"audio_filepath": f"{number}.wav", "duration": 1.5}])
        (tmp_path / f"text_{number:04d}.txt").write_text("one two\n")
    return tmp_path


def some(length: int, name: str = "manifest_{:04d}.json") -> tuple[str, int]:
    """At least so many characters of names, and how many names these are."""
    count = length // len(name.format(0)) + 1
    return ",".join(map(name.format, range(count))), count


@pytest.mark.parametrize(
    ("length", "form"),
    [
        (557, "{}"),
        (5000, "{}"),
        (5000, "[[{}]]"),
        (5000, "[[{},0.5],[manifest_0000.json,0.5]]"),
        (5000, "manifest_filepath={}"),
    ],
)
def test_inputs(folder: Path, length: int, form: str) -> None:
    names, count = some(length)
    if form.startswith("[["):
        names = names.replace(",", "],[") if form == "[[{}]]" else f"{{{names}}}"
    found = prepcli("inspect", form.format(names), "--json")
    assert found.code == 0, found.err
    assert found.json["records"] == count + ("0.5" in form)
    bins = prepcli("estimate-bins", form.format(names), "-b", 2, "--json")
    assert (bins.code, bins.json["num_examples"]) == (0, count + ("0.5" in form)), bins.err


@pytest.mark.torch
@pytest.mark.parametrize("length", LENGTHS)
def test_jobs(folder: Path, length: int) -> None:
    names, count = some(length)
    for command in (
        ("manifest-to-tarred", names, "tarred", "--num-shards", 2),
        ("manifest-to-shar", names, "shar"),
        ("extend-context-audio", names, "context", "--speaker-model", "resemblyzer"),
    ):
        done = prepcli(*command, "--dry-run", "--json", "--max-rejects", count)  # there is no audio
        assert (done.code, done.json["records_in"]) == (0, count), done.err
    done = prepcli("extend-context-audio", names, "context", "--speaker-model", "no.nemo")
    assert (done.code, done.error_line) == (2, "prepcli: --speaker-model no.nemo: there is no such file")


def test_a_file_where_the_output_goes(folder: Path) -> None:
    """Then it is asked whether MANIFEST and OUT were swapped, that is, whether the list is there."""
    names, count = some(5000)
    out = write_lines(folder / "out.json", [])
    refused = prepcli("manifest-to-tarred", names, out, "--num-shards", 2, "--max-rejects", count)
    assert refused.code == 2
    assert f"cannot write to {out}: it is a file" in refused.error_line


def test_texts(folder: Path) -> None:
    pytest.importorskip("sentencepiece")
    from tests.support.tokenizer_models import train_sentencepiece

    model = train_sentencepiece(folder / "t.model")
    for length in LENGTHS:
        names, count = some(length, "text_{:04d}.txt")
        (folder / "input.yaml").write_text(f"- type: txt\n  paths: {names}\n  language: en\n")
        done = prepcli("estimate-token-bins", "input.yaml", "-t", model, "-b", 2, "-m", "--json")
        assert done.code == 0, done.err
        assert done.json["num_examples"] == count


@pytest.mark.torch
def test_an_output_name_that_cannot_be_is_refused_at_once(folder: Path) -> None:
    name = f"{'m' * 230}.json"
    shutil.copy(SHORT_CORPUS / "manifest.json", name)
    done = prepcli("extend-context-audio", name, "out", "--speaker-model", "resemblyzer", "--dry-run")
    assert done.code == 2
    assert "is too long for a file system" in done.error_line


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("length", [300, 5000])
def test_what_is_not_a_list_is_one_line(folder: Path, length: int) -> None:
    long = "x" * length
    shutil.copy(SHORT_CORPUS / "manifest.json", "m.json")
    calls: list[tuple[object, ...]] = [
        ("inspect", long),
        ("inspect", f"{long},m.json"),
        ("inspect", "m.json", "--html", long),
        ("estimate-bins", long),
        ("estimate-bins", f"shar_path={long}"),
        ("estimate-bins", f"input_cfg={long}"),
        ("estimate-bins", "m.json", "--plot", f"{long}.png"),
        ("estimate-bins", "m.json", "--write-config", f"{long}.yaml"),
        ("estimate-bins-2d", "m.json", "-t", f"{long}.model"),
        ("estimate-token-bins", f"{long}.yaml", "-t", "t.model"),
        ("manifest-to-tarred", long, "out", "--num-shards", 2),
        ("manifest-to-tarred", "m.json", long, "--num-shards", 2),
        ("manifest-to-tarred", "m.json", "--concat-to", long),
        ("manifest-to-shar", long, "out"),
        ("extend-context-audio", "m.json", "out", "--speaker-model", long),
        ("extend-codec-codes", long, "--codec-model", "x"),
        ("extend-codec-codes", ".", "--codec-model", long),
        ("verify", long),
        ("status", long),
        ("download", "an4", "--data-root", long, "--fetch-only"),
        ("download", "an4", "--data-root", "d", "--checksums", long),
    ]
    for call in calls:
        done = prepcli(*call)
        assert done.code == 2, (call[:2], done.err[:500])
        assert "a bug" not in done.error_line, call[:2]
