"""Audio that crashes the decoder in `verify`: a problem of its own, and everything else is checked."""

import signal
from pathlib import Path
from typing import Any

import pytest

from prepcli.audio import segments
from prepcli.commands.verify import shar, tarred
from tests.conftest import SHORT_CORPUS, read_lines, write_lines
from tests.engine.run.test_crashes import die
from tests.support.running import prepcli

pytestmark = pytest.mark.usefixtures("forking")


@pytest.mark.parametrize(("kind", "num_workers"), [("tarred", 1), ("tarred", 2), ("shar", 2)])
def test_the_others_are_checked(kind: str, num_workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"tarred": ["--num-shards", 8], "shar": ["--shard-size", 6]}[kind]
    out = tmp_path / "out"
    assert prepcli(f"manifest-to-{kind}", SHORT_CORPUS / "manifest.json", out, *options).code == 0
    module: Any = {"tarred": tarred, "shar": shar}[kind]
    real = module.probe_bytes
    fatal = {"tarred": "s03_u3.flac", "shar": "s03_u3"}[kind]

    def probe(data: bytes, *arguments: Any) -> Any:
        if any(str(one).endswith(fatal) or fatal in str(one) for one in arguments):
            die(signal.SIGSEGV)
        return real(data, *arguments)

    monkeypatch.setattr(module, "probe_bytes", probe)
    checked = prepcli("verify", out, "--num-workers", num_workers, "--json")
    assert checked.code == 1
    (problem,) = checked.json["problems"]
    assert "s03_u3" in problem
    assert "has crashed the decoder twice" in problem
    assert checked.json["records"] == 48
    monkeypatch.undo()
    assert prepcli("verify", out).code == 0


def test_a_killed_worker_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    assert prepcli("manifest-to-tarred", SHORT_CORPUS / "manifest.json", out, "--num-shards", 2).code == 0
    monkeypatch.setattr(tarred, "probe_bytes", lambda *_: die(signal.SIGKILL))
    done = prepcli("verify", out, "--num-workers", 2)
    assert done.code == 4
    assert "SIGKILL" in done.error_line


@pytest.mark.parametrize("num_workers", [1, 2])
def test_lines_of_a_manifest(num_workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each file only the header is read, and all other lines keep their numbers."""
    path = write_lines(tmp_path / "m.json", read_lines(SHORT_CORPUS / "manifest.json")[:12])
    names = [line["audio_filepath"] for line in read_lines(path)]
    module: Any = segments
    real = module.probe_file

    def probe(path: str, name: str) -> Any:
        if path.endswith((names[3], names[7])):
            die(signal.SIGSEGV)
        return real(path, name)

    monkeypatch.setattr(module, "probe_file", probe)
    checked = prepcli("verify", path, "--audio-base-dir", SHORT_CORPUS, "--num-workers", num_workers, "--json")
    assert checked.code == 1
    assert checked.json["records"] == 12
    assert [problem.partition(" ")[0] for problem in checked.json["problems"]] == ["m.json:4:", "m.json:8:"]
    assert all("has crashed the decoder twice" in problem for problem in checked.json["problems"])


@pytest.mark.parametrize("kind", ["wenet", "parquet"])
def test_records_of_an_export(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    from prepcli.commands.verify import exports

    out = tmp_path / "out"
    assert prepcli(f"manifest-to-{kind}", SHORT_CORPUS / "manifest.json", out, "--shard-size", 24).code == 0
    real: Any = vars(exports)["probe_bytes"]

    def probe(data: bytes, name: str) -> Any:
        if "s03_u3" in name:
            die(signal.SIGSEGV)
        return real(data, name)

    monkeypatch.setattr(exports, "probe_bytes", probe)
    checked = prepcli("verify", out, "--num-workers", 1, "--json")
    assert checked.code == 1
    (problem,) = checked.json["problems"]
    assert "has crashed the decoder twice" in problem
    assert checked.json["records"] == 48
