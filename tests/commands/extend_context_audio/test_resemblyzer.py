"""extend-context-audio with Resemblyzer itself: the choice that its embeddings lead to, batches and ranks."""

import sys
from pathlib import Path

import pytest

from prepcli.engine.ranks import launch
from prepcli.models import ranks
from prepcli.models.devices import Devices
from tests.commands.extend_context_audio.test_job import reference, saved_embeddings
from tests.conftest import MINI_CORPUS, read_lines, tree, write_lines
from tests.support.forks import FORKING
from tests.support.running import prepcli, run_process
from tests.support.tools import need_package

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

OPTIONS = ("--speaker-model", "resemblyzer", "--save-embeddings")


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four voices."""
    need_package("resemblyzer")
    records = read_lines(MINI_CORPUS / "manifest.json")[:24]
    for record in records:
        record["audio_filepath"] = str(MINI_CORPUS / record["audio_filepath"])
    return write_lines(tmp_path_factory.mktemp("four") / "m.json", records)


@pytest.fixture(scope="module")
def whole(manifest: Path) -> Path:
    out = manifest.with_name("whole")
    done = prepcli("extend-context-audio", manifest, out, *OPTIONS)
    assert (done.code, done.err) == (0, "")
    return out


def test_the_choice_is_the_references(manifest: Path, whole: Path) -> None:
    records, (extended,) = read_lines(manifest), whole.glob("*.json")
    chosen = reference(records, saved_embeddings(whole), 0.6)
    lines = read_lines(extended)
    assert len(chosen) == len(lines) == len(records)
    for number, line in enumerate(lines):
        assert line["context_audio_filepath"] == records[chosen[number]]["audio_filepath"]


def test_batches_of_another_size_give_the_same_bytes(manifest: Path, whole: Path, tmp_path: Path) -> None:
    done = prepcli("extend-context-audio", manifest, tmp_path / "whole", *OPTIONS, "--batch-duration", 11)
    assert (done.code, done.err) == (0, "")
    assert tree(tmp_path / "whole") == tree(whole)


def test_ranks_that_the_command_starts_print_one_summary(
    manifest: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine with two GPUs, but on the processor; the first time in new processes."""
    code = (
        "import sys\n"
        "from prepcli.models import devices\n"
        "devices.find_devices = lambda *_: devices.Devices('cpu', 2)\n"
        "from prepcli.cli.app import main\n"
        "main()\n"
    )
    words = ["extend-context-audio", manifest, tmp_path / "out", *OPTIONS, "--devices", "cpu", "--json"]
    first = run_process([sys.executable, "-c", code, *words])
    assert (first.code, first.err) == (0, "")
    assert first.json["status"] == "done"  # one JSON object, from one process
    assert tree(tmp_path / "out") == tree(whole)
    assert len(list((tmp_path / "out.prepcli").glob("*/progress/*"))) == 2
    monkeypatch.setattr(ranks, "find_devices", lambda _, rank: Devices("cpu", 2 if rank.launcher == "none" else 1))
    monkeypatch.setattr(launch, "subprocess", FORKING)
    assert prepcli(*words).json["status"] == "nothing_to_do"
    refused = prepcli(*words, "--context-min-ssim=0.7")
    assert refused.code == 2
    assert "--context-min-ssim was 0.6, now 0.7" in refused.error_line
