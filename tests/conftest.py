"""What tests share: the mini corpus, a directory with an awkward name, and what they make of data sets."""

import gc
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import examples as fuzzing
from tests.support import seeds
from tests.support.one_process import forking as forking_workers
from tests.support.running import Outcome, prepcli
from tests.support.scheduling import APART, FAST_TIER, ROOT, group_of_test
from tests.support.scheduling import pytest_xdist_auto_num_workers as pytest_xdist_auto_num_workers  # hooks
from tests.support.scheduling import pytest_xdist_make_scheduler as pytest_xdist_make_scheduler
from tests.support.tools import pytest_terminal_summary as pytest_terminal_summary  # pytest looks for its hooks here

# Before PyTorch is imported, as the commands do: its threads would else wait for each other in busy loops, against
# those of the other tests.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

DATA = Path(__file__).parent / "data"
NEMO_FIXTURES = frozenset({"speaker_model", "codec_model"})
"""Fixtures that import NeMo."""
MINI_CORPUS = DATA / "mini_corpus"
SHORT_CORPUS = DATA / "short_corpus"
"""The records of the mini corpus with the first tenth of each recording: for tests that only need records."""
IN_MEMORY = Path("/dev/shm")
"""Where the files of tests lie: every run flushes its files, which takes half of a kill matrix's time on a disk."""
IMPORTED = pytest.StashKey[set[str]]()
"""What of NeMo and PyTorch this process has imported, to report it once."""
MIN_FREE_BYTES = 4 << 30
"""Room there that is enough by far: the files of a test are removed when it has passed."""

Lines = list[dict[str, Any]]


@pytest.fixture
def mini_corpus() -> Path:
    """Folder of the mini corpus: `manifest.json` (48 records), `segments.json` (6 segments of one file)."""
    return MINI_CORPUS


@pytest.fixture
def short_corpus() -> Path:
    """Folder of the short corpus: `manifest.json` and `manifest_with_context.json` (48 records each)."""
    return SHORT_CORPUS


@pytest.fixture(scope="module")
def forking() -> Iterator[None]:
    """For tests of files that may crash a decoder, and of workers: a single one is a process, as outside of tests."""
    with forking_workers():
        yield


@pytest.fixture
def awkward(tmp_path: Path) -> Path:
    """A directory whose name has blanks, quotes, a comma, a newline and non-ASCII letters: it finds real bugs."""
    path = tmp_path / 'it\'s "odd", naïve\n目录'
    path.mkdir()
    return path


@pytest.fixture
def draw(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of this test alone; a failure prints the seed that replays it."""
    return seeds.draw_for(f"{request.node.path.name}::{request.node.name}")


def pytest_configure(config: pytest.Config) -> None:
    seeds.seed()  # before the processes of pytest-xdist start, which inherit it
    fuzzing.examples_only = config.option.markexpr == FAST_TIER
    if _free_bytes(IN_MEMORY) >= MIN_FREE_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free if os.access(folder, os.W_OK) else 0


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without searching for cycles: thousands of tests stay until the end, and each search takes longer."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use a fixture with NeMo are marked `nemo`, all such tests `slow`; the long groups come first."""
    for item in items:
        if NEMO_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.nemo)
        if item.get_closest_marker("nemo"):
            item.add_marker(pytest.mark.slow)
            test = f"{item.path.relative_to(ROOT).as_posix()}::{item.nodeid.partition('::')[2]}"
            if group_of_test(test) != "nemo":
                raise pytest.UsageError(f"{test} is marked nemo: tests/support/torch_tests.py has no sign of it")
    slow = {item.path for item in items if item.get_closest_marker("slow")}

    def turn(item: pytest.Item) -> tuple[int, bool]:
        group = _group(item)
        return (("nemo", "models").index(group) if group in ("nemo", "models") else 2, item.path not in slow)

    items.sort(key=turn)


def _group(item: pytest.Item) -> str:
    return group_of_test(f"{item.path.relative_to(ROOT).as_posix()}::{item.nodeid.partition('::')[2]}")


