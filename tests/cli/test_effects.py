"""Options that have no effect next to others are refused, in all commands, before anything is written."""

from dataclasses import fields
from pathlib import Path

import pytest

import prepcli as library
from prepcli.interface.commands import COMMANDS, Command
from prepcli.interface.options import declared
from tests.conftest import SHORT_CORPUS
from tests.support.running import prepcli

MANIFEST = SHORT_CORPUS / "manifest.json"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_what_is_declared_names_options(command: Command) -> None:
    """Each relation names options that the command has."""
    options = command.load_options()
    known = {one.name for one in fields(options)}
    for one in declared(options):
        assert {one.option.needs, *one.option.disables} - {""} <= known, one.name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["manifest-to-tarred", "--num-shards", 2, "--shuffle-seed", 3], "--shuffle-seed has no effect without --shuf"),
        (["manifest-to-shar", "--shuffle-seed", 3], "--shuffle-seed has no effect without --shuffle"),
        (["manifest-to-parquet", "--shuffle-seed", 3], "--shuffle-seed has no effect without --shuffle: give both, or"),
        (["manifest-to-wenet", "--raw", "--prefix", "x"], "--prefix has no effect with --raw: leave one of them out"),
        (["manifest-to-mels", "--lists-only", "--mel-fmax", 4000], "--mel-fmax has no effect with --lists-only"),
    ],
)
def test_without_effect(words: list[object], message: str, tmp_path: Path) -> None:
    done = prepcli(words[0], MANIFEST, tmp_path / "out", *words[1:])
    assert done.code == 2
    assert message in done.error_line
    assert list(tmp_path.iterdir()) == []


def test_in_python(tmp_path: Path) -> None:
    with pytest.raises(library.UsageError, match=r"^shuffle_seed has no effect without shuffle=True: give both, or"):
        library.manifest_to_shar(MANIFEST, tmp_path / "out", shuffle_seed=3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["make-manifest", "fix-durations", "prepare-texts"])
def test_a_manifest_that_is_called_like_a_folder(command: str, tmp_path: Path) -> None:
    source = SHORT_CORPUS / "s01" if command == "make-manifest" else MANIFEST
    done = prepcli(command, source, f"{tmp_path}/new/")
    assert done.code == 2
    assert f"{tmp_path}/new/ names a folder; name a file in it" in done.error_line
    with pytest.raises(library.UsageError, match="names a folder"):
        getattr(library, command.replace("-", "_"))(source, f"{tmp_path}/new/")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("inspect", "--html"), ("estimate-bins", "--write-config")])
def test_a_file_that_is_called_like_a_folder(words: tuple[str, str], tmp_path: Path) -> None:
    done = prepcli(words[0], MANIFEST, words[1], f"{tmp_path}/new/")
    assert (done.code, list(tmp_path.iterdir())) == (2, [])
    assert f"{words[1]}: {tmp_path}/new/ names a folder" in done.error_line
