"""What the README says can be typed: all its commands run in their order, and its options and files exist."""

import logging
import os
import re
import runpy
import shlex
import sys
import warnings
from functools import partial
from pathlib import Path

import pytest

from tests.commands import COMMANDS
from tests.conftest import MINI_CORPUS, read_lines
from tests.nemo_loaders import delivered_padding, magpie_batches, tarred_batches
from tests.running import Outcome, prepcli, run_here, run_process
from tests.tools import need_package
from tests.warm import warm_python

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = README + (ROOT / "docs/commands.md").read_text(encoding="utf-8")


def shown(text: str) -> list[tuple[str, str]]:
    """The commands of the `console` blocks, each with the beginning of what it prints."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [
        (command, output.strip("\n"))
        for block in blocks
        for command, output in re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", block, flags=re.MULTILINE)
    ]


def run(command: str, folder: Path) -> Outcome:
    """As typed in a shell with the virtual environment; the repository's folders are linked in `folder`.

    A script runs in this process, which has imported NeMo: the script alone would take half a minute to do so. So does
    a command with Resemblyzer. The one with NeMo is a process that imports it, as for the user; the others are forks.
    """
    for name in ("tests", "recipes", "scripts"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    if command.startswith("python "):
        return run_script(shlex.split(command)[1:], folder)
    if command.startswith("prepcli extend-context-audio "):
        return prepcli(*shlex.split(command)[1:], cwd=folder)
    has_nemo = command.startswith("prepcli extend-codec-codes ")
    python = sys.executable if has_nemo else warm_python(folder / "python")
    typed = re.sub(r"^prepcli ", f'"{python}" -m prepcli ', command)
    search = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return run_process(["bash", "-c", typed], cwd=folder, env=os.environ | search)


def run_script(words: list[str], folder: Path) -> Outcome:
    disabled = logging.root.manager.disable
    try:
        return run_here(partial(runpy.run_path, words[0], run_name="__main__"), words, cwd=folder)
    finally:
        logging.disable(disabled)  # the script switches NeMo's off


@pytest.mark.slow
@pytest.mark.nemo
def test_all_commands_of_the_readme_in_their_order_and_what_trainers_read_then(tmp_path: Path) -> None:
    pytest.importorskip("nemo", reason="the tour ends with a codec of NeMo's")
    need_package("resemblyzer")
    commands = shown(README)
    assert len(commands) > 10
    for command, output in commands:
        done = run(command, tmp_path)
        assert done.code == 0, (command, done.err)
        assert done.out.startswith(output), (command, done.out)
    texts = sorted(record["text"] for record in read_lines(MINI_CORPUS / "manifest.json"))
    check_tarred(tmp_path / "tarred", texts)
    check_shar_with_codes(tmp_path / "shar", texts)
    check_bins(tmp_path / "shar")


def check_tarred(out: Path, texts: list[str]) -> None:
    seen = [(text, len(audio)) for batch in tarred_batches(out, 22050) for text, audio in batch]
    assert sorted(text for text, _ in seen) == texts
    assert min(length for _, length in seen) > 22050


def check_shar_with_codes(out: Path, texts: list[str]) -> None:
    batches = magpie_batches(out, 22050, out / "codes_demo")
    assert sorted(text for batch in batches for text in batch["raw_texts"]) == texts
    for batch in batches:
        for field in ("audio_codes", "context_audio_codes"):
            assert batch[field].shape[:2] == (len(batch["raw_texts"]), 8)
            assert int(batch[f"{field}_lens"].min()) > 10


def check_bins(out: Path) -> None:
    """The padding that was predicted, within a percentage point, in batches of lhotse's sampler."""
    from lhotse import CutSet
    from lhotse.dataset.sampling import DynamicBucketingSampler

    report = prepcli("estimate-bins", out / "cuts", "-b", 5, "--json").json
    cuts = CutSet.from_shar(fields={"cuts": sorted(map(str, (out / "cuts").iterdir()))})
    bins = report["bucket_duration_bins"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = DynamicBucketingSampler(cuts, max_duration=360, duration_bins=bins, rank=0, world_size=1)
        assert delivered_padding(sampler) == pytest.approx(report["padding"], abs=0.01)


@pytest.mark.parametrize("command", [command for command, _ in shown(PAGES) if command not in dict(shown(README))])
def test_commands_shown_elsewhere(command: str, tmp_path: Path) -> None:
    output = dict(shown(PAGES))[command]
    done = run(command, tmp_path)
    assert done.code == 0, done.err
    assert done.out.startswith(output)


def test_options_that_the_pages_name_exist() -> None:
    helps = "".join(prepcli(*command.split(), "--help").out for command in COMMANDS)
    helps += prepcli("--help").out
    without_others = re.sub(r"pip install [^`]*|bash scripts/test.sh .*", "", PAGES)
    # NeMo's own options stand in the first column of the table of what was and what is.
    without_others = re.sub(r"^\| [`…][^|]*\|", "|", without_others, flags=re.MULTILINE)
    for option in set(re.findall(r"(--[a-z][a-z-]+)", without_others)):
        assert option in helps, option


def test_links_and_scripts_exist() -> None:
    for page in ("README.md", "docs/commands.md", "CONTRIBUTING.md", "scripts/slurm/README.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert ((ROOT / page).parent / target).exists(), (page, target)
    for target in re.findall(r"^bash (\S+)", README, flags=re.MULTILINE):
        assert (ROOT / target).exists(), target


def test_the_readme_is_short() -> None:
    assert README.count("\n") <= 300
