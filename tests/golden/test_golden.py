"""The net itself: each command is in it, its calls end as declared, and a comparison finds what was changed."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from prepcli.interface.commands import COMMANDS
from tests.golden.calls import LEFT_OUT, scenarios
from tests.golden.compare import WANTED, Difference, Ground, Wanted, compare, prepared, read_wanted, report
from tests.golden.forks import Ready, Tree
from tests.golden.inputs import INPUTS
from tests.golden.normal import normal
from tests.golden.running import Store, steps_of
from tests.support.running import clean_environment, run_process
from tests.support.tools import need_package

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/compare_with.sh"
PACKAGES = {
    "golden:|resemblyzer|manifest-to-mels|inspect": "torch",
    "resemblyzer": "resemblyzer",
    "score": "pyloudnorm",
    "by speech": "silero_vad",
    "parquet|datasets|omnilingual": "pyarrow",
    "download lhotse": "lhotse",
    "tokens": "sentencepiece",
    "plot|html": "matplotlib",
}
"""Words of scenarios, and the packages that these calls need; the inputs need the last but two."""


def calls() -> list[str]:
    return [step.text for scenario in scenarios().values() for step in steps_of(scenario) if not step.is_shell]


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_occurs(command: str) -> None:
    assert [call for call in calls() if call.startswith(f"{command} ")]


def test_every_input_and_every_way_of_a_job_occurs() -> None:
    text = "\n".join(scenarios().values())
    assert [name for name in INPUTS if name != "plugin" and not re.search(rf"\b{name}\b", text)] == []
    options = ("overwrite", "retry-rejects", "concat-to", "undo-concat", "dry-run", "json", "rank 1", "num-workers 2")
    assert [option for option in options if f"--{option}" not in text] == []
    assert all(LEFT_OUT.values())


def test_lines_of_a_scenario() -> None:
    first, second, shell, last = steps_of("0 &a {x} 'b c'  # why\n3 again --json\n# no call\n$ rm -r {x}\n0 d", x="y")
    assert (first.code, first.is_shared, first.words) == (0, True, ["a", "y", "b c"])
    assert (second.code, second.is_shared, second.words) == (3, False, ["a", "y", "b c", "--json"])
    assert (shell.is_shell, shell.text) == (True, "rm -r y")
    assert last.words == ["d"]
    with pytest.raises(AssertionError, match="not a line"):
        steps_of("manifest-to-tarred")


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    for name in ("pyarrow", "sentencepiece"):
        need_package(name)
    with prepared(tmp_path_factory.mktemp("ground")) as place:
        yield place


@pytest.fixture(scope="module")
def ready() -> Iterator[Ready]:
    with Tree(ROOT).ready() as process:
        yield process


IN_SUITE = [name for name in scenarios() if name.endswith("/life") or name == "adding"]
"""The scenarios that the suite runs: the others take several minutes; `scripts/compare_with.sh` runs all of them."""


@pytest.mark.slow
@pytest.mark.parametrize("name", scenarios() if os.environ.get("PREPCLI_ALL_CALLS") else IN_SUITE)
def test_calls_end_as_declared(name: str, ground: Ground, ready: Ready) -> None:
    for words, package in PACKAGES.items():
        if re.search(words, scenarios()[name]):
            need_package(package)
    seen = ground.run(name, scenarios()[name], ready, Store())
    ended = [(one.step.text, one.exit_codes[-1], one.texts.get("stderr")) for one in seen]
    assert [one for one, its in zip(ended, seen, strict=True) if one[1] != its.step.code] == []
    assert seen


def toy_tree(folder: Path, **changes: str) -> Tree:
    """A package with a command line that writes OUT and its state."""
    values = {"data": "a record", "code": "0", "reject": "missing_audio", "line": "2 records", "state": "x", **changes}
    program = """
        import sys, time
        from pathlib import Path

        def main():
            for name in ("out/a.txt", "out.prepcli/rejects.jsonl", "out.prepcli/units/unit.json"):
                Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path("out/a.txt").write_text({data!r} + "\\n")
            Path("out.prepcli/rejects.jsonl").write_text({reject!r} + "\\n")
            Path("out.prepcli/units/unit.json").write_text({state!r})
            print({line!r}, "in", Path("out").absolute())
            print('"records_per_second":', time.monotonic())
            sys.exit(int({code!r}))
    """
    (folder / "prepcli/cli").mkdir(parents=True)
    text = re.sub(r"(?m)^ {8}", "", program).format(**values)
    (folder / "prepcli/cli/app.py").write_text(text)
    for name in ("prepcli/__init__.py", "prepcli/cli/__init__.py"):
        (folder / name).touch()
    return Tree(folder, light=())


@pytest.mark.parametrize(
    ("changes", "what", "lines"),
    [
        ({}, None, ()),
        ({"state": "y"}, None, ()),
        ({"code": "3"}, "exit", ("-0", "+3")),
        ({"reject": "bad_field"}, "rejects.jsonl of out", ("-missing_audio", "+bad_field")),
        ({"line": "3 records"}, "stdout", ("-2 records in <folder>/out", "+3 records in <folder>/out")),
        ({"data": "a rEcord"}, "files", ("-out/a.txt: a record", "+out/a.txt: a rEcord")),
    ],
)
def test_a_comparison_finds_what_was_changed(
    tmp_path: Path, changes: dict[str, str], what: str | None, lines: tuple[str, ...]
) -> None:
    trees = toy_tree(tmp_path / "before"), toy_tree(tmp_path / "after", **changes)
    ((name, found),) = compare(Ground(tmp_path / "ground", ""), *trees, {"toy": "0 make\n0 again"})
    assert name == "toy"
    if what is None:
        assert found == []
    else:
        # What is printed and how it ends is said for each call, files and rejects only once.
        assert [one.what for one in found] == [what] * (2 if what in ("exit", "stdout") else 1)
        assert found[0].lines[-2:] == lines
        assert (found[0].place, found[0].call) == ("toy:1", "make")


def test_wanted_differences(capsys: pytest.CaptureFixture[str]) -> None:
    moved = Difference("tarred/life", 3, "manifest-to-tarred x", "stdout", ("-a out.prepcli/x", "+a out.prepcli/y"))
    more = Difference("tarred/life", 3, "manifest-to-tarred x", "stdout", ("-a out.prepcli/x", "+b"))
    entry = Wanted("tarred/*: manifest-to-tarred *", "stdout", re.compile("prepcli/"), 7, "moved")
    assert (entry.covers(moved), entry.covers(more)) == (True, False)
    assert report([moved], [entry], 12, is_whole=True) == 0
    capsys.readouterr()
    long = Difference("a", 1, "b", "stdout", (f"-{'x' * 500}y", f"+{'x' * 500}z"))
    assert report([long], [], 12, is_whole=True) == 1
    assert f"    +...{'x' * 40}z\n" in capsys.readouterr().out
    assert report([moved, more], [entry], 12, is_whole=True) == 1
    assert "tarred/life:3  stdout" in capsys.readouterr().out
    assert report([], [entry], 12, is_whole=True) == 1
    assert "stale in wanted_differences.yaml: issue 7" in capsys.readouterr().out
    assert report([], [entry], 12, is_whole=False) == 0


def test_the_list_of_wanted_differences(tmp_path: Path) -> None:
    assert all(entry.issue > 0 and entry.why for entry in read_wanted(WANTED))
    text = WANTED.read_text()
    example = re.search(r"# (- calls.*)\n# (.*)\n# (.*)\n# (.*)\n# (.*)\n", text)
    assert example
    (tmp_path / "list.yaml").write_text("\n".join(example.groups()))
    (entry,) = read_wanted(tmp_path / "list.yaml")
    assert (entry.what, entry.issue, entry.lines.pattern) == ("stdout", 12, r"out\.prepcli/")


def test_what_varies_is_left_out() -> None:
    text = '"digest": "0123456789abcdef", "prepcli": "0.3.0", "seconds": 2.5, /tmp/x/out at http://127.0.0.1:8080'
    wanted = '"digest": "<digest>", "prepcli": "<version>", "seconds": 2.5, <folder>/out at http://127.0.0.1:<port>'
    assert normal("stdout", text, {"/tmp/x": "<folder>"}) == wanted
    assert normal("files", text, {"/tmp/x": "<folder>"}) == text


def test_a_commit_that_is_not_there() -> None:
    assert run_process([SCRIPT]).code == 2
    done = run_process([SCRIPT, "no-such-commit"])
    assert (done.code, done.err) == (2, "compare_with: there is no commit no-such-commit\n")


@pytest.mark.slow
def test_the_script_on_this_commit() -> None:
    """The tree may hold changes that are not committed; they do not change what filter does with ranks."""
    done = run_process([SCRIPT, "HEAD", "filter/ranks"], env=clean_environment(PREPCLI_PYTHON=sys.executable))
    assert done.code == 0, done.out + done.err
    assert "filter/ranks: 0 differences" in done.out
