"""Input that no command can use: one line that says what to do, exit code 2, and nothing left behind."""

import errno
import gzip
import os
import pathlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MINI_CORPUS, tree
from tests.support.running import prepcli

JOBS: dict[str, list[object]] = {
    "fix-durations": [],
    "manifest-to-tarred": ["--num-shards", 2],
    "manifest-to-shar": [],
    "manifest-to-wenet": [],
    "manifest-to-mels": ["--lists-only"],
    "manifest-to-parquet": [],
    "convert-audio": [],
    "prepare-texts": [],
    "segment": ["--by", "windows"],
}
"""Commands that read a manifest and write an output, with the options that they need."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A manifest with its audio, and files that are none."""
    shutil.copytree(MINI_CORPUS / "s01", tmp_path / "s01")
    lines = (MINI_CORPUS / "manifest.json").read_bytes().splitlines(keepends=True)[:6]
    (tmp_path / "m.json").write_bytes(b"".join(lines))
    (tmp_path / "empty.json").touch()
    (tmp_path / "text.json.gz").write_bytes(b"not compressed")
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b"".join(lines), mtime=0)[:60])
    return tmp_path


def everything(folder: Path) -> tuple[dict[str, str], list[Path]]:
    """The bytes of all files, and the names of all folders too."""
    return tree(folder), sorted(folder.rglob("*"))


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ("none.json", "not found: none.json"),
        ("empty.json", "in empty.json: "),
        ("text.json.gz", "text.json.gz is damaged or not a gzip file"),
        ("cut.json.gz", "cut.json.gz is cut short"),
        ("m.json,none.json", "not found: none.json"),
    ],
)
@pytest.mark.parametrize("command", JOBS)
def test_manifests(folder: Path, command: str, manifest: str, words: str) -> None:
    before = everything(folder)
    done = prepcli(command, manifest, "out", *JOBS[command], cwd=folder)
    assert (done.code, done.out) == (2, "")
    assert words in done.error_line
    assert everything(folder) == before


@pytest.mark.parametrize("command", [command for command in JOBS if command != "segment"])
def test_a_folder_of_audio(folder: Path, command: str) -> None:
    """Only `segment` takes one."""
    test_manifests(folder, command, "s01", "prepcli make-manifest s01 OUT.json")


def test_a_refused_output_keeps_what_it_had_and_gets_nothing(folder: Path) -> None:
    """Planning unpacks the manifest before the output is looked at; that goes again, but not what others have left."""
    (folder / "m.json.gz").write_bytes(gzip.compress((folder / "m.json").read_bytes()))
    command = ("manifest-to-tarred", "m.json.gz", "out", "--num-shards", 2)
    assert prepcli(*command, cwd=folder).code == 0
    finished = everything(folder)
    assert prepcli(*command, "--shuffle", cwd=folder).code == 2
    assert everything(folder) == finished

    shutil.rmtree(folder / "out.prepcli")
    foreign = everything(folder)
    done = prepcli(*command, cwd=folder)
    assert (done.code, "move or remove these files" in done.error_line) == (2, True)
    assert everything(folder) == foreign


def test_the_output_of_another_command_is_refused_before_planning(folder: Path) -> None:
    """Which would unpack the manifest among the records of that command."""
    (folder / "m.json.gz").write_bytes(gzip.compress((folder / "m.json").read_bytes()))
    assert prepcli("manifest-to-wenet", "m.json", "out", cwd=folder).code == 0
    before = everything(folder)
    done = prepcli("manifest-to-shar", "m.json.gz", "out", cwd=folder)
    assert (done.code, "by manifest-to-wenet, not manifest-to-shar" in done.error_line) == (2, True)
    assert done.error_line.endswith("or move out and out.prepcli away first")  # others may have files there, or inputs
    assert everything(folder) == before


@pytest.mark.parametrize("command", ["inspect", "index", "estimate-bins", "verify"])
def test_a_link_that_leads_to_itself_is_named(folder: Path, command: str) -> None:
    """The error of the operating system is enough, as it is one line."""
    for path in folder.glob("*.gz"):
        path.unlink()
    (folder / "loop.wav").symlink_to("loop.wav")
    done = prepcli(command, ".", cwd=folder)
    assert (done.code, "loop.wav: Too many levels of symbolic links" in done.error_line) == (2, True)


