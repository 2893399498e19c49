"""How the tests run, and what they share.

Processes are what costs time: an import of PyTorch takes 2 s, one of NeMo 8, a start of the command line 0.3.

- **Kinds.** `scripts/test.sh` calls `pytest --kind KIND` for each kind (`KINDS` below), all at once. A test gets its
  kind from a fixture or a mark; only `light` ones are shared by several processes (pytest-xdist). One that is not
  `slow` and imports PyTorch or NeMo without the kind fails (`pytest_runtest_teardown`).
- **A command in this process**: `prepcli(...)` in `support/running.py`. A single worker is this process too
  (`support/one_process.py`), unless a test has the fixture `forking`.
- **A command as a process**: `start_prepcli` there.
- **A process with a model**: `python -c` as a fork of this process (`support/forks.py`).
- **Modules that are slow to import** are imported when a test uses them (`support/lazy.py`).
- **Programs and packages that may be missing** (`support/tools.py`): the test is skipped, or fails with `CI=true`.
- **Random tests** (`support/seeds.py`): the seed is printed, and given to replay one.
- All other files in `support/` make inputs: corpora, sets, toy models. What the tests of one folder need is there.
"""

import gc
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fuzz import examples as fuzzing
from tests.support import seeds
from tests.support.one_process import forking as forking_workers
from tests.support.running import Outcome, prepcli
from tests.support.tools import pytest_terminal_summary as pytest_terminal_summary  # pytest looks for its hooks here

if TYPE_CHECKING:
    from tests.storage.object_store import ObjectStore

DATA = Path(__file__).parent / "data"
KINDS = {
    "nemo": {"speaker_model", "codec_model"},
    "torch": {"one_thread", "toy_voice"},
    "store": {"object_store"},
}
"""Marks of tests that need a process of their kind, and the fixtures that give a test this mark; all others are light.

`scripts/test.sh` calls pytest once per kind. NeMo and PyTorch take seconds to import and make each fork of their
process ten times dearer; a store takes seconds to start.
"""
FAST_TIER = "not slow"
"""The expression for marks of `scripts/test.sh`."""
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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kind", choices=[*KINDS, "light"], help="run only the tests of this kind")


@cache
def _mentions(path: Path, kind: str) -> bool:
    text = path.read_text(encoding="utf-8")
    return any(word in text for word in (kind, *KINDS[kind]))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The processes of a kind do not import the test files that do not name it."""
    kind = config.getoption("kind")
    if kind not in KINDS or collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    return None if _mentions(collection_path, kind) else True


def kind_of(item: pytest.Item) -> str:
    """The kind of process that runs a test in `scripts/test.sh`."""
    return next((kind for kind in KINDS if item.get_closest_marker(kind)), "light")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by their fixtures, and those of NeMo `slow`; files with slow tests come first."""
    for item in items:
        for kind, fixtures in KINDS.items():
            if fixtures.intersection(getattr(item, "fixturenames", ())):
                item.add_marker(kind)
        if item.get_closest_marker("nemo"):
            item.add_marker("slow")
    wanted = config.getoption("kind")
    config.hook.pytest_deselected(items=[item for item in items if wanted not in (None, kind_of(item))])
    kinds = {(item.path, kind_of(item)) for item in items}
    if unnamed := {f"{path}: {kind}" for path, kind in kinds if kind in KINDS and not _mentions(path, kind)}:
        raise pytest.UsageError(f"write the kind of the tests into these files: {', '.join(sorted(unnamed))}")
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    wanted_items = (item for item in items if wanted in (None, kind_of(item)))
    items[:] = sorted(wanted_items, key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Collecting must not import PyTorch: each fork of each process that runs tests would cost ten times more."""
    if "torch" in sys.modules:
        raise pytest.UsageError(
            "a test file imports torch at its top: use tests/support/lazy.py, or tests.support.tools.without"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Refuse imports of NeMo and PyTorch by tests that are marked neither so nor slow: their processes are others."""
    result = yield  # a stand-in of a test is gone then
    imported = item.config.stash.setdefault(IMPORTED, set())
    for module, kinds in (("nemo.core", ("nemo",)), ("torch", ("torch", "nemo"))):
        if sys.modules.get(module) and module not in imported:
            imported.add(module)
            if kind_of(item) not in kinds and not item.get_closest_marker("slow"):
                pytest.fail(f"the test has imported {module}: mark it {kinds[0]}", pytrace=False)
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


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator["ObjectStore"]:
    """A running store, started once per process that runs tests of it."""
    from tests.storage.object_store import ObjectStore

    store = ObjectStore(tmp_path_factory.mktemp("store"))
    try:
        store.start()
        yield store
    finally:
        store.kill()


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
    return [json.loads(line) for line in text.split("\n")[:-1]]  # U+2028 and its like end no line


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
