"""Fetching a pretrained model from a server: several processes at once, kills, breaks, and files of other programs."""

from __future__ import annotations

import gzip
import io
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from prepcli.engine.ranks import launch
from prepcli.errors import IncompleteError, PrepcliError
from prepcli.models import ranks
from prepcli.models.devices import Devices
from prepcli.models.fetching import fetch_model
from prepcli.processes.owner import Owner
from prepcli.storage import transfer
from tests.commands.download.server import Site, serving
from tests.conftest import MINI_CORPUS, tree
from tests.support.forks import FORKING
from tests.support.running import HANG_SECONDS, clean_environment, prepcli

NAME = "titanet-l.nemo"
FETCH = "import sys; from pathlib import Path; from prepcli.models.fetching import fetch_model; "
FETCH += "fetch_model(sys.argv[1], Path(sys.argv[2]))"


def archive(seed: int = 0, num_bytes: int = 4_000_000) -> bytes:
    """A tar of a config and weights that cannot be compressed."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in (("model_config.yaml", b"a: 1\n"), ("weights", random.Random(seed).randbytes(num_bytes))):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return data.getvalue()


DATA = archive()
PACKED = gzip.compress(archive(1, 1_000_000))


@pytest.fixture
def serve() -> Iterator[Callable[[Site], Site]]:
    with ExitStack() as stack:
        yield lambda site: stack.enter_context(serving(site))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "cache" / NAME


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def start(site: Site, target: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", FETCH, f"{site.url}/{NAME}", str(target)]
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=clean_environment())


def fetched_so_far(target: Path) -> int:
    part = target.with_name(f"{NAME}.part")
    return part.stat().st_size if part.exists() else 0


@pytest.mark.slow
def test_processes_that_start_at_once_fetch_once_also_when_some_are_killed(
    serve: Callable[[Site], Site], target: Path
) -> None:
    """Whoever fetches is killed, twice: the next one continues, and what has the final name is always whole."""
    site = serve(Site({NAME: DATA}, hold_after=[1_500_000, 1_500_000]))
    processes = [start(site, target) for _ in range(4)]
    lock = target.with_name(f".{NAME}.lock")
    killed: list[int] = []
    for num_megabytes in (1, 2):
        wait_until(lambda enough=num_megabytes << 20: fetched_so_far(target) >= enough)  # type: ignore[misc]
        assert not target.exists()
        holder = Owner.parse(lock.read_text())
        assert holder is not None
        killed.append(holder.pid)
        os.kill(killed[-1], signal.SIGKILL)
    errors = [process.communicate(timeout=HANG_SECONDS)[1] for process in processes]
    codes = {process.pid: process.returncode for process in processes}
    assert len(set(killed)) == 2
    assert codes == {pid: -signal.SIGKILL if pid in killed else 0 for pid in codes}, errors
    assert target.read_bytes() == DATA
    assert os.listdir(target.parent) == [NAME]
    first, *others = [wanted for _, wanted in site.asked]
    assert first is None
    assert len(others) == 2 and all(int(str(one)[len("bytes=") : -1]) > 0 for one in others)
    assert sum("note: fetched titanet-l.nemo, 4.0 MB" in text for text in errors) == 1


def test_a_file_that_is_whole_asks_nobody(serve: Callable[[Site], Site], target: Path) -> None:
    site = serve(Site({}))
    target.parent.mkdir()
    target.write_bytes(DATA)
    target.parent.chmod(0o555)
    fetch_model(f"{site.url}/{NAME}", target)
    assert site.asked == []


@pytest.mark.parametrize(
    "left",
    [b"", DATA[:300], DATA[:1024], DATA[:1200], DATA[:1_000_000], DATA[:4_001_792], PACKED[:500_000], PACKED[:-4]],
    ids=["empty", "header", "member", "next header", "weights", "no end", "packed", "no checksum"],
)
def test_a_file_that_a_killed_download_has_left_is_replaced(
    left: bytes, serve: Callable[[Site], Site], target: Path
) -> None:
    """NeMo fetches to the final name."""
    data = PACKED if left.startswith(PACKED[:3]) else DATA
    site = serve(Site({NAME: data}))
    target.parent.mkdir()
    target.write_bytes(left)
    fetch_model(f"{site.url}/{NAME}", target)
    assert target.read_bytes() == data
    fetch_model(f"{site.url}/{NAME}", target)
    assert len(site.asked) == 1


def test_a_connection_that_breaks_is_continued_by_the_next_run(
    serve: Callable[[Site], Site], target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "BACKOFF", 0.01)
    site = serve(Site({NAME: DATA}, cut_after=[500_000, 0, 0, 0]))
    with pytest.raises(IncompleteError, match="500,000 bytes were fetched and are kept"):
        fetch_model(f"{site.url}/{NAME}", target)
    assert not target.exists()
    site.cut_after.clear()
    fetch_model(f"{site.url}/{NAME}", target)
    assert target.read_bytes() == DATA
    assert site.asked[-1][1] == "bytes=500000-"


@pytest.mark.parametrize(
    ("files", "words"),
    [({}, "404 Not Found"), ({NAME: b"<html>log in first</html>"}, "is not a whole .nemo file"), (None, "refused")],
    ids=["nothing", "a page", "no server"],
)
def test_a_server_without_the_model_leaves_what_is_there(
    files: dict[str, bytes] | None,
    words: str,
    serve: Callable[[Site], Site],
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transfer, "BACKOFF", 0.01)
    url = "http://127.0.0.1:9" if files is None else serve(Site(files)).url
    target.parent.mkdir()
    target.write_bytes(b"of another program")
    with pytest.raises(PrepcliError, match=words) as raised:
        fetch_model(f"{url}/{NAME}", target)
    assert raised.value.exit_code == 1
    assert target.read_bytes() == b"of another program"


@pytest.mark.nemo
def test_ranks_that_the_command_starts_fetch_nemos_model_once(
    speaker_model: Path, serve: Callable[[Site], Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine with three GPUs, by NeMo's own list and into its own cache."""
    from nemo.collections.asr.models import EncDecSpeakerLabelModel
    from nemo.core.classes.common import PretrainedModelInfo

    data = speaker_model.read_bytes()
    site = serve(Site({NAME: data}, cut_after=[len(data) // 2]))
    listed = [PretrainedModelInfo("titanet_large", "A description.", f"{site.url}/{NAME}")]
    monkeypatch.setattr(EncDecSpeakerLabelModel, "list_available_models", lambda: listed)
    monkeypatch.setattr(ranks, "find_devices", lambda _, rank: Devices("cpu", 3 if rank.launcher == "none" else 1))
    monkeypatch.setattr(launch, "subprocess", FORKING)
    words = ["extend-context-audio", MINI_CORPUS / "manifest.json", "--devices", "cpu", "--speaker-model"]
    environ = {"NEMO_CACHE_DIR": str(tmp_path / "cache")}
    whole = prepcli(*words, speaker_model, tmp_path / "whole")
    done = prepcli(*words, "titanet_large", tmp_path / "out", environ=environ)
    assert done.code == 0, done.err
    assert [wanted for _, wanted in site.asked] == [None, f"bytes={len(data) // 2}-"]
    assert done.err.count("note: fetching titanet-l.nemo to ") == 1
    (cached,) = (path for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert (cached.name, cached.read_bytes()) == (NAME, data)
    assert whole.code == 0, whole.err
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")
    cached.write_bytes(data[:5000])  # by a download of NeMo's own that was killed
    site.files.clear()
    failed = prepcli(*words, "titanet_large", tmp_path / "other", environ=environ)
    assert failed.code == 2
    assert "--speaker-model titanet_large cannot be fetched; give a .nemo file, or resemblyzer" in failed.err
    assert "titanet-l.nemo is not" in failed.err
    site.files[NAME] = data
    assert prepcli(*words, "titanet_large", tmp_path / "other", environ=environ).code == 0
    assert cached.read_bytes() == data
