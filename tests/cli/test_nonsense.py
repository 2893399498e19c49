"""A nonsense value of an option changes what a command does, or is refused: an option that does nothing misleads."""

import re
import shlex
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from prepcli.interface.commands import COMMANDS
from prepcli.interface.options import Declared, declared
from prepcli.interface.shared_options import SetInput
from tests.conftest import SHORT_CORPUS, make_set, read_lines, tree, write_lines
from tests.support.conversations import share_gpt_of
from tests.support.running import prepcli
from tests.support.tars import write_tar

NONSENSE = "nonsense"
CALLS = {
    "make-manifest": "corpus OUT.json",
    "fix-durations": "m.json OUT.json",
    "prepare-texts": "m.json OUT.json",
    "score": "m.json OUT.json --fields text",
    "segment": "m.json OUT.json --by windows --min 0.1",
    "filter": "m.json OUT.json",
    "split": "m.json OUT --part a=rest",
    "find-duplicates": "m.json OUT.jsonl --by text",
    "manifest-to-tarred": "m.json OUT --num-shards 1",
    "manifest-to-shar": "m.json OUT",
    "manifest-to-wenet": "m.json OUT",
    "manifest-to-mels": "m.json OUT --lists-only",
    "manifest-to-parquet": "m.json OUT",
    "conversations-to-tarred": "chats.jsonl OUT",
    "texts-to-shards": "texts.txt OUT",
    "convert-audio": "m.json OUT",
    "extend-codec-codes": "m.json --codec-model none.nemo --output-dir OUT",
    "extend-context-audio": "m.json OUT --speaker-model none.nemo",
    "extend-text-context": "shar",
    "inspect": "m.json",
    "verify": "m.json",
    "estimate-bins": "m.json -b 2",
    "blend": "a=m.json OUT.yaml --no-check",
    "index": "m.json",
    "status": "shar",
    "explain": "s01_u1 --in m2.json",
    "compare": "m.json m2.json",
}
"""A call of each command that needs no network and no tokenizer; those with a model are refused without it."""
WITH_MODEL = ("extend-codec-codes", "extend-context-audio")
LEFT_OUT = ("download ", "estimate-bins-2d", "estimate-token-bins", "estimate-batch-sizes")
NO_EFFECT = {
    "--launch-id": "a name for a launch, of which one rank is the only one here",
    "--text-field": "ignored, as --help says: the same call works for estimate-bins-2d",
    "--lang-field": "ignored, as --help says: the same call works for estimate-bins-2d",
}


def of_command(name: str) -> list[Declared]:
    options = next(one for one in COMMANDS if one.name == name).load_options()
    return [one for one in declared(options) if not one.option.is_argument and one.option.only != "Python"]


MANY = 8
OF_SETS = [one.name for one in declared(SetInput)]


def texts() -> Iterator[tuple[str, str]]:
    """The commands, each with its options that take any text. Other values are checked before a command sees them.

    An option that many commands share has one declaration: every fourth of these commands is tried.
    """
    found = []
    for command in CALLS:
        for one in of_command(command):
            is_early = one.name in OF_SETS or command not in WITH_MODEL
            if one.type in (str, Path) and not one.choices and is_early and one.long_name not in NO_EFFECT:
                found.append((command, one.long_name))
    numbers = Counter(option for _, option in found)
    tried = Counter[str]()
    for command, option in found:
        tried[option] += 1
        if numbers[option] < MANY or (tried[option] + len(option)) % 4 == 0:
            yield command, option


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    shutil.copytree(SHORT_CORPUS / "s01", folder / "corpus")
    lines = (SHORT_CORPUS / "manifest.json").read_text().splitlines(keepends=True)[:6]
    (folder / "m.json").write_text("".join(lines).replace("s01/", "corpus/"))
    make_set("manifest-to-shar", folder / "m.json", folder / "shar")
    write_lines(folder / "chats.jsonl", share_gpt_of(read_lines(folder / "m.json")))
    make_set("filter", folder / "m.json", folder / "m2.json", "--keep", "duration > 0")
    (folder / "texts.txt").write_text("one text\nanother text\n")
    return folder


def outcome(inputs: Path, folder: Path, *words: object) -> tuple[int, str, dict[str, str]]:
    """The exit code, what a call prints, and its files, without those that hold the settings themselves."""
    shutil.copytree(inputs, folder, dirs_exist_ok=True)
    done = prepcli(*words, cwd=folder)
    printed = re.sub(r"[\d.]+ s\b|in [\d.:]+", "", done.out + done.err)
    files = {name: found for name, found in tree(folder).items() if ".prepcli/" not in name or "rejects" in name}
    shutil.rmtree(folder)
    return done.code, printed, files


