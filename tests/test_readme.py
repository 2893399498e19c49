"""What the README says can be typed: all its commands run in their order, and its options and files exist."""

import logging
import os
import re
import runpy
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.conftest import MINI_CORPUS, read_lines
from tests.support.commands import COMMANDS
from tests.support.nemo_loaders import first_batches, tarred_batches
from tests.support.running import Outcome, prepcli, run_here, run_process
from tests.support.tools import need_package

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = sorted((ROOT / "docs").glob("*.md"))
TOUR = (ROOT / "docs/get_started.md").read_text(encoding="utf-8")
CHAIN = (ROOT / "docs/know_your_data.md").read_text(encoding="utf-8")
PAGES = README + "".join(page.read_text(encoding="utf-8") for page in DOCS)


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
    a command with Resemblyzer. The others are processes, as for the user.
    """
    for name in ("tests", "recipes", "scripts"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    if command.startswith("python "):
        return run_script(shlex.split(command)[1:], folder)
    if command.startswith("prepcli extend-context-audio "):
        return prepcli(*shlex.split(command)[1:], cwd=folder)
    typed = re.sub(r"^prepcli ", f'"{sys.executable}" -m prepcli ', command)
    search = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return run_process(["bash", "-c", typed], cwd=folder, env=os.environ | search)


def run_script(words: list[str], folder: Path) -> Outcome:
    disabled = logging.root.manager.disable
    try:
        return run_here(partial(runpy.run_path, words[0], run_name="__main__"), words, cwd=folder)
    finally:
        logging.disable(disabled)  # the script switches NeMo's off


@pytest.mark.parametrize(
    "name", ["own.json", "own", "calls", "batch_sizes", "scored.json", "good.json", "parts", "tarred"]
)
def test_git_ignores_what_the_tours_write_into_a_checkout(name: str) -> None:
    made = [name, f"{name}.prepcli", "mix.yaml", "model"]
    assert f" {name} " in README + TOUR or name == "batch_sizes"
    done = subprocess.run(["git", "-C", ROOT, "check-ignore", *made], capture_output=True, text=True)
    assert done.stdout.split() == made


@pytest.mark.slow
def test_the_example_of_the_readme(tmp_path: Path) -> None:
    need_package("pyloudnorm")
    commands = shown(README)
    names = ["make-manifest", "score", "filter", "split", "manifest-to-tarred"]
    assert [command.split()[1] for command, _ in commands[:5]] == names
    for command, output in commands:
        done = run(command, tmp_path)
        assert done.code == 0, (command, done.err)
        assert done.out.startswith(output) or done.err.startswith(output), (command, done.out, done.err)


@pytest.mark.slow
def test_the_chain_of_runs_to_look_at(tmp_path: Path) -> None:
    for command, output in shown(CHAIN):
        done = run(command, tmp_path)
        assert done.code == 0, (command, done.err)
        assert done.out.startswith(output), (command, done.out)


@pytest.mark.slow
@pytest.mark.nemo
def test_all_commands_of_the_tour_in_their_order_and_what_trainers_read_then(tmp_path: Path) -> None:
    pytest.importorskip("nemo.collections.asr", reason="the tour ends with a model of NeMo's")
    need_package("sentencepiece")
    commands = shown(TOUR)
    assert len(commands) >= 9
    for command, output in commands:
        done = run(command, tmp_path)
        assert done.code == 0, (command, done.err)
        assert done.out.startswith(output), (command, done.out)
    texts = sorted(record["text"] for record in read_lines(MINI_CORPUS / "manifest.json"))
    seen = [(text, len(audio)) for batch in tarred_batches(tmp_path / "own", 22050) for text, audio in batch]
    assert sorted(text for text, _ in seen) == texts
    assert min(length for _, length in seen) > 22050
    check_training_config(tmp_path / "model/train.yaml", {*texts, *texts_of(MINI_CORPUS / "segments.json")})


def texts_of(manifest: Path) -> set[str]:
    return {record["text"] for record in read_lines(manifest)}


def check_training_config(path: Path, texts: set[str]) -> None:
    """NeMo's loader fills batches with it: those of a bucket have its size, and all sets are in them."""
    section = yaml.safe_load(path.read_text(encoding="utf-8"))["model"]["train_ds"]
    batches = first_batches(section, 12)
    assert {text for batch in batches for text, _ in batch} == texts
    sizes = dict(zip(section["bucket_duration_bins"], section["bucket_batch_size"], strict=True))
    full = [batch for batch in batches if len(batch) == bucket_size(batch, sizes)]
    assert len(full) >= 10


def bucket_size(batch: list[tuple[str, float]], sizes: dict[float, int]) -> int:
    longest = max(duration for _, duration in batch)
    return next(size for bound, size in sorted(sizes.items()) if longest <= bound)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [command for command, _ in shown(PAGES) if command not in dict(shown(README + TOUR + CHAIN))]
)
def test_commands_shown_elsewhere(command: str, tmp_path: Path) -> None:
    output = dict(shown(PAGES))[command]
    done = run(command, tmp_path)
    assert done.code == 0, done.err
    assert done.out.startswith(output)


