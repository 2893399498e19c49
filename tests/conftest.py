"""What tests share: the mini corpus, a directory with an awkward name, and the command line as a real process."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# Before PyTorch is imported, as the commands do: its threads would else wait for each other in busy loops, against
# those of the other tests.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

DATA = Path(__file__).parent / "data"
MINI_CORPUS = DATA / "mini_corpus"

Lines = list[dict[str, Any]]


@pytest.fixture
def mini_corpus() -> Path:
    """Folder of the mini corpus: `manifest.json` (48 records), `segments.json` (6 segments of one file)."""
    return MINI_CORPUS


@pytest.fixture
def awkward(tmp_path: Path) -> Path:
    """A directory whose name has blanks, quotes, a comma, a newline and non-ASCII letters: it finds real bugs."""
    path = tmp_path / 'it\'s "odd", naïve\n目录'
    path.mkdir()
    return path


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
    from tests.speaker_models import save_speaker_model

    return save_speaker_model(tmp_path_factory.mktemp("model") / "speaker.nemo")


@pytest.fixture(scope="session")
def codec_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small NeMo audio codec as a `.nemo` file; skips without NeMo."""
    pytest.importorskip("nemo.collections.tts")
    from tests.codec_models import save_codec

    return save_codec(tmp_path_factory.mktemp("model") / "small codec.nemo")


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """PyTorch with one thread: others, waiting in busy loops, cost more than they bring beside other tests."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Outcome:
    """What a finished command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout."""
        document = json.loads(self.out)
        assert isinstance(document, dict)
        return document

    @property
    def error_line(self) -> str:
        """The one line of an error; more than one, or a traceback, fails."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err
        return lines[0]


def clean_environment(**extra: str) -> dict[str, str]:
    """Our environment without any launcher's variables."""
    launchers = ("SLURM_", "RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC", "PREPCLI_")
    return {key: value for key, value in os.environ.items() if not key.startswith(launchers)} | extra


Prepcli = Callable[..., Outcome]


def prepcli(*arguments: object, cwd: Path | None = None, environ: dict[str, str] | None = None) -> Outcome:
    """Run the command line in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "prepcli", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=clean_environment(**environ or {}),
        timeout=300,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def prepcli_without(modules: Sequence[str], *arguments: object) -> Outcome:
    """Run the command line in a process that cannot import these modules."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({list(modules)!r})); sys.argv[0] = 'prepcli'\n"
        "from prepcli.cli.app import main; main()"
    )
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), timeout=300, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)


def start_prepcli(*arguments: object, module: str = "prepcli", **environ: str) -> subprocess.Popen[str]:
    """Start the command line (or a `module` that does the same with a part of it replaced) and let it run."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(**environ),
        start_new_session=True,
    )


def read_lines(path: Path) -> Lines:
    """The records of a JSON-lines file; every line must be one."""
    text = path.read_text(encoding="utf-8")
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def write_lines(path: Path, records: Lines) -> Path:
    """Write a manifest as NeMo's scripts do."""
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


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
    """SHA-256 of every file below `folder`: two equal trees are equal byte for byte."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
