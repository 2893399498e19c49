"""What belongs to the program that calls prepcli, and must be the same after each call."""

import contextlib
import faulthandler
import gc
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

_NOT_OURS = ("KMP_", "PATH", "PYTEST_CURRENT_TEST")
"""Variables that PyTorch and lhotse set when they are imported, and pytest for each phase of a test."""
_OF_PACKAGES = (".ttf", "/dev/nvidia")
"""Files that packages keep open: matplotlib its fonts, CUDA its devices."""
_LOGGERS = ("prepcli", "sox", "nemo_logger")


@contextlib.contextmanager
def unchanged() -> Iterator[None]:
    """Fail if the state of this process is another one after the block."""
    _forget_what_tests_have_fixed()
    gc.collect()  # files of earlier tests
    before = state()
    yield
    gc.collect()
    after = state()
    changed = {name: (before[name], value) for name, value in after.items() if before.get(name, value) != value}
    assert not changed, changed


def _forget_what_tests_have_fixed() -> None:
    """Other tests of this process may have started processes, or shown bars."""
    multiprocessing.context._default_context._actual_context = None  # type: ignore[attr-defined]
    if "tqdm" in sys.modules:
        from tqdm import tqdm

        with contextlib.suppress(AttributeError):
            del tqdm._lock  # type: ignore[attr-defined]
        tqdm.monitor = None


def state() -> dict[str, Any]:
    """The state of this process, by names."""
    umask = os.umask(0)
    os.umask(umask)
    found: dict[str, Any] = {
        "working directory": Path.cwd(),
        "umask": umask,
        "random": random.getstate(),
        "NumPy's random": [str(one) for one in np.random.get_state()],
        "NumPy's errors": np.geterr(),
        "start method": multiprocessing.get_start_method(allow_none=True),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "children": sorted(process.name for process in multiprocessing.active_children()),
        "handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "signals held back": signal.pthread_sigmask(signal.SIG_BLOCK, []),
        "locale": locale.setlocale(locale.LC_ALL),
        "garbage": (gc.isenabled(), gc.get_threshold()),
        "hooks": (sys.excepthook, threading.excepthook, sys.unraisablehook, faulthandler.is_enabled()),
        "streams": (sys.stdin, sys.stdout, sys.stderr, sys.argv[:]),
        "limits": [resource.getrlimit(one) for one in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)],
        "logging": (logging.root.level, logging.root.manager.disable, logging.root.handlers[:]),
        "open files": sorted(_open_files()),
    }
    found |= {f"environment {key}": os.environ[key] for key in sorted(os.environ) if not key.startswith(_NOT_OURS)}
    found["environment"] = [name for name in found if name.startswith("environment ")]
    loggers = logging.root.manager.loggerDict
    found |= {f"logger {name}": logging.getLogger(name).level for name in _LOGGERS if name in loggers}
    return found | _state_of_pytorch()


def _open_files() -> Iterator[tuple[int, str]]:
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")
            if not any(part in target for part in _OF_PACKAGES):
                yield int(name), target


def _state_of_pytorch() -> dict[str, Any]:
    module: Any = sys.modules.get("torch")
    if module is None:
        return {}
    cudnn = module.backends.cudnn
    return {
        "PyTorch's random": module.get_rng_state().tolist(),
        "PyTorch's settings": (
            module.get_float32_matmul_precision(),
            cudnn.allow_tf32,
            cudnn.benchmark,
            cudnn.deterministic,
            module.is_grad_enabled(),
            module.get_num_threads(),
            module.get_default_dtype(),
        ),
    }
