"""Calls of a tree of prepcli as forks of a process that has imported it, which spares the second that imports take.

`python tests/golden/forks.py ANSWERS` is that process: it takes a list of calls per line of stdin, runs them at the
same time, and writes their exit codes to the descriptor ANSWERS. It imports nothing of `tests`, which is of this tree.
"""

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

HANG_SECONDS = 600
"""Limit for one call."""
LIGHT = ("concurrent.futures.process", "multiprocessing.popen_fork", "pyloudnorm")
TORCH = ("torch", "torchaudio.functional", *LIGHT)
WITH_TORCH = frozenset(("extend-context-audio", "extend-codec-codes", "manifest-to-mels", "--speaker-model", "speech"))
"""Words of calls that use PyTorch: they are forks of another process, because its 500 MB make each fork dear."""


@dataclass(frozen=True)
class Tree:
    """A version of prepcli: the folder that holds the package, and the Python with what it needs."""

    root: Path
    python: Path = Path(sys.executable)
    light: tuple[str, ...] = LIGHT

    @contextmanager
    def ready(self) -> Iterator["Ready"]:
        """Processes that start when a call needs them, and end with the context."""
        with ExitStack() as stack:
            yield Ready(self, stack)

    @contextmanager
    def process(self, preload: Sequence[str]) -> Iterator["Process"]:
        """Start a process that imports these modules besides prepcli; it ends with the context."""
        launchers = ("SLURM_", "RANK", "WORLD_SIZE", "LOCAL_", "TORCHELASTIC", "PREPCLI_", "OMPI_", "PMI_", "MPI_")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(launchers)} | {
            "PYTHONPATH": str(self.root),
            "COLUMNS": "120",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",  # its threads would not be in a fork
            "no_proxy": "127.0.0.1",
        }
        answers, theirs = os.pipe()
        with subprocess.Popen(
            [self.python, Path(__file__).resolve(), str(theirs), *preload],
            stdin=subprocess.PIPE,
            cwd=self.root,
            env=environ,
            pass_fds=(theirs,),
            text=True,
        ) as process:
            os.close(theirs)
            assert process.stdin is not None
            with os.fdopen(answers) as lines:
                try:
                    yield Process(process.stdin, lines)
                finally:
                    process.stdin.close()


@dataclass(frozen=True)
class Process:
    """A process that has imported a tree of prepcli."""

    _requests: IO[str]
    _answers: IO[str]

    def run(self, calls: Sequence[Sequence[str]], folder: Path) -> list[tuple[int, str, str]]:
        """Fork for each of `calls`, at the same time: exit code, stdout and stderr of each."""
        with tempfile.TemporaryDirectory(prefix="prepcli-golden-call-") as kept:
            places = [[str(Path(kept) / f"{number}.{name}") for name in ("out", "err")] for number in range(len(calls))]
            request = json.dumps({"calls": calls, "folder": str(folder), "places": places})
            print(request, file=self._requests, flush=True)
            if not select.select([self._answers], [], [], HANG_SECONDS)[0]:
                raise TimeoutError(f"a call does not end: {calls}")
            codes: list[int] = json.loads(self._answers.readline())
            texts = [[Path(path).read_bytes().decode("utf-8", "replace") for path in pair] for pair in places]
        return [(code, out, err) for code, (out, err) in zip(codes, texts, strict=True)]


class Ready:
    """A tree of prepcli with its processes."""

    def __init__(self, tree: Tree, stack: ExitStack) -> None:
        self.tree = tree
        self._stack = stack
        self._started: dict[tuple[str, ...], Process] = {}

    def run(self, calls: Sequence[Sequence[str]], folder: Path) -> list[tuple[int, str, str]]:
        """Run `prepcli WORDS` for each of `calls`, at the same time: exit code, stdout and stderr of each."""
        preload = TORCH if any(not WITH_TORCH.isdisjoint(words) for words in calls) else self.tree.light
        if preload not in self._started:
            self._started[preload] = self._stack.enter_context(self.tree.process(preload))
        return self._started[preload].run(calls, folder)


def _import_all(preload: Sequence[str]) -> None:
    package = importlib.import_module("prepcli")
    if "torch" not in preload:
        sys.modules["torch"] = None  # type: ignore[assignment]
    names = [found.name for found in pkgutil.walk_packages(package.__path__, "prepcli.")]
    for name in names:
        if not name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    if "torch" not in preload:
        del sys.modules["torch"]
    for name in preload:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _serve(answers: int) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        children = []
        for words, streams in zip(request["calls"], request["places"], strict=True):
            pid = os.fork()
            if pid == 0:
                os.close(answers)
                _call(words, request["folder"], streams)
            children.append(pid)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        os.write(answers, f"{json.dumps(codes)}\n".encode())


def _call(words: list[str], folder: str, streams: list[str]) -> None:
    """Be what `prepcli WORDS` is when it has imported its modules; does not return."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in enumerate(streams, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.chdir(folder)
    sys.path[0] = folder
    sys.path.append(f"{folder}/plugin")  # the input of this name: the package of a codec
    sys.argv = ["prepcli", *words]
    code = 1
    try:
        from prepcli.cli.app import main

        main()
        code = 0
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else 0 if done.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        import atexit
        import threading

        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)  # without taking PyTorch down part by part


if __name__ == "__main__":
    sys.path.pop(0)  # tests/golden
    sys.path.insert(0, "")
    _import_all(sys.argv[2:])
    gc.collect()
    gc.freeze()  # no fork searches for cycles in what is here, and copies it
    _serve(int(sys.argv[1]))