def typed() -> list[list[str]]:
    """The words of the calls of prepcli in the `bash` blocks of the README and the docs, and within their texts."""
    blocks = re.findall(r"^ *```bash\n(.*?)^ *```", PAGES, flags=re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    lines += re.findall(r"`(prepcli [a-z-]+ [^`…]+)`", PAGES)
    calls = [words for line in lines if (words := shlex.split(line, comments=True))[:1] == ["prepcli"]]
    return [words for words in calls if words[1:] != ["download", "NAME"]]


def test_commands_that_the_pages_name_are_understood() -> None:
    """Their options, values and arguments: with `--help` a command checks them, and does nothing else."""
    calls = typed()
    assert len(calls) > 150
    for words in calls:
        end = next((at for at, word in enumerate(words) if word in ("|", ">", "&&", ";", "2>&1")), len(words))
        length = 3 if words[1] == "download" else 2
        done = prepcli(*words[1:length], "--help", *words[length:end])
        assert done.code == 0, (words, done.err)


def test_options_that_the_pages_name_exist() -> None:
    helps = "".join(prepcli(*command.split(), "--help").out for command in COMMANDS)
    helps += prepcli("--help").out
    others = (
        r"(pip|apt-get) install [^`]*|bash scripts/test.sh .*|torchrun [^`]*|`(python )?benchmarks/[^`]*`|#SBATCH .*"
    )
    others += r"|aws s3api [^`\n]*|mpirun [^`]*"
    others += r"|<!-- recipes -->(?s:.*?)<!-- end of recipes -->|--recipe-options '[^']*'|`--absolute-paths true`"
    without_others = re.sub(others, "", PAGES)
    # NeMo's own options stand in the first column of the table of what was and what is.
    without_others = re.sub(r"^\| [`…][^|]*\|", "|", without_others, flags=re.MULTILINE)
    for option in set(re.findall(r"(--[a-z][a-z-]+)", without_others)):
        assert option in helps, option


def test_each_task_of_the_page_of_tasks_has_a_command_that_exists() -> None:
    rows = re.findall(r"^\| ([a-z].+?) \| `(.+?)` \| \[.+?\]\(.+?\) \|$", tasks(), flags=re.MULTILINE)
    assert len(rows) == tasks().count("\n| ") - 1 > 30
    for task, command in rows:
        words = shlex.split(command)
        if words[0] == "prepcli":
            length = 2 if words[1] == "download" else 1
            done = prepcli(*words[1 : 1 + length], "--help", *words[1 + length :])
            assert done.code == 0, (task, done.err)
        else:
            assert (ROOT / words[0]).is_file(), task


def tasks() -> str:
    return (ROOT / "docs/i_want_to.md").read_text(encoding="utf-8")


def rows_for_other_scripts() -> list[list[str]]:
    """The cells of the rows of `coming_from.md`: the other program, prepcli, the differences."""
    text = (ROOT / "docs/coming_from.md").read_text(encoding="utf-8").replace(r"\|", "/")
    return [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith(("| `", "| …"))]


@pytest.mark.parametrize(
    "words",
    [
        *("estimate_token_bins.py", "speech_llm/oomptimizer.py", "create_dali_tarred_dataset_index.py"),
        *("lhotse shar export", "lhotse cut estimate-bucket-bins", "lhotse kaldi import", "--flush-threshold-items"),
        *("--write_metadata", "--audio_root", "--dest_folder", "--shuffle_seed", "created_datetime"),
    ],
)
def test_the_page_on_other_scripts_has_a_row_for(words: str) -> None:
    assert any(words in row[0] for row in rows_for_other_scripts())


def test_commands_for_other_scripts_have_the_options_named() -> None:
    """A cell that begins with a command names only options of the commands in it."""
    names = sorted({name for command in COMMANDS for name in (command, command.split()[0])}, key=len, reverse=True)
    helps = {command: prepcli(*command.split(), "--help").out for command in COMMANDS}
    for row in rows_for_other_scripts():
        called = re.findall(rf"`({'|'.join(names)})[ `]", row[1])
        known = "".join(text for command, text in helps.items() if any(command.startswith(one) for one in called))
        options = re.findall(r"--[a-z][a-z-]+", row[1])
        assert not called or [one for one in options if one not in known] == [], row


def anchors(page: Path) -> set[str]:
    """The names of the headings of a page in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_and_scripts_exist() -> None:
    others = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md", "scripts/slurm/README.md")
    for page in [*DOCS, *(ROOT / name for name in others), *ROOT.glob("recipes/*/README.md")]:
        for target in re.findall(r"\]\(([^):]+)\)", page.read_text(encoding="utf-8")):
            name, _, anchor = target.partition("#")
            linked = page.parent / name if name else page
            assert linked.exists(), (page, target)
            assert not anchor or anchor in anchors(linked), (page, target)
    for target in re.findall(r"^bash (\S+)", README, flags=re.MULTILINE):
        assert (ROOT / target).exists(), target


def test_every_page_is_reached_from_the_readme() -> None:
    linked = set(re.findall(r"\]\((docs/[^)#]+)", README))
    assert linked == {f"docs/{page.name}" for page in DOCS}


def test_the_readme_is_short() -> None:
    assert README.count("\n") <= 85


def test_blocks_in_lists_are_at_their_end() -> None:
    """The site takes a block behind a blank line out of its list, and would make a paragraph of the items after it."""
    pages = [*DOCS, *ROOT.glob("*.md"), *ROOT.glob("[brs]*/**/README.md")]
    assert len(pages) > 15
    assert [path.name for path in pages if re.search(r"\n\n {1,3}\S", path.read_text())] == []
