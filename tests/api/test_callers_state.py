"""What a call changes in the program that calls it is brought back; `test_examples.py` checks that for all commands."""

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

import prepcli as library
from prepcli.errors import UsageError
from prepcli.interface.calls import called, keep_for_caller, log_less, set_environ_default
from tests.api.callers_state import unchanged
from tests.commands.download.server import Site, serving
from tests.conftest import MINI_CORPUS, SHORT_CORPUS
from tests.support.running import HANG_SECONDS, run_process

DAEMONIC = """
import multiprocessing, prepcli, sys
def work(number):
    out = f"{sys.argv[2]}/{number}"
    made = prepcli.manifest_to_tarred(sys.argv[1], out, num_shards=4, num_workers=number)
    return made.status, prepcli.verify(out).status, prepcli.inspect(out).records
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(work, [1, 2]))
"""


def test_the_last_value_before_a_call_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SET_BY_A_CALL", raising=False)
    logger = logging.getLogger("logger of a test")
    values: list[int] = []
    with unchanged(), pytest.raises(UsageError), called(["inspect"], progress=False):
        for _ in range(2):
            set_environ_default("SET_BY_A_CALL", "1")
            log_less(logger.name, logging.ERROR)
            keep_for_caller(lambda value: lambda: values.append(value), 1)
        assert (os.environ["SET_BY_A_CALL"], logger.level) == ("1", logging.ERROR)
        raise UsageError("the call fails")
    assert logger.level == logging.NOTSET
    assert "SET_BY_A_CALL" not in os.environ


def test_no_thread_of_a_server_is_left_to_the_next_test() -> None:
    before = set(threading.enumerate())
    with contextlib.ExitStack() as stack:
        with serving(Site({"file": b"text"})) as site:
            client = stack.enter_context(contextlib.closing(HTTPConnection(site.url.removeprefix("http://"))))
            client.request("GET", "/file")
            assert client.getresponse().read() == b"text"
            assert len(set(threading.enumerate()) - before) == 2
        assert set(threading.enumerate()) == before  # though the client still has its connection


@pytest.mark.slow
def test_workers_of_a_daemonic_process(tmp_path: Path) -> None:
    """Python lets it start no processes; those of a Pool and of a DataLoader are daemonic."""
    script = tmp_path / "script.py"
    script.write_text(DAEMONIC)
    done = run_process([sys.executable, script, SHORT_CORPUS / "manifest.json", tmp_path])
    assert (done.code, done.out) == (0, f"{[('done', 'ok', 48)] * 2}\n"), done.err


def test_workers_of_a_daemonic_process_end_with_it(tmp_path: Path) -> None:
    """That is why Python refuses them: a Pool kills its processes when it ends."""
    worker, child = os.pipe()
    if os.fork() == 0:
        os.close(worker)
        _run_daemonic(child)
    os.close(child)
    with os.fdopen(worker) as pipe:
        for pid in map(int, pipe.readline().split()):
            os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + HANG_SECONDS
        assert pipe.read() == ""  # at the end of the last process that has the other end
        assert time.monotonic() < deadline
    os.wait()


def _run_daemonic(pipe: int) -> None:
    """A daemonic process that starts a worker, which writes the number of that process, and sleeps."""
    import multiprocessing

    from prepcli.processes.pools import map_in_order

    def daemonic() -> None:
        list(map_in_order(_tell_and_sleep, [pipe], 1, always_fork=True))

    process = multiprocessing.get_context("fork").Process(target=daemonic, daemon=True)
    process.start()
    process.join()
    os._exit(0)


def _tell_and_sleep(pipe: int) -> None:
    os.write(pipe, f"{os.getppid()}\n".encode())
    time.sleep(HANG_SECONDS)


def test_models_of_nemo(speaker_model: Path, codec_model: Path, tmp_path: Path) -> None:
    manifest, model = MINI_CORPUS / "manifest.json", str(speaker_model)
    with unchanged():
        contexts = tmp_path / "contexts"
        library.extend_context_audio(manifest, contexts, speaker_model=model, context_min_ssim=-1.0, devices="cpu")
        library.extend_codec_codes(manifest, str(codec_model), output_dir=tmp_path / "codes", devices="cpu")
