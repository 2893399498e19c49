"""No option that names a file of output replaces one of the command's inputs, under whatever name."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from prepcli.engine.state.workspace import Workspace
from tests.conftest import MINI_CORPUS, read_lines, tree, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli
from tests.support.tokenizer_models import train_sentencepiece
from tests.support.tools import need_package

MINI = MINI_CORPUS / "manifest.json"


def the_file_itself(path: Path) -> Path:
    return path


def a_link_to_it(path: Path) -> Path:
    link = path.with_name("link" + path.suffix)
    link.symlink_to(path.name)
    return link


def a_second_name(path: Path) -> Path:
    second = path.with_name("second" + path.suffix)
    second.hardlink_to(path)
    return second


NAMES = [the_file_itself, a_link_to_it, a_second_name]


GIVEN = [
    *product(("manifest", "weighted list", "tokenizer"), ("--plot", "--write-config")),
    ("input_cfg", "--write-config"),  # the name of a plot cannot end in .yaml
    ("inner config", "--write-config"),
]


def write_input_cfg(folder: Path, manifest: Path) -> Path:
    """A config that includes another, which names the manifest."""
    inner = folder / "inner.yaml"
    inner.write_text(json.dumps({"input_cfg": [{"type": "nemo", "manifest_filepath": str(manifest)}]}))
    outer = folder / "outer.yaml"
    outer.write_text(json.dumps([{"type": "group", "input_cfg": str(inner)}]))
    return outer


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("given", "option"), GIVEN)
def test_estimate_bins(given: str, option: str, name: Callable[[Path], Path], tmp_path: Path) -> None:
    """A manifest of one line is a YAML mapping, and so are configs: options could be put into it."""
    manifest = tmp_path / "m.png"  # the suffix that --plot wants
    write_lines(manifest, read_lines(MINI)[:1])
    outer = write_input_cfg(tmp_path, manifest)
    spec: object = {"manifest": manifest, "weighted list": f"[[{manifest},1.0]]"}.get(given, outer)
    hit = {"input_cfg": outer, "inner config": tmp_path / "inner.yaml"}.get(given, manifest)
    command: list[object] = ["estimate-bins", spec, "-b", 2]
    if given == "tokenizer":
        hit = train_sentencepiece(tmp_path / "spl.png")
        command = ["estimate-bins-2d", manifest, "-b", 2, "-t", hit]
    target = name(hit)
    before = tree(tmp_path)
    done = prepcli(*command, option, target)
    assert (done.code, tree(tmp_path)) == (2, before), done.err
    why = "would replace the input" if option == "--write-config" else "a file that is not such a plot is there"
    assert f"{option} {target}" in done.error_line
    assert why in done.error_line


def test_estimate_token_bins(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("a text\nanother text\n" * 50)
    config = tmp_path / "input.yaml"
    config.write_text(json.dumps({"input_cfg": [{"type": "txt", "paths": str(texts), "language": "en"}]}))
    tokenizer = train_sentencepiece(tmp_path / "spl.model")
    before = tree(tmp_path)
    for target in (config, texts, tokenizer):
        done = prepcli("estimate-token-bins", config, "-t", tokenizer, "-m", "--write-config", target)
        assert (done.code, tree(tmp_path)) == (2, before), done.err
        assert "would replace the input" in done.error_line


@pytest.mark.slow
def test_files_of_earlier_output_are_replaced(tmp_path: Path) -> None:
    for _ in range(2):
        done = prepcli("estimate-bins", MINI, "-b", 2, "--plot", tmp_path / "a.png", "--write-config", tmp_path / "a.y")
        assert done.code == 0, done.err
        assert prepcli("inspect", MINI, "--html", tmp_path / "a.html").code == 0
    (tmp_path / "a.html").write_bytes(b"")
    assert prepcli("inspect", MINI, "--html", tmp_path / "a.html").code == 0


@pytest.mark.parametrize("name", NAMES)
def test_inspect(name: Callable[[Path], Path], tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", 1.0)
    write_lines(tmp_path / "m.json", [{"audio_filepath": "a.wav", "duration": 1.0, "text": "a"}])
    assert prepcli("manifest-to-tarred", tmp_path / "m.json", tmp_path / "set", "--num-shards", 1).code == 0
    plan = str(Workspace(tmp_path / "set").plan_file.relative_to(tmp_path))
    inputs = {
        "m.json": ["m.json", "a.wav"],
        "a.wav": ["a.wav"],
        "set": ["set/audio_0.tar", "set/tarred_audio_manifest.json", "set/metadata.yaml", plan],
    }
    for subject, files in inputs.items():
        for file in files:
            target = name(tmp_path / file)
            before = tree(tmp_path)
            done = prepcli("inspect", tmp_path / subject, "--html", target)
            assert (done.code, tree(tmp_path)) == (2, before), done.err
            assert f"--html {target}: a file that is not such a page is there" in done.error_line
            if target != tmp_path / file:
                target.unlink()


@pytest.mark.torch
def test_the_plot_of_contexts(tmp_path: Path) -> None:
    need_package("resemblyzer")
    manifest = tmp_path / "m.png"
    manifest.write_bytes(MINI.read_bytes())
    before = tree(tmp_path)
    arguments = [manifest, tmp_path / "out", "--audio-base-dir", MINI_CORPUS, "--speaker-model", "resemblyzer"]
    done = prepcli("extend-context-audio", *arguments, "--plot", manifest)
    assert (done.code, tree(tmp_path)) == (2, before)
    assert f"--plot {manifest}: a file that is not such a plot is there" in done.error_line
