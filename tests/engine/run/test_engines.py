"""`--engine`: which engines and addresses are taken, and which commands."""

import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import prepcli as library
from prepcli.errors import UsageError
from tests.conftest import SHORT_CORPUS
from tests.support.running import prepcli, prepcli_process
from tests.support.tools import need_package

MANIFEST = str(SHORT_CORPUS / "manifest.json")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--engine", "spark"), "--engine spark: the engines are dask and ray, with =ADDRESS for a cluster"),
        (("--engine", "dask="), "--engine dask=: the engines are dask and ray, with =ADDRESS for a cluster"),
        (("--engine", "dask", "--rank", 0, "--world-size", 2), "--engine dask: an engine has workers and no ranks"),
    ],
)
def test_refused(words: tuple[object, ...], message: str, tmp_path: Path) -> None:
    done = prepcli("manifest-to-tarred", MANIFEST, tmp_path / "out", "--num-shards", 8, *words)
    assert (done.code, message in done.error_line) == (2, True), done.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("dask=tcp://127.0.0.1:1", "nothing answers there"),
        ("dask=scheduler", "does not start: missing port number in address 'scheduler'"),
        ("ray=127.0.0.1:1", "nothing answers there"),
    ],
)
def test_an_address_without_a_cluster(engine: str, message: str, tmp_path: Path) -> None:
    need_package({"dask": "distributed"}.get(engine[:4], "ray"))
    done = prepcli("manifest-to-tarred", MANIFEST, tmp_path / "out", "--num-shards", 8, "--engine", engine)
    assert done.code == 2, done.err
    assert f"--engine {engine}" in done.error_line
    assert message in done.error_line


def test_the_port_of_another_cluster(tmp_path: Path) -> None:
    """Dask would warn of it."""
    need_package("distributed")
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError):  # another one has it
            opened.enter_context(socket.create_server(("127.0.0.1", 8787)))
        words = ("manifest-to-tarred", MANIFEST, tmp_path / "out", "--num-shards", 8, "--num-workers", 1)
        done = prepcli_process(*words, "--engine", "dask")
    assert done.code == 0, done.err
    assert "Warning" not in done.err


def test_a_command_with_a_model_is_refused(tmp_path: Path) -> None:
    words = ("extend-context-audio", MANIFEST, tmp_path / "out", "--engine", "dask")
    done = prepcli(*words)
    assert done.code == 2
    assert "its model stays in one process for each device" in done.error_line
    assert not list(tmp_path.iterdir())


def test_executor_and_engine(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(UsageError, match="two ways to say the same"):
        library.manifest_to_tarred(MANIFEST, tmp_path / "out", num_shards=8, executor=pool, engine="dask")
    with pytest.raises(UsageError, match="executor must be of type UnitExecutor"):
        library.manifest_to_tarred(MANIFEST, tmp_path / "out", num_shards=8, executor="dask")  # type: ignore[arg-type]
