"""verify refuses what it cannot check, names unfinished runs, and survives audio that crashes the decoder."""

import signal
from pathlib import Path
from typing import Any

import pytest

from prepcli.audio import probe as probing
from prepcli.commands.verify import shards
from prepcli.engine.publishing.hashes import OTHER_BYTES
from tests.conftest import SHORT_CORPUS, read_lines, write_lines
from tests.engine.run.test_crashes import die
from tests.support.audio_files import write_short_corpus
from tests.support.old_records import record_as_0_3
from tests.support.running import prepcli
from tests.support.shar_sets import make, members, with_contexts
from tests.support.tools import slow
from tests.support.toy_codec import use_toy_codec


def test_unfinished_run_is_not_ok(tmp_path: Path) -> None:
    """What it has made is not in OUT yet."""
    out = tmp_path / "out"
    arguments = [SHORT_CORPUS / "manifest.json", out, "--num-shards", 3, "--rank", 0, "--world-size", 2]
    assert prepcli("manifest-to-tarred", *arguments).code == 0
    done = prepcli("verify", out)
    assert (done.code, list(out.iterdir())) == (2, [])
    assert f"{out} is not finished: 1 of 3 units are done; continue with: " in done.error_line


def test_what_is_not_a_data_set(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        done = prepcli("verify", path)
        assert done.code == 2
        assert str(path) in done.error_line


pytestmark = pytest.mark.usefixtures("forking")


def let_audio_crash(monkeypatch: pytest.MonkeyPatch, fatal: bytes = b"") -> None:
    """Let the decoder die of the audio of one record, or of the audio `fatal`."""
    real: Any = vars(shards)["probe_bytes"]

    def probe(data: bytes, name: str) -> Any:
        if data == fatal if fatal else "s03_u3" in name:
            die(signal.SIGSEGV)
        return real(data, name)

    monkeypatch.setattr(shards, "probe_bytes", probe)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "num_workers"), [("tarred", 1), slow("tarred", 2), ("shar", 2)])
def test_the_others_are_checked(kind: str, num_workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"tarred": ["--num-shards", 8], "shar": ["--shard-size", 6]}[kind]
    out = tmp_path / "out"
    assert prepcli(f"manifest-to-{kind}", SHORT_CORPUS / "manifest.json", out, *options).code == 0
    let_audio_crash(monkeypatch)
    checked = prepcli("verify", out, "--num-workers", num_workers, "--json")
    assert checked.code == 1
    (problem,) = checked.json["problems"]
    assert "s03_u3" in problem
    assert "has crashed the decoder twice" in problem
    assert checked.json["records"] == 48
    monkeypatch.undo()
    assert prepcli("verify", out).code == 0


def test_the_context_of_a_crashing_target_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have the same name, in tars of their own."""
    out = tmp_path / "out"
    make(write_lines(tmp_path / "m.json", with_contexts(read_lines(write_short_corpus(tmp_path, 8)))), out)
    let_audio_crash(monkeypatch, members(out / "target_audio/recording.000000.tar")[0][1])
    (problem,) = prepcli("verify", out, "--json").json["problems"]
    assert problem.startswith("target_audio/recording.000000.tar: ")
    assert "has crashed the decoder twice" in problem


def test_a_killed_worker_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    assert prepcli("manifest-to-tarred", SHORT_CORPUS / "manifest.json", out, "--num-shards", 2).code == 0
    monkeypatch.setattr(shards, "probe_bytes", lambda *_: die(signal.SIGKILL))
    done = prepcli("verify", out, "--num-workers", 2)
    assert done.code == 4
    assert "SIGKILL" in done.error_line


@pytest.mark.parametrize("num_workers", [slow(1), 2])
def test_lines_of_a_manifest(num_workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each file only the header is read, and all other lines keep their numbers."""
    path = write_lines(tmp_path / "m.json", read_lines(SHORT_CORPUS / "manifest.json")[:12])
    names = [line["audio_filepath"] for line in read_lines(path)]
    module: Any = probing
    real = module._probe

    def probe(source: object, head: bytes, name: str) -> Any:
        if name.endswith((names[3], names[7])):
            die(signal.SIGSEGV)
        return real(source, head, name)

    monkeypatch.setattr(module, "_probe", probe)
    checked = prepcli("verify", path, "--audio-base-dir", SHORT_CORPUS, "--num-workers", num_workers, "--json")
    assert checked.code == 1
    assert checked.json["records"] == 12
    assert [problem.partition(" ")[0] for problem in checked.json["problems"]] == ["m.json:4:", "m.json:8:"]
    assert all("has crashed the decoder twice" in problem for problem in checked.json["problems"])


@pytest.mark.parametrize("kind", ["wenet", "parquet"])
def test_records_of_an_export(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    out = tmp_path / "out"
    assert prepcli(f"manifest-to-{kind}", SHORT_CORPUS / "manifest.json", out, "--shard-size", 24).code == 0
    let_audio_crash(monkeypatch)
    checked = prepcli("verify", out, "--num-workers", 1, "--json")
    assert checked.code == 1
    (problem,) = checked.json["problems"]
    assert "has crashed the decoder twice" in problem
    assert checked.json["records"] == 48


KINDS: dict[str, tuple[object, ...]] = {
    "manifest-to-tarred": ("--num-shards", 2),
    "manifest-to-tarred --no-shard-manifests": ("--num-shards", 2),
    "manifest-to-shar": ("--shard-size", 4),
    "manifest-to-wenet": ("--shard-size", 4),
    "manifest-to-wenet --raw": (),
    "manifest-to-parquet": ("--shard-size", 4),
    "manifest-to-mels": ("--devices", "cpu"),
    "extend-codec-codes --output-form omnivoice": ("--codec-model", "toy8", "--shard-size", 4, "--devices", "cpu"),
}


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("records", ["sha256", slow("xxh3")])
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.torch] * ("mels" in kind or "codec" in kind)) for kind in KINDS]
)
def test_a_changed_bit_in_every_published_file(
    kind: str, records: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found by the hash of the record, which is a SHA-256 in sets of version 0.3."""
    command, *options = kind.split()
    if command == "manifest-to-parquet":
        pytest.importorskip("pyarrow")
    if command == "extend-codec-codes":
        use_toy_codec(monkeypatch.setattr)
        options += ["--output-dir", str(tmp_path / "out")]
    else:
        options.insert(0, str(tmp_path / "out"))
    lines = [
        {**line, "audio_filepath": str(SHORT_CORPUS / line["audio_filepath"])}
        for line in read_lines(SHORT_CORPUS / "manifest.json")[:8]
    ]
    manifest, out = write_lines(tmp_path / "m.json", lines), tmp_path / "out"
    made = prepcli(command, manifest, *options, *KINDS[kind])
    assert made.code == 0, made.err
    if records == "sha256":
        record_as_0_3(out)
    checked = prepcli("verify", out, "--json")
    assert (checked.code, checked.json["hashes_known"]) == (0, True), checked.out
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        flip_a_bit(path)
        found = prepcli("verify", out, "--json").json["problems"]
        assert any(problem.endswith(f"{path.name}: {OTHER_BYTES}") for problem in found), (path, found)
        flip_a_bit(path)
    assert prepcli("verify", out).code == 0
