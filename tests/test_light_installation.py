"""What works, and what is said, where prepcli is installed without extras."""

import sys
from pathlib import Path

import pytest

from prepcli.storage import access
from tests.conftest import MINI_CORPUS, read_lines, write_lines
from tests.support.running import prepcli

MANIFEST = MINI_CORPUS / "manifest.json"
EXTRAS = (
    "torch",
    "torchaudio",
    "nemo",
    "lhotse",
    "matplotlib",
    "jinja2",
    "transformers",
    "tokenizers",
    "resemblyzer",
    "pyarrow",
    "datasets",
    "obstore",
    "scipy",
    "pyloudnorm",
    "onnxruntime",
    "silero_vad",
    "py3langid",
)

CPU = ("--device", "cpu", "--gpu-memory", "1GiB")


@pytest.fixture(autouse=True)
def nothing_but_the_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing what belongs to an extra fails, in workers too: they are forked."""
    for package in EXTRAS:
        for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(access._State, "helper", None)  # one that is started now has no obstore, later as well


@pytest.mark.slow
def test_shards_shar_and_bins(tmp_path: Path) -> None:
    tarred, shar = tmp_path / "tarred", tmp_path / "shar"
    manifest = write_lines(tmp_path / "m.json", read_lines(MANIFEST)[::4])
    base = ("--audio-base-dir", MINI_CORPUS)
    for words in (
        ("manifest-to-tarred", manifest, tarred, *base, "--num-shards", 2, "--force-codec", "opus"),
        ("manifest-to-shar", manifest, shar, *base, "--shard-size", 6, "--target-sample-rate", 16000),
        ("estimate-bins", shar, "-b", 3),
        ("inspect", tarred),
        ("status", tarred, shar),
        ("verify", tarred),
        ("verify", shar),
    ):
        done = prepcli(*words)
        assert done.code == 0, (words, done.err)


def test_shards_for_wenet_and_file_lists(tmp_path: Path) -> None:
    for words in (
        ("manifest-to-wenet", MANIFEST, tmp_path / "wenet"),
        ("manifest-to-mels", MANIFEST, tmp_path / "lists", "--lists-only"),
    ):
        done = prepcli(*words)
        assert done.code == 0, (words, done.err)
        checked = prepcli("verify", words[2])
        assert checked.code == 0, checked.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("extend-context-audio", MANIFEST, "OUT"), "models"),
        (("manifest-to-mels", MANIFEST, "OUT"), "models"),
        (("manifest-to-parquet", MANIFEST, "OUT"), "parquet"),
        (("extend-codec-codes", MINI_CORPUS, "--codec-model", "name", "--devices", "cpu"), "models"),
        (("estimate-batch-sizes", "--model", "name", "-b", "[1.0]", "--work", "OUT", *CPU), "models"),
        (("score", MANIFEST, "out.json"), "basic"),
        (("score", MANIFEST, "out.json", "--fields", "speech"), "score"),
        (("score", MANIFEST, "out.json", "--fields", "text"), "score"),
        (("score", MANIFEST, "out.json", "--fields", "basic"), "basic"),
        (("segment", MANIFEST, "out.json"), "score"),
        (("inspect", "s3://bucket/m.json"), "s3"),
        (("verify", "s3://bucket/set"), "s3"),
        (("estimate-bins", "s3://bucket/m.json"), "s3"),
        (("manifest-to-shar", "s3://bucket/m.json", "OUT"), "s3"),
        (("manifest-to-shar", MANIFEST, "s3://bucket/set"), "s3"),
        (("index", "s3://bucket/set"), "s3"),
        (("inspect", MANIFEST, "--html", "page.html"), "plot"),
        (("estimate-bins", MANIFEST, "--plot", "bins.png"), "plot"),
    ],
)
def test_the_extra_is_named(
    words: tuple[object, ...], extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = prepcli(*words)
    assert done.code == 2
    assert f"pip install 'prepcli[{extra}]'" in done.error_line
    assert list(tmp_path.iterdir()) == []
