"""Damage that `verify` finds in codes for OmniVoice and Qwen3-TTS."""

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.audio_files import write_audio
from tests.support.running import prepcli
from tests.support.tars import write_tar
from tests.support.toy_codec import use_toy_codec

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.torch]


def drop_last(path: Path) -> None:
    with tarfile.open(path) as tar:
        members = [(one.name, file.read()) for one in tar if (file := tar.extractfile(one)) is not None]
    write_tar(path, members[:-1])


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no tar": (lambda out: (out / "audios/shard-000001.tar").unlink(), "there is no file"),
    "not listed": (lambda out: (out / "data.lst").write_text(""), "audios/shard-000000.tar: is not in data.lst"),
    "list": (lambda out: (out / "data.lst").write_text("a b\n"), "line 1 must be the paths of a tar and its labels"),
    "labels": (lambda out: (out / "txts/shard-000000.jsonl").write_text('{"id": "x"}\n'), "is not a label with id"),
    "other": (lambda out: shutil.copy(*_tars(out)), "is not the array of an id in shard-000001.jsonl"),
    "less": (lambda out: drop_last(out / "audios/shard-000001.tar"), "shard-000001.tar: has no array of "),
    "count": (
        lambda out: (out / "data.lst").write_text((out / "data.lst").read_text().replace(" 5 ", " 6 ")),
        "has 5 arrays, and data.lst says 6",
    ),
    "bytes": (lambda out: (out / "audios/shard-000000.tar").write_bytes(b"x" * 99), "shard-000000.tar"),
}


def _tars(out: Path) -> tuple[Path, Path]:
    return out / "audios/shard-000000.tar", out / "audios/shard-000001.tar"


def make_codes(form: str, out: Path, *options: object) -> None:
    """Ten records of the mini corpus."""
    records = read_lines(MINI_CORPUS / "manifest.json")[:10]
    for record in records:
        record["audio_filepath"] = str(MINI_CORPUS / record["audio_filepath"])
    manifest = write_lines(out.with_name("m.json"), records)
    words = ("--output-form", form, "--output-dir", out, "--devices", "cpu")
    done = prepcli("extend-codec-codes", manifest, *words, *options)
    assert done.code == 0, done.err


def test_damage_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_toy_codec(monkeypatch.setattr)
    make_codes("omnivoice", tmp_path / "out", "--codec-model", "toy8", "--shard-size", 5)
    out, kept = tmp_path / "out", tmp_path / "kept"
    shutil.copytree(out, kept)
    for name, (damage, message) in DAMAGES.items():
        damage(out)
        done = prepcli("verify", out)
        assert (done.code, message in done.out) == (1, True), (name, done.out)
        shutil.rmtree(out)
        shutil.copytree(kept, out)
    write_audio(tmp_path / "voice.wav", 1.0, 24000)
    make_codes("qwen3-tts", tmp_path / "qwen", "--codec-model", "toy16", "--ref-audio", tmp_path / "voice.wav")
    path = next((tmp_path / "qwen").glob("*.jsonl"))
    lines = read_lines(path)
    for change, message in (
        ({"audio_codes": [[1, 2]]}, "audio_codes must be lists of 16 numbers"),
        ({"audio_codes": "x"}, "audio_codes must be lists of 16 numbers"),
        ({"ref_audio": "nowhere.wav"}, "ref_audio: "),
        ({"ref_audio": None}, "it has no ref_audio"),
        ({"text": 1}, "it must have audio and text"),
    ):
        write_lines(path, [lines[0] | change, *lines[1:]])
        done = prepcli("verify", tmp_path / "qwen")
        assert (done.code, message in done.out) == (1, True), done.out