def test_a_recording_that_is_a_link_to_itself_is_a_reject(folder: Path) -> None:
    """As other recordings that cannot be opened; the others of the folder are not lost with it."""
    (folder / "s01" / "loop.wav").symlink_to("loop.wav")
    done = prepcli("make-manifest", "s01", "own.json", "--max-rejects", 1, "--json", cwd=folder)
    assert (done.code, done.json["rejects"]) == (0, 1)
    rejects = (folder / "own.json.prepcli" / "rejects.jsonl").read_text()
    assert "loop.wav cannot be read: Too many levels of symbolic links" in rejects


@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--overwrite"]])
def test_the_records_of_a_run_are_not_an_output(folder: Path, options: list[str]) -> None:
    """Neither is a file or folder among them."""
    assert prepcli("manifest-to-wenet", "m.json", "out", cwd=folder).code == 0
    before = everything(folder)
    within = f"is in {folder}/out.prepcli, which holds"
    for words, where in (
        (("manifest-to-shar", "m.json", "out.prepcli"), "out.prepcli holds"),
        (("manifest-to-shar", "m.json", "out.prepcli/done/x"), within),
        (("filter", "m.json", "out.prepcli/claims/u.json"), within),
        (("split", "m.json", "out.prepcli/x", "--part", "a=0.5"), within),
        (("blend", "a=m.json", "out.prepcli/mix.yaml"), within),
        (("download", "an4", "--data-root", "out.prepcli/x"), within),
    ):
        done = prepcli(*words, *options, cwd=folder)
        assert (done.code, done.out) == (2, "")
        assert f"{where} the state of the run of out; choose another output" in done.error_line
    assert everything(folder) == before


@pytest.mark.parametrize(
    "command",
    [("make-manifest", "s01"), ("fix-durations", "m.json"), ("prepare-texts", "m.json"), ("filter", "m.json")],
)
@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("s01/s01_u1.flac", "and this is a name of audio"),
        ("new.WAV", "and this is a name of audio"),
        ("m.json.gz", "leave .gz off the name"),
        ("s01", "is a folder; name a file, such as s01/"),
        ("/dev/null", "is a pipe or a device"),
        ("/dev/stdout", "/dev/stdout is a pipe or a device"),
        ("/dev/fd/1", "/dev/fd/1 is a pipe or a device"),
        ("/proc/self/fd/1", "/proc/self/fd/1 is a pipe or a device"),
        ("-", "writes no manifest to its standard output; name a file"),
    ],
)
def test_what_no_manifest_is_written_to(folder: Path, command: tuple[str, str], out: str, words: str) -> None:
    """Not with --overwrite either, which would replace a recording or a device."""
    before = everything(folder)
    for options in ([], ["--overwrite"]):
        done = prepcli(*command, out, *options, cwd=folder)
        assert (done.code, words in done.error_line) == (2, True)
    assert everything(folder) == before
    assert Path("/dev/null").is_char_device()


def test_a_config_where_none_can_be_written(folder: Path) -> None:
    before = everything(folder)
    for name in ("m.json/mix.yaml", "/proc/mix.yaml"):
        done = prepcli("blend", "a=m.json", name, "--no-check", cwd=folder)
        assert (done.code, f"cannot write {name}: " in done.error_line) == (2, True)
    assert everything(folder) == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'[{"audio_filepath": "a.wav", "duration": 1.0}]', "(a JSON list of NeMo records)"),
        (b"RIFF0000WAVE", "(a WAV file)"),
        (b"\0\1\2\3", "(a binary file)"),
    ],
)
def test_what_is_neither_json_lines_nor_text(folder: Path, content: bytes, words: str) -> None:
    """It gets no index: readers would seek to its line ends, and find no records there."""
    (folder / "other.json").write_bytes(content)
    before = everything(folder)
    for options in ([], ["--check"], ["--dry-run"]):
        done = prepcli("index", "other.json", *options, cwd=folder)
        assert (done.code, words in done.error_line) == (2, True)
    done = prepcli("prepare-texts", "other.json", "texts.json", cwd=folder)
    assert (done.code, f"is not lines of text {words}" in done.error_line) == (2, True)
    assert everything(folder) == before