def pytest_collection_finish() -> None:
    """Collecting must not import PyTorch: each fork of each process that runs tests would cost ten times more."""
    if "torch" in sys.modules:
        raise pytest.UsageError(
            "a test file imports torch at its top: use tests/support/lazy.py, or tests.support.tools.without"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Refuse imports that make each later fork of this process dearer: NeMo's is for slow tests, PyTorch's for few."""
    result = yield  # a stand-in of a test is gone then
    known = item.config.stash.setdefault(IMPORTED, set())
    new = {name for name in ("nemo.core", "torch") if sys.modules.get(name)} - known
    known |= new
    if not fuzzing.examples_only or not new:
        return result
    if "nemo.core" in new:
        pytest.fail("the test has imported NeMo: mark it nemo", pytrace=False)
    if _group(item) not in APART:
        pytest.fail('the test has imported PyTorch: it needs the fixture "one_thread"', pytrace=False)
    return result


def pytest_report_header() -> str:
    """The seed of random tests, to replay them with."""
    return f"random tests: {seeds.VARIABLE}={seeds.seed()}"


def real_speech() -> Path | None:
    """Folder of recorded voices that the project does not ship: `shared/data/real_speech`, here or beside us."""
    root = Path(__file__).parents[1]
    places = [Path(os.environ.get("PREPCLI_REAL_SPEECH", "/nonexistent")), root / "shared", root.parent / "shared"]
    folders = [places[0], *(place / "data/real_speech" for place in places[1:])]
    return next((folder for folder in folders if (folder / "manifest.json").exists()), None)


@pytest.fixture(scope="session")
def speaker_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small NeMo speaker model as a `.nemo` file; skips without NeMo."""
    pytest.importorskip("nemo.collections.asr")
    from tests.support.speaker_models import save_speaker_model

    return save_speaker_model(tmp_path_factory.mktemp("model") / "speaker.nemo")


@pytest.fixture(scope="session")
def codec_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small NeMo audio codec as a `.nemo` file; skips without NeMo."""
    pytest.importorskip("nemo.collections.tts")
    from tests.support.codec_models import save_codec

    return save_codec(tmp_path_factory.mktemp("model") / "small codec.nemo")


@pytest.fixture(scope="module")
def toy_voice() -> Iterator[None]:
    """A toy in the place of all speaker models."""
    from tests.support.toy_voice import use_toy_voice

    with pytest.MonkeyPatch.context() as patch:
        use_toy_voice(patch.setattr)
        yield


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """PyTorch with one thread: others, waiting in busy loops, cost more than they bring beside other tests."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def read_lines(path: Path) -> Lines:
    """The records of a JSON-lines file; every line must be one."""
    text = path.read_text(encoding="utf-8")
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def write_lines(path: Path, records: Lines) -> Path:
    """Write a manifest as NeMo's scripts do."""
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


def folder_on_another_file_system(folder: Path) -> Path:
    """A new folder, which the test removes; skips where the machine has a single file system."""
    for other in (Path("/dev/shm"), Path("/tmp"), Path("/var/tmp"), Path.home()):
        if os.access(other, os.W_OK) and other.stat().st_dev != folder.stat().st_dev:
            return Path(tempfile.mkdtemp(prefix="prepcli-test-", dir=other))
    pytest.skip("needs a second file system, at /dev/shm for instance")


def copy_set(out: Path, folder: Path, *, records: bool = False) -> Path:
    """Copy a data set into `folder`, under its own name; with `records`, those of its making beside it as well."""
    copy = Path(shutil.copytree(out, folder / out.name))
    if records:
        shutil.copytree(out.with_name(f"{out.name}.prepcli"), folder / f"{out.name}.prepcli")
    return copy


def make_set(command: str, manifest: object, out: Path, *options: object) -> Outcome:
    """Run a command that makes a data set and let `verify` judge the result."""
    done = prepcli(command, manifest, out, "--json", *options)
    assert done.code == 0, done.err
    checked = prepcli("verify", out)
    assert checked.code == 0, checked.out
    return done


def tree(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below `folder` (or of the file itself): two equal trees are equal byte for byte."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in [folder, *sorted(folder.rglob("*"))]
        if path.is_file()
    }