def test_all_commands_are_here() -> None:
    assert {one.name for one in COMMANDS if not one.name.startswith(LEFT_OUT)} == {*CALLS}


@pytest.fixture(scope="module")
def plain(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, dict[str, str]]]:
    """The outcome of each call."""
    folder = tmp_path_factory.mktemp("calls")
    found = {command: outcome(inputs, folder / command, command, *shlex.split(call)) for command, call in CALLS.items()}
    unfit = {command: one[1] for command, one in found.items() if one[0] not in (0, 1) and command not in WITH_MODEL}
    assert not unfit, "a call that is refused anyway shows nothing about its options"
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("command", "option"), texts())
def test_a_nonsense_text(
    command: str,
    option: str,
    inputs: Path,
    plain: dict[str, tuple[int, str, dict[str, str]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.getbasetemp() / "calls0" / command
    assert outcome(inputs, folder, command, *shlex.split(CALLS[command]), option, NONSENSE) != plain[command]


@pytest.mark.parametrize("command", [name for name in CALLS if any(one.name in OF_SETS for one in of_command(name))])
@pytest.mark.parametrize(
    ("option", "value"), [("--input-format", "tarred"), ("--input-format", "zip"), ("--name-encoding", "cp437")]
)
def test_choices_of_data_sets_on_a_manifest(command: str, option: str, value: str, inputs: Path) -> None:
    given = {one.long_name for one in of_command(command)}
    assert {"--input-format", "--split", "--text-column", "--audio-column", "--speaker-column"} <= given
    done = prepcli(command, *shlex.split(CALLS[command]), option, value, cwd=inputs)
    assert (done.code, option in done.error_line) == (2, True)


@pytest.fixture(scope="module")
def sets(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data sets of each kind, of the same records."""
    folder = tmp_path_factory.mktemp("sets")
    manifest = inputs / "m.json"
    make_set("manifest-to-tarred", manifest, folder / "tarred", "--num-shards", 1)
    make_set("manifest-to-wenet", manifest, folder / "wenet")
    make_set("manifest-to-parquet", manifest, folder / "parquet")
    shutil.copytree(inputs / "shar", folder / "shar")
    files = {
        f"{Path(line['audio_filepath']).stem}.{suffix}": data
        for line in read_lines(manifest)
        for suffix, data in (
            ("flac", (inputs / line["audio_filepath"]).read_bytes()),
            ("txt", line["text"].encode()),
            ("spk", line["speaker"].encode()),
        )
    }
    (folder / "webdataset").mkdir()
    write_tar(folder / "webdataset" / "train-0.tar", files)
    (folder / "zip").mkdir()
    with zipfile.ZipFile(folder / "zip" / "train-0.zip", "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return folder


FORMATS = ("tarred", "shar", "wenet", "webdataset", "zip", "parquet")
EXTENSIONS = {"--audio-column": "flac", "--text-column": "text", "--speaker-column": "speaker", "--id-column": "id"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("option", ["--split", *EXTENSIONS, "--lang-column"])
def test_a_nonsense_text_on_a_data_set(kind: str, option: str, sets: Path, tmp_path: Path) -> None:
    """Records whose field is not there are rejects, or the call is refused."""
    call = ("find-duplicates", sets / kind, tmp_path / "out.jsonl", "--by", "audio")
    assert prepcli(*call).code == 0
    done = prepcli(*call, option, NONSENSE, "--overwrite")
    assert done.code in (2, 3)
    if kind in ("tarred", "shar"):
        assert f"{option} {NONSENSE} is for tars, zip archives and Parquet files" in done.error_line


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("wanted", FORMATS)
def test_another_format(kind: str, wanted: str, sets: Path, tmp_path: Path) -> None:
    """The keys of tars and zip archives may be read in the ways of webdataset and of WeNet."""
    is_possible = kind == wanted or (kind, wanted) in (
        ("zip", "webdataset"),
        ("zip", "wenet"),
        ("webdataset", "wenet"),
        ("wenet", "webdataset"),
        ("tarred", "webdataset"),
        ("tarred", "wenet"),
    )
    call = ("find-duplicates", sets / kind, tmp_path / "out", "--by", "audio", "--input-format", wanted, "--dry-run")
    done = prepcli(*call)
    assert done.code == (0 if is_possible else 2), done.err
