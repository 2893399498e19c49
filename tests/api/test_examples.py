"""The examples in the docstrings of the API do what they show, and leave the program that calls them as it was."""

import doctest
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import prepcli as library
from prepcli.commands.download.data_set import Archive
from prepcli.commands.estimate_batch_sizes import job
from prepcli.engine.publishing.rejects import Budget
from prepcli.interface.commands import COMMANDS
from tests.commands.download.conftest import archives, checksums, serve  # noqa: F401 - fixtures
from tests.commands.download.lhotse_trees import ljspeech
from tests.commands.download.make_fisher import Said, make_fisher
from tests.commands.download.miniatures import aishell2, checksum_list, hifitts2, write_files
from tests.commands.download.published.test_hub5 import stm, write_tree
from tests.commands.estimate_batch_sizes import fake_child
from tests.conftest import MINI_CORPUS
from tests.support.tars import write_tar
from tests.support.tokenizer_models import corpus_texts, train_sentencepiece
from tests.support.tools import need_package
from tests.support.toy_codec import use_toy_codec

pytestmark = pytest.mark.usefixtures("unchanged_caller")
FETCHING = {
    one.name: one.python_name for one in COMMANDS if "extracted" in {field.name for field in fields(one.load_options())}
}
WITH_MORE = {
    "download aishell2",
    "download fisher",
    "download hifitts2",
    "download hub5",
    "download lhotse",
    "estimate-batch-sizes",
    "estimate-bins-2d",
    "estimate-token-bins",
    "extend-codec-codes",
    "extend-context-audio",
    "manifest-to-mels",
}
"""Commands whose examples need more than the mini corpus, PyTorch or NeMo; each has a test of its own."""


def run_example(name: str) -> None:
    """Run the examples of a docstring; what they print must be what they show, and dots stand for any text."""
    function = getattr(library, name)
    test = doctest.DocTestParser().get_doctest(function.__doc__, {}, name, None, None)
    assert test.examples
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    assert result.failed == 0, "".join(said)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the mini corpus in it."""
    shutil.copytree(MINI_CORPUS, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.mark.parametrize("name", [one.python_name for one in COMMANDS if one.name not in {*WITH_MORE, *FETCHING}])
def test_examples_on_the_mini_corpus(name: str, corpus: Path) -> None:
    run_example(name)


@pytest.mark.slow
@pytest.mark.torch
def test_the_example_that_uses_pytorch(corpus: Path) -> None:
    run_example("manifest_to_mels")


@pytest.mark.parametrize("name", ["estimate_bins_2d", "estimate_token_bins"])
def test_examples_with_a_tokenizer(name: str, corpus: Path) -> None:
    train_sentencepiece(corpus / "tokenizer.model")
    (corpus / "texts.txt").write_text("".join(f"{text}\n" for text in corpus_texts()[:48]), encoding="utf-8")
    (corpus / "texts.yaml").write_text(f"- {{type: txt, paths: '{corpus}/texts.txt'}}\n")
    run_example(name)


@pytest.mark.slow
@pytest.mark.torch
def test_the_example_with_a_codec(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library.manifest_to_shar("manifest_with_context.json", "shar", shard_size=16)
    use_toy_codec(monkeypatch.setattr)
    (corpus / "codec.nemo").write_bytes(b"toy")
    run_example("extend_codec_codes")


def test_the_example_with_a_toy_in_the_child_process(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "ModelTrainer", fake_child.make)
    monkeypatch.setenv(fake_child.VARIABLE, "{}")
    write_tar(Path("tiny.nemo"), {"model_config.yaml": b"target: toys.Toy"})
    run_example("estimate_batch_sizes")


@pytest.mark.slow
@pytest.mark.torch
def test_the_example_with_a_speaker_model(corpus: Path) -> None:
    need_package("resemblyzer")
    run_example("extend_context_audio")


@pytest.mark.slow
@pytest.mark.parametrize("name", FETCHING.values())
def test_examples_that_fetch(
    name: str,
    corpus: Path,
    serve: Callable[..., Any],  # noqa: F811
    archives: dict[str, bytes],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From a server on this machine instead of the publisher's; the miniatures have more odd lines than a corpus."""
    monkeypatch.setattr(Budget, "exceeded", lambda *_: False)
    url = serve().url
    sums = {name: f"md5:{digest}" for digest, name in map(str.split, checksum_list(archives).splitlines())}
    monkeypatch.setattr(
        Archive, "at", lambda self, *_: replace(self, urls=(f"{url}/{self.name}",), checksum=sums.get(self.name))
    )
    run_example(name)


def test_the_example_with_a_copy_of_aishell2(corpus: Path) -> None:
    write_files(aishell2(nemo_layout=True), corpus / "AISHELL-2")
    run_example("download_aishell2")


@pytest.mark.slow
def test_the_example_with_a_recipe_of_lhotse(corpus: Path) -> None:
    ljspeech(corpus / "LJSpeech-1.1")
    run_example("download_lhotse")


@pytest.mark.slow
def test_the_example_with_a_copy_of_hifitts2(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Budget, "exceeded", lambda *_: False)  # the miniature has more odd lines than the corpus
    write_files(hifitts2(), corpus / "hifitts2")
    (corpus / "hifitts2/chapters").rename(corpus / "chapters")
    run_example("download_hifitts2")


def test_the_example_with_a_copy_of_fisher(corpus: Path) -> None:
    make_fisher(corpus / "LDC", 10, 20.0)
    run_example("download_fisher")


def test_the_example_with_a_copy_of_hub5(corpus: Path) -> None:
    said = [Said(0.5, 12.0, "A", 300, "HE IS A POLICE OFFICER")]
    write_tree(corpus / "LDC", {"en_4156": said}, [stm("en_4156", said[0])], 15.0)
    run_example("download_hub5")
