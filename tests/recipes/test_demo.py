"""The demo through the Python API, as a script and then cell by cell as in a notebook; all here, with one NeMo."""

import re
import runpy
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, read_lines, tree
from tests.support.nemo_loaders import magpie_batches
from tests.support.running import run_here
from tests.support.tools import need_package

pytestmark = [pytest.mark.slow, pytest.mark.nemo]

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "recipes/demo/demo.py"


def run_script_here(command: Sequence[object], check: bool) -> None:
    """In the place of `subprocess.run`, for the script that makes a codec: a process would import NeMo for it.

    The codec is narrower than that of the demo.
    """
    assert check
    python, script, *arguments = command
    assert (python, Path(str(script)).name) == (sys.executable, "make_codec.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", list(map(str, [script, *arguments, "--base-channels", 1])))
        runpy.run_path(str(script), run_name="__main__")


def test_the_demo_as_a_script_and_again_in_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("nemo.collections.tts")
    need_package("resemblyzer")
    work = tmp_path / "my work"
    monkeypatch.setattr(subprocess, "run", run_script_here)
    script = partial(runpy.run_path, str(SCRIPT), run_name="__main__")
    done = run_here(script, [SCRIPT], cwd=tmp_path, environ={"WORK": str(work), "PYTHONPATH": str(ROOT)})
    assert done.code == 0, done.err
    steps = ("manifest-to-tarred", "extend-context-audio", "manifest-to-shar", "extend-codec-codes")
    for step in steps:
        assert f"{step}: done" in done.out
        assert re.search(rf"^{step} +48 +0 ", done.out, flags=re.MULTILINE), done.out
    paths = dict(re.findall(r"^(\w+): (.+)$", done.out, flags=re.MULTILINE))
    names = {"tarred_audio_filepaths", "manifest_filepath", "cuts", "target_audio", "context_audio"}
    assert names | {"target_codes", "context_codes"} <= set(paths)
    for name in names:
        assert Path(paths[name]).parent.is_dir()
    check_shar_with_codes(work / "shar")

    before = tree(work)
    monkeypatch.setenv("WORK", str(work))
    monkeypatch.chdir(tmp_path)
    notebook: dict[str, object] = {"__name__": "__main__"}  # without __file__
    cells = SCRIPT.read_text(encoding="utf-8").split("\n# %%")
    assert len(cells) > 8
    for cell in cells[1:]:
        exec(compile(f"#{cell}", "cell", "exec"), notebook)
    printed = capsys.readouterr().out
    for step in steps:
        assert f"{step}: nothing to do" in printed
    assert tree(work) == before


def check_shar_with_codes(out: Path) -> None:
    """MagpieTTS reads every record, with codes of target and context."""
    texts = sorted(record["text"] for record in read_lines(MINI_CORPUS / "manifest.json"))
    (codes,) = out.glob("codes_*")
    batches = magpie_batches(out, 22050, codes)
    assert sorted(text for batch in batches for text in batch["raw_texts"]) == texts
    for batch in batches:
        for field in ("audio_codes", "context_audio_codes"):
            assert batch[field].shape[:2] == (len(batch["raw_texts"]), 8)
            assert int(batch[f"{field}_lens"].min()) > 10