@pytest.mark.parametrize(
    "command", [("blend", "a={}", "out.yaml"), ("estimate-bins", "{}"), ("index", "{}"), ("inspect", "{}")]
)
@pytest.mark.parametrize(
    "content",
    [
        "- &a\n  type: group\n  input_cfg: [*a]\n",
        "- type: lhotse_shar\n  shar_path: &a [*a]\n",
        "- type: nemo\n  manifest_filepath: m.json\n  tags: &a {x: *a}\n",
    ],
)
def test_a_config_that_holds_itself(folder: Path, command: tuple[str, ...], content: str) -> None:
    (folder / "mix.yaml").write_text(content)
    before = everything(folder)
    done = prepcli(*(word.format("mix.yaml") for word in command), cwd=folder)
    assert (done.code, "mix.yaml is not readable YAML" in done.error_line) == (2, True)
    assert "an alias (*name) stands within the value that it refers to" in done.error_line
    assert everything(folder) == before


def test_a_list_of_folders_that_are_none(folder: Path) -> None:
    (folder / "mix.yaml").write_text("- type: lhotse_shar\n  shar_path: [[[s01]]]\n")
    done = prepcli("index", "mix.yaml", cwd=folder)
    assert (done.code, "a path or a list of paths is expected, not [[['s01']]]" in done.error_line) == (2, True)


def test_a_folder_for_the_state_of_a_run_beside_its_output(folder: Path) -> None:
    """It is for outputs in stores; that is said, since `--work-dir` would be looked for the state in vain."""
    words = "note: --work-dir work is for an OUT in an object store; the state of this run is in out.prepcli"
    for command in ("manifest-to-tarred", "manifest-to-shar", "manifest-to-wenet", "manifest-to-parquet"):
        done = prepcli(command, "m.json", "out", *JOBS[command], "--work-dir", "work", "--dry-run", cwd=folder)
        assert (done.code, done.error_line) == (0, words)
    assert prepcli("manifest-to-wenet", "m.json", "out", cwd=folder).code == 0
    for command in ("status", "verify"):
        done = prepcli(command, "out", "--work-dir", "work", cwd=folder)
        assert (done.code, done.error_line) == (0, words)
    assert not (folder / "work").exists()


@pytest.fixture
def closed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one that nobody may look into; the tests may run as root, for whom there is no such folder."""
    inside = str(folder / "closed") + os.sep
    (folder / "closed").mkdir()

    def closing(function: Callable[..., Any], ending: str) -> Callable[..., Any]:
        def closed(path: Any = ".", *rest: Any, **options: Any) -> Any:
            if isinstance(path, str | os.PathLike) and (os.path.abspath(path) + ending).startswith(inside):
                raise PermissionError(errno.EACCES, "Permission denied", os.fspath(path))
            return function(path, *rest, **options)

        return closed

    for name, ending in (("stat", ""), ("lstat", ""), ("mkdir", ""), ("scandir", os.sep), ("listdir", os.sep)):
        function = closing(getattr(os, name), ending)
        monkeypatch.setattr(os, name, function)
        if hasattr(pathlib, "_NormalAccessor"):  # Python 3.10 has references of its own
            monkeypatch.setattr(pathlib._NormalAccessor, name, staticmethod(function), raising=False)
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ("make-manifest", "closed", "out.json"),
        ("make-manifest", ".", "out.json"),
        ("manifest-to-wenet", "m.json", "closed/out"),
        ("blend", "a=closed", "out.yaml"),
        ("estimate-bins", "closed"),
        ("index", "closed"),
        ("inspect", "closed"),
        ("status", "closed/out"),
        ("verify", "closed/out"),
    ],
    ids=" ".join,
)
def test_folders_that_cannot_be_read(closed: Path, command: tuple[str, ...]) -> None:
    done = prepcli(*command, cwd=closed)
    assert (done.code, done.out) == (2, "")
    assert ": Permission denied; check the path and its permissions" in done.error_line
    assert not list(closed.glob("out*"))


@pytest.mark.parametrize("command", ["inspect", "verify", "estimate-bins", "estimate-bins-2d", "blend", "index"])
def test_a_folder_of_audio_needs_a_manifest(command: str, tmp_path: Path) -> None:
    folder = tmp_path / "audio"
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/x.WAV").touch()
    words: dict[str, list[object]] = {"estimate-bins-2d": ["-t", "x"], "blend": [tmp_path / "mix.yaml"]}
    more = words.get(command, [])
    done = prepcli(command, f"set={folder}" if command == "blend" else folder, *more)
    assert done.code == 2
    assert done.error_line.endswith(f"make a manifest of it first, prepcli make-manifest {folder} OUT.json")
    (folder / "a/b/x.WAV").rename(folder / "a/b/x.txt")
    assert "audio:" not in prepcli(command, f"set={folder}" if command == "blend" else folder, *more).error_line
