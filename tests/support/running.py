"""The command line in this process, which spares hundreds of starts, or in a process of its own."""

import contextlib
import gc
import importlib
import io
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.main import get_command

from prepcli.audio import flac
from prepcli.cli.app import build_app, main
from tests.support.one_process import one_process

HANG_SECONDS = 900.0
"""Limit of everything that a test waits for: against hangs only, far beyond what a slow machine needs."""


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
    launchers = (
        *("SLURM_", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC", "PREPCLI_"),
        *("OMPI_", "PMI_", "MPI_LOCAL", "JOB_COMPLETION_INDEX", "SKYPILOT_"),
    )
    return {key: value for key, value in os.environ.items() if not key.startswith(launchers)} | extra


Prepcli = Callable[..., Outcome]


def prepcli(*arguments: object, cwd: Path | None = None, environ: dict[str, str] | None = None) -> Outcome:
    """`prepcli ARGUMENTS` in this process, which does the work of a single worker as well, but see `forking`.

    Use `prepcli_process` where the test is about the process itself: start-up, imports, signals, pipes.
    """
    with patch("prepcli.cli.app.build_app", _app), one_process():
        return run_here(main, ["prepcli", *arguments], cwd=cwd, environ=environ)


def _app(words: Sequence[str]) -> Any:
    """What `build_app` gives, made once for each command: that takes longer than most of what tests call."""
    return build_app(words) if any(name.endswith("_COMPLETE") for name in os.environ) else _program(*words[:1])


@cache
def _program(*first_word: str) -> Any:
    return get_command(build_app(first_word))


def run_here(
    function: Callable[[], object],
    argv: Sequence[object],
    *,
    cwd: Path | None = None,
    environ: dict[str, str] | None = None,
) -> Outcome:
    """Call the `main` of a program in this process; what C libraries and worker processes print is caught as well."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with (
            _descriptors({1: out.fileno(), 2: err.fileno()}),
            _settings(list(map(str, argv)), clean_environment(**environ or {}), cwd),
            warnings.catch_warnings(),
        ):
            import_for_workers()
            # Worker processes are forked from here: what is alive need not be searched for cycles, and copied, in each.
            gc.freeze()
            warnings.simplefilter("error", RuntimeWarning)  # NumPy's, which would be printed
            try:
                function()
                code = 0
            except SystemExit as done:
                code = int(done.code or 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    return Outcome(code, *texts)


def import_for_workers() -> None:
    """Import once what each of hundreds of worker processes would otherwise import, PyTorch's parts only after it."""
    modules = ["miniaudio", "urllib.request", *(["torchaudio"] if sys.modules.get("torch") else [])]
    for name in modules:
        if name not in sys.modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    flac.frames_fit(b"fLaC\x80\0\0\0-")  # which imports fastcrc


@contextmanager
def _settings(argv: list[str], environ: dict[str, str], cwd: Path | None) -> Iterator[None]:
    """What belongs to a process, changed for a while."""
    before = sys.argv, dict(os.environ), os.open(".", os.O_RDONLY)
    affinity = os.sched_getaffinity
    try:
        # One worker process where the test asks for no number: each is a fork of this process, with all it has loaded.
        os.sched_getaffinity = lambda _: {0}
        os.environ.clear()
        os.environ.update(environ)
        sys.argv = argv
        if cwd is not None:
            os.chdir(cwd)
        yield
    finally:
        os.sched_getaffinity = affinity
        sys.argv = before[0]
        os.environ.clear()
        os.environ.update(before[1])
        os.fchdir(before[2])
        os.close(before[2])


@contextmanager
def _descriptors(targets: dict[int, int]) -> Iterator[None]:
    """Standard output and error, for Python and for everybody else, into other files."""
    saved = {number: os.dup(number) for number in targets}
    try:
        for number, target in targets.items():
            os.dup2(target, number)
        with (
            io.TextIOWrapper(os.fdopen(1, "wb", 0, closefd=False), "utf-8", write_through=True) as out,
            io.TextIOWrapper(
                os.fdopen(2, "wb", 0, closefd=False), "utf-8", errors="backslashreplace", write_through=True
            ) as err,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            yield
    finally:
        for number, copy in saved.items():
            os.dup2(copy, number)
            os.close(copy)


def run_process(command: Sequence[object], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> Outcome:
    """Run a program to its end, by default in our environment without any launcher's variables."""
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        cwd=cwd,
        env=clean_environment() if env is None else env,
        timeout=HANG_SECONDS,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def prepcli_process(*arguments: object, environ: dict[str, str] | None = None) -> Outcome:
    """`prepcli ARGUMENTS` in a process of its own, which a limit ends."""
    process = start_prepcli(*arguments, environ=environ)
    try:
        out, err = process.communicate(timeout=HANG_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode is not None
    return Outcome(process.returncode, out, err)


def prepcli_without(modules: Sequence[str], *arguments: object) -> Outcome:
    """Run the command line in a process that cannot import these modules."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({list(modules)!r})); sys.argv[0] = 'prepcli'\n"
        "from prepcli.cli.app import main; main()"
    )
    return run_process([sys.executable, "-c", code, *arguments])


Process = subprocess.Popen[str]


def start_prepcli(*arguments: object, module: str = "prepcli", environ: dict[str, str] | None = None) -> Process:
    """Start the command line (or a `module` that does the same with a part of it replaced) and let it run."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(**environ or {}),
        start_new_session=True,
    )
